package batcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/reconcile"
	"github.com/feedsink/feedsink/batcher/rejects"
	"github.com/feedsink/feedsink/batcher/rowerror"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/schemas"
)

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
		if err := r.readTo(ctx, r.known[i], ends, func(string) {}, func(Partition) bool { return false }); err != nil {
			return err
		}
	}
	return nil
}

// decide decides about the key's rows in error, now that the service has answered what Next gave out. It
// reports whether the service has refused that and their records are dead letters for it.
func (rec *reconciliation) decide(n reconcile.Newest, nothing []int, err error) (refused bool) {
	var suspect func(schemas.Op) contract.Import
	// Of files that a former owner has loaded before those at hand, rows may be in error and no dead letters yet.
	if a := rec.run.adopted; a != nil && a.Part > 1 || rec.run.generation.from.Part > 1 {
		suspect = func(op schemas.Op) contract.Import {
			imp := rec.imp
			imp.Op, imp.Members = op, rec.run.queue.share(op, nil)
			return imp
		}
	}
	rec.run.queue.mu.Lock()
	defer rec.run.queue.mu.Unlock()
	return rec.undecided.Decide(n, nothing, err, suspect)
}

// deadLetterRows makes dead letters of the records of a key's rows in error that cannot be rows once more.
func (rec *reconciliation) deadLetterRows(key string) {
	rec.run.queue.locked(func() { rec.undecided.Refuse(key) })
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
	dead := map[string]*rejects.Rows{}
	ended := make([][]*rejects.Held, len(r.undecided))
	r.queue.mu.Lock()
	for i := range r.undecided {
		ended[i] = r.undecided[i].End(&r.known[i].keys)
	}
	r.queue.mu.Unlock()
	for i, m := range r.queue.members {
		for _, d := range ended[i] {
			name := fmt.Sprint(d.File, d.Op)
			if dead[name] == nil {
				rr, err := (&rowErrors{run: r, imp: &d.Import}).rows()
				if err != nil {
					return err
				}
				dead[name] = rr
			}
			dead[name].AddHeld(&m.Mapping, d)
		}
	}
	for _, rr := range dead {
		r.enter(contract.DeadLettering, *rr.Import.Import)
		if err := rr.DeadLetters(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// refuse notes what no newest state holds that cannot be sent, in place of what was noted of
// older ones: of what was taken nothing, if the rest was sent. It reports whether any was taken.
func (rec *reconciliation) refuse(n reconcile.Newest, rest bool, err error) bool {
	rec.run.queue.mu.Lock()
	defer rec.run.queue.mu.Unlock()
	rec.run.refusedFor = slices.DeleteFunc(rec.run.refusedFor, func(r rejects.Refused) bool { return r.Member == rec.member.index && r.Key == n.Key })
	w := rejects.Refused{Member: rec.member.index, Key: n.Key, Taken: n.Taken, Newer: n.For}
	// What there is no call for is not refused for that: it goes as a row once more.
	w.Newer = slices.DeleteFunc(w.Newer, func(at reconcile.At) bool { return !rec.run.batcher.mayBeRefused(at) })
	if rest {
		w.Taken = nil
	}
	if err == nil || len(w.Taken)+len(w.Newer) == 0 || rec.run.batcher.cfg.Records == nil {
		return false
	}
	w.Reason = rejects.ReasonOf(err)
	rec.run.refusedFor = append(rec.run.refusedFor, w)
	return len(w.Taken) > 0
}

// rejectRefused makes dead letters of the records of refused writes that were taken, and of
// rows that were left out in favour of refused ones, before the import is confirmed: nothing
// else holds them.
func (r *importRun) rejectRefused(ctx context.Context, imp contract.Import) error {
	for i, m := range r.queue.members {
		taken := imp
		taken.Mapping, taken.Table, taken.Members, taken.OnlyTaken = m.Name, m.Table, nil, true
		left := taken
		left.OnlyTaken, left.Op = false, schemas.Upsert                             // not that of the file: none of these rows was in it
		left.MayBeLoaded = r.adopted != nil || r.generation.from.Part > 1 || m.Auto // or called
		if err := r.rejectWrites(ctx, taken, i, "writes that former routes gave to the other lane are refused by the service; their records become dead letters"); err != nil {
			return err
		}
		if err := r.rejectWrites(ctx, left, i, "the service refuses writes of the other lane in favour of which rows were left out of the file; the rows' records become dead letters"); err != nil {
			return err
		}
	}
	return nil
}

func (r *importRun) rejectWrites(ctx context.Context, imp contract.Import, member int, what string) error {
	refused := map[string]rejects.Refused{}
	r.queue.mu.Lock()
	for _, w := range r.refusedFor {
		if w.Member == member && (imp.OnlyTaken && len(w.Taken) > 0 || !imp.OnlyTaken && len(w.Newer) > 0) {
			refused[w.Key] = w
		}
	}
	r.queue.mu.Unlock()
	if len(refused) == 0 {
		return nil
	}
	r.enter(contract.DeadLettering, imp)
	r.log.Warn(what, "mapping", imp.Mapping, "keys", len(refused))
	each := func(mapping string, lane schemas.Lane, w *schemas.Write, at spool.At) string {
		if refused, ok := refused[w.Key]; ok && mapping == imp.Mapping {
			return refused.Why(lane, rejects.Place(at), imp.OnlyTaken)
		}
		return ""
	}
	return r.retrying(ctx, "make dead letters of refused writes", func(ctx context.Context) error {
		return r.batcher.cfg.Records.Again(ctx, imp, r.generation.claims, each)
	})
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
		rec.run.log.Error("a dead letter cannot be written; trying again", "mapping", rec.member.Name, "error", err)
	default:
		rec.run.log.Error("a profile that a newer record deletes may be in the table under an id that is not known, and there is no place for its dead letter; "+
			"the import is not confirmed, and the delete is tried again. Set dlq.topic, or add an import for deletes (imports.delete)",
			"mapping", rec.member.Name, "file", rec.imp.File, "execution", rec.imp.Execution, "why", err)
	}
	_ = retry.Sleep(ctx, rec.run.batcher.cfg.Retry.Max)
	return false
}
