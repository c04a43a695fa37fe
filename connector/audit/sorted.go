package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
)

// entry is what is kept of a receipt, or of a dead letter.
type entry struct {
	partition int32 // of the evidence
	letter    bool  // it is a dead letter: only place, lane and mapping say something
	lane      Lane
	outcome   outcome
	offset    int64
	part      int32
	parts     int32
	mapping   int32 // names, as the audit numbers them
	execution int32
	keyID     int32
	status    int32
	assigned  int64 // in milliseconds of Unix, likewise the next two
	started   int64
	ended     int64
	key       [16]byte
	from      int32 // where the receipt lies: partition of its topic
	at        int64 // and offset
}

// entrySize is how many bytes an entry takes in a file.
const entrySize = 4 + 3 + 8 + 6*4 + 3*8 + 16 + 4 + 8

func (e *entry) append(b []byte) []byte {
	flag := byte(0)
	if e.letter {
		flag = 1
	}
	b = append(b, flag, byte(e.lane), byte(e.outcome))
	for _, v := range [...]int32{e.partition, e.part, e.parts, e.mapping, e.execution, e.keyID, e.status, e.from} {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	for _, v := range [...]int64{e.offset, e.assigned, e.started, e.ended, e.at} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return append(b, e.key[:]...)
}

func (e *entry) read(b []byte) {
	e.letter, e.lane, e.outcome = b[0] == 1, Lane(b[1]), outcome(b[2])
	b = b[3:]
	for _, to := range [...]*int32{&e.partition, &e.part, &e.parts, &e.mapping, &e.execution, &e.keyID, &e.status, &e.from} {
		*to = int32(binary.LittleEndian.Uint32(b))
		b = b[4:]
	}
	for _, to := range [...]*int64{&e.offset, &e.assigned, &e.started, &e.ended, &e.at} {
		*to = int64(binary.LittleEndian.Uint64(b))
		b = b[8:]
	}
	copy(e.key[:], b)
}

// byPlace sorts by the record that an entry is about.
func byPlace(a, b *entry) int {
	if c := cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.offset, b.offset)); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(a.part, b.part), cmp.Compare(a.assigned, b.assigned), cmp.Compare(a.ended, b.ended),
		cmp.Compare(a.from, b.from), cmp.Compare(a.at, b.at))
}

// byKey sorts by the row's key, then by the record.
func byKey(a, b *entry) int {
	if c := bytes.Compare(a.key[:], b.key[:]); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(a.keyID, b.keyID), cmp.Compare(a.partition, b.partition), cmp.Compare(a.lane, b.lane), byPlace(a, b))
}

// sorter sorts entries of which memory may not hold all: full buffers become sorted files.
type sorter struct {
	dir     string // of the files; "": the system's
	room    int    // entries that memory holds
	compare func(a, b *entry) int
	buffer  []entry
	files   []*os.File
}

func (s *sorter) add(e *entry) error {
	if s.buffer == nil {
		s.buffer = make([]entry, 0, s.room) // what is not used takes no memory
	}
	if s.buffer = append(s.buffer, *e); len(s.buffer) < s.room {
		return nil
	}
	return s.spill()
}

func (s *sorter) sort() { sort.Sort(inMemory{s}) }

// inMemory sorts the buffer where it lies: entries are large.
type inMemory struct{ *sorter }

func (m inMemory) Len() int           { return len(m.buffer) }
func (m inMemory) Less(i, j int) bool { return m.compare(&m.buffer[i], &m.buffer[j]) < 0 }
func (m inMemory) Swap(i, j int)      { m.buffer[i], m.buffer[j] = m.buffer[j], m.buffer[i] }

// spill writes the buffer to a file. The file has no name any more: it goes with the process.
func (s *sorter) spill() error {
	s.sort()
	f, err := os.CreateTemp(s.dir, "feedsink-audit-")
	if err != nil {
		return fmt.Errorf("sort receipts: %w", err)
	}
	s.files = append(s.files, f)
	if err := os.Remove(f.Name()); err != nil {
		return fmt.Errorf("sort receipts: %w", err)
	}
	w := bufio.NewWriterSize(f, 1<<16)
	var room [entrySize]byte
	for i := range s.buffer {
		if _, err := w.Write(s.buffer[i].append(room[:0])); err != nil {
			return fmt.Errorf("sort receipts: %w", err)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("sort receipts: %w", err)
	}
	_, err = f.Seek(0, io.SeekStart)
	s.buffer = s.buffer[:0]
	return err
}

// sorted gives all entries, in order.
func (s *sorter) sorted() (*stream, error) {
	s.sort()
	out := &stream{compare: s.compare, buffer: s.buffer}
	for _, f := range s.files {
		r := &run{file: bufio.NewReaderSize(f, 1<<16)}
		if ok, err := r.next(); err != nil {
			return nil, err
		} else if ok {
			out.runs = append(out.runs, r)
		}
	}
	heap.Init(out)
	return out, nil
}

func (s *sorter) close() {
	for _, f := range s.files {
		_ = f.Close() // it was only to be read
	}
}

// stream is entries in order: of files, merged, and of memory.
type stream struct {
	compare func(a, b *entry) int
	buffer  []entry
	runs    []*run
}

// run is a sorted file, and its first entry that was not given yet.
type run struct {
	file  *bufio.Reader
	first entry
}

func (r *run) next() (ok bool, err error) {
	var b [entrySize]byte
	switch _, err := io.ReadFull(r.file, b[:]); {
	case errors.Is(err, io.EOF):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read sorted receipts: %w", err)
	}
	r.first.read(b[:])
	return true, nil
}

// peek is the first entry that next has not passed; nil: there is none.
func (s *stream) peek() *entry {
	switch {
	case len(s.runs) == 0 && len(s.buffer) == 0:
		return nil
	case len(s.runs) == 0:
		return &s.buffer[0]
	case len(s.buffer) == 0 || s.compare(&s.runs[0].first, &s.buffer[0]) < 0:
		return &s.runs[0].first
	}
	return &s.buffer[0]
}

// next passes the entry that peek shows.
func (s *stream) next() error {
	if e := s.peek(); len(s.runs) == 0 || e != &s.runs[0].first {
		s.buffer = s.buffer[1:]
		return nil
	}
	ok, err := s.runs[0].next()
	if err != nil {
		return err
	}
	if ok {
		heap.Fix(s, 0)
	} else {
		heap.Pop(s)
	}
	return nil
}

// group takes all entries that are like the first, by the order of the stream. mostAlike
// bounds it: more say nothing more.
func (s *stream) group(into []entry, alike func(a, b *entry) bool) ([]entry, error) {
	into = into[:0]
	for e := s.peek(); e != nil && (len(into) == 0 || alike(&into[0], e)); e = s.peek() {
		if len(into) < mostAlike {
			into = append(into, *e)
		}
		if err := s.next(); err != nil {
			return nil, err
		}
	}
	return into, nil
}

const mostAlike = 1 << 16

// Len implements heap.Interface, likewise the others below.
func (s *stream) Len() int { return len(s.runs) }

// Less reports which of two files is first.
func (s *stream) Less(i, j int) bool { return s.compare(&s.runs[i].first, &s.runs[j].first) < 0 }

// Swap exchanges two files.
func (s *stream) Swap(i, j int) { s.runs[i], s.runs[j] = s.runs[j], s.runs[i] }

// Push is not used: there are as many files as there were.
func (s *stream) Push(any) {}

// Pop removes the last file.
func (s *stream) Pop() any {
	last := s.runs[len(s.runs)-1]
	s.runs = s.runs[:len(s.runs)-1]
	return last
}
