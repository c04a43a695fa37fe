package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/feedsink/feedsink/schemas"
)

// compareFiles has the same topic made into gzipped CSV by the sink, which also
// compacts, uploads and follows each import, by the batch lane's floor, which keeps
// nothing, and by Apache Camel, which leaves its files on the disk.
func compareFiles(ctx context.Context, f *field, _ bool) (found []finding, err error) {
	const topic, keys = "bench-comparison-files", 500_000
	return f.compareFiles(ctx, topic, line{batch: &batchJob{
		format: schemas.FormatJSON, events: 3_000_000, measure: 2_200_000, keys: keys, rows: keys / 4,
	}})
}

func (f *field) compareFiles(ctx context.Context, topic string, l line) (found []finding, err error) {
	if err := f.fill(ctx, topic, l.batch.events, recurring(l.batch.keys, event)); err != nil {
		return nil, err
	}
	defer func() {
		_, gone := f.admin.DeleteTopics(ctx, topic) // the broker keeps everything in memory
		err = errors.Join(err, gone)
	}()
	list := rivalry{unit: "events", cpuDigits: 2, rateDigits: 2}
	for _, r := range []struct {
		name string
		side side
	}{
		{"feedsink, compacted, uploaded, confirmed", f.sink},
		{"Go loop into gzip, kept nowhere", f.floor},
		{"Apache Camel, a file for 50,000 events, not uploaded", f.camelFiles},
	} {
		s, err := r.side.run(ctx, &l, topic)
		if err := list.add(r.name, s, err); err != nil {
			return nil, err
		}
	}
	return list.found, nil
}

// camelFiles holds the events of two files in memory at a time, and needs a heap
// for that.
func (f *field) camelFiles(ctx context.Context, l *line, topic string) (s sample, err error) {
	f.runs++
	name := fmt.Sprintf("rival-%d", f.runs)
	c, err := f.camel(ctx, 1024, "files", f.broker.address, topic, name, filepath.Join(f.dir, name))
	if err != nil {
		return s, err
	}
	from, to := warm*float64(l.batch.events), cool*float64(l.batch.events)
	s, err = window(ctx, c, done{c}, int64(from), until(int64(to)))
	return s, errors.Join(err, c.stop())
}
