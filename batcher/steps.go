package batcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/reconcile"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/retry"
)

// parentsPoll is how soon a parent's file is looked at again.
const parentsPoll = 250 * time.Millisecond

// seal writes the generation's files, again and again while the disk refuses. Those of
// one that is built again which are loaded are left out.
func (r *importRun) seal(ctx context.Context) ([]contract.Import, error) {
	name := spool.NewName(r.queue.name, r.batcher.rnd)
	for n := 0; ; n++ {
		files, err := spool.Seal(ctx, spool.Files{
			Dir: r.batcher.spool, Parts: r.parts(time.Now()), Bundle: r.queue.mapping.Bundle != "", Compression: r.queue.mapping.CSV.Compression, Name: name,
			Limit: r.queue.mapping.MaxFile,
		})
		if err == nil {
			r.files = files
			r.fails(nil, time.Time{})
			break
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r.log.Error("seal file: trying again; check the spool's disk", "generation", name, "error", err)
		if err := r.again(ctx, err, r.backoff(r.batcher.cfg.Retry, n, 0)); err != nil {
			return nil, err
		}
	}
	r.generation.drop()
	r.queue.measure(r.generation, r.files)
	imports := make([]contract.Import, len(r.files))
	for i, file := range r.files {
		load := r.queue.mapping.Loads[file.Op]
		imports[i] = contract.Import{
			Mapping: r.queue.mapping.Name, Table: r.queue.mapping.Table, Fingerprint: r.queue.mapping.Fingerprint,
			Bundle: r.queue.mapping.Bundle, Members: r.queue.share(file.Op, file.Counts),
			Part: i + 1, Parts: len(r.files),
			Op: file.Op, Mode: load.Mode, ETL: load.ETL,
			File: file.Name, Rows: file.Rows, Bytes: file.Bytes, Attempt: 1,
		}
	}
	return r.remaining(ctx, imports)
}

// parts are what the members add to the files, which are sealed at now.
func (r *importRun) parts(now time.Time) []spool.Part {
	parts := make([]spool.Part, len(r.queue.members))
	for i, m := range r.queue.members {
		parts[i] = spool.Part{Rows: m.rows, Journal: r.generation.journals[i], Ops: m.loads, Entry: m.EntryName(now)}
	}
	return parts
}

// beforeIntent holds a sealed file back until the rows of its parents that were read before
// it are loaded, which need not wait for their own files to fill. It looks at the other lane's
// ledger last.
func (r *importRun) beforeIntent(ctx context.Context, imp contract.Import) error {
	if !slices.ContainsFunc(r.queue.members, func(m *member) bool { return len(m.After) > 0 }) {
		return r.look(ctx)
	}
	r.enter(contract.Linking, imp)
	r.waited = true
	for _, parent := range r.queue.parents {
		rows := parent.hurry()
		for parent.holds(rows) {
			if err := retry.Sleep(ctx, parentsPoll); err != nil {
				return err
			}
		}
	}
	for _, m := range r.queue.members {
		if err := r.batcher.cfg.Parents.Await(ctx, m.Name, r.batcher.callsOfChildren); err != nil {
			return err
		}
	}
	return r.look(ctx)
}

// callsOfChildren are the records with calls for tables whose files wait for parents. Such
// a call may wait for its row in a file: a patch of what is not there yet.
func (b *Batcher) callsOfChildren() map[reconcile.At]bool {
	at := map[reconcile.At]bool{}
	for _, q := range b.queues {
		q.mu.Lock()
		for i, m := range q.members {
			if !m.DualLane || len(m.After) == 0 {
				continue
			}
			m.dualLane.keys.Unlanded(at)
			if q.running != nil {
				q.running.known[i].keys.Unlanded(at)
			}
		}
		q.mu.Unlock()
	}
	return at
}

// intend waits until the file may go, and commits the intent. A ledger that refuses may do so
// for hours: each further attempt waits likewise.
func (r *importRun) intend(ctx, send context.Context, imp *contract.Import) error {
	if err := cmp.Or(r.untilLetGo(ctx, imp), ctx.Err()); err != nil {
		return err
	}
	if r.batcher.spool.Lacks(imp.File) {
		r.log.Error("the file is gone from the spool before it was sent; its records are read again and it is built anew", "file", imp.File)
		return r.startOver(ctx, send, *imp)
	}
	imp.Execution = ""
	send, giveUp := context.WithCancel(send)
	defer giveUp()
	refused := false
	return r.commit(send, "intend", *imp, func(send context.Context, intent contract.Import, claims []Claim) error {
		if refused && r.untilLetGo(ctx, imp) != nil {
			giveUp()
			return ctx.Err()
		}
		refused = true
		r.enter(contract.Intending, intent)
		return r.batcher.ledger.Commit(send, intent, claims)
	})
}

// untilLetGo waits for the gate, and while a person has paused the mapping.
func (r *importRun) untilLetGo(ctx context.Context, imp *contract.Import) error {
	for step, wait := r.heldBack(imp); wait > 0; step, wait = r.heldBack(imp) {
		r.enter(step, *imp)
		if err := retry.Sleep(ctx, wait); err != nil {
			return err
		}
	}
	return nil
}

// heldBack is how long a file that is complete has to wait, and for what.
func (r *importRun) heldBack(imp *contract.Import) (contract.Step, time.Duration) {
	if r.queue.paused() {
		r.waited = true
		return contract.Paused, pausedWait
	}
	further := r.generation.from.Part > 0 || imp.Part > 1 || imp.Attempt > 1 || r.refusals > 0
	reserve := true // roll has let it go; while it was written, an import by hand may have taken the last slot
	switch {
	case further:
		// A file that continues another one is like a file of its own: the reserve is
		// for further tries.
		reserve = r.files[0].Split == 0 || imp.Attempt > 1 || r.refusals > 0
	case r.waited: // another import may have taken the slot, or the day be another one
		reserve = r.queue.takesReserve(r.generation)
	}
	return contract.Waiting, r.queue.gated(imp, reserve)
}

// commit writes a step, again and again while the assignment lives.
func (r *importRun) commit(ctx context.Context, step string, imp contract.Import, write func(context.Context, contract.Import, []Claim) error) error {
	for n := 0; ; n++ {
		for _, c := range r.generation.claims {
			if !c.Live() {
				return errLost
			}
		}
		err := write(ctx, imp, r.generation.claims)
		if err == nil || ctx.Err() != nil {
			return err
		}
		r.log.Warn("ledger: step not committed, trying again while the partitions are ours", "step", step, "file", imp.File, "error", err)
		if err := retry.Sleep(ctx, r.backoff(r.batcher.cfg.Retry, n, 0)); err != nil {
			return err
		}
	}
}

func (r *importRun) trigger(ctx context.Context, imp contract.Import) (execution string, err error) {
	select {
	case <-r.hints: // of the file before
	default:
	}
	r.enter(contract.Triggering, imp)
	execution, err = r.batcher.importer.Trigger(ctx, imp.ETL, imp.File, func() (io.ReadCloser, int64, error) {
		file, err := os.Open(r.batcher.spool.Path(imp.File))
		return file, imp.Bytes, err
	})
	return execution, cmp.Or(err, r.batcher.executions.Repeated(execution))
}

// refused decides what follows a trigger that was not answered with yes: nil
// means through the intent again.
func (r *importRun) refused(ctx, send context.Context, imp *contract.Import, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.refusals++
	log := r.log.With("file", imp.File, "etl", imp.ETL, "attempt", imp.Attempt, "error", err)
	failure, classified := errors.AsType[contract.Failure](err)
	about, least := "", time.Duration(0)
	if classified {
		about, least = r.queue.words.Refusal(imp, failure), failure.RetryAfter()
		log = log.With("reason", failure.Cause())
	}
	if classified && failure.NoSlot() {
		wait := max(least, r.queue.exhausted(failure.Answered()), r.backoff(r.batcher.cfg.Retry, r.refusals-1, 0))
		log.Warn("trigger import: the table's imports of the day are used up; the file waits", "wait", wait)
		r.enter(contract.Waiting, *imp)
		return r.again(ctx, err, wait)
	}
	if classified && failure.TooLarge() && r.queue.halves(imp) {
		return r.halve(ctx, send, *imp, err.Error()+about)
	}
	if classified && (!failure.Transient() || failure.TooLarge()) {
		// A restart is no reason to try again, which would take another slot.
		imp.Refused = true
		if err := r.commit(ctx, "refuse", *imp, r.batcher.ledger.Commit); err != nil {
			return err
		}
		imp.Refused = false
		return r.halt(ctx, imp, fmt.Sprintf("trigger import %s: %v%s", imp.File, err, about))
	}
	_, local := errors.AsType[*fs.PathError](err) // met before anything was sent
	if classified && failure.Unknown() || !classified && !local {
		imp.Attempt++
		wait := r.backoff(retry.Backoff{Initial: time.Second, Max: time.Hour}, 2*imp.Attempt-4, least) // four times longer each time
		log.Error("trigger import: the outcome is unknown; the next attempt may repeat this import and takes another slot of the day", "wait", wait)
		return r.again(ctx, err, wait)
	}
	log.Warn("trigger import: not accepted, trying again")
	return r.again(ctx, err, r.backoff(r.batcher.cfg.Retry, r.refusals-1, least))
}

// record commits the execution; an answer that named none waits for the hint
// that does.
func (r *importRun) record(ctx, send context.Context, imp *contract.Import, execution string) error {
	r.refusals = 0
	if execution == "" {
		r.enter(contract.Naming, *imp)
		r.log.Warn("import triggered, but the answer names no execution; its end is known by the webhook only", "file", imp.File)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case execution = <-r.hints:
		}
	}
	imp.Execution = execution
	r.enter(contract.Recording, *imp)
	r.log.Info("import triggered", "file", imp.File, "execution", execution, "rows", imp.Rows, "bytes", imp.Bytes)
	if err := r.commit(send, "record", *imp, r.batcher.ledger.Commit); err != nil {
		return err
	}
	r.log.Debug("execution is on record", "file", imp.File, "execution", execution)
	return nil
}

