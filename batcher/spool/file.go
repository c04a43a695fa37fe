package spool

import (
	"archive/zip"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"

	"github.com/feedsink/feedsink/schemas"
)

// level 2 writes almost as small a file as 6 in half the time.
const level = 2

// File is a file that is complete on disk, of one operation.
type File struct {
	Op     schemas.Op
	Name   string  // in the directory
	Rows   int64   // of all parts
	Counts []int64 // rows, by part
	Bytes  int64   // on disk
}

// Part is what one mapping adds to the files.
type Part struct {
	Rows    *Rows
	Journal *Journal
	Ops     func(schemas.Op) bool // of which it has a file
	Entry   string                // its name in a bundle's ZIP
}

// Files says which files to write: for each operation one, and a further one where a
// create follows a patch of its key.
type Files struct {
	Dir         *Dir
	Parts       []Part
	Bundle      bool   // a file is a ZIP with an entry for each part that has its operation
	Compression string // GZIP | ZIP | NONE; "" is GZIP
	Name        string // of all files, before the operation and the suffixes
}

// sealing is the writing of files.
type sealing struct {
	Files
	files []*fileWriter // by rank; nil where no row has it
}

// Seal folds the parts' journals into files, in the order in which they are to be
// loaded. It leaves the journals as they are, so that it can be repeated; what it
// wrote before an error it removes.
func Seal(ctx context.Context, files Files) (done []File, err error) {
	s := &sealing{Files: files}
	defer func() {
		if err == nil {
			return
		}
		for _, w := range s.files {
			w.abandon()
		}
		for _, f := range done {
			s.Dir.Remove(f.Name)
		}
		done = nil
	}()
	for i := range s.Parts {
		if err := s.write(ctx, i); err != nil {
			return nil, err
		}
	}
	for rank, w := range s.files {
		if w == nil {
			continue
		}
		if err := s.nextPart(w, len(s.Parts)-1); err != nil {
			return done, err
		}
		s.files[rank] = nil
		bytes, err := w.finish(s.Dir)
		if err != nil {
			return done, err
		}
		file := File{Op: w.op, Name: w.name, Counts: w.counts, Bytes: bytes}
		for _, n := range w.counts {
			file.Rows += n
		}
		done = append(done, file)
	}
	return done, nil
}

