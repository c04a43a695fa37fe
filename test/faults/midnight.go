package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"
)

// fewSlots is how many imports of the day are left for a table that is to run
// out of them, the sink's reserve of two among them.
const fewSlots = 5

// believed is how far the members' clock is moved at once: less than a minute.
const believed = 50 * time.Second

// planned bounds the wait for a day's first import: once days are known, imports of a table
// with few slots are planned in steps of five minutes.
const planned = 10*time.Minute + patience

// overMidnight has all tables use up a day's slots, lets midnight pass while
// events go on coming in, and waits until each table has gone on by itself. No
// day may see more imports than the members were told it has slots.
func overMidnight(ctx context.Context, w *world) error {
	today := w.clock.now().UTC().Truncate(24 * time.Hour)
	midnight := today.Add(24 * time.Hour)
	// So shortly before it that the pacer has nothing to spread.
	if err := w.moveTo(midnight.Add(-90 * time.Second)); err != nil {
		return err
	}
	slots := map[string]int{}
	for _, t := range tables {
		if !t.custom {
			slots[t.name] = w.service.SlotsUsed(t.name, today) + fewSlots
		}
	}
	if err := w.restartWith(ctx, slots); err != nil {
		return err
	}
	if err := w.until(ctx, "the day's slots are used up", func() (bool, error) { return w.spent(ctx, slots) }); err != nil {
		return err
	}
	// Files grow, until so little is left that the members take the clock's next
	// move for a correction and believe it: after a longer one both days count.
	if err := rest(ctx, max(3*time.Second, midnight.Sub(w.clock.now())-believed)); err != nil {
		return err
	}
	if err := w.moveTo(midnight.Add(-2 * time.Second)); err != nil {
		return err
	}
	err := w.within(ctx, planned, "every table has used a slot of the next day", func() (bool, error) {
		for table := range slots {
			if w.service.SlotsUsed(table, midnight) == 0 {
				return false, nil
			}
		}
		return true, nil
	})
	w.countSlots(slots, today, midnight)
	if err != nil {
		return err
	}
	return w.restartWith(ctx, nil)
}

// moveTo moves the clock on, unless it is later than that.
func (w *world) moveTo(t time.Time) error {
	return w.clock.advance(max(0, t.Sub(w.clock.now())))
}

// restartWith gives the members so many slots a day; nil: plenty.
func (w *world) restartWith(ctx context.Context, slots map[string]int) error {
	for _, m := range w.members {
		m.limits = nil
		for table, n := range slots {
			m.limits = append(m.limits, fmt.Sprintf("SLOTS_%s=%d", strings.ToUpper(table), n))
		}
		if err := m.terminate(); err != nil {
			return err
		}
		if err := m.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// spent reports whether each table has nothing left but the reserve.
func (w *world) spent(ctx context.Context, slots map[string]int) (bool, error) {
	const reserve = 2 // the sink's default
	left := map[string]int{}
	for _, m := range w.members {
		its, err := m.slotsLeft(ctx)
		if err != nil {
			return false, err
		}
		maps.Copy(left, its)
	}
	for table := range slots {
		if n, known := left[table]; !known || n > reserve {
			return false, nil
		}
	}
	return true, nil
}

// countSlots counts the imports beyond the slots of the days that begin at.
func (w *world) countSlots(slots map[string]int, days ...time.Time) {
	for table, n := range slots {
		for _, day := range days {
			used := w.service.SlotsUsed(table, day)
			fmt.Fprintf(os.Stderr, "  %s: %s had %d imports, and %d slots\n", day.Format(time.DateOnly), table, used, n)
			w.seen.slotsOver += max(0, used-n)
		}
	}
}
