package batcher

import (
	"context"
	"slices"
	"time"
)

// Parents knows about the records of other mappings whose rows a mapping's rows
// link to, as far as they do not go through files.
type Parents interface {
	// Await returns once everything that was written to the topics of the
	// mapping's parents before the call is confirmed by the other lane, or with
	// ctx's error.
	Await(ctx context.Context, mapping string) error
}

// parentsPoll is how soon a parent's file is looked at again.
const parentsPoll = 250 * time.Millisecond

// parentsFirst holds a sealed file back until the rows of its parents that were
// read before it are loaded. They need not wait for their own files to fill.
func (f *importRun) parentsFirst(ctx context.Context, imp Import) error {
	if !slices.ContainsFunc(f.members, func(m *member) bool { return len(m.After) > 0 }) {
		return nil
	}
	f.enter(Linking, imp)
	for _, parent := range f.parents {
		rows := parent.hurry()
		for parent.holds(rows) {
			if err := pause(ctx, parentsPoll); err != nil {
				return err
			}
		}
	}
	if f.batcher.cfg.Parents == nil {
		return nil
	}
	for _, m := range f.members {
		if err := f.batcher.cfg.Parents.Await(ctx, m.Name); err != nil {
			return err
		}
	}
	return nil
}

// hurry makes the open generation due and returns all whose rows are not
// confirmed yet.
func (l *tableQueue) hurry() (rows []*generation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running != nil {
		rows = append(rows, l.running.generation)
	}
	if l.rebuilding != nil {
		rows = append(rows, l.rebuilding.generation)
	}
	if l.open != nil && l.open.entries() > 0 {
		l.hurried = l.open
		rows = append(rows, l.open)
		poke(l.wake)
	}
	return rows
}

// holds reports whether any of the generations is not confirmed yet. One that
// was discarded is not held: its records are read again, and so are those of
// whoever waits for it, since both have one owner.
func (l *tableQueue) holds(rows []*generation) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.adopted != nil {
		return true
	}
	for _, g := range rows {
		if g == l.open || l.running != nil && g == l.running.generation || l.rebuilding != nil && g == l.rebuilding.generation {
			return true
		}
	}
	return false
}