// write writes the rows of one part.
func (s *sealing) write(ctx context.Context, part int) (err error) {
	rows, j := s.Parts[part].Rows, s.Parts[part].Journal
	if j.file != nil {
		if err := j.flush(); err != nil {
			return err
		}
	}
	f := newFold(rows)
	defer f.free()
	var piece, line []byte
	for section := range sections {
		if err := ctx.Err(); err != nil {
			return err
		}
		f.reset()
		if piece, err = j.eachOf(section, piece, f.add); err != nil {
			return err
		}
		if err := f.each(func(rank int, entry []byte) error {
			w, err := s.file(rank, part)
			if err != nil {
				return err
			}
			line = rows.appendLine(line[:0], entry)
			w.counts[part]++
			_, err = w.lines.Write(line)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// file is the writer of a rank, when it is a part's turn; the first row of a rank
// opens it.
func (s *sealing) file(rank, part int) (*fileWriter, error) {
	if rank < len(s.files) && s.files[rank] != nil {
		w := s.files[rank]
		return w, s.nextPart(w, part)
	}
	op := rankOp(uint16(rank))
	name := s.Name + "." + op.String()
	if round := rank / len(order); round > 0 {
		name += strconv.Itoa(round + 1)
	}
	w, err := s.open(op, name+".csv")
	if err != nil {
		return nil, err
	}
	for len(s.files) <= rank {
		s.files = append(s.files, nil)
	}
	s.files[rank] = w
	return w, s.nextPart(w, part)
}

// nextPart begins the parts up to one of them, each with its header. In
// a ZIP a part is an entry, and one without rows is there all the same: the
// interface wants the names in it to match the patterns of the definition, and
// does not say that any of them may be missing.
func (s *sealing) nextPart(w *fileWriter, to int) error {
	for ; w.begun <= to; w.begun++ {
		part := &s.Parts[w.begun]
		if !part.Ops(w.op) {
			continue
		}
		if w.archive != nil {
			if err := w.lines.Flush(); err != nil {
				return err
			}
			entry, err := w.archive.Create(part.Entry)
			if err != nil {
				return err
			}
			w.lines.Reset(entry)
		}
		if _, err := w.lines.Write(part.Rows.appendHeader(nil, w.op)); err != nil {
			return err
		}
	}
	return nil
}

// fileWriter is lines → compression → disk.
type fileWriter struct {
	op      schemas.Op
	name    string
	begun   int         // parts that were begun
	counts  []int64     // rows, by part
	archive *zip.Writer // of a bundle; nil: one file
	disk    *os.File
	lines   *bufio.Writer
	close   []func() error // what has to be flushed before the file is synced, in order
}

// open begins a file; csvName is its name before compression.
func (s *sealing) open(op schemas.Op, csvName string) (*fileWriter, error) {
	w := &fileWriter{op: op, name: csvName + extension(s.Compression), counts: make([]int64, len(s.Parts))}
	var err error
	if w.disk, err = s.Dir.Create(w.name + PartSuffix); err != nil {
		return nil, err
	}
	buffered := bufio.NewWriterSize(w.disk, 1<<16)
	var compressed io.Writer
	if s.Bundle {
		w.archive = newArchive(buffered, &w.close)
	} else if compressed, err = compressor(buffered, csvName, s.Compression, &w.close); err != nil {
		w.abandon()
		return nil, err
	}
	w.lines = bufio.NewWriterSize(compressed, 1<<16)
	w.close = append(append([]func() error{w.lines.Flush}, w.close...), buffered.Flush)
	return w, nil
}

func extension(compression string) string {
	switch strings.ToUpper(compression) {
	case "NONE":
		return ""
	case "ZIP":
		return ".zip"
	}
	return ".gz"
}

// KnownCompression says why a compression cannot be written; nil if it can.
func KnownCompression(compression string) error {
	switch strings.ToUpper(compression) {
	case "", "GZIP", "ZIP", "NONE":
		return nil
	}
	return fmt.Errorf("csv.compression: must be GZIP, ZIP or NONE, is %q", compression)
}

func compressor(w io.Writer, csvName, compression string, closers *[]func() error) (io.Writer, error) {
	switch extension(compression) {
	case "":
		return w, nil
	case ".zip":
		return newArchive(w, closers).Create(csvName)
	}
	z := zippers.Get().(*gzip.Writer) //nolint:forcetypeassert // its New
	z.Reset(w)
	*closers = append(*closers, func() error {
		err := z.Close()
		z.Reset(nil)
		zippers.Put(z)
		return err
	})
	return z, nil
}

// zippers have compressed a file; each has most of a megabyte for the next one.
var zippers = sync.Pool{New: func() any {
	z, err := gzip.NewWriterLevel(nil, level)
	if err != nil {
		panic(err) // the level is a constant
	}
	return z
}}

func newArchive(w io.Writer, closers *[]func() error) *zip.Writer {
	z := zip.NewWriter(w)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, level) })
	*closers = append(*closers, z.Close)
	return z
}

// finish seals the file on disk. Whatever it returns, the temporary file is gone.
func (w *fileWriter) finish(s *Dir) (size int64, err error) {
	for _, c := range w.close {
		if err := c(); err != nil {
			w.abandon()
			return 0, err
		}
	}
	return s.seal(w.disk, w.name)
}

// abandon closes and removes a file that will not be finished.
func (w *fileWriter) abandon() {
	if w != nil {
		_ = errors.Join(w.disk.Close(), os.Remove(w.disk.Name())) // the next start sweeps what stays
	}
}
