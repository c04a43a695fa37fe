package batcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/feedsink/feedsink/batcher/spool"
)

// noSlotWait is how long a file waits after the service said that the table's
// imports of the day are used up, unless it says how long.
const noSlotWait = 15 * time.Minute

// seal writes the generation's files, again and again while the disk refuses.
func (f *importRun) seal(ctx context.Context) ([]Import, error) {
	name := f.batcher.rnd.name(f.name)
	for n := 0; ; n++ {
		files, err := spool.Seal(ctx, spool.Files{
			Dir: f.batcher.spool, Parts: f.parts(time.Now()), Bundle: f.Bundle != "", Compression: f.CSV.Compression, Name: name,
		})
		if err == nil {
			f.files = files
			break
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		f.log.Error("seal file: trying again; check the spool's disk", "generation", name, "err", err)
		if err := pause(ctx, f.backoff(f.batcher.cfg.Retry, n, 0)); err != nil {
			return nil, err
		}
	}
	f.generation.drop()
	imports := make([]Import, len(f.files))
	for i, file := range f.files {
		load := f.Loads[file.Op]
		imports[i] = Import{
			Mapping: f.Name, Table: f.Table, Fingerprint: f.Fingerprint,
			Bundle: f.Bundle, Members: f.share(file.Op, file.Counts),
			Part: i + 1, Parts: len(f.files),
			Op: file.Op, Mode: load.Mode, ETL: load.ETL,
			File: file.Name, Rows: file.Rows, Bytes: file.Bytes, Attempt: 1,
		}
	}
	return imports, nil
}

// parts are what the members add to the files, which are sealed at now.
func (f *importRun) parts(now time.Time) []spool.Part {
	parts := make([]spool.Part, len(f.members))
	for i, m := range f.members {
		parts[i] = spool.Part{Rows: m.rows, Journal: f.generation.journals[i], Ops: m.accepts.has, Entry: m.entryName(now)}
	}
	return parts
}

// intend waits for the gate and commits the intent.
func (f *importRun) intend(ctx, send context.Context, imp *Import) error {
	if f.from.Part > 0 || imp.Part > 1 || imp.Attempt > 1 || f.refusals > 0 {
		for wait := f.gated(true); wait > 0; wait = f.gated(true) {
			f.enter(Waiting, *imp)
			if err := pause(ctx, wait); err != nil {
				return err
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.batcher.spool.Lacks(imp.File) {
		f.log.Error("the file is gone from the spool before it was sent; its records are read again and it is built anew", "file", imp.File)
		return f.startOver(ctx, send, *imp)
	}
	imp.Execution = ""
	f.enter(Intending, *imp)
	return f.commit(send, "intend", *imp, f.batcher.ledger.Commit)
}

// commit writes a step, again and again while the assignment lives.
func (f *importRun) commit(ctx context.Context, step string, imp Import, write func(context.Context, Import, []Claim) error) error {
	for n := 0; ; n++ {
		for _, c := range f.generation.claims {
			if !c.Live() {
				return errLost
			}
		}
		err := write(ctx, imp, f.generation.claims)
		if err == nil || ctx.Err() != nil {
			return err
		}
		f.log.Warn("ledger: step not committed, trying again while the partitions are ours", "step", step, "file", imp.File, "err", err)
		if err := pause(ctx, f.backoff(f.batcher.cfg.Retry, n, 0)); err != nil {
			return err
		}
	}
}

func (f *importRun) trigger(ctx context.Context, imp Import) (execution string, err error) {
	f.enter(Triggering, imp)
	return f.batcher.importer.Trigger(ctx, imp.ETL, imp.File, func() (io.ReadCloser, int64, error) {
		file, err := os.Open(f.batcher.spool.Path(imp.File))
		return file, imp.Bytes, err
	})
}

// refused decides what follows a trigger that was not answered with yes: nil
// means through the intent again.
func (f *importRun) refused(ctx context.Context, imp *Import, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	f.refusals++
	log := f.log.With("file", imp.File, "etl", imp.ETL, "attempt", imp.Attempt, "err", err)
	failure, classified := errors.AsType[Failure](err)
	if classified {
		f.hear(*imp, failure.Reason())
		log = log.With("reason", failure.Cause())
	}
	if classified && failure.NoSlot() {
		wait := max(failure.RetryAfter(), noSlotWait)
		f.exhausted()
		log.Warn("trigger import: the table's imports of the day are used up; the file waits", "wait", wait)
		f.enter(Waiting, *imp)
		return pause(ctx, wait)
	}
	if classified && !failure.Transient() {
		// A restart is no reason to try again, which would take another slot.
		imp.Refused = true
		if err := f.commit(ctx, "refuse", *imp, f.batcher.ledger.Commit); err != nil {
			return err
		}
		imp.Refused = false
		return f.halt(ctx, imp, fmt.Sprintf("trigger import %s: %v%s", imp.File, err, f.refusal(failure)))
	}
	var least time.Duration
	if classified {
		least = failure.RetryAfter()
	}
	_, local := errors.AsType[*fs.PathError](err) // met before anything was sent
	switch {
	case classified && failure.Unknown() || !classified && !local:
		imp.Attempt++
		log.Error("trigger import: the outcome is unknown; the next attempt may repeat this import and takes another slot of the day")
	default:
		log.Warn("trigger import: not accepted, trying again")
	}
	return pause(ctx, f.backoff(f.batcher.cfg.Retry, f.refusals-1, least))
}

// record commits the execution; an answer that named none waits for the hint
// that does.
func (f *importRun) record(ctx, send context.Context, imp *Import, execution string) error {
	f.refusals = 0
	if execution == "" {
		select {
		case <-f.hints: // of the file before
		default:
		}
		f.enter(Naming, *imp)
		f.log.Warn("import triggered, but the answer names no execution; its end is known by the webhook only", "file", imp.File)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case execution = <-f.hints:
		}
	}
	imp.Execution = execution
	f.enter(Recording, *imp)
	f.log.Info("import triggered", "file", imp.File, "execution", execution, "rows", imp.Rows, "bytes", imp.Bytes)
	if err := f.commit(send, "record", *imp, f.batcher.ledger.Commit); err != nil {
		return err
	}
	f.log.Debug("execution is on record", "file", imp.File, "execution", execution)
	return nil
}

// failed gives a refused file its further tries, then halts the mapping. A file that
// would fail again has none.
func (f *importRun) failed(ctx context.Context, imp *Import, results Results) error {
	cause := f.failure(*imp, results)
	log := f.log.With("file", imp.File, "execution", imp.Execution, "reason", cause)
	imp.Attempt++
	if f.retries < f.RetryFailed && !results.SameAgain {
		f.retries++
		log.Warn("import FAILED; the file is sent again", "try", f.retries+1)
		return pause(ctx, f.backoff(f.batcher.cfg.Retry, f.retries, 0))
	}
	return f.halt(ctx, imp, fmt.Sprintf("import %s, execution %s: FAILED: %s", imp.File, imp.Execution, cause))
}

// halt keeps the file under a name that survives a restart and waits for
// Release: nothing of this mapping goes out before a person has looked.
func (f *importRun) halt(ctx context.Context, imp *Import, reason string) error {
	kept := f.adopted == nil // a former owner's file is gone; it can be built again
	if kept {
		if err := f.batcher.spool.Rename(imp.File, imp.File+spool.FailedSuffix); err != nil {
			f.log.Error("spool: the refused file could not be renamed; a restart builds it again from its records", "file", imp.File, "err", err)
			kept = false
		}
	}
	f.kept, f.retries, f.refusals = true, 0, 0
	if err := f.awaitRelease(ctx, imp, reason, halted{kept: kept}); err != nil {
		return err
	}
	if kept {
		if err := f.batcher.spool.Rename(imp.File+spool.FailedSuffix, imp.File); err != nil {
			f.log.Error("spool: the kept file could not be renamed; it is built again from its records", "file", imp.File, "err", err)
		}
	}
	f.kept = false
	return nil
}

// halted is what became of the file of a mapping that is halted, and whether the
// reason says what ends it.
type halted struct{ kept, loaded, told bool }

// awaitRelease shows the mapping as halted until a person releases it.
func (f *importRun) awaitRelease(ctx context.Context, imp *Import, reason string, file halted) error {
	log := f.log.With("file", imp.File, "reason", reason)
	f.show(ImportStatus{Import: *imp, Step: Halting, Since: time.Now(), Loaded: file.loaded})
	release := "feedsink imports release --mapping " + f.Name
	if !file.told {
		reason += "; once the cause is gone: " + release
	}
	f.setHalted(reason)
	defer f.setHalted("")
	log.Error("mapping halted; find the cause, then let it go on", "kept", file.kept, "loaded", file.loaded, "with", release)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-f.released:
	}
	log.Warn("mapping released: its import goes on")
	return nil
}

func (f *importRun) setHalted(reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.halted = reason
}

func (f *importRun) confirm(send context.Context, imp Import) error {
	f.enter(Confirming, imp)
	return f.commit(send, "confirm", imp, f.batcher.ledger.Confirm)
}
