package spool

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"os"
	"slices"

	"github.com/feedsink/feedsink/schemas"
)

const (
	// sections is how many parts the keys are divided into: what is folded at
	// once, and so the memory of a seal, is this fraction of a generation.
	sections = 256
	// SegmentSize is how many bytes of entries wait in memory before they go to
	// disk. A generation that stays below never touches the disk.
	SegmentSize = 4 << 20
	// bitsPerRow sizes the bitmap that counts distinct keys: at least 16 bits for
	// each row of the roll limit keep the count within half a percent below the truth.
	bitsPerRow = 16
)

// Journal holds the entries of one generation in the order of their arrival. Its
// disk writes are sequential, a segment at a time, ordered by section of the keys and
// then by arrival, and behind them, as another entry, the section of each in the order of arrival.
// It is not read after a crash, since the offsets of its records are not committed.
type Journal struct {
	spool    *Dir
	name     string
	limit    int // segmentSize; smaller in tests
	file     *os.File
	memory   pages            // entries not on disk yet
	sections [sections]extent // of memory
	segments []segment
	size     int64 // of file
	onDisk   int64 // entries
	counter  keyCounter
	ops      [schemas.OpsEnd]bool // of the rows
	Entries  int64
	Distinct int64 // keys, estimated
	Bytes    int64 // uncompressed rows of the distinct keys as first seen
}

// extent is what a section has in memory.
type extent struct {
	bytes   uint32
	entries uint32
}

// segment is one write to the file: section s ends at at+ends[s]. Entries are numbered
// through all segments, in their order there.
type segment struct {
	at      int64
	ends    [sections]uint32
	numbers [sections]int64 // of each section's first entry
	entries int
}

// NewJournal is an empty journal of that name in the directory, for a file that is to
// be sealed at rollRows distinct keys. It goes to disk in pieces of limit bytes.
func NewJournal(s *Dir, name string, limit int, rollRows int64) *Journal {
	return &Journal{spool: s, name: name, limit: limit, counter: newKeyCounter(rollRows)}
}

// OnDisk is what the journal takes of the directory, in bytes.
func (j *Journal) OnDisk() int64 { return j.size }

// MakeRoom moves the entries in memory to disk when they fill a segment, so that
// an add after it cannot fail.
func (j *Journal) MakeRoom() error {
	if j.memory.size < j.limit {
		return nil
	}
	return j.flush()
}

// Add puts the entry of w into memory and returns it, not yet counted as a row. On
// an error, a *schemas.ValueError, nothing was added.
func (j *Journal) Add(r *Rows, w *schemas.Write) (entry []byte, err error) {
	if entry, err = r.AppendEntry(j.memory.tail(), w); err != nil {
		return nil, err
	}
	return j.Put(entry), nil
}

// Put puts an entry into memory, not yet counted as a row.
func (j *Journal) Put(entry []byte) []byte {
	section := &j.sections[entry[entryHash]]
	section.bytes += uint32(len(entry))
	section.entries++
	return j.memory.entry(j.memory.add(entry))
}

// Count counts an entry as a row.
func (j *Journal) Count(entry []byte) {
	j.Entries++
	j.ops[entry[entryOp]] = true
	if j.counter.first(binary.LittleEndian.Uint64(entry[entryHash:])) {
		j.Distinct++
		j.Bytes += int64(len(entry) - entryHead)
	}
}

// flush is repeatable: what was not written whole stays in memory, and is taken off the
// disk again, which may be full of it.
func (j *Journal) flush() error {
	if j.memory.size == 0 {
		return nil
	}
	if j.file == nil {
		file, err := j.spool.Create(j.name)
		if err != nil {
			return err
		}
		j.file = file
	}
	ordered, seg := j.bySection()
	defer j.spool.lay(ordered)
	if _, err := j.file.WriteAt(ordered, j.size); err != nil {
		_ = j.file.Truncate(j.size) // or the next attempt overwrites it
		return fmt.Errorf("write journal: %w", err)
	}
	j.segments = append(j.segments, seg)
	j.size += int64(len(ordered))
	j.onDisk += int64(seg.entries)
	j.spool.resize(j.name, j.size)
	j.memory.free()
	j.sections = [sections]extent{}
	return nil
}

