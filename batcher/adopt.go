package batcher

import (
	"context"
	"maps"
	"time"
)

// Adopted is an import that a former owner of the table's partitions began, as
// the ledger has it. The former owner's files are gone.
type Adopted struct {
	Import
	// Rebuild says that the file is not loaded: its generation is built again
	// from the same records, and the parts before it, which are loaded, are left
	// out. Import.Execution then names the execution that FAILED, if one did, and
	// Import.Refused says that it waits for Release before it is sent.
	// Otherwise the file was sent, as execution Import.Execution, or, if that is
	// empty, nobody can tell.
	Rebuild bool
	// Changed says that the mapping is not the one any more that routed the
	// records: once the import has ended they are all read again.
	Changed bool
	// UpTo ends the generation, for each partition that it has records of.
	UpTo map[Partition]int64
	// Claims hold those records until the ledger releases them.
	Claims []Claim
	// Settling says that the import has FINISHED and only keys are left that both
	// lanes wrote.
	Settling bool

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
	l := m.line
	if a.Mapping, a.Bundle = l.Name, l.Bundle; a.Table.Name == "" || a.Table == l.Table {
		a.Table = l.Table
	}
	for op, load := range l.Loads {
		if load.Mode == a.Mode {
			a.Op, a.ETL, a.Members = op, load.ETL, l.share(op, nil)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.OnlyErrors {
		a.generation = l.newGeneration()
		a.generation.claims = a.Claims
		l.inError = append(l.inError, &a)
		poke(l.wake)
		return nil
	}
	for _, m := range l.members {
		if m.DualLane {
			m.dualLane.suspect = maps.Clone(a.UpTo)
		}
	}
	if a.Rebuild && !a.Changed {
		l.rebuilding = newRebuild(l, a)
	} else {
		a.generation = l.newGeneration() // of which it has no more than the keys
		a.generation.claims = a.Claims
		l.adopted = &a
	}
	poke(l.wake)
	return nil
}

// adoptedLife ends an adopted import: it is awaited and confirmed like one's own.
// What cannot be confirmed is built again, in the next assignment: the steps
// here are the ledger's, so that a crash among them leaves what there was before.
func (f *importRun) adoptedLife(ctx, send context.Context) error {
	imp := f.adopted.Import
	switch {
	case imp.OnlyErrors:
		return f.errorsLife(ctx, send, imp)
	case f.adopted.Rebuild: // of a mapping that was changed
		return f.startOver(ctx, send, imp)
	case f.adopted.Settling && !f.adopted.Changed:
		if err := f.hearAgain(ctx, &imp); err != nil {
			return err
		}
		return f.landed(ctx, send, imp)
	case imp.Execution == "":
		return f.outwait(ctx, send, imp)
	}
	f.log.Info("adopting the import of a former owner", "file", imp.File, "execution", imp.Execution, "part", imp.Part, "parts", imp.Parts)
	begun := time.Now()
	results, err := f.outcome(ctx, &imp)
	if err != nil {
		return err
	}
	if results.Status == forgotten {
		imp.Attempt, imp.Execution = imp.Attempt+1, ""
		return f.startOver(ctx, send, imp)
	}
	imp.Rows = max(results.Read, results.InError) // the ledger does not keep their number
	took := time.Since(begun)
	if results.Status == Failed {
		f.batcher.observer.ImportEnded(imp, results, took)
		f.log.Warn("the adopted import FAILED; its file is built again", "file", imp.File, "execution", imp.Execution,
			"reason", f.failure(imp, results), "sent_again", !results.SameAgain)
		imp.Attempt, imp.Refused = imp.Attempt+1, results.SameAgain
		return f.startOver(ctx, send, imp)
	}
	if err := f.reject(ctx, &imp, results); err != nil {
		return err
	}
	f.batcher.observer.ImportEnded(imp, results, took)
	if f.adopted.Changed || imp.Part < imp.Parts {
		return f.startOver(ctx, send, after(imp))
	}
	return f.landed(ctx, send, imp)
}

// outwait deals with an import of which nobody can tell whether it was sent. The
// former owner may still be sending it: its request ends within the grace. Only
// then is it certain that no execution follows ours and undoes it.
func (f *importRun) outwait(ctx, send context.Context, imp Import) error {
	f.log.Warn("an import was begun by a former owner and nobody can tell whether it was sent; its request is waited out, then the file is built again and takes another slot of the day",
		"file", imp.File, "part", imp.Part, "parts", imp.Parts, "wait", f.batcher.cfg.Grace)
	f.enter(Waiting, imp)
	if err := pause(ctx, f.batcher.cfg.Grace); err != nil {
		return err
	}
	imp.Attempt++
	return f.startOver(ctx, send, imp)
}

// after is the file behind imp in its generation, as far as imp tells.
func after(imp Import) Import {
	imp.Part, imp.Attempt, imp.Mode, imp.Execution = imp.Part+1, 1, "", ""
	return imp
}

// startOver has the partitions read again from their committed offsets; the
// assignment ends with that, and the next one finds what is to be built.
func (f *importRun) startOver(ctx, send context.Context, imp Import) error {
	if f.adopted != nil && f.adopted.Changed { // nobody can tell any more what was in the file
		imp = Import{Mapping: imp.Mapping, Bundle: imp.Bundle, Table: imp.Table}
	}
	if err := f.commit(send, "start over", imp, f.batcher.ledger.StartOver); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// remaining leaves out the files of a rebuilt generation that are loaded. The
// first of the others goes on counting its tries. One that FAILED too often, or was refused, is
// kept and halts the mapping; tries that were cut off are no reason to.
func (f *importRun) remaining(ctx context.Context, imports []Import) ([]Import, error) {
	from := f.from
	switch {
	case from.Part == 0: // not a rebuilt one
		return imports, nil
	case len(imports) == 0: // its records are gone from the log, newer ones took their place
		return nil, nil
	case !resembles(imports, from):
		// Records are gone from the log, or those of several partitions met in
		// another order. What is loaded can be loaded again, what is not must be.
		f.log.Warn("a generation that is built again has other files than before; all of them are sent", "file", from.File, "part", from.Part, "parts", from.Parts, "now", len(imports))
		return imports, nil
	}
	loaded := from.Part - 1
	for _, file := range f.files[:loaded] {
		f.batcher.spool.Remove(file.Name)
	}
	imports, f.files = imports[loaded:], f.files[loaded:]
	imports[0].Attempt = from.Attempt
	if from.Refused && from.Execution != "" {
		return imports, f.halt(ctx, &imports[0], "import "+from.File+", execution "+from.Execution+
			": FAILED under a former owner, for a reason that the same file meets again"+f.recall(from))
	}
	if from.Refused {
		return imports, f.halt(ctx, &imports[0], "trigger import "+from.File+": refused for good under a former owner; released it is sent again, and what the service says then can be looked at")
	}
	if from.Execution == "" {
		return imports, nil
	}
	if f.retries = from.Attempt - 1; f.retries > f.RetryFailed {
		return imports, f.halt(ctx, &imports[0], "import "+from.File+", execution "+from.Execution+": FAILED under a former owner, its tries are used up"+f.recall(from))
	}
	return imports, nil
}

// resembles reports whether the files are those that a former owner had, as far
// as the ledger tells.
func resembles(imports []Import, from Import) bool {
	return len(imports) == from.Parts && from.Part <= from.Parts &&
		(from.Mode == "" || imports[from.Part-1].Mode == from.Mode)
}

// rebuild is a generation that is built again from the records it had.
type rebuild struct {
	*generation
	from Import              // the file whose turn it is
	upTo map[Partition]int64 // partitions that still have records to give
}

func newRebuild(l *tableQueue, a Adopted) *rebuild {
	r := &rebuild{generation: l.newGeneration(), from: a.Import, upTo: a.UpTo}
	r.claims = append(r.claims, a.Claims...)
	return r
}

// takes reports whether the record belongs to the generation.
func (r *rebuild) takes(p Partition, offset int64) bool {
	end, has := r.upTo[p]
	return has && offset < end
}

// passed notes that the partition was read up to, not including, next.
func (r *rebuild) passed(p Partition, next int64) (complete bool) {
	if end, has := r.upTo[p]; has && next >= end {
		delete(r.upTo, p)
	}
	return len(r.upTo) == 0
}

// Passed notes that all records of the partition below next were appended or
// are not the mapping's. Only what a former owner left needs to know.
func (b *Batcher) Passed(mapping string, p Partition, next int64) {
	m, ok := b.byName[mapping]
	if !ok {
		return
	}
	l := m.line
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.members {
		if end, suspect := m.dualLane.suspect[p]; suspect && next >= end {
			delete(m.dualLane.suspect, p)
		}
	}
	if r := l.rebuilding; r != nil && r.passed(p, next) {
		poke(l.wake)
	}
}
