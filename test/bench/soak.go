package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
	answer
	at   time.Duration
	disk float64 // bytes of the spool
}

// soak runs both lanes under an even load and judges whether what the sink holds
// is flat: the last third of the time against the middle third.
func soak(ctx context.Context, b *bench, o options) []finding {
	const topic = "bench-soak"
	// What was consumed goes, or the broker would hold all of it in memory.
	retention := "120000"
	must(b.admin.CreateTopic(ctx, partitions, 1, map[string]*string{"retention.ms": &retention}, topic))
	config := sinkConfig{Topic: topic, Start: 16, Highest: 256, Soak: true}
	sink := b.sink(ctx, b.serve(5*time.Millisecond, false), config, schemas.Immediate, schemas.Batch)
	load := events{n: int(o.length.Seconds() * 2 * soakRate), perSecond: 2 * soakRate, next: func(i int) (key, value []byte) {
		return numbered(i%soakKeys, i)
	}}
	over := make(chan error, 1)
	go func() { over <- b.produce(ctx, topic, load) }()
	found := flatness(watch(sink.child, filepath.Join(b.dir, b.name()), over))
	for _, lane := range schemas.Lanes {
		behind := float64(int64(load.n)-b.committed(b.group(lane), topic)(ctx)) / (2 * soakRate)
		found = append(found, check(behind <= soakBehind, lane.String()+" lane at the end: behind what was produced", fmt.Sprintf("≤ %d s", soakBehind), "%.0f s", behind))
	}
	return found
}

// watch samples the sink until the load is over.
func watch(sink *child, spool string, over <-chan error) (readings []reading) {
	began := time.Now()
	tick := time.NewTicker(soakEvery)
	defer tick.Stop()
	fmt.Fprintf(os.Stderr, "%8s %10s %10s %8s %10s %8s\n", "", "RSS MB", "goroutines", "files", "spool MB", "CPU s")
	for {
		select {
		case err := <-over:
			try(err)
			return readings
		case <-tick.C:
		}
		r := reading{sink.usage(), time.Since(began).Round(time.Second), size(spool)}
		readings = append(readings, r)
		fmt.Fprintf(os.Stderr, "%8v %10.1f %10.0f %8.0f %10.1f %8.1f\n", r.at, r.Resident/1e6, r.Goroutines, r.Files, r.disk/1e6, r.CPU)
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
		{"RSS, MB", func(r reading) float64 { return r.Resident }, 1e6, 2e6, 1},
		{"goroutines", func(r reading) float64 { return r.Goroutines }, 1, 5, 0},
		{"open files", func(r reading) float64 { return r.Files }, 1, 5, 0},
		{"spool, MB", func(r reading) float64 { return r.disk }, 1e6, 4e6, 1},
	} {
		a, b := over(middle, of.value).mean(), over(last, of.value).mean()
		found = append(found, check(b <= max(a*1.1, a+of.leeway), of.what+": mean of the middle and of the last third", "+10 % at most",
			"%.*f, %.*f (%+.1f %%)", of.decimal, a/of.unit, of.decimal, b/of.unit, 100*(b/max(a, 1)-1)))
	}
	end := readings[len(readings)-1]
	return append(found,
		note("length", "%v, %d readings", end.at, len(readings)),
		note("events a second, each lane", "%d", soakRate),
		note("CPU-s per million events", "%.1f", end.CPU/(end.at.Seconds()*2*soakRate)*1e6))
}
