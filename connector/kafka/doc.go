// Package kafka is the Kafka side of one lane: a consumer group that polls,
// pauses, rebalances, and commits each partition's watermark together with its
// ledger.
//
// It knows partitions, assignments and offsets. It knows nothing about what a
// record says or where it goes: a Handler takes the records, and whoever took
// one confirms it on the Partition it came with. A Partition is one assignment;
// after the partition is taken away, everything done to it is ignored.
package kafka

import "github.com/twmb/franz-go/pkg/kgo"

// Record is the client's record, under our name so that other rooms need not
// import the client. It must not be changed.
type Record = kgo.Record