// bySection copies the entries in memory, ordered by section and by arrival
// within each (a counting sort), and behind them the entry with the section of each.
func (j *Journal) bySection() ([]byte, segment) {
	seg := segment{at: j.size}
	var next [sections]uint32
	number, end := j.onDisk, uint32(0)
	for s, has := range j.sections {
		seg.numbers[s], next[s] = number, end
		number += int64(has.entries)
		end += has.bytes
		seg.ends[s] = end
	}
	seg.entries = int(number - j.onDisk)
	ordered := j.spool.take(j.memory.size + entryHead + seg.entries)
	arrived := ordered[j.memory.size:]
	clear(arrived[:entryHead])
	binary.LittleEndian.PutUint32(arrived, uint32(len(arrived)))
	arrived = arrived[:entryHead]
	for entry := range j.memory.entries() {
		s := entry[entryHash]
		next[s] += uint32(copy(ordered[next[s]:], entry))
		arrived = append(arrived, s)
	}
	return ordered, seg
}

// eachOf calls add with the entries of one section, piece by piece in the order
// of their arrival, and the number of the first one on disk; stay says that they are where they are
// until the journal is dropped: one that never touched the disk is all in section 0. Any other must be flushed before. piece is a buffer; it is returned for
// the next call.
func (j *Journal) eachOf(s int, piece []byte, add func(entries []byte, stay bool, first int64)) ([]byte, error) {
	if j.file == nil {
		if s == 0 {
			for _, page := range j.memory.all {
				add(page, true, 0)
			}
		}
		return piece, nil
	}
	for i := range j.segments {
		seg := &j.segments[i]
		from := uint32(0)
		if s > 0 {
			from = seg.ends[s-1]
		}
		piece = slices.Grow(piece[:0], int(seg.ends[s]-from))[:seg.ends[s]-from]
		if _, err := j.file.ReadAt(piece, seg.at+int64(from)); err != nil {
			return piece, fmt.Errorf("read journal: %w", err)
		}
		add(piece, false, seg.numbers[s])
	}
	return piece, nil
}

// arrivals calls f with all entries on disk and their numbers, in the order of their arrival.
func (j *Journal) arrivals(f func(number int64, entry []byte) error) error {
	if len(j.segments) == 0 {
		return nil
	}
	var all []byte
	defer func() { j.spool.lay(all) }()
	for i := range j.segments {
		seg := &j.segments[i]
		size := int(seg.ends[sections-1]) + entryHead
		if size+seg.entries > cap(all) {
			all = j.spool.take(size + seg.entries)
		}
		all = all[:size+seg.entries]
		if _, err := j.file.ReadAt(all, seg.at); err != nil {
			return fmt.Errorf("read journal: %w", err)
		}
		var next [sections]uint32
		copy(next[1:], seg.ends[:])
		numbers := seg.numbers
		for _, s := range all[size:] {
			entry := firstEntry(all[next[s]:])
			if err := f(numbers[s], entry); err != nil {
				return err
			}
			next[s] += uint32(len(entry))
			numbers[s]++
		}
	}
	return nil
}

// SetAside moves all entries to disk: no row is added any more, and the journal is sealed
// later. Unless it is to tell which keys it has, its counter is freed, too. On an error it is as
// before.
func (j *Journal) SetAside(tellsKeys bool) error {
	if err := j.flush(); err != nil {
		return err
	}
	j.limit = min(j.limit, smallSegment)
	if !tellsKeys {
		j.counter = keyCounter{}
	}
	return nil
}

// smallSegment is how many bytes wait in memory of a journal that was set aside.
const smallSegment = 64 << 10

// sampleSize is how many bytes of entries tell what others come to.
const sampleSize = 1 << 20

// Sample is how many bytes the rows in memory take in a file, and how many they count as
// Bytes; 0 where too few are in memory to tell.
func (j *Journal) Sample(r *Rows, compression string) (file, rows int64) {
	if j.memory.size == 0 || j.file != nil && j.memory.size < min(sampleSize, j.limit/2) {
		return 0, 0
	}
	var size counted
	w := &fileWriter{}
	to, err := w.compressor(&size, "", compression)
	if err != nil {
		return 0, 0
	}
	var line []byte
	for entry := range j.memory.entries() {
		line = r.appendLine(line[:0], entry)
		rows += int64(len(entry) - entryHead)
		if _, err := to.Write(line); err != nil {
			return 0, 0
		}
	}
	for _, c := range w.close {
		if err := c(); err != nil {
			return 0, 0
		}
	}
	return int64(size), rows
}

// counted counts what is written to it.
type counted int64

func (c *counted) Write(p []byte) (int, error) {
	*c += counted(len(p))
	return len(p), nil
}

