// Package e2e runs the sink whole, between a broker and the service, and looks
// at it from outside only: topics, consumer groups, the service's tables and
// call log, the admin server. The same tests run on the in-process broker and,
// with the build tag kafka, on a real Apache Kafka.
package e2e
