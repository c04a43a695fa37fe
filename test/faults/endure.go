package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// endure strikes as often as the plan says, and adds up what the judge finds
// once everything has caught up: in full after each time, quick after the last.
func (w *world) endure(ctx context.Context, f fault, o options, j *judge) (line, error) {
	l := line{fault: f.name}
	times := f.full
	if o.quick {
		times = f.quick
	}
	began := w.load.count()
	w.load.resume()
	for l.times < times {
		// At any moment of an import's life.
		if err := rest(ctx, time.Second+time.Duration(w.rnd.Int64N(int64(3*time.Second)))); err != nil {
			return l, err
		}
		if err := w.strike(ctx, f, o); err != nil {
			return l, err
		}
		if l.times++; o.quick && l.times < times {
			continue
		}
		// What follows goes on under load as well.
		if err := rest(ctx, sessionTimeout); err != nil {
			return l, err
		}
		if err := w.load.hold(); err != nil {
			return l, err
		}
		if err := w.settle(ctx, &l, j); err != nil {
			return l, err
		}
		l.events = w.load.count() - began
		if l.times < times {
			w.load.resume()
		}
	}
	return l, nil
}

// settle has everything caught up and judged. The load is held.
func (w *world) settle(ctx context.Context, l *line, j *judge) error {
	held := time.Now()
	left, err := w.catchUp(ctx)
	if err != nil {
		return err
	}
	took := time.Since(held)
	l.slowest = max(l.slowest, took)
	found, err := j.look(ctx)
	if err != nil {
		return err
	}
	found.lost += left
	l.found.add(found)
	fmt.Fprintf(os.Stderr, "%s, %d times: caught up after %.1f s; %v\n", l.fault, l.times, took.Seconds(), found)
	if left > 0 {
		return fmt.Errorf("%d records were not confirmed within %v", left, patience)
	}
	return nil
}

// rest waits, unless ctx ends first.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// catchUp waits until every record is confirmed, no execution runs and every
// member is ready, and returns how many records were left when patience ended.
func (w *world) catchUp(ctx context.Context) (left int, err error) {
	err = w.until(ctx, "everything is confirmed", func() (bool, error) {
		var err error
		if left, err = w.lag(ctx, tables...); err != nil || left > 0 {
			return false, err
		}
		return !w.importing() && w.allReady(ctx), nil
	})
	if left > 0 && ctx.Err() == nil {
		return left, nil
	}
	return 0, err
}

// lag is how far the groups' commits are from the ends of the tables' logs.
func (w *world) lag(ctx context.Context, tables ...table) (n int, err error) {
	var topics []string
	for _, t := range tables {
		topics = append(topics, t.name)
	}
	ends, err := w.admin.ListEndOffsets(ctx, topics...)
	if err != nil {
		return 0, err
	}
	for _, g := range []string{immediateGroup, batchGroup} {
		committed, err := w.admin.FetchOffsets(ctx, g)
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // nobody has joined it yet
			return 0, err
		}
		for _, t := range tables {
			if g == batchGroup && !t.files || g == immediateGroup && !t.calls {
				continue // the lane does not read it
			}
			for p := range int32(partitions) {
				end, _ := ends.Lookup(t.name, p)
				o, _ := committed.Lookup(t.name, p)
				missing := int(end.Offset - max(o.At, 0))
				n += max(missing, -missing) // a log that was cut ends before the commit
			}
		}
	}
	return n, nil
}
