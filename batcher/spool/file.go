package spool

import (
	"archive/zip"
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"

	"github.com/feedsink/feedsink/schemas"
)

// level 6: files are an eighth smaller than at level 2 (13.4 MB for 15.2 of 500,000 profiles),
// and all that an event costs is a tenth more. At level 8 they are as small as the standard
// library's usual ones (11.8 and 11.6 MB), and a row takes twice the time.
const level = 6

// File is a file that is complete on disk, of one operation.
type File struct {
	Op     schemas.Op
	Name   string  // in the directory
	Rows   int64   // of all parts
	Counts []int64 // rows, by part
	Bytes  int64   // on disk
	Split  int     // files of the same operation, and of the same round of them, that it continues

	Returns bool // later files bring rows back that deletes take
}

// Limit is how large a file may be; 0: any size.
type Limit struct {
	Rows  int64 // without the header
	Bytes int64 // on disk
}

// Part is what one mapping adds to the files.
type Part struct {
	Rows    *Rows
	Journal *Journal
	Ops     func(schemas.Op) bool // of which it has a file
	Entry   string                // its name in a bundle's ZIP
	Newest  bool                  // the rows say nothing but the newest states: a delete is none if an upsert follows that clears all
}

// Files says which files to write: for each operation one, further ones where it is
// larger than a file may be, and one more where a create follows a patch or another create of
// its key.
type Files struct {
	Dir         *Dir
	Parts       []Part
	Bundle      bool   // a file is a ZIP with an entry for each part that has its operation
	Compression string // GZIP | ZIP | NONE; "" is GZIP
	Name        string // of all files, before the operation and the suffixes
	Limit       Limit  // of each file; one row is never divided
}

// sealing is the writing of files.
type sealing struct {
	Files
	files []*fileWriter // by rank; nil where no row has it
	done  [][]File      // by rank: those that are complete

	returns bool   // some key is deleted and written again
	line    []byte // room for a row
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
		for _, f := range slices.Concat(s.done...) {
			s.Dir.Remove(f.Name)
		}
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
		if err := ctx.Err(); err != nil { // each takes a slow disk its time
			return nil, err
		}
		if err := s.finish(rank); err != nil {
			return nil, err
		}
	}
	done = slices.Concat(s.done...)
	for i := range done {
		done[i].Returns = s.returns && done[i].Op == schemas.Delete
	}
	return done, nil
}

// finish completes the file of a rank.
func (s *sealing) finish(rank int) error {
	w := s.files[rank]
	if err := s.nextPart(w, len(s.Parts)-1); err != nil {
		return err
	}
	s.files[rank] = nil
	bytes, err := w.finish(s.Dir)
	if err != nil {
		return err
	}
	s.done[rank] = append(s.done[rank], File{Op: w.op, Name: w.name, Rows: w.rows(), Counts: w.counts, Bytes: bytes, Split: len(s.done[rank])})
	return nil
}

// write writes the rows of one part, in the order of their records: files whose neighbours are
// alike are smaller, and where it takes several the oldest go first. (In memory a key's
// first record counts, on disk its last.) A journal on disk is folded first, and read again for the rows that are left of it. Rows that several
// entries say, and those of further rounds, go before the others.
func (s *sealing) write(ctx context.Context, part int) error {
	j := s.Parts[part].Journal
	if j.file != nil {
		if err := j.flush(); err != nil {
			return err
		}
	}
	left := make(numbers, (j.onDisk+63)/64)
	if err := s.fold(ctx, part, left); err != nil {
		return err
	}
	return j.arrivals(func(number int64, entry []byte) error {
		if !left.has(number) {
			return nil
		}
		return cmp.Or(ctx.Err(), s.add(int(place[entry[entryOp]]), part, entry))
	})
}

// fold writes the rows of one part but for those that an entry on disk says, whose numbers are
// noted.
func (s *sealing) fold(ctx context.Context, part int, left numbers) (err error) {
	f := newFold(s.Parts[part].Rows)
	f.newest = s.Parts[part].Newest
	defer f.free()
	var piece []byte
	for section := range sections {
		if err := ctx.Err(); err != nil {
			return err
		}
		f.reset()
		if piece, err = s.Parts[part].Journal.eachOf(section, piece, f.add); err != nil {
			return err
		}
		if err := f.each(func(rank int, entry []byte, number int64) error {
			if len(left) == 0 || number == several || rank >= len(order) {
				return s.add(rank, part, entry)
			}
			left.add(number)
			return nil
		}); err != nil {
			return err
		}
		s.returns = s.returns || f.returns()
	}
	return nil
}

// numbers is a set of entries' numbers.
type numbers []uint64

func (n numbers) add(number int64)      { n[number/64] |= 1 << (number % 64) }
func (n numbers) has(number int64) bool { return n[number/64]&(1<<(number%64)) != 0 }

// add writes an entry as a row of the rank's file.
func (s *sealing) add(rank, part int, entry []byte) error {
	s.line = s.Parts[part].Rows.appendLine(s.line[:0], entry)
	w, err := s.fileFor(rank, part, len(s.line))
	if err != nil {
		return err
	}
	w.counts[part]++
	return w.write(s.line)
}

// fileFor is the file of a rank that takes a part's next line, of so many bytes: a
// further one where it would not fit.
func (s *sealing) fileFor(rank, part, line int) (*fileWriter, error) {
	w, err := s.file(rank, part)
	if err != nil {
		return nil, err
	}
	full, err := w.full(s.Limit, int64(line))
	if err != nil || !full {
		return w, err
	}
	if err := s.finish(rank); err != nil {
		return nil, err
	}
	return s.file(rank, part)
}

