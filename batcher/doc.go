// Package batcher is the batch lane: it turns writes into rows of files, one
// open file per mapping, and carries each file through its import until the
// service has confirmed it.
//
// An open file is a generation of its mapping: a journal of rows in the order
// they arrived. When it is complete (rows, bytes or age) it is folded, the last
// state of every key wins, and sealed as one compressed CSV per operation. The
// files of a generation are loaded one after the other, share one hold on the
// offsets they came from, and are confirmed together. While a generation is on
// its way, the next one of its mapping keeps growing.
//
// Mappings of a bundle share all of that: one generation with a journal for each
// of them, and per operation one ZIP with an entry for each, parents first.
//
// Memory is bounded by the configuration, not by the rows that wait: a journal
// lives on disk, divided by key, and is folded one 256th at a time.
//
// The package knows files, CSV and the steps of an import. It knows nothing
// about Kafka, HTTP, or where an import is written down so that a crash does not
// repeat it: those come through the interfaces in contract.go.
package batcher
