package batcher

import (
	"context"
	"errors"
	"os"
	"time"
)

// reject ends the rows that the service put in error: their records become dead
// letters, before the import is confirmed. A crash in here repeats the letters of
// this file; it loses none, since the ledger still has the import.
func (f *flight) reject(ctx context.Context, imp *Import, r Results) error {
	log := f.log.With("file", imp.File, "execution", imp.Execution)
	if r.InError == 0 {
		log.Info("import finished", "read", r.Read, "inserted", r.Inserted, "updated", r.Updated, "deleted", r.Deleted)
		if !f.KeepResults {
			return nil
		}
	}
	if r.InError > 0 {
		log.Warn("import finished with rows in error", "read", r.Read, "in_error", r.InError)
	}
	outputs, err := f.outputs(ctx, *imp)
	if err != nil {
		return err
	}
	if outputs == nil {
		f.unmatched(*imp, max(r.InError, 0), "by their number only")
		return nil
	}
	keep := f.KeepResults
	defer func() { f.end(outputs, imp.File+errorsSuffix, keep && ctx.Err() == nil) }()
	if r.InError == 0 || f.batcher.cfg.Records == nil || f.adopted != nil && f.adopted.Changed {
		keep = keep || r.InError != 0
		return nil // of a mapping that was changed all records are read again
	}
	f.enter(Burying, *imp)
	if err := f.readAll(ctx); err != nil {
		return err
	}
	b := burial{flight: f, imp: imp, of: f.loaded(imp), replay: replay{op: imp.Op, rows: map[rowKey]*errorRow{}}}
	b.byMember = make([]int64, len(b.of))
	defer b.close()
	err = b.run(ctx, outputs)
	imp.Members = b.shares()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil || b.rows < r.InError {
		log.Error("rows in error are not all told by the output files, which are kept", "rows", b.rows, "in_error", r.InError, "err", err)
		keep = true
	}
	f.unmatched(*imp, max(r.InError, b.rows)-b.matched, "without a record")
	return nil
}

// end keeps a file for a person to look at, or drops it.
func (f *flight) end(file *os.File, name string, keep bool) {
	if err := f.batcher.spool.end(file, name, keep); err != nil {
		f.log.Error("a file for a person to look at is lost; check the spool's disk", "file", name, "err", err)
	}
}

// unmatched counts rows in error whose records nobody can name.
func (f *flight) unmatched(imp Import, rows int64, how string) {
	if rows <= 0 {
		return
	}
	f.log.Error("rows in error are known "+how+"; look at what is kept in the spool and send the records again",
		"file", imp.File, "execution", imp.Execution, "rows", rows)
	f.batcher.observer.RowsUnmatched(imp, rows)
}

// outputs fetches the output files; nil: there are none to be had.
func (f *flight) outputs(ctx context.Context, imp Import) (*os.File, error) {
	log := f.log.With("file", imp.File, "execution", imp.Execution)
	f.enter(Fetching, imp)
	for n := 0; ; n++ {
		file, err := f.fetchOutputs(ctx, imp)
		if err == nil {
			return file, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var least time.Duration
		if failure, ok := errors.AsType[Failure](err); ok {
			if !failure.Transient() {
				log.Warn("fetch output files: refused; does the ETL generate error files?", "err", err)
				return nil, nil
			}
			least = failure.RetryAfter()
		}
		log.Warn("fetch output files: trying again", "err", err)
		if err := pause(ctx, f.backoff(f.batcher.cfg.Retry, n, least)); err != nil {
			return nil, err
		}
	}
}

func (f *flight) fetchOutputs(ctx context.Context, imp Import) (*os.File, error) {
	file, err := f.batcher.spool.create(imp.File + errorsSuffix + partSuffix)
	if err != nil {
		return nil, err
	}
	if err := f.batcher.importer.OutputFiles(ctx, imp.Execution, file); err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	return file, nil
}
