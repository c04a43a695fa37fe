// Package setup writes a starting configuration for a topic from a sample of its
// records: it recognises canonical events and Debezium's, and guesses fields, types
// and key of everything else. Its guesses are written down as such, for a person to
// decide.
//
// It knows decoded values and the configuration's words. It knows nothing about
// Kafka, registries or the service.
package setup
