package schemas

import "embed"

// Files are the schemas for those who produce events or write configuration:
// JSON Schema (2020-12) as *.schema.json, Avro as *.avsc. They describe the
// canonical events that ProfileEvent and RecordEvent read.
//
//go:embed *.schema.json *.avsc
var Files embed.FS