// Drop frees memory and disk, not the counter: it still tells which keys there were.
func (j *Journal) Drop() {
	if j.file != nil {
		_ = j.file.Close() // nothing in it is needed any more
		j.spool.Remove(j.name)
	}
	j.memory.free()
	j.file, j.memory, j.sections, j.segments, j.onDisk = nil, pages{}, [sections]extent{}, nil, 0
}

// Overrule adds what a write of another lane does to the rows of its key before it,
// and is no row itself: it drops them, or is merged into the last of them. It reports
// false for what that row may not be able to say, as that of a create never is.
func (j *Journal) Overrule(r *Rows, w *schemas.Write, drop bool) bool {
	if !drop && (j.ops[schemas.Create] || !r.says(w, j.ops[schemas.Patch] || j.ops[schemas.Merge])) {
		return false
	}
	op := mergeRow
	said := *w
	if drop {
		said.Op, op = schemas.Delete, dropRows // an entry of the key alone
	}
	entry, err := j.Add(r, &said)
	if err != nil {
		return false
	}
	entry[entryOp] = byte(op)
	return true
}

// Mark notes a key by its hash as one that the journal has.
func (j *Journal) Mark(hash uint64) { j.counter.first(hash) }

// Has reports whether the journal may have a key with the hash: of keys that it does
// not have, one in some three hundred is taken for one that it has.
func (j *Journal) Has(hash uint64) bool { return j.counter.has(hash) }

// Expect is told of entries, end to end, that are about to be put.
func (j *Journal) Expect(entries []byte) { j.counter.fetch(entries) }

// keyCounter counts distinct keys by their hashes, and tells which it may have
// seen. The first are kept as they are, since most of many mappings' files are small. More
// are kept in a bitmap of fixed size: a Bloom filter whose bits for one key lie in one
// line of the processor's cache.
type keyCounter struct {
	rows  int64               // distinct keys that the bitmap is made for
	few   map[uint64]struct{} // until they are fewKeys
	words []uint64            // blocks, a power of two of them; nil: while few has them all
}

const (
	fewKeys    = 4096
	blockWords = 8 // 512 bits
	bitsPerKey = 4
)

// mostCounted is the most keys that a bitmap is made for, 32 MiB: more rows than that stand for no limit.
const mostCounted = 1 << 24

func newKeyCounter(rows int64) keyCounter {
	return keyCounter{rows: min(max(rows, fewKeys), mostCounted), few: map[uint64]struct{}{}}
}

// spread moves the keys into the bitmap.
func (c *keyCounter) spread() {
	blocks := uint64(c.rows) * bitsPerRow / (64 * blockWords)
	c.words = make([]uint64, blockWords<<bits.Len64(blocks-1))
	for hash := range c.few {
		c.first(hash)
	}
	c.few = nil
}

// block is where the bits of a hash are, and rest what chooses them.
func (c *keyCounter) block(hash uint64) (block []uint64, rest uint64) {
	at := hash & uint64(len(c.words)/blockWords-1) * blockWords
	return c.words[at : at+blockWords : at+blockWords], hash >> (64 - 9*bitsPerKey)
}

// fetch brings what first will look at for these entries into the processor's
// cache: all of it at once, while first would wait for the memory at each entry.
//
//go:noinline
func (c *keyCounter) fetch(entries []byte) (sum uint64) {
	if c.words == nil {
		return 0
	}
	for entry := range entriesOf(entries) {
		block, _ := c.block(binary.LittleEndian.Uint64(entry[entryHash:]))
		sum += block[0]
	}
	return sum
}

// first reports whether no earlier key was the same, or met the same bits.
func (c *keyCounter) first(hash uint64) (first bool) {
	if c.words == nil {
		_, known := c.few[hash]
		if c.few[hash] = struct{}{}; len(c.few) == fewKeys {
			c.spread()
		}
		return !known
	}
	block, rest := c.block(hash)
	for range bitsPerKey {
		word, bit := &block[rest>>6&(blockWords-1)], uint64(1)<<(rest&63)
		first = first || *word&bit == 0
		*word |= bit
		rest >>= 9
	}
	return first
}

// has reports whether a key with the hash may have been counted: of keys that were
// not, one in some three hundred at a full bitmap.
func (c *keyCounter) has(hash uint64) bool {
	if c.words == nil {
		_, known := c.few[hash]
		return known
	}
	block, rest := c.block(hash)
	for range bitsPerKey {
		if block[rest>>6&(blockWords-1)]&(uint64(1)<<(rest&63)) == 0 {
			return false
		}
		rest >>= 9
	}
	return true
}
