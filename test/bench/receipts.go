package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/feedsink/feedsink/schemas"
)

const receiptsTopic = "bench-receipts"

// withReceipts is what a lane takes with receipts.topic, and how many bytes the topic
// takes for an event.
type withReceipts struct {
	sample
	bytes float64
}

// receipts lets the sink do the same with receipts and without. They are to take at most a tenth
// more of the processor: of calls to a service that takes 5 ms, and of files.
func receipts(ctx context.Context, b *bench, o options) (found []finding) {
	const calls, all = 40_000, 1_200_000
	often := repetitions(o.quick)
	if !o.quick { // a tenth is less than what two runs differ by: many short ones say more than few long ones
		often.count, often.most = 25, 40
	}
	for _, l := range []struct {
		lane schemas.Lane
		job  job
	}{
		{schemas.Immediate, &callJob{latency: 5 * time.Millisecond, inFlight: 64, calls: calls}},
		{schemas.Batch, &batchJob{all: all, rows: all / 32, whole: true}},
	} {
		topic := fmt.Sprintf("bench-receipts-%v", l.lane)
		found = append(found, apart(b, func() []finding {
			b.fill(ctx, topic, l.job.events())
			pairs, counted := repeat(b, often, func(i int) pair[withReceipts] {
				return alternate(b, i, func(floor bool) withReceipts { return b.receipted(ctx, topic, l.job, !floor) })
			})
			return append(receiptFindings(l.lane, pairs), counted.finding())
		})...)
	}
	return found
}

// receipted is one run of the sink, with receipts or without.
func (b *bench) receipted(ctx context.Context, topic string, j job, with bool) withReceipts {
	b.receipts = with
	defer func() { b.receipts = false }()
	if !with {
		return withReceipts{sample: j.side(ctx, b, topic, false)}
	}
	b.fill(ctx, receiptsTopic, events{})
	try(os.WriteFile(filepath.Join(b.dir, "receipts.key"), []byte("the key of the receipts of the bench"), 0o600))
	r := withReceipts{sample: j.side(ctx, b, topic, false)}
	var size int64
	for _, dirs := range must(b.admin.DescribeAllLogDirs(ctx, nil)) {
		dirs.EachPartition(func(p kadm.DescribedLogDirPartition) {
			if p.Topic == receiptsTopic {
				size += p.Size
			}
		})
	}
	var n int64
	must(b.admin.ListEndOffsets(ctx, receiptsTopic)).Each(func(o kadm.ListedOffset) { n += o.Offset })
	r.bytes = float64(size) / float64(n)
	return r
}

func receiptFindings(lane schemas.Lane, pairs []pair[withReceipts]) []finding {
	of := func(figure func(p pair[withReceipts]) float64) spread { return over(pairs, figure) }
	cpu := of(func(p pair[withReceipts]) float64 { return p.sink.CPU / p.floor.CPU })
	return []finding{
		check(cpu.median() <= 1.1, fmt.Sprintf("%v: CPU with receipts to CPU without", lane), "≤ 1.1", "%s", cpu.text(2, "")),
		note(fmt.Sprintf("%v: CPU-s per million events with receipts, and without", lane), "%s, %s",
			of(func(p pair[withReceipts]) float64 { return p.sink.CPU }).text(1, ""), of(func(p pair[withReceipts]) float64 { return p.floor.CPU }).text(1, "")),
		note(fmt.Sprintf("%v: events a second, with receipts to without", lane), "%s",
			of(func(p pair[withReceipts]) float64 { return p.sink.Rate / p.floor.Rate }).text(2, "")),
		note(fmt.Sprintf("%v: bytes of the receipts' topic for an event", lane), "%s", of(func(p pair[withReceipts]) float64 { return p.sink.bytes }).text(0, "")),
	}
}
