package batcher

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/rejects"
	"github.com/feedsink/feedsink/batcher/rowerror"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/schemas"
)

// reject ends the rows that the service put in error: their records become dead
// letters, before the import is confirmed. A crash in here repeats the dead letters of
// this file; it loses none, since the ledger still has the import.
func (r *importRun) reject(ctx context.Context, imp *contract.Import, results contract.Results) error {
	inError := results.RowsInError(imp.Rows)
	log := r.log.With("file", imp.File, "execution", imp.Execution)
	if inError == 0 {
		log.Info("import finished", results.Counters()...)
		for _, load := range imp.Loads() {
			r.batcher.cfg.Floods.Ended(load.Mapping, load.Rows, 0)
		}
	} else {
		log.Warn("import finished with rows in error", results.Counters()...)
	}
	r.warnOfDeletes(imp, results)
	changed := r.adopted != nil && r.adopted.Changed // then all of its records are read again
	e := rowErrors{run: r, imp: imp, results: results, inError: inError}
	if (inError != 0 || results.Unread(imp)) && !changed {
		return e.untilDeadLetters(ctx)
	}
	return e.keepResults(ctx)
}

// modeDelete is the mode of imports that delete, as mappings write it.
const modeDelete = "DELETE"

// warnOfDeletes says that the rows of an import were deleted that was to do something else:
// its ETL has another mode than the mapping says. The records are confirmed all the same:
// the service has loaded them, and sending them again would do the same.
func (r *importRun) warnOfDeletes(imp *contract.Import, results contract.Results) {
	if results.Deleted > 0 && imp.Mode != "" && imp.Mode != modeDelete {
		r.log.Warn("the import deleted rows, which its mode does not do: the ETL seems to have another mode than the mapping says. Its records are confirmed. "+
			"Check the ETL's import mode and its id in the mapping's imports, then send the records again (feedsink backfill)",
			"file", imp.File, "execution", imp.Execution, "etl", imp.ETL, "mode", imp.Mode, "deleted", results.Deleted)
	}
}

// rowErrors ends the rows in error of one import.
type rowErrors struct {
	run      *importRun
	imp      *contract.Import
	results  contract.Results
	judged   bool      // whether they are a mistake was asked
	inError  int64     // rows, as the service counts them; -1: it does not say
	since    time.Time // when the first of the latest looks found too little; zero: none did
	released bool      // a person let the mapping go on: what is not named now, or has no place as a dead letter, is given up
	givenUp  bool      // some rows were that have no such place
}

