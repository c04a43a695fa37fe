package batcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"
)

// outputsPatience is how long output files that are not there, or that do not name
// all rows in error, are asked for again before the mapping halts: a service may
// write them after it has said FINISHED.
const outputsPatience = 10 * time.Minute

// reject ends the rows that the service put in error: their records become dead
// letters, before the import is confirmed. A crash in here repeats the letters of
// this file; it loses none, since the ledger still has the import.
func (f *importRun) reject(ctx context.Context, imp *Import, r Results) error {
	inError := r.InError
	if loaded := r.Inserted + r.Updated + r.Deleted; inError < 0 && imp.Rows > 0 && loaded >= imp.Rows {
		inError = 0 // every row is accounted for
	}
	log := f.log.With("file", imp.File, "execution", imp.Execution)
	if inError == 0 {
		log.Info("import finished", "read", r.Read, "inserted", r.Inserted, "updated", r.Updated, "deleted", r.Deleted)
		f.wellLoaded(imp)
	} else {
		log.Warn("import finished with rows in error", "read", r.Read, "in_error", r.InError)
	}
	changed := f.adopted != nil && f.adopted.Changed // then all of its records are read again
	e := rowErrors{importRun: f, imp: imp, results: r, inError: inError}
	switch {
	case inError != 0 && !changed:
		return e.run(ctx)
	case f.KeepResults:
		return e.keepResults(ctx)
	}
	return nil
}

// rowErrors ends the rows in error of one import.
type rowErrors struct {
	*importRun
	imp      *Import
	results  Results
	judged   bool      // whether they are a mistake was asked
	inError  int64     // rows, as the service counts them; -1: it does not say
	since    time.Time // when the first of the latest looks found too little; zero: none did
	released bool      // a person let the mapping go on: what is not named now is given up
}

// unnamedRows is what keeps rows in error from being dead letters: the output files
// do not name all of them, or there is no place for one.
type unnamedRows struct {
	why   string
	final bool   // asking again does not help, or has not helped for long enough
	do    string // what a person does about it; "": see that there are output files
	after time.Duration
}

func (u *unnamedRows) Error() string { return u.why }

