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
	"sync"
	"time"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"

	"github.com/feedsink/feedsink/schemas"
)

// level 2 writes almost as small a file as 6 in half the time.
const level = 2

// sealedFile is a file that is complete on disk.
type sealedFile struct {
	op     schemas.Op
	name   string
	rows   int64
	counts []int64 // rows, by member
	bytes  int64   // on disk
}

// sealing writes the files of one generation.
type sealing struct {
	spool       *spool
	members     []*member
	bundle      bool // a file is a ZIP with an entry of each member that loads its op
	compression string
	name        string        // of the generation
	now         time.Time     // when the generation is sealed
	files       []*fileWriter // by rank; nil where no row has it
}

// seal folds the members' journals into the files, in the order in which they are
// to be loaded. It leaves the journals as they are, so that it can be repeated;
// what it wrote before an error it removes.
func (s *sealing) seal(ctx context.Context, journals []*journal) (done []sealedFile, err error) {
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
	for i, j := range journals {
		if err := s.write(ctx, i, j); err != nil {
			return nil, err
		}
	}
	for rank, w := range s.files {
		if w == nil {
			continue
		}
		if err := s.nextFile(w, len(s.members)-1); err != nil {
			return done, err
		}
		s.files[rank] = nil
		bytes, err := w.finish(s.spool)
		if err != nil {
			return done, err
		}
		file := sealedFile{op: w.op, name: w.name, counts: w.counts, bytes: bytes}
		for _, n := range w.counts {
			file.rows += n
		}
		done = append(done, file)
	}
	return done, nil
}

// write writes the rows of one member.
func (s *sealing) write(ctx context.Context, member int, j *journal) (err error) {
	if j.file != nil {
		if err := j.flush(); err != nil {
			return err
		}
	}
	f := newFold(s.members[member].rows)
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
			w, err := s.file(rank, member)
			if err != nil {
				return err
			}
			line = s.members[member].rows.appendLine(line[:0], entry)
			w.counts[member]++
			_, err = w.lines.Write(line)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// file is the writer of a rank, at the turn of a member; the first row of a rank
// opens it.
func (s *sealing) file(rank, member int) (*fileWriter, error) {
	if rank < len(s.files) && s.files[rank] != nil {
		w := s.files[rank]
		return w, s.nextFile(w, member)
	}
	op := rankOp(uint16(rank))
	name := s.name + "." + op.String()
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
	return w, s.nextFile(w, member)
}

// nextFile begins the parts of the members up to one of them, each with its header. In
// a ZIP a part is an entry, and one without rows is there all the same: the
// interface wants the names in it to match the patterns of the definition, and
// does not say that any of them may be missing.
func (s *sealing) nextFile(w *fileWriter, to int) error {
	for ; w.begun <= to; w.begun++ {
		m := s.members[w.begun]
		if _, has := m.Loads[w.op]; !has {
			continue
		}
		if w.archive != nil {
			if err := w.lines.Flush(); err != nil {
				return err
			}
			entry, err := w.archive.Create(m.entryName(s.now))
			if err != nil {
				return err
			}
			w.lines.Reset(entry)
		}
		if _, err := w.lines.Write(m.rows.appendHeader(nil, w.op)); err != nil {
			return err
		}
	}
	return nil
}

// fileWriter is lines → compression → disk.
type fileWriter struct {
	op      schemas.Op
	name    string
	begun   int         // members whose part was begun
	counts  []int64     // rows, by member
	archive *zip.Writer // of a bundle; nil: one file
	disk    *os.File
	lines   *bufio.Writer
	close   []func() error // what has to be flushed before the file is synced, in order
}

// open begins a file; csvName is its name before compression.
func (s *sealing) open(op schemas.Op, csvName string) (*fileWriter, error) {
	w := &fileWriter{op: op, name: csvName + extension(s.compression), counts: make([]int64, len(s.members))}
	var err error
	if w.disk, err = s.spool.create(w.name + partSuffix); err != nil {
		return nil, err
	}
	buffered := bufio.NewWriterSize(w.disk, 1<<16)
	var compressed io.Writer
	if s.bundle {
		w.archive = newArchive(buffered, &w.close)
	} else if compressed, err = compressor(buffered, csvName, s.compression, &w.close); err != nil {
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
