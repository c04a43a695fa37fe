package batcher

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/retry"
)

// Adopted is an import that a former owner of the table's partitions began, as
// the ledger has it. The former owner's files are gone.
type Adopted struct {
	contract.Import
	// Rebuild says that the file is not loaded: its generation is built again
	// from the same records, and the parts before it, which are loaded, are left
	// out. Import.Execution then names the execution that FAILED, if one did, and
	// Import.Refused says that it waits for Release before it is sent.
	// Otherwise the file was sent, as execution Import.Execution, or, if that is
	// empty, it is not known whether it was sent.
	Rebuild bool
	// Changed says that the mapping is not the one any more that routed the
	// records: once the import has ended they are all read again.
	Changed bool
	// Began is when its file was sent, as far as is stored; zero: not known.
	Began time.Time
	// UpTo ends the generation, for each partition that it has records of.
	UpTo map[Partition]int64
	// Claims hold those records until the ledger releases them.
	Claims []Claim
	// Reconciling says that the import has FINISHED and only keys are left that both
	// lanes wrote.
	Reconciling bool

	generation *generation
}

// Adopt takes over an import. It is called before the first Append of an
// assignment; records that an adopted import covers are not appended, unless it
// is to be rebuilt.
func (b *Batcher) Adopt(mapping string, a Adopted) error {
	m, ok := b.byName[mapping]
	if !ok {
		return unknown(mapping)
	}
	q := m.queue
	a.Mapping, a.Bundle, a.Table = q.mapping.Name, q.mapping.Bundle, cmp.Or(a.Table, q.mapping.Table)
	named := spool.OpOf(a.File) // upserts and merges have one mode
	for op, load := range q.mapping.Loads {
		if load.Mode == a.Mode && (op == named || a.Op != named || named == 0) {
			a.Op, a.ETL, a.Members = op, load.ETL, q.share(op, nil)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if a.OnlyErrors {
		a.generation = q.newGeneration()
		a.generation.claims = a.Claims
		q.inError = append(q.inError, &a)
		notify(q.wake)
		return nil
	}
	for _, m := range q.members {
		if m.DualLane {
			m.dualLane.suspect = maps.Clone(a.UpTo)
		}
	}
	if a.Rebuild && !a.Changed {
		q.rebuilding = q.newGeneration()
		q.rebuilding.from, q.rebuilding.upTo = a.Import, a.UpTo
		q.rebuilding.claims = append(q.rebuilding.claims, a.Claims...)
	} else {
		a.generation = q.newGeneration() // of which it has no more than the keys
		a.generation.claims = a.Claims
		q.adopted = &a
	}
	notify(q.wake)
	return nil
}

// adoptedLife ends an adopted import: it is awaited and confirmed like one's own.
// What cannot be confirmed is built again, in the next assignment: the steps
// here are the ledger's, so that a crash among them leaves what there was before.
func (r *importRun) adoptedLife(ctx, send context.Context) error {
	imp := r.adopted.Import
	imp.Adopted = true
	switch {
	case imp.OnlyErrors:
		return r.errorsLife(ctx, send, imp)
	case r.adopted.Rebuild: // of a mapping that was changed
		return r.startOver(ctx, send, imp)
	case r.adopted.Reconciling && !r.adopted.Changed:
		if err := r.askAgain(ctx, &imp); err != nil {
			return err
		}
		return r.landed(ctx, send, imp)
	case imp.Execution == "":
		return r.waitOut(ctx, send, imp)
	}
	r.log.Info("adopting the import of a former owner", "file", imp.File, "execution", imp.Execution, "part", imp.Part, "parts", imp.Parts)
	begun := cmp.Or(r.adopted.Began, time.Now())
	r.show(contract.ImportStatus{Import: imp, Step: contract.Importing, Since: begun}, "")
	results, err := r.outcome(ctx, &imp)
	if err != nil {
		return err
	}
	if results.Status == forgotten {
		imp.Attempt, imp.Execution = imp.Attempt+1, ""
		return r.startOver(ctx, send, imp)
	}
	imp.Rows = max(results.Read, results.InError, 0) // the ledger does not keep their number
	took := time.Since(begun)
	if results.Status == contract.Failed {
		r.batcher.observer.ImportEnded(imp, results, took)
		r.log.Warn("the adopted import FAILED; its file is built again", "file", imp.File, "execution", imp.Execution,
			"reason", r.queue.words.Failure(&imp, results), "sent_again", !results.SameAgain || results.TooLarge)
		imp.Attempt, imp.Refused = imp.Attempt+1, results.SameAgain && !results.TooLarge
		if results.TooLarge {
			imp.Execution, r.queue.tooLarge = "", imp.File
		}
		return r.startOver(ctx, send, imp)
	}
	if err := r.reject(ctx, &imp, results); err != nil {
		return err
	}
	r.batcher.observer.ImportEnded(imp, results, took)
	r.batcher.spool.Remove(imp.File + spool.FailedSuffix) // kept while it was not known what became of it
	if r.adopted.Changed || imp.Part < imp.Parts {
		imp.Part, imp.Attempt, imp.Mode, imp.Execution = imp.Part+1, 1, "", "" // the file behind it
		return r.startOver(ctx, send, imp)
	}
	return r.landed(ctx, send, imp)
}

// waitOut deals with an import of which it is not known whether it was sent. The
// former owner may still be sending it: its request ends within the grace. Only
// then is it certain that no execution follows ours and undoes it.
func (r *importRun) waitOut(ctx, send context.Context, imp contract.Import) error {
	r.log.Warn("an import was begun by a former owner and it is not known whether it was sent; its request is waited out, then the file is built again and takes another slot of the day",
		"file", imp.File, "part", imp.Part, "parts", imp.Parts, "wait", r.batcher.cfg.Grace)
	r.enter(contract.Waiting, imp)
	if err := retry.Sleep(ctx, r.batcher.cfg.Grace); err != nil {
		return err
	}
	imp.Attempt++
	return r.startOver(ctx, send, imp)
}

// startOver has the partitions read again from their committed offsets; the
// assignment ends with that, and the next one finds what is to be built.
func (r *importRun) startOver(ctx, send context.Context, imp contract.Import) error {
	if r.adopted != nil && r.adopted.Changed { // what was in the file is not known any more
		again := contract.Import{Mapping: imp.Mapping, Bundle: imp.Bundle, Table: imp.Table, Rerouted: true}
		if imp.Execution == "" && imp.Attempt > 1 && imp.Table == r.queue.mapping.Table { // it may run, and land over calls: its records' rows go by file
			again.Fingerprint, again.File, again.Part, again.Parts, again.Attempt = r.queue.mapping.Fingerprint, imp.File, 1, 1, imp.Attempt
		}
		imp = again
	}
	if err := r.commit(send, "start over", imp, r.batcher.ledger.StartOver); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// remaining leaves out the files of a rebuilt generation that are loaded. The
// first of the others goes on counting its tries. One that FAILED and has no try left, or was refused, is
// kept and halts the mapping; tries that were cut off are no reason to.
func (r *importRun) remaining(ctx context.Context, imports []contract.Import) ([]contract.Import, error) {
	from := r.generation.from
	switch {
	case from.Part == 0: // not a rebuilt one
		return imports, nil
	case len(imports) == 0: // its records are gone from the log, newer ones took their place
		return nil, nil
	case !resembles(imports, from) || slices.ContainsFunc(r.files, func(f spool.File) bool { return f.Split > 0 }):
		// Records are gone from the log, or those of several partitions met in
		// another order, so that files that continue one another divide otherwise.
		// What is loaded can be loaded again, what is not must be.
		r.log.Warn("a generation that is built again has other files than before; all of them are sent", "file", from.File, "part", from.Part, "parts", from.Parts, "now", len(imports))
		return imports, nil
	}
	loaded := from.Part - 1
	for _, file := range r.files[:loaded] {
		r.batcher.spool.Remove(file.Name)
	}
	imports, r.files = imports[loaded:], r.files[loaded:]
	imports[0].Attempt = from.Attempt
	if r.queue.tooLarge == from.File && r.queue.halves(&imports[0]) {
		r.queue.tooLarge = ""
		return nil, r.halve(ctx, ctx, imports[0], "import "+from.File+": FAILED as too large under a former owner")
	}
	halt := func(reason string) error { // kept in the place of what the former owner kept
		r.files[0].Name = r.batcher.spool.As(imports[0].File, from.File)
		imports[0].File = r.files[0].Name
		if from.Execution != "" { // it FAILED: the ledger counts the next try
			imports[0].Attempt--
		}
		err := r.halt(ctx, &imports[0], reason)
		imports[0].Attempt = from.Attempt
		return err
	}
	if from.Refused && from.Execution != "" {
		return imports, halt("import " + from.File + ", execution " + from.Execution +
			": FAILED under a former owner, for a reason that the same file meets again" + r.queue.words.Keep(&from, ""))
	}
	if from.Refused {
		return imports, halt("trigger import " + from.File + ": refused for good under a former owner; released it is sent again, and what the service says then can be looked at")
	}
	if from.Execution == "" {
		return imports, nil
	}
	if r.retries = from.Attempt - 1; r.retries > r.queue.mapping.RetryFailed {
		return imports, halt("import " + from.File + ", execution " + from.Execution + ": FAILED under a former owner, its tries are used up" + r.queue.words.Keep(&from, ""))
	}
	return imports, nil
}

// resembles reports whether the files are those that a former owner had, as far
// as the ledger tells.
func resembles(imports []contract.Import, from contract.Import) bool {
	return len(imports) == from.Parts && from.Part <= from.Parts &&
		(from.Mode == "" || imports[from.Part-1].Mode == from.Mode) && (from.Op == 0 || imports[from.Part-1].Op == from.Op)
}

// Passed notes that all records of the partition below next were appended or
// are not the mapping's. Only what a former owner left needs to know.
func (b *Batcher) Passed(mapping string, p Partition, next int64) {
	m, ok := b.byName[mapping]
	if !ok {
		return
	}
	q := m.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.members {
		if end, suspect := m.dualLane.suspect[p]; suspect && next >= end {
			delete(m.dualLane.suspect, p)
		}
	}
	if g := q.rebuilding; g != nil {
		if end, has := g.upTo[p]; has && next >= end {
			delete(g.upTo, p)
		}
		if len(g.upTo) == 0 {
			notify(q.wake)
		}
	}
}

// errorsLife ends an import of which only records are left whose rows were in error,
// and that had no other place when it ended. They become dead letters if there is a
// topic for them by now; else they stay where they are.
func (r *importRun) errorsLife(ctx, send context.Context, imp contract.Import) error {
	r.log.Info("looking once more at the rows in error of an import under a former owner", "file", imp.File, "execution", imp.Execution)
	results, err := r.untilEnded(ctx, imp, forgottenPolls)
	if err != nil {
		return err
	}
	imp.Rows = max(results.Read, results.InError, 0)
	if results.Status == contract.Finished && results.RowsInError(imp.Rows) != 0 {
		err = r.reject(ctx, &imp, results)
	} else {
		err = r.rejectAll(ctx, imp)
	}
	if err != nil {
		return err
	}
	return r.confirm(send, imp)
}