// forgotten is the status of an execution that the service does not know, or
// not any more: what became of its rows is not known.
const forgotten contract.Status = "unknown"

// forgottenPolls is how many polls in a row the service refuses for good before
// an execution counts as forgotten: several minutes, since an execution may take
// a while to be known everywhere.
const forgottenPolls = 10

// outcome awaits the end of the execution. One that is forgotten halts the
// mapping; once it is released the execution is asked for once more, and if it is
// still not known, its file is to be sent again.
func (r *importRun) outcome(ctx context.Context, imp *contract.Import) (contract.Results, error) {
	results, err := r.untilEnded(ctx, *imp, forgottenPolls)
	if err != nil || results.Status != forgotten {
		return results, err
	}
	reason := fmt.Sprintf("poll import %s, execution %s: %s; it is not known whether its rows are loaded; once released, it is asked for once more and then sent again",
		imp.File, imp.Execution, results.Cause)
	if err := r.halt(ctx, imp, reason); err != nil {
		return results, err
	}
	return r.untilEnded(ctx, *imp, 1)
}

// untilEnded polls until the execution has ended, less and less often. A poll that
// fails changes nothing, the import may still be running: nor does it lengthen the
// interval, which is about how long the import takes and not about an outage. Only
// so many in a row that were refused for good end it.
func (r *importRun) untilEnded(ctx context.Context, imp contract.Import, refusals int) (contract.Results, error) {
	r.enter(contract.Importing, imp)
	r.batcher.executions.Add(imp.Execution)
	var least time.Duration
	var lastErr error
	answered, refused := 0, 0
	for {
		next := r.backoff(r.batcher.cfg.Poll, answered+refused, least)
		r.fails(lastErr, time.Now().Add(next))
		wait := time.NewTimer(next)
		select {
		case <-ctx.Done():
			wait.Stop()
			return contract.Results{}, ctx.Err()
		case <-r.hints:
			wait.Stop()
		case <-wait.C:
		}
		results, err := r.batcher.importer.Results(ctx, imp.Execution)
		if err == nil && (results.Status == contract.Finished || results.Status == contract.Failed) {
			return results, nil
		}
		least, lastErr = 0, err
		if err == nil {
			answered, refused, lastErr = answered+1, 0, results.Status.Err()
		}
		if err != nil && ctx.Err() == nil {
			r.log.Warn("poll import: no answer, asking again", "file", imp.File, "execution", imp.Execution, "error", err)
			failure, ok := errors.AsType[contract.Failure](err)
			if ok {
				least = failure.RetryAfter()
			}
			if refused++; !ok || failure.Transient() {
				refused = 0
			}
			if refused == refusals {
				return contract.Results{Status: forgotten, Cause: err.Error() + r.queue.words.Refusal(&imp, failure)}, nil
			}
		}
	}
}

