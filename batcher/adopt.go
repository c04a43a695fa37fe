package batcher

import (
	"context"
	"time"
)

// Adopted is an import that a former owner of the table's partitions began, as
// the ledger has it. The former owner's files are gone.
type Adopted struct {
	Import
	// Rebuild says that the file was not loaded: its generation is built again
	// from the same records, and the parts before it, which are loaded, are left
	// out. Otherwise the file was sent, as execution Import.Execution, or, if
	// that is empty, nobody can tell.
	Rebuild bool
	// Changed says that the mapping is not the one any more that routed the
	// records: once the import has ended they are all read again.
	Changed bool
	// UpTo ends the generation, for each partition that it has records of.
	UpTo map[Partition]int64
	// Claims hold those records until the ledger releases them.
	Claims []Claim
}

// Adopt takes over an import. It is called before the first Append of an
// assignment; records that an adopted import covers are not appended, unless it
// is to be rebuilt.
func (b *Batcher) Adopt(mapping string, a Adopted) error {
	l, ok := b.byName[mapping]
	if !ok {
		return unknown(mapping)
	}
	a.Mapping, a.Table = l.Name, l.Table
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.Rebuild && !a.Changed {
		l.rebuilding = newRebuild(l, a)
	} else {
		l.adopted = &a
	}
	poke(l.wake)
	return nil
}

// adoptedLife ends an adopted import: it is awaited and confirmed like one's own.
// What cannot be confirmed is built again.
func (f *flight) adoptedLife(ctx, send context.Context) error {
	imp := f.adopted.Import
	if f.adopted.Rebuild { // of a mapping that was changed
		return f.rebuild(ctx, send, Import{Mapping: imp.Mapping, Table: imp.Table})
	}
	log := f.log.With("file", imp.File, "execution", imp.Execution, "part", imp.Part, "parts", imp.Parts)
	if imp.Execution == "" {
		// The former owner may still be sending: its request ends within the
		// grace. Only then is it certain that no execution follows ours.
		log.Warn("an import was begun by a former owner and nobody can tell whether it was sent; waiting for its request to end, then building it again", "wait", f.batcher.cfg.Grace)
		f.enter(Waiting, imp)
		if err := pause(ctx, f.batcher.cfg.Grace); err != nil {
			return err
		}
		imp.Attempt++
		return f.rebuild(ctx, send, imp)
	}
	log.Info("adopting the import of a former owner")
	begun := time.Now()
	results, err := f.await(ctx, imp)
	if err != nil {
		return err
	}
	f.batcher.observer.ImportEnded(imp, results, time.Since(begun))
	if results.Status == Failed {
		log.Warn("the adopted import FAILED; its file is built again", "reason", results.Reason)
		imp.Attempt++
		return f.rebuild(ctx, send, imp)
	}
	if err := f.keepErrors(ctx, imp, results); err != nil {
		return err
	}
	if f.adopted.Changed {
		return f.rebuild(ctx, send, imp)
	}
	if imp.Part < imp.Parts {
		imp.Part, imp.Attempt = imp.Part+1, 1
		return f.rebuild(ctx, send, imp)
	}
	return f.confirm(send, imp)
}

// rebuild has the partitions read again from their committed offsets; the
// assignment ends with that, and the next one finds what is to be built.
func (f *flight) rebuild(ctx, send context.Context, imp Import) error {
	imp.Execution = ""
	if f.adopted.Changed {
		imp.Part = 0
	}
	if err := f.commit(send, "rebuild import", imp, f.batcher.ledger.StartOver); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// remaining leaves out the files of a rebuilt generation that are loaded, and
// counts the tries that the first of the others has had.
func (f *flight) remaining(ctx, send context.Context, imports []Import) ([]Import, error) {
	if f.from.Part == 0 {
		return imports, nil
	}
	loaded := min(f.from.Part-1, len(imports))
	for _, file := range f.files[:loaded] {
		f.batcher.spool.remove(file.name)
	}
	imports, f.files = imports[loaded:], f.files[loaded:]
	if len(imports) == 0 {
		return nil, f.confirm(send, f.from)
	}
	imports[0].Attempt = f.from.Attempt
	for i := range imports {
		imports[i].Generation = f.from.Generation
	}
	if f.retries = f.from.Attempt - 1; f.retries > f.RetryFailed {
		return imports, f.halt(ctx, &imports[0], "import "+imports[0].File+": every try of a former owner failed or was cut off")
	}
	return imports, nil
}

// rebuild is a generation that is built again from the records it had.
type rebuild struct {
	*generation
	from Import              // the file whose turn it is
	upTo map[Partition]int64 // partitions that still have records to give
}

func newRebuild(l *line, a Adopted) *rebuild {
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
// are not the mapping's. Only a generation that is built again needs to know.
func (b *Batcher) Passed(mapping string, p Partition, next int64) {
	l, ok := b.byName[mapping]
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.rebuilding; r != nil && r.passed(p, next) {
		poke(l.wake)
	}
}
