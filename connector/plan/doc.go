// Package plan foretells what a sink would do with the records of a sample: calls,
// rows, files and imports, whether the day's slots and the calls' rate suffice, and
// what would be dead letters.
//
// It knows writes, files and limits. It knows nothing about Kafka or HTTP: whoever
// reads the sample hands it the routed records.
package plan
