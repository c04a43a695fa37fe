package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/test/sandbox"
)

// settle has everything caught up and judged.
func (r *routesSink) settle(ctx context.Context, l *line) error {
	if err := r.load.hold(); err != nil {
		return err
	}
	held := time.Now()
	l.events = r.load.count()
	left := 0
	err := r.w.until(ctx, "everything is confirmed", func() (bool, error) {
		var err error
		if left, err = r.lag(ctx); err != nil || left > 0 {
			return false, err
		}
		return !r.w.importing() && r.ready(ctx), nil
	})
	if err != nil && (left == 0 || ctx.Err() != nil) {
		return err
	}
	took := time.Since(held)
	l.slowest = max(l.slowest, took)
	found := findings{lost: left} // whose rows are not looked at
	if left == 0 {
		found.lost = r.compare(r.w.service.Rows)
	}
	letters, err := r.w.lettersFrom(ctx, routesLetters, r.read)
	if err != nil {
		return err
	}
	r.read += int64(len(letters))
	lost, both := r.account(letters)
	found.lost, found.both = found.lost+lost, both
	l.found.add(found)
	fmt.Fprintf(os.Stderr, "%s, %d times: %d events, %d broken; caught up after %.1f s; %v\n", l.fault, l.times, l.events, len(r.events.broken), took.Seconds(), found)
	if left > 0 {
		return fmt.Errorf("%d records were not confirmed within %v", left, patience)
	}
	return nil
}

// compare counts the rows of the tables that have a mapping which are not what
// the model says.
func (r *routesSink) compare(have func(table string) map[string]sandbox.Row) (lost int) {
	wrong := map[name]bool{}
	for table := range r.now.mappings {
		rows := have(table)
		for key := range rows {
			of := name{table, key}
			if r.events.seq[name{origin(table), key}] > 0 {
				continue
			}
			if wrong[of] = true; !r.wrong[of] {
				lost++
				r.say("lost: %s %s: got a row, of which there was no event", table, key)
			}
		}
		for id, last := range r.events.last {
			of := name{table, id.key}
			if id.table != origin(table) || !r.now.readsTopic(last.Topic) || table == copies && r.events.from[id] <= r.whole {
				continue
			}
			got, there := rows[id.key]
			if same(got, there, r.events.rows[id]) {
				continue
			}
			if wrong[of] = true; !r.wrong[of] {
				lost++
				dice, _ := header(last, "dice")
				r.say("lost: %s %s: got %v, want %v (event %d, dice %s: %s, partition %d, offset %d)",
					table, id.key, got.Values, r.events.rows[id], r.events.from[id], dice, last.Topic, last.Partition, last.Offset)
			}
		}
	}
	r.wrong = wrong
	return lost
}

// origin is the table whose events a table has.
func origin(table string) string {
	if table == copies {
		return stock
	}
	return table
}

// account counts broken events without a dead letter, and dead letters of events
// that nothing was wrong with.
func (r *routesSink) account(letters []*kgo.Record) (lost, both int) {
	for _, letter := range letters {
		number, _ := header(letter, numberHeader)
		if _, broken := r.events.broken[number]; !broken && !r.letters[number] {
			both++
			why, _ := header(letter, "__connect.errors.exception.message")
			r.say("both: event %s (%s) is a dead letter, with nothing wrong about it: %s", number, letter.Key, why)
		}
		r.letters[number] = true
	}
	for number, topic := range r.events.broken {
		if !r.letters[number] && r.now.readsTopic(topic) {
			lost++
			r.letters[number] = true // counted
			r.say("lost: broken event %s of topic %s has no dead letter", number, topic)
		}
	}
	return lost, both
}

// same reports whether a table holds what it must, nil: no row.
func same(got sandbox.Row, there bool, want row) bool {
	if !there || want == nil {
		return there == (want != nil)
	}
	for column, v := range want {
		if got.Text(column) != v {
			return false
		}
	}
	return true
}

func (r *routesSink) ready(ctx context.Context) bool {
	return !slices.ContainsFunc(r.all(), func(m *member) bool { return m.cmd != nil && !m.ready(ctx) })
}

// lag is how many records the lanes that are in use have not committed.
func (r *routesSink) lag(ctx context.Context) (n int, err error) {
	ends, err := r.w.admin.ListEndOffsets(ctx, routedTopics...)
	if err != nil {
		return 0, err
	}
	for lane, topics := range r.now.reads {
		committed, err := r.w.admin.FetchOffsets(ctx, routesGroup+"-"+lane)
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			return 0, err
		}
		for _, topic := range topics {
			for p := range int32(partitions) {
				end, _ := ends.Lookup(topic, p)
				o, _ := committed.Lookup(topic, p)
				n += int(end.Offset - max(o.At, 0))
			}
		}
	}
	return n, nil
}
