package batcher

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/feedsink/feedsink/batcher/rowerror"
	"github.com/feedsink/feedsink/batcher/spool"
)

// Output files may take a tenth of spool.maxBytes, together with those of other
// imports: so much more than that the spool's volume is to have. They may come when
// it is full, since nothing else would make room.
const (
	outputsShare = 10
	leastOutputs = 1 << 20 // however small the spool is
)

// outputFiles are an execution's output files in the spool, on their way. Nothing is
// written around Write, which the file's other methods would do.
type outputFiles struct {
	file  *os.File
	spool *spool.Dir
	limit int64
	size  int64
	name  string // under which they are kept
	kept  bool
}

// Write appends to the files, which never grow beyond their limit.
func (o *outputFiles) Write(p []byte) (int, error) {
	if err := o.spool.Reserve(int64(len(p)), o.limit, o.size); err != nil {
		return 0, err
	}
	o.size += int64(len(p))
	o.spool.Resize(o.temporary(), o.size)
	return o.file.Write(p)
}

func (o *outputFiles) temporary() string { return o.name + spool.PartSuffix }

// For rowerror.Read.
func (o *outputFiles) Read(p []byte) (int, error)               { return o.file.Read(p) }
func (o *outputFiles) ReadAt(p []byte, at int64) (int, error)   { return o.file.ReadAt(p, at) }
func (o *outputFiles) Seek(to int64, whence int) (int64, error) { return o.file.Seek(to, whence) }

// keep gives the files the name that survives a restart; they can be read on.
func (o *outputFiles) keep() error {
	if o.kept {
		return nil
	}
	if err := o.file.Sync(); err != nil {
		return err
	}
	if err := o.spool.Rename(o.temporary(), o.name); err != nil {
		return err
	}
	o.kept = true
	return nil
}

// drop ends the use of the files; those that are not kept are removed.
func (o *outputFiles) drop() {
	o.spool.GiveBack(o.size)
	_ = o.file.Close() // what is kept was synced
	if !o.kept {
		o.spool.Remove(o.temporary())
	}
}

// fetch makes one attempt to get the output files. *unnamedRows says that there are
// none, or too much of them.
func (e *rowErrors) fetch(ctx context.Context) (*outputFiles, error) {
	s := e.batcher.spool
	name := e.imp.File + spool.ErrorsSuffix
	file, err := s.Create(name + spool.PartSuffix)
	if err != nil {
		return nil, err
	}
	outputs := &outputFiles{file: file, spool: s, name: name, limit: max(e.batcher.cfg.MaxBytes/outputsShare, leastOutputs)}
	err = e.batcher.importer.OutputFiles(ctx, e.imp.Execution, outputs)
	if err == nil {
		return outputs, nil
	}
	outputs.drop()
	if errors.Is(err, spool.ErrTooLarge) {
		return nil, &unnamedRows{
			final: true, why: fmt.Sprintf("its output files are larger than %d bytes, a tenth of spool.maxBytes", outputs.limit),
			do: "Raise spool.maxBytes and restart feedsink: they are fetched again. To look at them: feedsink imports files " + e.imp.Execution,
		}
	}
	if failure, ok := errors.AsType[Failure](err); ok && !failure.Transient() {
		e.hear(*e.imp, failure.Reason())
		return nil, &unnamedRows{why: "there are no output files: " + err.Error() + e.refusal(failure), after: failure.RetryAfter()}
	}
	return nil, err
}

// keepResults keeps the output files of an import without rows in error, if there
// are any.
func (e *rowErrors) keepResults(ctx context.Context) error {
	e.enter(Fetching, *e.imp)
	for n := 0; ; n++ {
		outputs, err := e.fetch(ctx)
		if err == nil {
			if outputs.size > 0 {
				err = outputs.keep()
			}
			outputs.drop()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		unnamed, none := errors.AsType[*unnamedRows](err)
		if none {
			e.log.Warn("output files are not kept", "file", e.imp.File, "execution", e.imp.Execution, "why", unnamed.why)
		}
		if err == nil || none {
			return nil
		}
		if err := pause(ctx, e.later(n, err)); err != nil {
			return err
		}
	}
}

// unreadable reports whether an error is of what the output files say, and not of
// the disk that they are read from.
func unreadable(err error) bool {
	_, local := errors.AsType[*fs.PathError](err)
	return !local && errors.Is(err, rowerror.ErrUnreadable)
}
