// Package debezium holds change events that a real Debezium engine made of real
// SQL on a real PostgreSQL (testdata), the program that runs the engine
// (engine), and the tests on both: what the router makes of the recorded
// events, and, with the build tag debezium, a table that arrives in the service
// equal to a SELECT, cell by cell. It knows nothing of how the product reads
// events.
//
// After a new version of Debezium or a change of the SQL, the events are
// recorded anew (PostgreSQL, Java and Maven are needed), and what became of them
// is read in the difference:
//
//	go test -tags debezium -run RecordedAnew ./test/debezium -record
//	go test ./test/debezium -update
package debezium
