package batcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/reconcile"
	"github.com/feedsink/feedsink/batcher/rowerror"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/retry"
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
	member int // its mapping's place on the queue
	key    string
	op     schemas.Op
}

// waitingRow is a row in error of which it is not decided yet whether its records
// are dead letters.
type waitingRow struct {
	imp     contract.Import
	reason  string
	decided bool
	dead    bool
	idle    []reconcile.Span // of which its records are; nil: all that came to the row
}

// changedNothing is the reason of a row in error for which the service's words went to a
// former owner, if there were any.
const changedNothing = "its row changed nothing: in the order of the log there was nothing to change, or there was a record of its key already"

// holdBack takes a row in error whose key is conflicting, and reports whether it did.
func (rr *rejectedRows) holdBack(r rowerror.Row, reason string) bool {
	rr.run.queue.mu.Lock()
	defer rr.run.queue.mu.Unlock()
	for _, i := range r.Of {
		m := rr.of[i]
		if !m.DualLane || !rr.run.known[m.index].keys.Hold(r.Key) {
			continue
		}
		at := waitingKey{m.index, r.Key, rr.imp.Op}
		if w := rr.run.waiting[at]; w != nil { // one line for each value that is wrong
			if rr.rows--; !strings.Contains(w.reason, reason) && len(w.reason) < 2000 {
				w.reason += "; " + reason
			}
			return true
		}
		rr.run.waiting[at] = &waitingRow{imp: *rr.imp, reason: reason}
		return true
	}
	return false
}

// readPatience bounds the wait of readAll: a partition may be paused or halted.
const readPatience = 30 * time.Second

// readLog waits until the log was read to its end: writes of the other lane that
// have landed before rows came to be in error are known then. Without them a row
// that one of them has overtaken is a dead letter: none is lost.
func (r *importRun) readLog(ctx context.Context) error {
	reading, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	if err := r.readToEnds(reading); err != nil && ctx.Err() == nil {
		r.log.Warn("the log was not read to its end yet; rows in error are told apart without the newest writes of the other lane", "waited", readPatience)
	}
	return ctx.Err()
}

func (r *importRun) readToEnds(ctx context.Context) error {
	for i, m := range r.queue.members {
		if !m.DualLane {
			continue
		}
		ends, err := r.ends(ctx, m)
		if err != nil {
			return err
		}
		s := reconciliation{run: r, member: m, known: r.known[i]}
		s.setReconciling(true) // it is read on although there is no room
		err = readTo(ctx, ends, func(string) {}, func(Partition) bool { return false })
		s.setReconciling(false)
		if err != nil {
			return err
		}
	}
	return nil
}

// decide decides about the key's rows in error, now that the service has answered
// what Next gave out. It reports whether the service has refused that and their
// records are dead letters for it.
func (rec *reconciliation) decide(n reconcile.Newest, nothing []int, err error) (refused bool) {
	var changed, absent, idle reconcile.Ops
	for i, ops := range n.Shows {
		if changed |= ops; slices.Contains(nothing, i) {
			absent |= ops
		}
	}
	for _, span := range n.Idle {
		idle |= span.Ops
	}
	unchanged, alone := absent|idle, idle&^absent
	_, refusedByService := errors.AsType[contract.Failure](err)
	if refusedByService {
		alone &^= changed
	}
	rec.run.queue.mu.Lock()
	defer rec.run.queue.mu.Unlock()
	for _, op := range schemas.Ops {
		w := rec.run.waiting[waitingKey{rec.member.index, n.Key, op}]
		shows := (changed | unchanged).Has(op)
		// A key that was reconciled, and is followed again for a newer write of the other
		// lane, does not show what was decided before.
		if w == nil || w.decided && !shows && !n.Whole {
			continue
		}
		// What there is no call for goes as a row once more.
		w.decided, w.dead, w.idle = true, shows && (refusedByService || unchanged.Has(op)) || !shows && !n.Whole, nil
		refused = refused || refusedByService && changed.Has(op)
	}
	if rec.run.earlierPartsLoaded() && err == nil {
		rec.suspect(n.Key, unchanged)
	} else if rec.run.earlierPartsLoaded() {
		rec.suspect(n.Key, idle) // the others go as rows once more, whose results will tell
	}
	for _, op := range alone.All() {
		if w := rec.run.waiting[waitingKey{rec.member.index, n.Key, op}]; w != nil {
			w.idle = n.Idle
		}
	}
	return refused
}

