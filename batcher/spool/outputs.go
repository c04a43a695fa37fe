package spool

import (
	"errors"
	"io"
	"os"
)

// OutputFiles are an execution's output files on their way into the spool. Nothing
// is written around Write, which the file's other methods would do.
type OutputFiles struct {
	io.ReadSeeker
	io.ReaderAt
	file  *os.File // which these are
	dir   *Dir
	limit int64
	size  int64
	name  string // under which they are kept
	kept  bool
}

// What Write refuses.
var (
	ErrTooLarge = errors.New("they are too large")
	ErrNoRoom   = errors.New("output files of other imports take the room that there is for them")
)

// OutputFiles begins the output files of the import of a sealed file. Together with
// those of other imports they take limit bytes at most. They must be Dropped.
func (s *Dir) OutputFiles(of string, limit int64) (*OutputFiles, error) {
	o := &OutputFiles{dir: s, name: of + errorsSuffix, limit: limit}
	var err error
	o.file, err = s.Create(o.temporary())
	o.ReadSeeker, o.ReaderAt = o.file, o.file
	return o, err
}

func (o *OutputFiles) temporary() string { return o.name + partSuffix }

// Write appends to the files.
func (o *OutputFiles) Write(p []byte) (int, error) {
	if err := o.reserve(int64(len(p))); err != nil {
		return 0, err
	}
	o.size += int64(len(p))
	o.dir.resize(o.temporary(), o.size)
	return o.file.Write(p)
}

func (o *OutputFiles) reserve(bytes int64) error {
	o.dir.mu.Lock()
	defer o.dir.mu.Unlock()
	if o.size+bytes > o.limit {
		return ErrTooLarge
	}
	if o.dir.outputs+bytes > o.limit {
		return ErrNoRoom
	}
	o.dir.outputs += bytes
	return nil
}

// Size is how much of them is there, in bytes.
func (o *OutputFiles) Size() int64 { return o.size }

// Keep gives the files the name that survives a restart; they can be read on.
func (o *OutputFiles) Keep() error {
	if o.kept {
		return nil
	}
	if err := syncFile(o.file); err != nil {
		return err
	}
	if err := o.dir.Rename(o.temporary(), o.name); err != nil {
		return err
	}
	o.kept = true
	return nil
}

// Drop ends the use of the files; those that are not kept are removed.
func (o *OutputFiles) Drop() {
	o.dir.mu.Lock()
	o.dir.outputs -= o.size
	o.dir.mu.Unlock()
	_ = o.file.Close() // what is kept was synced
	if !o.kept {
		o.dir.Remove(o.temporary())
	}
}

// RemoveKept removes what was kept of the import's output files.
func (o *OutputFiles) RemoveKept() { o.dir.Remove(o.name) }
