package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// Of the continuous load: events a second to each lane, how often the sink is
// looked at, how far a lane may be behind, and how many keys there are.
const (
	soakRate   = 2000
	soakEvery  = 10 * time.Second
	soakBehind = 240     // seconds: three files, and keys that both lanes have written
	soakKeys   = 200_001 // odd, so that every key takes each lane in turn
)

// reading is one look at the sink.
type reading struct {
	at         time.Duration
	resident   float64 // bytes
	goroutines float64
	files      float64
	disk       float64 // bytes of the spool
	cpu        float64 // seconds so far
}

// soak runs both lanes under an even load and judges whether what the sink holds
// is flat: the last third of the time against the middle third.
func soak(ctx context.Context, f *field, length time.Duration) (found []finding, err error) {
	const topic = "bench-soak"
	// What was consumed goes, or the broker would hold all of it in memory.
	retention := "120000"
	if _, err := f.admin.CreateTopic(ctx, partitions, 1, map[string]*string{"retention.ms": &retention}, topic); err != nil {
		return nil, err
	}
	service, err := start(ctx, "service", serviceSettings{Latency: 5 * time.Millisecond})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, service.stop()) }()
	sink, group, err := f.startSink(ctx, sinkFile{topic: topic, service: service.address, start: 16, highest: 256, mapping: soakMapping},
		schemas.Immediate, schemas.Batch)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sink.stop()) }()

	loading, stop := context.WithTimeout(ctx, length)
	defer stop()
	load := make(chan error, 1)
	var produced atomic.Int64
	go func() { load <- f.load(loading, topic, &produced) }()
	readings, err := look(loading, sink, filepath.Join(f.dir, group))
	stop()
	if err = errors.Join(err, <-load); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	found = flatness(readings)
	for _, lane := range []schemas.Lane{schemas.Immediate, schemas.Batch} {
		done, err := committed(ctx, f.admin, group+"-"+lane.String(), topic)
		if err != nil {
			return nil, err
		}
		behind := float64(produced.Load()-done) / (2 * soakRate)
		found = append(found, check(behind <= soakBehind, lane.String()+" lane at the end: behind what was produced", fmt.Sprintf("≤ %d s", soakBehind), "%.0f s", behind))
	}
	return found, nil
}

// look samples the sink until ctx ends.
func look(ctx context.Context, sink *child, spool string) (readings []reading, err error) {
	began := time.Now()
	tick := time.NewTicker(soakEvery)
	defer tick.Stop()
	fmt.Fprintf(os.Stderr, "%8s %10s %10s %8s %10s %8s\n", "", "RSS MB", "goroutines", "files", "spool MB", "CPU s")
	for {
		select {
		case <-ctx.Done():
			return readings, nil
		case <-tick.C:
		}
		a, err := sink.usage(ctx)
		if ctx.Err() != nil {
			return readings, nil // the time was up meanwhile
		}
		if err != nil {
			return nil, err
		}
		r := reading{
			at: time.Since(began).Round(time.Second), resident: float64(a.Resident),
			goroutines: float64(a.Goroutines), files: float64(a.Files), disk: size(spool), cpu: a.CPU,
		}
		readings = append(readings, r)
		fmt.Fprintf(os.Stderr, "%8v %10.1f %10.0f %8.0f %10.1f %8.1f\n", r.at, r.resident/1e6, r.goroutines, r.files, r.disk/1e6, r.cpu)
	}
}

// size is what the files under a folder take. They come and go meanwhile.
func size(folder string) (bytes float64) {
	_ = filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // gone by now
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			bytes += float64(info.Size())
		}
		return nil
	})
	return bytes
}

// flatness compares means: what fills and empties, as the spool does, has no
// other level. A few more of what comes in ones is no growth.
func flatness(readings []reading) (found []finding) {
	third := len(readings) / 3
	middle, last := readings[third:2*third], readings[2*third:]
	for _, of := range []struct {
		what    string
		value   func(reading) float64
		unit    float64
		leeway  float64 // absolute
		decimal int
	}{
		{"RSS, MB", func(r reading) float64 { return r.resident }, 1e6, 2e6, 1},
		{"goroutines", func(r reading) float64 { return r.goroutines }, 1, 5, 0},
		{"open files", func(r reading) float64 { return r.files }, 1, 5, 0},
		{"spool, MB", func(r reading) float64 { return r.disk }, 1e6, 4e6, 1},
	} {
		a, b := mean(middle, of.value), mean(last, of.value)
		found = append(found, check(b <= max(a*1.1, a+of.leeway), of.what+": mean of the middle and of the last third", "+10 % at most",
			"%.*f, %.*f (%+.1f %%)", of.decimal, a/of.unit, of.decimal, b/of.unit, 100*(b/max(a, 1)-1)))
	}
	end := readings[len(readings)-1]
	return append(found,
		note("length", "%v, %d readings", end.at, len(readings)),
		note("events a second, each lane", "%d", soakRate),
		note("CPU-s per million events", "%.1f", end.cpu/(end.at.Seconds()*2*soakRate)*1e6))
}

func mean(readings []reading, value func(reading) float64) float64 {
	sum := 0.0
	for r := range slices.Values(readings) {
		sum += value(r)
	}
	return sum / float64(max(len(readings), 1))
}
