// Package schemas is what a record says: the decoded value, the event and the
// write, the decoders that produce them, the registry that holds the schemas
// which the decoders need, and the schema files feedsink publishes.
//
// It knows bytes, values and how a schema registry is asked. It knows nothing
// about Kafka clients, mappings, lanes at work or files, and imports nothing
// else of this module.
package schemas

import (
	"embed"
)

// Files are the schemas for those who produce events or write configuration,
// JSON Schema (2020-12) as *.schema.json and Avro as *.avsc, which describe the
// canonical events that ProfileEvent and RecordEvent read; and the OpenAPI (3.1)
// document of the service's interface, interface.openapi.yaml.
//
//go:embed *.schema.json *.avsc *.openapi.yaml
var Files embed.FS
