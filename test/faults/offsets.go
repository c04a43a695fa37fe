package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/test/sandbox"
)

// offsetsReset has another tool take committed offsets back while no member runs,
// of one lane or of both: nothing is left of what stood in their metadata. The
// partitions that have the day's slots on record are left alone.
func offsetsReset(ctx context.Context, w *world) error {
	for _, m := range w.members {
		if err := m.terminate(); err != nil {
			return err
		}
	}
	err := w.until(ctx, "the imports have ended", func() (bool, error) { return !w.importing(), nil })
	if err != nil {
		return err
	}
	w.reset = w.clock.now()
	groups := []string{immediateGroup, batchGroup}
	if one := w.rnd.IntN(3); one < 2 {
		groups = groups[one : one+1]
	}
	for _, group := range groups {
		committed, err := w.admin.FetchOffsets(ctx, group)
		if err != nil {
			return err
		}
		back := kadm.Offsets{}
		committed.Each(func(o kadm.OffsetResponse) {
			if o.Partition > 0 && o.At > 0 {
				back.AddOffset(o.Topic, o.Partition, max(0, o.At-w.rnd.Int64N(200)), -1)
			}
		})
		err = w.until(ctx, "group "+group+" has no member left and takes the offsets", func() (bool, error) {
			err := w.admin.CommitAllOffsets(ctx, group, back)
			return err == nil, err
		})
		if err != nil {
			return err
		}
	}
	return w.startAll(ctx)
}

func (w *world) startAll(ctx context.Context) error {
	for _, m := range w.members {
		if err := m.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// importing reports whether the service has an import to end.
func (w *world) importing() bool {
	return slices.ContainsFunc(w.service.Executions(), func(e sandbox.Execution) bool { return e.Status == sandbox.InProgress })
}

// cutTables lose the end of their logs: one that is read for calls, one for files
// and one for both.
func cutTables() (cut []table) {
	for _, t := range tables {
		if slices.Contains([]string{"orders", "partners", "customers"}, t.name) {
			cut = append(cut, t)
		}
	}
	return cut
}

// logCut loses the end of some logs, as an unclean leader election does: the
// offsets come again with other records. What is lost was confirmed; of the orders
// before it some still wait, so that the ledger has what is lost beyond its
// watermark. The members notice before events come again.
func logCut(ctx context.Context, w *world) (err error) {
	for _, m := range w.members { // that all have the same routes: the lanes wait for each other otherwise
		if err := w.again(ctx, m); err != nil {
			return err
		}
	}
	if err := w.load.hold(); err != nil {
		return err
	}
	if left, err := w.catchUp(ctx); err != nil || left > 0 {
		return errors.Join(err, fmt.Errorf("%d records are not confirmed", left))
	}
	defer w.service.ClearFaults()
	before, after := w.eventsAroundACut()
	if err := w.load.send(ctx, before); err != nil {
		return err
	}
	back, err := w.logSizes(ctx)
	if err != nil {
		return err
	}
	if err := w.load.send(ctx, after); err != nil {
		return err
	}
	err = w.until(ctx, "all is confirmed but the orders that wait", func() (bool, error) { return w.confirmed(ctx, after) })
	if err == nil {
		err = rest(ctx, 3*time.Second) // until the orders' ledger says so, too
	}
	if err == nil {
		err = back()
	}
	if err == nil {
		err = errors.Join(w.broker.Kill(ctx), w.broker.Start(ctx))
	}
	if err == nil {
		err = w.until(ctx, "no commit is beyond a log's end", func() (bool, error) { return w.confirmed(ctx, nil) })
	}
	if err == nil {
		err = rest(ctx, 3*time.Second) // until the orders' ledger has forgotten, too
	}
	if err != nil {
		return err
	}
	w.service.ClearFaults()
	w.load.resume()
	for _, m := range w.members {
		if err := w.again(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// eventsAroundACut are events of different rows. The orders of the first ones are
// refused until the service's faults are cleared.
func (w *world) eventsAroundACut() (before, after []*kgo.Record) {
	const waiting, all = 20, 120 // of each table
	for _, t := range cutTables() {
		for n := range min(all, t.keys) {
			r := w.load.generator.event(t, n)
			if n >= waiting {
				after = append(after, r)
				continue
			}
			before = append(before, r)
			if t.name == "orders" {
				w.service.Inject(sandbox.Fault{Match: sandbox.Match{Table: t.name, Key: string(r.Key)}, Answer: sandbox.Status(http.StatusServiceUnavailable)})
			}
		}
	}
	return before, after
}

// logSizes notes how long the logs are, and returns what cuts them back.
func (w *world) logSizes(ctx context.Context) (back func() error, err error) {
	var cuts []func() error
	for _, t := range cutTables() {
		for p := range int32(partitions) {
			size, err := w.broker.LogSize(ctx, t.name, p)
			if err != nil {
				return nil, err
			}
			cuts = append(cuts, func() error { return w.broker.CutLog(ctx, t.name, p, size) })
		}
	}
	return func() (err error) {
		for _, cut := range cuts {
			err = errors.Join(err, cut())
		}
		return err
	}, nil
}

// confirmed reports whether the tables have what the records say, and the commits
// stand at the ends of the logs of which nothing waits.
func (w *world) confirmed(ctx context.Context, records []*kgo.Record) (bool, error) {
	for _, r := range records {
		got, there := w.service.Row(r.Topic, string(r.Key))
		if !same(got, there, w.load.generator.rows[name{r.Topic, string(r.Key)}]) {
			return false, nil
		}
	}
	left, err := w.lag(ctx, slices.DeleteFunc(cutTables(), func(t table) bool { return t.name == "orders" })...)
	return err == nil && left == 0, err
}
