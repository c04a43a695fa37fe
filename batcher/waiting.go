package batcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/batcher/contest"
	"github.com/feedsink/feedsink/batcher/rowerror"
	"github.com/feedsink/feedsink/schemas"
)

// A row in error whose key the other lane writes too may be in error for that
// alone: a patch of what an older upsert, still waiting for the service, is to
// create; a row of what a newer delete has taken away. Such a row is no dead
// letter yet. Its key is sent again once the other lane's older writes have
// landed, and that tells: what the service takes then is confirmed, and so is a row
// in whose place a newer write has come.

// waitingKey is a row of a conflicting key.
type waitingKey struct {
	member int // its mapping's place on the line
	key    string
	op     schemas.Op
}

// waitingRow is a row in error of which it is not decided yet whether its records
// are dead letters.
type waitingRow struct {
	imp     Import
	reason  string
	decided bool
	dead    bool
	idle    []contest.Span // of which its records are; nil: all that came to the row
}

// noMessage is the reason of a row of which a former owner may have heard what the
// service said.
const noMessage = "its row changed nothing: in the order of the log there was nothing to change, or there was a record of its key already"

// waits takes a row in error whose key is conflicting, and reports whether it did.
func (b *rejectedRows) waits(r rowerror.Row, reason string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, i := range r.Of {
		m := b.of[i]
		if !m.DualLane || !b.known[m.index].keys.Hold(r.Key) {
			continue
		}
		at := waitingKey{m.index, r.Key, b.imp.Op}
		if w := b.waiting[at]; w != nil { // one line for each value that is wrong
			if b.rows--; !strings.Contains(w.reason, reason) && len(w.reason) < 2000 {
				w.reason += "; " + reason
			}
			return true
		}
		b.wait(at, &waitingRow{imp: *b.imp, reason: reason})
		return true
	}
	return false
}

// wait notes a row, the line locked.
func (f *importRun) wait(at waitingKey, w *waitingRow) {
	if f.waiting == nil {
		f.waiting = map[waitingKey]*waitingRow{}
	}
	f.waiting[at] = w
}

// readPatience bounds the wait of readAll: a partition may be paused or halted.
const readPatience = 30 * time.Second

// readAll waits until the log was read to its end: writes of the other lane that
// have landed before rows came to be in error are known then. Without them a row
// that one of them has overtaken is a dead letter: none is lost.
func (f *importRun) readAll(ctx context.Context) error {
	reading, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	if err := f.readEnds(reading); err != nil && ctx.Err() == nil {
		f.log.Warn("the log was not read to its end yet; rows in error are told apart without the newest writes of the other lane", "waited", readPatience)
	}
	return ctx.Err()
}

func (f *importRun) readEnds(ctx context.Context) error {
	for i, m := range f.members {
		if !m.DualLane {
			continue
		}
		var ends map[Partition]int64
		if err := f.patiently(ctx, "find the ends of the log", func(ctx context.Context) (err error) {
			ends, err = f.batcher.cfg.Peer.Ends(ctx, m.Name)
			return err
		}); err != nil {
			return err
		}
		s := settling{importRun: f, member: m, known: f.known[i]}
		s.setSettling(true) // it is read on although there is no room
		err := readTo(ctx, ends, func(string) {}, func(Partition) bool { return false })
		s.setSettling(false)
		if err != nil {
			return err
		}
	}
	return nil
}

