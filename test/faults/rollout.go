package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
)

// conditions are routes that send customers through the immediate lane, the first
// of them as the configuration is written.
var conditions = []string{
	`segments.tier == "gold"`, `segments.tier == "basic"`, `attributes.seq % 2 == 0`, `attributes.seq > 0`, `attributes.seq < 0`,
}

func (w *world) config() string { return filepath.Join(w.dir, "feedsink.yaml") }

// route gives the members other routes of customers, which each takes as it starts.
func (w *world) route(when string) error {
	next := w.config() + ".next" // a member that starts reads the former ones or these
	err := os.WriteFile(next, bytes.Replace(configuration, []byte(conditions[0]), []byte(when), 1), 0o600)
	return errors.Join(err, os.Rename(next, w.config()))
}

// strike strikes, now and then amid a roll-out of other routes: one member takes
// them before, the others after.
func (w *world) strike(ctx context.Context, f fault, o options) error {
	if !o.bothLanes || w.rnd.IntN(3) > 0 {
		return f.strike(ctx, w)
	}
	first := w.rnd.IntN(len(w.members))
	err := w.route(conditions[w.rnd.IntN(len(conditions))])
	if err == nil {
		err = w.again(ctx, w.members[first])
	}
	if err == nil {
		err = f.strike(ctx, w)
	}
	for n := 1; n < len(w.members) && err == nil; n++ {
		err = w.again(ctx, w.members[(first+n)%len(w.members)])
	}
	return err
}

// again ends a member, half the time as a crash does, and starts it.
func (w *world) again(ctx context.Context, m *member) error {
	if w.rnd.IntN(2) > 0 || !m.ready(ctx) {
		m.kill()
	} else if err := m.terminate(); err != nil {
		return err
	}
	return m.start(ctx)
}