// untilDeadLetters looks for the rows in error until all of them are dead letters. What may pass
// is tried again for as long as it takes, and output files that name too little for
// a while. Then the mapping halts; once it is released, one more look is the last.
func (e *rowErrors) untilDeadLetters(ctx context.Context) error {
	step := contract.Fetching
	if e.results.Unread(e.imp) {
		step = contract.Importing // not of all rows, it seems
	}
	e.run.enter(step, *e.imp)
	for n := 0; ; n++ {
		err := e.look(ctx)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		var wait time.Duration
		unnamed, ok := errors.AsType[*rejects.Unnamed](err)
		switch {
		case !ok:
			wait, e.since = e.later(n, err), time.Time{}
		case unnamed.Final:
			if err := e.run.awaitRelease(ctx, e.imp, unnamed.Reason(e.imp, e.inError, !e.since.IsZero()), halted{loaded: true}); err != nil {
				return err
			}
			n, e.since, e.released = -1, time.Time{}, true
			e.run.enter(contract.Fetching, *e.imp)
			continue
		default:
			if e.since.IsZero() {
				n, e.since = 0, time.Now()
			}
			wait = e.run.backoff(e.run.batcher.cfg.Poll, n, unnamed.After)
			e.run.fails(unnamed.Wait(e.since.Add(rejects.Patience)), time.Now().Add(wait))
			e.run.log.Warn("import finished, but what became of its rows is not known; asking again",
				"file", e.imp.File, "execution", e.imp.Execution, "in_error", e.inError, "why", unnamed.Why, "wait", wait)
		}
		if err := retry.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// later logs a failure that may pass and returns how long to wait.
func (e *rowErrors) later(n int, err error) time.Duration {
	var least time.Duration
	if failure, ok := errors.AsType[contract.Failure](err); ok {
		least = failure.RetryAfter()
	}
	wait := e.run.backoff(e.run.batcher.cfg.Retry, n, least)
	e.run.fails(err, time.Now().Add(wait))
	log := e.run.log.With("file", e.imp.File, "execution", e.imp.Execution, "error", err, "wait", wait)
	if _, local := errors.AsType[*fs.PathError](err); local {
		log.Error("spool: output files wait for the disk; trying again; check the spool's disk")
	} else {
		log.Warn("fetch output files: trying again")
	}
	return wait
}

// readAll asks again for the result of an import that has FINISHED with fewer rows read than
// its file has, until all are.
func (e *rowErrors) readAll(ctx context.Context, last bool) error {
	if e.released || !e.results.Unread(e.imp) {
		return nil
	}
	if !e.since.IsZero() {
		results, err := e.run.batcher.importer.Results(ctx, e.imp.Execution)
		if failure, ok := errors.AsType[contract.Failure](err); err != nil && (!ok || failure.Transient()) {
			return err
		}
		if err == nil && results.Status == contract.Finished {
			e.results, e.inError = results, results.RowsInError(e.imp.Rows)
		}
	}
	return rejects.ReadAll(e.results, e.imp, last)
}

// look fetches the output files and makes dead letters of the rows in error that
// they name: if they name all of them, or a person said to go on.
func (e *rowErrors) look(ctx context.Context) error {
	last := !e.since.IsZero() && time.Since(e.since) >= rejects.Patience // they have named too little for long enough
	if err := e.readAll(ctx, last); err != nil {
		return err
	}
	if e.inError == 0 {
		return e.keepResults(ctx)
	}
	outputs, err := e.fetch(ctx)
	if unnamed, ok := errors.AsType[*rejects.Unnamed](err); ok {
		if e.imp.OnlyErrors {
			return e.run.rejectAll(ctx, *e.imp)
		}
		if e.released {
			return e.giveUp(ctx, e.inError, 0)
		}
		unnamed.Final = unnamed.Final || last
	}
	if err != nil {
		return err
	}
	defer outputs.Drop()
	rr, err := e.rows()
	if err != nil {
		return err
	}
	lack, err := rr.Lack(ctx, outputs, e.inError)
	if err == nil && (e.run.queue.mapping.KeepResults || e.released || lack != "" && last) {
		err = outputs.Keep() // first: dead letters are not repeated because the disk is full
	}
	if err != nil {
		return err
	}
	if lack != "" && last && e.imp.OnlyErrors {
		return e.run.rejectAll(ctx, *e.imp)
	}
	if lack != "" && !e.released {
		return &rejects.Unnamed{Why: lack, Final: last, OnlyErrors: e.imp.OnlyErrors}
	}
	e.run.enter(contract.DeadLettering, *e.imp)
	if err := e.run.readLog(ctx); err != nil {
		return err
	}
	if !e.judged && !e.run.endedBefore() {
		if err := e.holdFlood(ctx, outputs); err != nil {
			return err
		}
		e.judged = true
	}
	return e.deadLetter(ctx, rr, outputs)
}

// deadLetter makes dead letters of the rows that the output files name, and gives
// up those that they do not.
func (e *rowErrors) deadLetter(ctx context.Context, rr *rejects.Rows, outputs *spool.OutputFiles) error {
	err := rr.Read(ctx, outputs)
	e.imp.Members = rr.Shares()
	if errors.Is(err, contract.ErrNoDeadLetter) {
		if err := outputs.Keep(); err != nil {
			return err
		}
		return &rejects.Unnamed{Why: err.Error(), Final: true, Do: "Set dlq.topic and run feedsink reload, or make that topic take the row and restart feedsink: it becomes a dead letter"}
	}
	if err != nil && !rejects.Unreadable(err) { // of these it is known what they lack
		return err
	}
	if e.imp.OnlyErrors {
		if !rr.Found() { // the output files are others than those that a former owner had
			return e.run.rejectAll(ctx, *e.imp)
		}
		return nil
	}
	lacking := max(e.inError-rr.Named, 0)
	if e.inError < 0 && (err != nil || outputs.Size() == 0) {
		lacking = e.inError
	}
	if !e.run.queue.mapping.KeepResults && lacking == 0 && !e.givenUp {
		outputs.RemoveKept() // nothing in it is needed any more, nor what an earlier look has kept
	}
	return e.giveUp(ctx, lacking, rr.Unmatched)
}

// givenUp is the reason of the dead letter of rows in error that were given up.
const givenUp = "rows of the file were in error that the service's output files do not name; the mapping was released without them"

// giveUp ends rows in error that are not named, rows of them, -1 for: how many is
// not known. unmatched rows are dead letters of their own by now.
func (e *rowErrors) giveUp(ctx context.Context, rows, unmatched int64) error {
	if rows != 0 {
		number := "unknown"
		if rows > 0 {
			number = strconv.FormatInt(rows, 10)
		}
		row := rowerror.Row{Header: []string{"file", "execution", "rows"}, Cells: []string{e.imp.File, e.imp.Execution, number}}
		text, err := row.CSV()
		if err != nil {
			return err
		}
		err = e.run.post(ctx, e.imp, []contract.UnmatchedRow{{Mapping: e.imp.Mapping, Row: text, Reason: givenUp}})
		if err != nil && !errors.Is(err, contract.ErrNoDeadLetter) {
			return err
		}
		e.run.log.Error("rows in error that the output files do not name were given up; send their records again", "file", e.imp.File,
			"execution", e.imp.Execution, "rows", number)
		unmatched += max(rows, 1)
	}
	if unmatched > 0 {
		e.run.batcher.observer.RowsUnmatched(*e.imp, unmatched)
	}
	return nil
}

// rejectAll makes dead letters of all records that an import with OnlyErrors holds:
// the service does not tell any more why their rows were in error.
func (r *importRun) rejectAll(ctx context.Context, imp contract.Import) error {
	r.log.Warn("the service does not tell any more why rows were in error; all records that waited become dead letters",
		"file", imp.File, "execution", imp.Execution)
	r.enter(contract.DeadLettering, imp)
	return r.retrying(ctx, "read the records behind rows in error", func(ctx context.Context) error {
		return r.batcher.cfg.Records.Again(ctx, imp, r.generation.claims, func(_ string, lane schemas.Lane, _ *schemas.Write, _ spool.At) string {
			if lane != schemas.Batch {
				return ""
			}
			return "the service put the row in error and does not tell the reason any more"
		})
	})
}

// holdFlood halts the mapping before any dead letter if nearly all rows of the file
// are in error, alone or together with the imports before it. Once it is released,
// they become dead letters.
func (e *rowErrors) holdFlood(ctx context.Context, outputs rowerror.File) error {
	loads := e.imp.Loads()
	if !slices.ContainsFunc(loads, func(l contract.Member) bool { return l.Rows > 0 }) {
		// A former owner sent a bundle's file: how many rows are of which mapping is not known.
		loads = []contract.Member{{Mapping: e.imp.Mapping, Table: e.imp.Table, Rows: max(e.imp.Rows, e.results.Read, e.results.InError)}}
	}
	rr, err := e.rows()
	if err != nil {
		return err
	}
	counts, err := rr.CountDead(outputs)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	floods := e.run.batcher.cfg.Floods
	inError := func(i int) (n int64) {
		for of, count := range counts {
			if min(of, len(loads)-1) == i {
				n += count
			}
		}
		return n
	}
	for i, load := range loads {
		if floods.Suspects(load.Mapping, load.Rows, min(inError(i), load.Rows)) {
			// Rows without a record are no dead letters of records: the log tells.
			if counts, err = rr.CountFound(ctx, outputs); err != nil && ctx.Err() != nil {
				return ctx.Err()
			}
			break
		}
	}
	reason := ""
	for i, load := range loads {
		n := inError(i)
		if why := floods.Ended(load.Mapping, load.Rows, min(n, load.Rows)); n > 0 && reason == "" {
			reason = why
		}
	}
	if reason == "" {
		return nil
	}
	return e.run.awaitRelease(ctx, e.imp, reason, halted{loaded: true, saysHow: true})
}

// Output files may take a tenth of spool.maxBytes, together with those of other
// imports: so much more than that the spool's volume is to have. They may come when
// it is full, since nothing else would make room.
const (
	outputsShare = 10
	leastOutputs = 1 << 20 // however small the spool is
)

// fetch makes one attempt to get the output files. *rejects.Unnamed says that there are
// none, or too much of them.
func (e *rowErrors) fetch(ctx context.Context) (*spool.OutputFiles, error) {
	limit := max(e.run.batcher.cfg.MaxBytes/outputsShare, leastOutputs)
	outputs, err := e.run.batcher.spool.OutputFiles(e.imp.File, limit)
	if err != nil {
		return nil, err
	}
	err = e.run.batcher.importer.OutputFiles(ctx, e.imp.Execution, outputs)
	if err == nil {
		return outputs, nil
	}
	outputs.Drop()
	if errors.Is(err, spool.ErrTooLarge) {
		return nil, &rejects.Unnamed{
			Final: true, Why: fmt.Sprintf("its output files are larger than %d bytes, a tenth of spool.maxBytes", limit),
			Do: "Raise spool.maxBytes and run feedsink reload: they are fetched again. To look at them: feedsink imports files " + e.imp.Execution,
		}
	}
	if failure, ok := errors.AsType[contract.Failure](err); ok && !failure.Transient() {
		return nil, &rejects.Unnamed{Why: "there are no output files: " + err.Error() + e.run.queue.words.Refusal(e.imp, failure), After: failure.RetryAfter()}
	}
	return nil, err
}

// keepResults keeps the output files of an import without rows in error, if there
// are any and they are wanted.
func (e *rowErrors) keepResults(ctx context.Context) error {
	if !e.run.queue.mapping.KeepResults {
		return nil
	}
	e.run.enter(contract.Fetching, *e.imp)
	for n := 0; ; n++ {
		outputs, err := e.fetch(ctx)
		if err == nil {
			if outputs.Size() > 0 {
				err = outputs.Keep()
			}
			outputs.Drop()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		unnamed, none := errors.AsType[*rejects.Unnamed](err)
		if none {
			e.run.log.Warn("output files are not kept", "file", e.imp.File, "execution", e.imp.Execution, "why", unnamed.Why)
		}
		if err == nil || none {
			return nil
		}
		if err := retry.Sleep(ctx, e.later(n, err)); err != nil {
			return err
		}
	}
}

// rows are the import's rows in error, none so far.
func (e *rowErrors) rows() (*rejects.Rows, error) {
	r, imp := e.run, rejects.Import{Import: e.imp, AtOnce: e.run.batcher.atOnce, Rebuilt: e.run.generation.upTo != nil, Thirds: &e.run.thirds, OnlyHeld: e.run.endedBefore()}
	for _, load := range e.imp.Loads() {
		imp.Of = append(imp.Of, &r.batcher.byName[load.Mapping].Mapping)
	}
	e.givenUp = false
	return rejects.New(e, imp)
}

// endedBefore reports whether a former owner has made dead letters already of the rows
// in error that were not waiting.
func (r *importRun) endedBefore() bool { return r.adopted != nil && r.adopted.Reconciling }

// Again implements rejects.Source.
func (e *rowErrors) Again(ctx context.Context, begin func(), each contract.EachWrite) error {
	return e.run.retrying(ctx, "read the records behind rows in error", func(ctx context.Context) error {
		begin()
		return e.run.batcher.cfg.Records.Again(ctx, *e.imp, e.run.generation.claims, each)
	})
}

// Post implements rejects.Source.
func (e *rowErrors) Post(ctx context.Context, rows []contract.UnmatchedRow) error {
	err := e.run.post(ctx, e.imp, rows)
	if errors.Is(err, contract.ErrNoDeadLetter) && e.released {
		e.run.log.Error("rows in error that match no record were given up, since they cannot become dead letters; look at the output files, which are kept",
			"file", e.imp.File, "execution", e.imp.Execution, "rows", len(rows), "error", err)
		e.givenUp, err = true, nil
	}
	return err
}

// Hold implements rejects.Source: it takes rows of conflicting keys, unless nothing is decided
// any more of the import.
func (e *rowErrors) Hold(of []int, key, reason string) (held, before bool) {
	if e.imp.OnlyErrors {
		return false, false
	}
	r, loads := e.run, e.imp.Loads()
	r.queue.mu.Lock()
	defer r.queue.mu.Unlock()
	for _, i := range of {
		m := r.batcher.byName[loads[i].Mapping]
		if m.DualLane && r.known[m.index].keys.Hold(key) {
			return true, r.undecided[m.index].Hold(key, reason, e.imp)
		}
	}
	return false, false
}

// post makes dead letters of their own of rows, again and again while that fails.
func (r *importRun) post(ctx context.Context, imp *contract.Import, rows []contract.UnmatchedRow) error {
	var refused error
	if err := r.retrying(ctx, "make dead letters of rows in error that match no record", func(ctx context.Context) error {
		err := r.batcher.cfg.Records.Unmatched(ctx, *imp, rows)
		if errors.Is(err, contract.ErrNoDeadLetter) {
			refused, err = err, nil
		}
		return err
	}); err != nil {
		return err
	}
	return refused
}
