//go:build simulation

package simulation

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/schemas"
)

// calm has rows come to tables of which all may be called, while nothing goes wrong: calls
// bring them, and no file goes, nor is a slot taken for one.
func (w *world) calm(ctx context.Context) {
	for _, t := range w.plan.tables {
		if !w.plan.callable(t) || !t.routes.spare || w.plan.rate > 0 || len(w.plan.rollAt) > 0 {
			continue // a file may be due before the calls are made
		}
		before := w.plan.lanes()
		for !t.allCalled(w.plan.routes) {
			w.plan.routes++
		}
		for _, m := range w.members {
			m.follow(slices.Equal(before, w.plan.lanes())) //nolint:contextcheck // its end is kill or stop
		}
		time.Sleep(time.Minute + 4*w.plan.lookEvery)
		files, slots := w.imports(t, w.begun), w.slotsUsed(t)
		w.say("rows of %s, which calls can bring", t.name)
		for range 2 {
			k := &key{kind: upserted}
			e, r := w.load.event(t, t.add(k))
			if !w.produce(ctx, t, k, e, r) {
				return
			}
		}
		patience := w.plan.fetchWait() + w.plan.rollAge + 2*time.Minute // a request may be under way that asks for other partitions
		time.Sleep(patience)
		if n, where := w.lag(ctx, t); n > 0 { // other tables may be read again for the new routes, by file
			w.fail("rows of %s were not confirmed after %v: %s", t.name, patience, strings.Join(where, ", "))
		}
		if n := w.imports(t, w.begun) - files; n > 0 {
			w.fail("rows of %s, which calls could bring: got %d imports, want none", t.name, n)
		}
		if used := w.slotsUsed(t); used > slots {
			w.fail("rows of %s, which calls could bring: got %d slots used, want %d as before", t.name, used, slots)
		}
	}
}

// fetchWait is how long the broker may wait for records before it answers.
func (p *plan) fetchWait() time.Duration { return max(10*time.Second, 2*p.lookEvery) }

// callable reports whether calls may bring all rows of the table.
func (p *plan) callable(t *table) bool {
	behindCalls := p.after && t.custom() && p.tables[0].uses(schemas.Immediate)
	return t.auto() && !t.bundled && !behindCalls
}

// imports is how many imports the table has had, since a time.
func (w *world) imports(t *table, since time.Time) (n int) {
	for _, x := range w.service.Executions() {
		if !x.Accepted.Before(since) && slices.ContainsFunc(x.Loads, func(l sandbox.Loaded) bool { return l.Table == t.name }) {
			n++
		}
	}
	return n
}

// judgeDay compares the slots that are used today, as the tables' owners say, with the imports.
// Where a clock was wrong, or what was on record is gone, the owner cannot know.
func (w *world) judgeDay() {
	now := time.Now().In(w.plan.zone)
	today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, w.plan.zone)
	for _, t := range w.plan.tables {
		if !w.plan.uses(t, schemas.Batch) {
			continue // no member has it now
		}
		if used, imports := w.slotsUsed(t), w.imports(t, today); used < imports && !t.forgotten() && !w.skewed {
			w.fail("slots of %s used today: got %d, want %d, as many as there were imports", t.name, used, imports)
		}
	}
}

// slotsUsed is how many of the day's slots the table's owner says are used.
func (w *world) slotsUsed(t *table) (n int) {
	for _, m := range w.members {
		for _, s := range m.sink.Status().(observe.Status).Mappings {
			if s.Name == t.name && s.Day != nil {
				for _, u := range s.Day.Used {
					n += u.Count
				}
			}
		}
	}
	return n
}