// suspect takes rows of a key that changed nothing for rows in error, the queue locked.
// They may be in no file of a generation that is built again: nothing is dropped from
// that, and so a patch may be merged into a row that a former owner had dropped, and
// whose file is loaded.
func (rec *reconciliation) suspect(key string, ops reconcile.Ops) {
	for _, op := range ops.All() {
		at := waitingKey{rec.member.index, key, op}
		if rec.run.waiting[at] != nil {
			continue
		}
		imp := rec.imp
		imp.Op, imp.Members = op, rec.run.queue.share(op, nil)
		rec.run.waiting[at] = &waitingRow{imp: imp, reason: changedNothing, decided: true, dead: true}
	}
}

// deadLetterRows makes dead letters of the records of a key's rows in error that cannot be
// rows once more.
func (rec *reconciliation) deadLetterRows(key string) {
	rec.run.queue.mu.Lock()
	defer rec.run.queue.mu.Unlock()
	for _, op := range schemas.Ops {
		if w := rec.run.waiting[waitingKey{rec.member.index, key, op}]; w != nil {
			w.decided, w.dead, w.idle = true, true, nil
		}
	}
}

// earlierPartsLoaded reports whether a former owner loaded files of the generation before
// those at hand: rows of them may be in error and no dead letters yet.
func (r *importRun) earlierPartsLoaded() bool {
	return r.adopted != nil && r.adopted.Part > 1 || r.generation.from.Part > 1
}

// askAgain finds the rows in error of an import that a former owner was reconciling.
// Those of conflicting keys were waiting; the others are dead letters by now.
func (r *importRun) askAgain(ctx context.Context, imp *contract.Import) error {
	if !r.queue.anyDualLane() || imp.Execution == "" || r.batcher.cfg.Records == nil {
		return nil
	}
	results, err := r.untilEnded(ctx, *imp, forgottenPolls)
	if err != nil || results.Status != contract.Finished || results.InError == 0 {
		return err
	}
	return r.reject(ctx, imp, results)
}

