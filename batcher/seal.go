package batcher

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

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"

	"github.com/feedsink/feedsink/schemas"
)

// level 2 writes almost as small a file as 6 in half the time.
const level = 2

// sealedFile is a file that is complete on disk.
type sealedFile struct {
	op    schemas.Op
	name  string
	rows  int64
	bytes int64 // on disk
}

// sealing writes the files of one generation.
type sealing struct {
	spool       *spool
	rows        *rows
	compression string
	name        string        // of the generation
	files       []*fileWriter // by rank; nil where no row has it
}

// seal folds a journal into its files, in the order in which they are to be
// loaded. It leaves the journal as it is, so that it can be repeated; what it
// wrote before an error it removes.
func (s *sealing) seal(ctx context.Context, j *journal) (done []sealedFile, err error) {
	defer func() {
		if err == nil {
			return
		}
		for _, w := range s.files {
			w.abandon()
		}
		for _, f := range done {
			s.spool.remove(f.name)
		}
		done = nil
	}()
	if err := s.write(ctx, j); err != nil {
		return nil, err
	}
	for rank, w := range s.files {
		if w == nil {
			continue
		}
		s.files[rank] = nil
		bytes, err := w.finish(s.spool)
		if err != nil {
			return done, err
		}
		done = append(done, sealedFile{op: w.op, name: w.name, rows: w.rows, bytes: bytes})
	}
	return done, nil
}

func (s *sealing) write(ctx context.Context, j *journal) (err error) {
	if j.file != nil {
		if err := j.flush(); err != nil {
			return err
		}
	}
	var f fold
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
			w, err := s.file(rank)
			if err != nil {
				return err
			}
			line = s.rows.appendLine(line[:0], entry)
			w.rows++
			_, err = w.lines.Write(line)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// file is the writer of a rank; the first row of a rank opens it.
func (s *sealing) file(rank int) (*fileWriter, error) {
	if rank < len(s.files) && s.files[rank] != nil {
		return s.files[rank], nil
	}
	op := rankOp(uint16(rank))
	name := s.name + "." + op.String()
	if round := rank / len(order); round > 0 {
		name += strconv.Itoa(round + 1)
	}
	w, err := newFileWriter(s.spool, op, name+".csv", s.compression)
	if err != nil {
		return nil, err
	}
	for len(s.files) <= rank {
		s.files = append(s.files, nil)
	}
	s.files[rank] = w
	_, err = w.lines.Write(s.rows.appendHeader(nil, op))
	return w, err
}

// fileWriter is lines → compression → disk.
type fileWriter struct {
	op    schemas.Op
	name  string
	rows  int64
	disk  *os.File
	lines *bufio.Writer
	close []func() error // what has to be flushed before the file is synced, in order
}

func newFileWriter(s *spool, op schemas.Op, csvName, compression string) (*fileWriter, error) {
	w := &fileWriter{op: op, name: csvName + extension(compression)}
	var err error
	if w.disk, err = s.create(w.name + partSuffix); err != nil {
		return nil, err
	}
	buffered := bufio.NewWriterSize(w.disk, 1<<16)
	compressed, err := compressor(buffered, csvName, compression, &w.close)
	if err != nil {
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

func knownCompression(compression string) error {
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
		z := zip.NewWriter(w)
		z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, level) })
		*closers = append(*closers, z.Close)
		return z.Create(csvName)
	}
	z, err := gzip.NewWriterLevel(w, level)
	if err != nil {
		return nil, err
	}
	*closers = append(*closers, z.Close)
	return z, nil
}

// finish seals the file on disk. Whatever it returns, the temporary file is gone.
func (w *fileWriter) finish(s *spool) (size int64, err error) {
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