// failed gives a refused file its further tries, then halts the mapping. A file that
// would fail again has none; one that is too large is divided.
func (r *importRun) failed(ctx, send context.Context, imp *contract.Import, results contract.Results) error {
	if results.TooLarge && r.queue.halves(imp) {
		imp.Attempt++
		return r.halve(ctx, send, *imp, r.queue.words.Failure(imp, results))
	}
	cause := r.queue.words.Failure(imp, results)
	log := r.log.With("file", imp.File, "execution", imp.Execution, "reason", cause)
	if r.retries < r.queue.mapping.RetryFailed && !results.SameAgain {
		r.retries++
		imp.Attempt++
		log.Warn("import FAILED; the file is sent again", "try", r.retries+1)
		return retry.Sleep(ctx, r.backoff(r.batcher.cfg.Retry, r.retries, 0))
	}
	err := r.halt(ctx, imp, fmt.Sprintf("import %s, execution %s: FAILED: %s", imp.File, imp.Execution, cause))
	imp.Attempt++ // there is none before the release
	return err
}

// halt keeps the file under a name that survives a restart and waits for
// Release: nothing of this mapping goes out before a person has looked.
func (r *importRun) halt(ctx context.Context, imp *contract.Import, reason string) error {
	kept := r.adopted == nil // a former owner's file is gone; it can be built again
	if kept {
		if err := r.batcher.spool.Rename(imp.File, imp.File+spool.FailedSuffix); err != nil {
			r.log.Error("spool: the refused file could not be renamed; a restart builds it again from its records", "file", imp.File, "error", err)
			kept = false
		}
	}
	r.kept, r.retries, r.refusals = true, 0, 0
	if err := r.awaitRelease(ctx, imp, reason, halted{kept: kept}); err != nil {
		return err
	}
	if kept {
		if err := r.batcher.spool.Rename(imp.File+spool.FailedSuffix, imp.File); err != nil {
			r.log.Error("spool: the kept file could not be renamed; it is built again from its records", "file", imp.File, "error", err)
		}
	}
	r.kept = false
	return nil
}