// run looks for the rows in error until all of them are dead letters. What may pass
// is tried again for as long as it takes, and output files that name too little for
// a while. Then the mapping halts; once it is released, one more look is the last.
func (e *rowErrors) run(ctx context.Context) error {
	e.enter(Fetching, *e.imp)
	for n := 0; ; n++ {
		err := e.look(ctx)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		var wait time.Duration
		unnamed, ok := errors.AsType[*unnamedRows](err)
		switch {
		case !ok:
			wait, e.since = e.later(n, err), time.Time{}
		case unnamed.final:
			if err := e.awaitRelease(ctx, e.imp, e.haltReason(unnamed), halted{loaded: true}); err != nil {
				return err
			}
			n, e.since, e.released = -1, time.Time{}, true
			e.enter(Fetching, *e.imp)
			continue
		default:
			if e.since.IsZero() {
				n, e.since = 0, time.Now()
			}
			wait = e.backoff(e.batcher.cfg.Poll, n, unnamed.after)
			e.log.Warn("rows in error are not named by the output files; these are asked for again",
				"file", e.imp.File, "execution", e.imp.Execution, "in_error", e.inError, "why", unnamed.why, "wait", wait)
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
}

// last reports whether the output files have named too little for long enough.
func (e *rowErrors) last() bool { return !e.since.IsZero() && time.Since(e.since) >= outputsPatience }

// later logs a failure that may pass and returns how long to wait.
func (e *rowErrors) later(n int, err error) time.Duration {
	var least time.Duration
	if failure, ok := errors.AsType[Failure](err); ok {
		least = failure.RetryAfter()
	}
	wait := e.backoff(e.batcher.cfg.Retry, n, least)
	log := e.log.With("file", e.imp.File, "execution", e.imp.Execution, "err", err, "wait", wait)
	if _, local := errors.AsType[*fs.PathError](err); local {
		log.Error("spool: output files wait for the disk; trying again; check the spool's disk")
	} else {
		log.Warn("fetch output files: trying again")
	}
	return wait
}

// haltReason is why the mapping halts, and what its release does.
func (e *rowErrors) haltReason(unnamed *unnamedRows) string {
	many := ", its result does not say how many rows are in error"
	if e.inError > 0 {
		many = " with " + counted(e.inError) + " in error"
	}
	asked := ""
	if !e.since.IsZero() {
		asked = fmt.Sprintf(" (asked again for %v)", outputsPatience)
	}
	return fmt.Sprintf("import %s, execution %s: FINISHED%s, but %s%s. Their records are not confirmed. %s. "+
		"After a release the output files are asked for once more: rows in error that they do not name, or that cannot become dead letters, "+
		"are given up then and counted in feedsink_import_rows_unmatched_total",
		e.imp.File, e.imp.Execution, many, unnamed.why, asked, cmp.Or(unnamed.do, "Let the ETL generate error files"))
}

func counted(rows int64) string {
	if rows == 1 {
		return "1 row"
	}
	return fmt.Sprintf("%d rows", rows)
}

// look fetches the output files and makes dead letters of the rows in error that
// they name: if they name all of them, or a person said to go on.
func (e *rowErrors) look(ctx context.Context) error {
	last := e.last()
	outputs, err := e.fetch(ctx)
	if unnamed, ok := errors.AsType[*unnamedRows](err); ok {
		if e.imp.OnlyErrors {
			return e.rejectAll(ctx, *e.imp)
		}
		if e.released {
			return e.giveUp(ctx, e.inError, 0)
		}
		unnamed.final = unnamed.final || last
	}
	if err != nil {
		return err
	}
	defer outputs.drop()
	b := newRejectedRows(e.importRun, e.imp, e.released)
	unnamed, err := e.lack(ctx, b, outputs)
	if err == nil && (e.KeepResults || e.released || unnamed != nil && last) {
		err = outputs.keep() // first: dead letters are not repeated because the disk is full
	}
	if err != nil {
		return err
	}
	if unnamed != nil && !e.released && !e.imp.OnlyErrors {
		unnamed.final = last
		return unnamed
	}
	e.enter(RowErrors, *e.imp)
	if err := e.readAll(ctx); err != nil {
		return err
	}
	if !e.judged && !b.heard() {
		if err := e.holdFlood(ctx, e.imp, e.results, outputs); err != nil {
			return err
		}
		e.judged = true
	}
	return e.deadLetter(ctx, b, outputs)
}

// lack is what the output files lack; nil: they name all rows in error.
func (e *rowErrors) lack(ctx context.Context, b *rejectedRows, outputs *outputFiles) (*unnamedRows, error) {
	named, err := b.count(ctx, outputs)
	switch {
	case err != nil && !unreadable(err):
		return nil, err
	case err != nil:
		return &unnamedRows{why: err.Error()}, nil
	case named < e.inError:
		return &unnamedRows{why: fmt.Sprintf("the output files name %d of the %s in error", named, counted(e.inError))}, nil
	case e.inError < 0 && outputs.size == 0:
		return &unnamedRows{why: "there is nothing in the output files"}, nil
	}
	return nil, nil
}

// deadLetter makes dead letters of the rows that the output files name, and gives
// up those that they do not.
func (e *rowErrors) deadLetter(ctx context.Context, b *rejectedRows, outputs *outputFiles) error {
	err := b.run(ctx, outputs)
	e.imp.Members = b.shares()
	if errors.Is(err, ErrNoDeadLetter) {
		if err := outputs.keep(); err != nil {
			return err
		}
		return &unnamedRows{why: err.Error(), final: true, do: "Set dlq.topic, or make that topic take the row, and restart feedsink: it becomes a dead letter"}
	}
	if err != nil && !unreadable(err) { // of these it is known what they lack
		e.enter(Fetching, *e.imp)
		return err
	}
	if e.imp.OnlyErrors {
		return nil
	}
	lacking := max(e.inError-b.rows, 0)
	if e.inError < 0 && (err != nil || outputs.size == 0) {
		lacking = e.inError
	}
	if !e.KeepResults && lacking == 0 && !b.givenUp {
		e.batcher.spool.Remove(outputs.name) // nothing in it is needed any more, nor what an earlier look has kept
	}
	return e.giveUp(ctx, lacking, b.unmatched)
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
		row, err := asCSV([]string{"file", "execution", "rows"}, []string{e.imp.File, e.imp.Execution, number})
		if err != nil {
			return err
		}
		err = e.post(ctx, e.imp, []UnmatchedRow{{Mapping: e.imp.Mapping, Row: row, Reason: givenUp}})
		if err != nil && !errors.Is(err, ErrNoDeadLetter) {
			return err
		}
		e.log.Error("rows in error that the output files do not name were given up; send their records again", "file", e.imp.File,
			"execution", e.imp.Execution, "rows", number)
		unmatched += max(rows, 1)
	}
	if unmatched > 0 {
		e.batcher.observer.RowsUnmatched(*e.imp, unmatched)
	}
	return nil
}