// file is the writer of a rank, when it is a part's turn; the first row of a rank
// opens it.
func (s *sealing) file(rank, part int) (*fileWriter, error) {
	for len(s.files) <= rank {
		s.files, s.done = append(s.files, nil), append(s.done, nil)
	}
	if w := s.files[rank]; w != nil {
		return w, s.nextPart(w, part)
	}
	op := rankOp(uint16(rank))
	name := s.Name + "." + op.String()
	if round := rank / len(order); round > 0 {
		name += strconv.Itoa(round + 1)
	}
	if n := len(s.done[rank]); n > 0 {
		name += "-" + strconv.Itoa(n+1)
	}
	w, err := s.open(op, name+".csv")
	if err != nil {
		return nil, err
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
		if err := w.write(part.Rows.appendHeader(nil, w.op)); err != nil {
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
	ahead   ahead          // between lines and compression; not in a bundle
	flush   []func() error // what brings all lines to disk, in order
	close   []func() error // what has to be flushed before the file is synced, in order

	onDisk   int64 // bytes of it when it was flushed last
	since    int64 // bytes of lines since then
	overhead int64 // bytes at most that its end adds
}

// open begins a file; csvName is its name before compression.
func (s *sealing) open(op schemas.Op, csvName string) (*fileWriter, error) {
	w := &fileWriter{op: op, name: csvName + extension(s.Compression), counts: make([]int64, len(s.Parts)), overhead: endBytes}
	var err error
	if w.disk, err = s.Dir.Create(w.name + partSuffix); err != nil {
		return nil, err
	}
	buffered := bufio.NewWriterSize(w.disk, 1<<16)
	var compressed io.Writer
	if s.Bundle {
		w.archive = w.newArchive(buffered)
		for i := range s.Parts {
			part := &s.Parts[i]
			w.overhead += entryEndBytes + 2*int64(len(part.Entry)) + int64(len(part.Rows.appendHeader(nil, op)))
		}
	} else if compressed, err = w.compressor(buffered, csvName, s.Compression); err != nil {
		w.abandon()
		return nil, err
	}
	w.lines = bufio.NewWriterSize(&w.ahead, aheadBytes)
	w.flush = slices.Concat([]func() error{w.lines.Flush, w.ahead.end}, w.flush, []func() error{buffered.Flush})
	w.close = slices.Concat([]func() error{w.lines.Flush, w.ahead.end}, w.close, []func() error{buffered.Flush})
	if !s.Bundle {
		w.ahead.to = compressed
		w.ahead.begin()
		w.flush = append(w.flush, func() error { w.ahead.begin(); return nil })
	}
	return w, nil
}

// What the end of a file takes at most, and that of an entry of a ZIP beside its names.
const (
	endBytes      = 64
	entryEndBytes = 160
)

func (w *fileWriter) write(line []byte) error {
	w.since += int64(len(line))
	_, err := w.lines.Write(line)
	return err
}

func (w *fileWriter) rows() (n int64) {
	for _, rows := range w.counts {
		n += rows
	}
	return n
}

// full reports whether a further line, of so many bytes, could make the file larger than
// the limit. How large it is shows only when it is flushed, which it is seldom: when it
// would be too large if its lines were not compressible. What is left then is worth
// another look as long as it is more than a 64th of the limit.
func (w *fileWriter) full(limit Limit, line int64) (bool, error) {
	rows := w.rows()
	switch {
	case rows == 0:
		return false, nil
	case limit.Rows > 0 && rows >= limit.Rows:
		return true, nil
	case limit.Bytes == 0 || w.atMost(line) <= limit.Bytes:
		return false, nil
	case w.since < limit.Bytes/64:
		return true, nil
	}
	for _, flush := range w.flush {
		if err := flush(); err != nil {
			return false, err
		}
	}
	size, err := w.disk.Seek(0, io.SeekCurrent)
	w.onDisk, w.since = size, 0
	return w.atMost(line) > limit.Bytes, err
}

// atMost is what the file takes at most with a further line: what cannot be compressed
// takes five bytes more for each 64 KiB.
func (w *fileWriter) atMost(line int64) int64 {
	since := w.since + line
	return w.onDisk + since + since>>12 + w.overhead
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

func (w *fileWriter) compressor(to io.Writer, csvName, compression string) (io.Writer, error) {
	switch extension(compression) {
	case "":
		return to, nil
	case ".zip":
		w.overhead += entryEndBytes + 2*int64(len(csvName))
		return w.newArchive(to).Create(csvName)
	}
	z := zippers.Get().(*gzip.Writer) //nolint:forcetypeassert // its New
	z.Reset(to)
	w.flush = append(w.flush, z.Flush)
	w.close = append(w.close, func() error {
		err := z.Close()
		z.Reset(nil)
		zippers.Put(z)
		return err
	})
	return z, nil
}

// zippers have compressed a file; each has a megabyte for the next one.
var zippers = sync.Pool{New: func() any {
	z, err := gzip.NewWriterLevel(nil, level)
	if err != nil {
		panic(err) // the level is a constant
	}
	return z
}}

func (w *fileWriter) newArchive(to io.Writer) *zip.Writer {
	z := zip.NewWriter(to)
	var entry *flate.Writer // that is being written
	z.RegisterCompressor(zip.Deflate, func(to io.Writer) (_ io.WriteCloser, err error) {
		entry, err = flate.NewWriter(to, level)
		return entry, err
	})
	w.flush = append(w.flush, func() error { return entry.Flush() }, z.Flush)
	w.close = append(w.close, z.Close)
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
		_ = w.ahead.end()
		_ = errors.Join(w.disk.Close(), os.Remove(w.disk.Name())) // the next start sweeps what stays
	}
}
