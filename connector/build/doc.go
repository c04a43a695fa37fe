// Package build makes parts from the configuration: the connection to Kafka, the
// clients of the service and of the schema registry, the dead-letter producer, the
// access to the admin server, the batch lane's view of a mapping, and the lanes' parts of
// the rate. What it reads from files is read again when they change.
package build
