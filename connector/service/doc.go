// Package service is the typed client of the Data Feeding Interface: one method
// for each operation, one token for all of them, and one error type that is
// classified here, at the wire, so that nobody else has to look at a status.
//
// It sends each call once; the two exceptions are an expired token (one new
// token, the call repeated) and a server that refuses to be asked before an
// upload. Trying again later is the caller's business, who learns from Error
// whether that can help. Operation 15 was removed by the service in June 2025
// and is not offered.
//
// Bodies of operations 1 to 5 are handed in as JSON: they are made for every
// record. Everything else is typed. It knows HTTP, JSON answers and how much of
// them the interface leaves open (tolerant.go). It knows nothing about Kafka,
// events, mappings, the spool or back-off, and imports nothing else of this
// module.
package service
