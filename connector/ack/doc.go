// Package ack decides what may be committed. A Tracker follows the records of
// one partition from the poll to their confirmation, which come in any order,
// and knows the watermark: the offset below which everything is confirmed. A
// Ledger is what has to survive a crash beside that offset, and its codec
// squeezes it into the metadata string of the offset commit.
//
// It knows offsets. It knows nothing about Kafka clients, lanes, files or
// time, does no I/O, starts no goroutine and takes no lock: a Tracker belongs
// to the holder of the assignment of its partition.
package ack