// tell decides about the key's rows in error, now that the service has answered
// what Next gave out. It reports whether the service has refused that and their
// records are dead letters for it.
func (f *settling) tell(n contest.Newest, nothing []int, err error) (refused bool) {
	var changed, absent, idle contest.Ops
	for i, ops := range n.Shows {
		if changed |= ops; slices.Contains(nothing, i) {
			absent |= ops
		}
	}
	for _, span := range n.Idle {
		idle |= span.Ops
	}
	unchanged, alone := absent|idle, idle&^absent
	_, said := errors.AsType[Failure](err)
	if said {
		alone &^= changed
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for op := schemas.Upsert; op <= schemas.Delete; op++ {
		w := f.waiting[waitingKey{f.member.index, n.Key, op}]
		if w == nil {
			continue
		}
		// What there is no call for goes as a row once more.
		shows := (changed | unchanged).Has(op)
		w.decided, w.dead, w.idle = true, shows && (said || unchanged.Has(op)) || !shows && !n.Whole, nil
		refused = refused || said && changed.Has(op)
	}
	if f.unheard() && err == nil {
		f.suspect(n.Key, unchanged)
	} else if f.unheard() {
		f.suspect(n.Key, idle) // the others go as rows once more, of which it is heard
	}
	for _, op := range alone.All() {
		if w := f.waiting[waitingKey{f.member.index, n.Key, op}]; w != nil {
			w.idle = n.Idle
		}
	}
	return refused
}

// suspect takes rows of a key that changed nothing for rows in error, the line locked.
// They may be in no file of a generation that is built again: nothing is dropped from
// that, and so a patch may be merged into a row that a former owner had dropped, and
// whose file is loaded.
func (f *settling) suspect(key string, ops contest.Ops) {
	for _, op := range ops.All() {
		at := waitingKey{f.member.index, key, op}
		if f.waiting[at] != nil {
			continue
		}
		imp := f.imp
		imp.Op, imp.Members = op, f.share(op, nil)
		f.wait(at, &waitingRow{imp: imp, reason: noMessage, decided: true, dead: true})
	}
}

// noRow makes dead letters of the records of a key's rows in error that cannot be
// rows once more.
func (f *settling) noRow(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for op := schemas.Upsert; op <= schemas.Delete; op++ {
		if w := f.waiting[waitingKey{f.member.index, key, op}]; w != nil {
			w.decided, w.dead, w.idle = true, true, nil
		}
	}
}

// unheard reports whether a former owner may have heard of rows in error, of files
// before those at hand, which are not dead letters yet.
func (f *importRun) unheard() bool { return f.adopted != nil && f.adopted.Part > 1 || f.from.Part > 1 }

// hearAgain finds the rows in error of an import that a former owner was settling.
// Those of conflicting keys were waiting; the others are dead letters by now.
func (f *importRun) hearAgain(ctx context.Context, imp *Import) error {
	if !f.anyDualLane() || imp.Execution == "" || f.batcher.cfg.Records == nil {
		return nil
	}
	results, err := f.await(ctx, *imp, forgottenPolls)
	if err != nil || results.Status != Finished || results.InError == 0 {
		return err
	}
	return f.reject(ctx, imp, results)
}

// rejectWaiting makes dead letters of the records behind the rows in error that
// waited in vain. Nothing is conflicting any more.
func (f *importRun) rejectWaiting(ctx context.Context) error {
	if f.batcher.cfg.Records == nil {
		return nil // their output files are kept
	}
	dead := map[string]*rejectedRows{}
	f.mu.Lock()
	for at, w := range f.waiting {
		if f.known[at.member].keys.LeftOut(at.key) {
			continue // its records are read again
		}
		left := f.known[at.member].keys.Free(at.key, at.op)
		if !w.decided {
			w.dead = left
		}
		if !w.dead {
			continue
		}
		name := fmt.Sprint(w.imp.File, w.imp.Op)
		b := dead[name]
		if b == nil {
			b = newRejectedRows(f, &w.imp, false)
			dead[name] = b
		}
		b.waited(f.members[at.member], at.key, w)
	}
	f.waiting = nil
	f.mu.Unlock()
	for _, b := range dead {
		f.enter(RowErrors, *b.imp)
		if err := b.deadLetters(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// waited adds a row that is known by its key.
func (b *rejectedRows) waited(m *member, key string, w *waitingRow) {
	i := slices.Index(b.of, m)
	if i < 0 {
		return // the import has no file of it
	}
	one := &rejected{Row: rowerror.Row{Key: key, Reason: w.reason}, reason: w.reason}
	row := &errorRow{rejected: one, member: i, idle: w.idle}
	one.of = []*errorRow{row}
	b.replay.rows[rowKey{m.Name, key}] = row
	b.replay.rejected = append(b.replay.rejected, one)
}
