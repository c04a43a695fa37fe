// Package schemas is what a record says: the decoded value, the event and the
// write, the decoders that produce them, the registry that holds the schemas
// which the decoders need, and the schema files feedsink publishes.
//
// It knows bytes, values and how a schema registry is asked. It knows nothing
// about Kafka clients, mappings, lanes at work or files, and imports nothing
// else of this module.
package schemas