// halted is what became of the file of a mapping that is halted, and whether the
// reason says what ends it.
type halted struct{ kept, loaded, saysHow bool }

// awaitRelease shows the mapping as halted until a person releases it.
func (r *importRun) awaitRelease(ctx context.Context, imp *contract.Import, reason string, file halted) error {
	log := r.log.With("file", imp.File, "reason", reason)
	release := "feedsink imports release --mapping " + r.queue.mapping.Name
	if !file.saysHow {
		reason += "; once the cause is gone: " + release
	}
	r.show(contract.ImportStatus{Import: *imp, Step: contract.Halting, Since: time.Now(), Loaded: file.loaded}, reason)
	defer func() { r.show(r.now, "") }()
	log.Error("mapping halted; find the cause, then let it go on", "kept", file.kept, "loaded", file.loaded, "with", release, "since", r.now.Since)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-r.released:
	}
	r.waited = true
	log.Warn("mapping released: its import goes on", "since", time.Now())
	return nil
}

func (r *importRun) confirm(send context.Context, imp contract.Import) error {
	r.enter(contract.Confirming, imp)
	return r.commit(send, "confirm", imp, r.batcher.ledger.Confirm)
}

// retrying makes attempts until one succeeds.
func (r *importRun) retrying(ctx context.Context, what string, attempt func(context.Context) error) error {
	for n := 0; ; n++ {
		err := attempt(ctx)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		r.log.Warn(what+": trying again", "error", err)
		if err := retry.Sleep(ctx, r.backoff(r.batcher.cfg.Retry, n, 0)); err != nil {
			return err
		}
	}
}

// backoff is the delay before attempt n+1, n counted from 0, and never below least:
// between three quarters and the whole of its ceiling, so that members do not move in
// step.
func (r *importRun) backoff(b retry.Backoff, n int, least time.Duration) time.Duration {
	return b.Next(n+1, least, func() float64 { return 1 - r.batcher.rnd.Float64()/2 })
}