// rejectWaiting makes dead letters of the records behind the rows in error that
// waited without result. Nothing is conflicting any more.
func (r *importRun) rejectWaiting(ctx context.Context) error {
	if r.batcher.cfg.Records == nil {
		return nil // their output files are kept
	}
	dead := map[string]*rejectedRows{}
	r.queue.mu.Lock()
	for at, w := range r.waiting {
		if r.known[at.member].keys.LeftOut(at.key) {
			continue // its records are read again
		}
		left := r.known[at.member].keys.Free(at.key, at.op)
		if !w.decided {
			w.dead = left
		}
		if !w.dead {
			continue
		}
		name := fmt.Sprint(w.imp.File, w.imp.Op)
		rr := dead[name]
		if rr == nil {
			rr = newRejectedRows(r, &w.imp, false)
			dead[name] = rr
		}
		rr.addWaiting(r.queue.members[at.member], at.key, w)
	}
	clear(r.waiting)
	r.queue.mu.Unlock()
	for _, rr := range dead {
		r.enter(DeadLettering, *rr.imp)
		if err := rr.deadLetters(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// addWaiting adds a row that is known by its key.
func (rr *rejectedRows) addWaiting(m *member, key string, w *waitingRow) {
	i := slices.Index(rr.of, m)
	if i < 0 {
		return // the import has no file of it
	}
	one := &rejected{Row: rowerror.Row{Key: key, Reason: w.reason}, reason: w.reason}
	row := &errorRow{rejected: one, member: i, idle: w.idle}
	one.of = []*errorRow{row}
	rr.byKey[rowKey{m.Name, key}] = row
	rr.rejected = append(rr.rejected, one)
}

// refusedWrites are writes of a key that were taken from the other lane, whose ledger
// has them confirmed, and that the service has refused for good.
type refusedWrites struct {
	member int // the mapping's place on the queue
	key    string
	at     []reconcile.At
	reason string
}

// refuse notes what was taken of a newest state that cannot be sent, in place of what
// was noted of older ones. It reports whether there was any.
func (rec *reconciliation) refuse(n reconcile.Newest, err error) bool {
	rec.run.queue.mu.Lock()
	defer rec.run.queue.mu.Unlock()
	rec.run.refusedFor = slices.DeleteFunc(rec.run.refusedFor, func(r refusedWrites) bool { return r.member == rec.member.index && r.key == n.Key })
	if err == nil || len(n.Taken) == 0 || rec.run.batcher.cfg.Records == nil {
		return false
	}
	reason := err.Error()
	if failure, ok := errors.AsType[contract.Failure](err); ok && failure.Reason() != "" {
		reason = failure.Reason()
	}
	rec.run.refusedFor = append(rec.run.refusedFor, refusedWrites{rec.member.index, n.Key, n.Taken, reason})
	return true
}

// place is how keys that both lanes write know a record's place.
func place(at spool.At) reconcile.At { return reconcile.At{Partition: at.Of, Offset: at.Offset} }

// rejectTaken makes dead letters of the records of writes that were taken and
// refused, before the import is confirmed: nothing else holds them.
func (r *importRun) rejectTaken(ctx context.Context, imp contract.Import) error {
	r.queue.mu.Lock()
	refused := r.refusedFor
	r.queue.mu.Unlock()
	for i, m := range r.queue.members {
		deadLetters := map[string]refusedWrites{}
		for _, w := range refused {
			if w.member == i {
				deadLetters[w.key] = w
			}
		}
		if len(deadLetters) == 0 {
			continue
		}
		imp := imp
		imp.Mapping, imp.Table, imp.Members, imp.OnlyTaken = m.Name, m.Table, nil, true
		r.enter(DeadLettering, imp)
		r.log.Warn("writes that former routes gave to the other lane are refused by the service; their records become dead letters",
			"mapping", m.Name, "keys", len(deadLetters))
		each := func(mapping string, _ schemas.Lane, w *schemas.Write, at spool.At) string {
			refused := deadLetters[w.Key]
			if mapping == m.Name && slices.Contains(refused.at, place(at)) {
				return refused.reason
			}
			return ""
		}
		if err := r.retrying(ctx, "make dead letters of refused writes", func(ctx context.Context) error {
			return r.batcher.cfg.Records.Again(ctx, imp, r.generation.claims, each)
		}); err != nil {
			return err
		}
	}
	return nil
}

// anewReason is the reason of the dead letter of a key whose profile may have been made
// anew.
const anewReason = "a newer record deletes this profile, but a file may have made it anew, under an id that the service does not tell: " +
	"it may still be in the table. Delete it by hand, or with a file of this row; an import for deletes (imports.delete) would do that by its key"

// unnamedProfile makes a dead letter of its own of the key of a profile that may have to
// be deleted, and that neither a call nor a file can delete. Its record lies behind the
// import, and the other lane has confirmed it. It reports false if there is no place for
// a dead letter: then the import waits, and the key is tried again.
func (rec *reconciliation) unnamedProfile(ctx context.Context, key string) (ended bool) {
	r := rowerror.Row{Header: []string{rec.member.Columns[rec.member.rows.Key()].Header}, Cells: []string{key}}
	row, err := r.CSV()
	if err == nil && rec.run.batcher.cfg.Records == nil {
		err = contract.ErrNoDeadLetter
	}
	if err == nil {
		err = rec.run.post(ctx, &rec.imp, []contract.UnmatchedRow{{Mapping: rec.member.Name, Key: key, Row: row, Reason: anewReason}})
	}
	switch {
	case ctx.Err() != nil:
		return false
	case err == nil:
		rec.run.log.Warn("a profile that a newer record deletes may be in the table under an id that is not known; it became a dead letter of its own: delete it by hand",
			"mapping", rec.member.Name, "file", rec.imp.File, "execution", rec.imp.Execution)
		rec.run.batcher.observer.RowsUnmatched(rec.imp, 1)
		return true
	case !errors.Is(err, contract.ErrNoDeadLetter):
		rec.run.log.Error("a dead letter cannot be written; trying again", "mapping", rec.member.Name, "err", err)
	default:
		rec.run.log.Error("a profile that a newer record deletes may be in the table under an id that is not known, and there is no place for its dead letter; "+
			"the import is not confirmed, and the delete is tried again. Set dlq.topic, or add an import for deletes (imports.delete)",
			"mapping", rec.member.Name, "file", rec.imp.File, "execution", rec.imp.Execution, "why", err)
	}
	_ = retry.Sleep(ctx, rec.run.batcher.cfg.Retry.Max)
	return false
}
