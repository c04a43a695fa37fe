// Package schemas is what a record says: the decoded value, the event and the
// write, the decoders that produce them, and the schema files feedsink
// publishes.
//
// It knows bytes and values. It knows nothing about Kafka clients, mappings,
// lanes at work, files or HTTP, and imports nothing else of this module.
package schemas
