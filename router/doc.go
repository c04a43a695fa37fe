// Package router turns events into writes. Mappings are compiled once; after
// that routing is a pure function of record and configuration, so that both
// lanes, reading the same topics as separate consumer groups, always agree
// whose a record is.
//
// It knows values, paths, conditions, expressions and the interface's value
// formats. It knows nothing about Kafka clients, HTTP, files or the time of day.
package router
