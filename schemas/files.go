package schemas

import "embed"

// Files are the schemas for those who produce events or write configuration,
// JSON Schema (2020-12) as *.schema.json and Avro as *.avsc, which describe the
// canonical events that ProfileEvent and RecordEvent read; and the OpenAPI (3.1)
// document of the service's interface, interface.openapi.yaml.
//
//go:embed *.schema.json *.avsc *.openapi.yaml
var Files embed.FS
