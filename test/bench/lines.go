package main

import (
	"fmt"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// line is one line of the table.
type line struct {
	name  string
	floor string // what it is compared with
	unit  string // what is counted
	goal  goal

	batch   *batchJob // or
	calling *callJob  // or
	decode  *decodeJob
}

// callJob is a line of the immediate lane.
type callJob struct {
	latency      time.Duration // of the service
	inFlight     int           // calls of the sink
	calls        int           // a multiple of variants
	floorWorkers int
	floorCalls   int // a multiple of variants
}

// batchJob is a line of the batch lane.
type batchJob struct {
	format  schemas.Format
	events  int // in the topic
	measure int // the run ends with the first commit so many beyond its first
	keys    int
	rows    int // distinct keys after which a file is complete
}

// mapping is the sink's for it: canonical events, or visits with their fields
// named.
func (b *batchJob) mapping() string {
	text := fmt.Sprintf(batchMapping, b.rows)
	if b.format == schemas.FormatAvro {
		text = "    format: avro\n" + visitFieldsText() + text
	}
	return text
}

// warm is the part of a run that is not counted, cool the part at which
// counting ends.
const (
	warm = 0.1
	cool = 0.95
)

// lines are all there are. A quick one is short enough for every change, and
// too short for a figure to be quoted.
func lines(quick bool) []line {
	calls := func(full, short int) int {
		if quick {
			return short
		}
		return full
	}
	call := func(latency time.Duration, inFlight, calls int) *callJob {
		return &callJob{latency: latency, inFlight: inFlight, calls: calls, floorWorkers: inFlight, floorCalls: calls}
	}
	inOrder := call(20*time.Millisecond, 256, calls(100_000, 20_000))
	inOrder.floorWorkers, inOrder.floorCalls = partitions, calls(4000, 1000)
	batch := func(format schemas.Format, keys int) *batchJob {
		b := &batchJob{format: format, events: 3_000_000, measure: 2_200_000, keys: keys, rows: 200_000}
		if quick {
			b.events, b.measure, b.rows = 700_000, 200_000, 40_000
		}
		// The broker hands out long stretches of one partition after another, with
		// the keys of that partition again and again: a file that needs most of all
		// keys would be most of the topic.
		b.rows = min(b.rows, keys/4)
		return b
	}
	return append(decodeLines(calls(2_000_000, 200_000)), []line{
		{
			name: "immediate, no latency, 64 in flight", floor: "net/http loop, 64 workers", unit: "calls",
			goal:    goal{Ratio: 0.85, CPURatio: 1.35, RSS: 100e6},
			calling: call(0, 64, calls(200_000, 40_000)),
		},
		{
			name: "immediate, 5 ms, 64 in flight", floor: "net/http loop, 64 workers", unit: "calls",
			goal:    goal{Ratio: 0.92, RSS: 100e6},
			calling: call(5*time.Millisecond, 64, calls(100_000, 20_000)),
		},
		{
			name: "immediate, 20 ms, 256 in flight", floor: "net/http loop, 256 workers", unit: "calls",
			goal:    goal{Ratio: 0.92, RSS: 100e6},
			calling: call(20*time.Millisecond, 256, calls(100_000, 20_000)),
		},
		{
			name: "immediate, 20 ms, against in order", floor: "one call per partition (12)", unit: "calls",
			goal:    goal{Ratio: 16, RSS: 100e6},
			calling: inOrder,
		},
		{
			name: "batch, JSON, 500,000 keys", floor: "consume, decode, csv, gzip 2", unit: "events",
			goal:  goal{Rate: 250_000, CPU: 5},
			batch: batch(schemas.FormatJSON, 500_000),
		},
		{
			name: "batch, JSON, 50,000 keys", floor: "consume, decode, csv, gzip 2", unit: "events",
			goal:  goal{Rate: 250_000, CPU: 5},
			batch: batch(schemas.FormatJSON, 50_000),
		},
		{
			name: "batch, Avro, 500,000 keys", floor: "consume, decode, csv, gzip 2", unit: "events",
			goal:  goal{CPU: 4},
			batch: batch(schemas.FormatAvro, 500_000),
		},
	}...)
}

// decodeLines are those of decoding, routing and mapping.
func decodeLines(events int) []line {
	decode := func(format schemas.Format, lane schemas.Lane, floor string, ratio float64) line {
		return line{
			name: "decode, route, map " + string(format) + ", " + lane.String(), floor: floor, unit: "events",
			goal:   goal{Ratio: ratio},
			decode: &decodeJob{format, lane, events},
		}
	}
	return []line{
		decode(schemas.FormatJSON, schemas.Immediate, "json into a struct", 0.6),
		decode(schemas.FormatJSON, schemas.Batch, "json into a struct", 0.6),
		decode(schemas.FormatJSONSchema, schemas.Immediate, "json into a struct", 0),
		decode(schemas.FormatAvro, schemas.Immediate, "twmb/avro into a struct", 0.6),
		decode(schemas.FormatAvro, schemas.Batch, "twmb/avro into a struct", 0.6),
		decode(schemas.FormatProtobuf, schemas.Immediate, "protobuf-go into a dynamic message", 0),
	}
}
