package connector

import (
	"context"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/receipt"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// importReceipts are the receipts of the batch lane. A row is noted before it goes into a
// file, and its receipt is written when the import that covers its record has ended,
// before the offsets are released. Of an import that a former owner sent nothing is noted:
// its records are read again. nil: no receipts topic.
type importReceipts struct {
	lane     *laneBase
	writers  *schemas.Registry
	newNotes func(mapping string) *spool.Notes
	room     *semaphore.Weighted // for receipts that are not acknowledged
	mappings []*router.Compiled
	tables   []string // that the ledger knows, of each mapping

	mu    sync.Mutex
	entry []byte                                    // room for a note
	last  lastNotes                                 // most rows are of those of the row before
	notes map[*kafka.Partition]map[string]*rowNotes // by the table that the ledger knows
	runs  map[string]map[int]execution              // by that table and the file's part: of its import
	told  map[*kafka.Partition]map[rowAt]bool       // rows in error: whether the receipt was sent
	reads map[string]bool                           // imports of former owners whose receipts are written, by file
}

// receiptsOnTheWay are how many receipts of imports Kafka may not have acknowledged.
const receiptsOnTheWay = 8 << 10

// rowNotes are the notes of one table's rows of one partition, in the order of offsets.
type rowNotes struct {
	*spool.Notes
	noted         rowAt      // the last
	written, read notedRow   // the row of the last note that was written, or read; the zero row: none
	late          []notedRow // of records that waited for calls before they went into a file; not in order
}

// lastNotes are the notes of a mapping's table of a partition.
type lastNotes struct {
	partition *kafka.Partition
	mapping   *router.Compiled
	notes     *rowNotes
}

// rowAt is a record's part.
type rowAt struct {
	offset int64
	part   int
}

func (a rowAt) before(b rowAt) bool {
	return a.offset < b.offset || a.offset == b.offset && a.part < b.part
}

// execution is one that has loaded a file, and when it began.
type execution struct {
	id    string
	began time.Time
}

// notedRow is what is noted of a part.
type notedRow struct {
	rowAt
	parts   int
	mapping *router.Compiled
	op      schemas.Op
	written int64 // in milliseconds since 1970
	key     receipt.Key
}

// like reports whether the receipts differ in offset, time written and the key's hash alone.
func (r *notedRow) like(o *notedRow) bool {
	return r.part == o.part && r.parts == o.parts && r.mapping == o.mapping && r.op == o.op && r.key.ID == o.key.ID
}

func newImportReceipts(lane *laneBase, writers *schemas.Registry) *importReceipts {
	if lane.receipts == nil {
		return nil
	}
	mappings := lane.router.Mappings()
	return &importReceipts{
		lane: lane, mappings: mappings, tables: ledgerTables(mappings), writers: writers, room: semaphore.NewWeighted(receiptsOnTheWay),
		notes: map[*kafka.Partition]map[string]*rowNotes{}, runs: map[string]map[int]execution{},
		told: map[*kafka.Partition]map[rowAt]bool{}, reads: map[string]bool{},
	}
}

// note notes a row that is about to go into a file. A record that is offered again is
// noted once. An error is the disk's.
func (n *importReceipts) note(p *kafka.Partition, row *notedRow) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	to := n.notesOf(p, row.mapping)
	if !to.noted.before(row.rowAt) {
		return nil
	}
	n.entry = to.written.append(n.entry[:0], row)
	if err := to.Append(n.entry); err != nil {
		to.written = notedRow{}
		return err
	}
	to.noted = row.rowAt
	return nil
}

// noteLate notes a record that goes into a file, since it was not called meanwhile.
func (n *importReceipts) noteLate(of *part) {
	if n == nil {
		return
	}
	r := of.record.Load()
	n.mu.Lock()
	defer n.mu.Unlock()
	to := n.notesOf(of.partition, of.mapping)
	to.late = append(to.late, notedRow{
		rowAt: rowAt{r.Offset, of.receipt.part}, parts: of.receipt.parts, mapping: of.mapping, op: of.op, written: r.Timestamp.UnixMilli(), key: of.receipt.key,
	})
}

// notesOf are the notes of a mapping's table of a partition, with mu held.
func (n *importReceipts) notesOf(p *kafka.Partition, m *router.Compiled) *rowNotes {
	if n.last.partition == p && n.last.mapping == m {
		return n.last.notes
	}
	tables := n.notes[p]
	if tables == nil {
		tables = map[string]*rowNotes{}
		n.notes[p] = tables
	}
	table := n.tables[m.Index]
	to := tables[table]
	if to == nil {
		to = &rowNotes{Notes: n.newNotes(m.Name), noted: rowAt{offset: -1}}
		tables[table] = to
	}
	n.last = lastNotes{p, m, to}
	return to
}

// withdraw takes the last note back: it is no row.
func (n *importReceipts) withdraw(p *kafka.Partition, m *router.Compiled) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if of := n.notesOf(p, m); of.Withdraw() {
		of.written = notedRow{}
	}
}

// What a note says: how far its row is behind the one before, of a row that is like that, as
// most are, or all.
const (
	likeBefore byte = iota
	whole
)

// append appends the note of a row behind this one's, and becomes that row.
func (r *notedRow) append(dst []byte, next *notedRow) []byte {
	if r.like(next) {
		dst = append(dst, likeBefore)
		dst = binary.AppendVarint(dst, next.offset-r.offset)
		dst = binary.AppendVarint(dst, next.written-r.written)
		r.offset, r.written = next.offset, next.written
	} else {
		dst = append(dst, whole, byte(next.op), byte(len(next.key.ID)))
		dst = append(dst, next.key.ID...)
		for _, v := range [...]int64{int64(next.part), int64(next.parts), int64(next.mapping.Index), next.offset, next.written} {
			dst = binary.AppendVarint(dst, v)
		}
		*r = *next
	}
	if next.key.ID == "" {
		return dst
	}
	return append(dst, next.key.Hash[:]...)
}

// read reads the note of a row behind this one's, and becomes that row.
func (r *notedRow) read(note []byte, mappings []*router.Compiled) {
	kind, rest := note[0], note[1:]
	number := func() int64 {
		v, size := binary.Varint(rest)
		rest = rest[size:]
		return v
	}
	if kind == likeBefore {
		r.offset += number()
		r.written += number()
	} else {
		op, id := schemas.Op(rest[0]), rest[2:2+rest[1]]
		rest = rest[2+len(id):]
		*r = notedRow{op: op, key: receipt.Key{ID: string(id)}}
		r.part, r.parts, r.mapping = int(number()), int(number()), mappings[number()]
		r.offset, r.written = number(), number()
	}
	copy(r.key.Hash[:], rest)
}

// running notes the execution that loads a file.
func (n *importReceipts) running(imp batcher.Import) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	table := imp.Table.Qualified()
	if n.runs[table] == nil {
		n.runs[table] = map[int]execution{}
	}
	n.runs[table][imp.Part] = execution{imp.Execution, time.Now()}
}

// release forgets what was noted of partitions that go, and of the imports of their tables.
func (n *importReceipts) release(ps []*kafka.Partition) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range ps {
		for table, notes := range n.notes[p] {
			notes.Drop()
			delete(n.runs, table)
		}
		delete(n.notes, p)
		delete(n.told, p)
	}
	clear(n.reads)
	n.last = lastNotes{}
}

// rowInError notes that a row is not loaded. It reports false if the receipt of its dead letter
// was sent before.
func (n *importReceipts) rowInError(p *kafka.Partition, at rowAt) (first bool) {
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.told[p] == nil {
		n.told[p] = map[rowAt]bool{}
	}
	if !n.told[p][at] {
		n.told[p][at] = false
		return true
	}
	return false
}

// deadLetter sends the receipt of a row in error that has become a dead letter.
func (n *importReceipts) deadLetter(p *kafka.Partition, row notedRow, imp *batcher.Import, done func()) {
	r := n.receipt(p, &row)
	r.Outcome, r.Row, r.Execution, r.Ended = receipt.DeadLetter, receipt.InError, imp.Execution, time.Now()
	n.mu.Lock()
	n.told[p][row.rowAt] = true
	n.mu.Unlock()
	n.lane.receipts.Send(&r, &acknowledged{func() {
		n.lane.metrics.Receipts(receipt.DeadLetter.String(), 1)
		done()
	}})
}

// acknowledged is a function as a receipt's waiter.
type acknowledged struct{ do func() }

// Acknowledged calls it.
func (a *acknowledged) Acknowledged(int) { a.do() }

func (n *importReceipts) receipt(p *kafka.Partition, row *notedRow) receipt.Receipt {
	return receipt.Receipt{
		Topic: p.Topic, Partition: p.ID, Offset: row.offset, Part: row.part, Parts: row.parts, Lane: schemas.Batch,
		Mapping: row.mapping.Name, Op: row.op, Written: time.UnixMilli(row.written), Assigned: p.Assigned(), Key: row.key,
	}
}

// ended is how the rows of an import have ended.
type ended struct {
	outcome   receipt.Outcome
	row       receipt.Row
	execution string
	began, at time.Time
}

func (n *importReceipts) endOf(imp *batcher.Import) ended {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := ended{outcome: receipt.Imported, row: receipt.Loaded, at: time.Now()}
	runs := n.runs[imp.Table.Qualified()]
	var ids []string
	for _, part := range slices.Sorted(maps.Keys(runs)) {
		ids = append(ids, runs[part].id)
		e.began = runs[part].began
	}
	if len(ids) == 0 && imp.Execution != "" {
		ids = []string{imp.Execution}
	}
	if len(ids) == 0 { // what was to be in the file, the other lane has overruled
		e.outcome, e.row = receipt.Superseded, receipt.NoRow
	}
	e.execution = strings.Join(ids, ",")
	return e
}

// write writes the receipts of an import that is about to be confirmed, for the records
// that these claims hold, and returns once all are acknowledged. It may be called again.
func (n *importReceipts) write(ctx context.Context, imp *batcher.Import, held []*kafka.Claim) error {
	if n == nil || imp.OnlyErrors { // of such only dead letters are left
		return nil
	}
	end := n.endOf(imp)
	var sent sending
	if imp.Adopted {
		if err := n.readAgain(ctx, imp, held, end, &sent); err != nil {
			return err
		}
	}
	ends := map[*kafka.Partition]int64{}
	for _, c := range held {
		ends[c.Partition()] = max(ends[c.Partition()], c.UpTo())
	}
	room := make([]notedRow, 0, rowsAtOnce)
	for p, upTo := range ends {
		for {
			rows, err := n.take(p, imp.Table.Qualified(), upTo, room)
			if err != nil {
				return err
			}
			if len(rows) == 0 {
				break
			}
			if err := n.send(ctx, p, rows, end, &sent); err != nil {
				return err
			}
		}
	}
	if err := sent.wait(ctx); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for p, rows := range sent.inError {
		for _, at := range rows {
			delete(n.told[p], at)
		}
	}
	return nil
}

// sending are the receipts of an import on their way, and its rows that need none, for
// they are dead letters. Those are known until all are there: write may be called again.
type sending struct {
	outbox
	inError map[*kafka.Partition][]rowAt
}

// together are receipts that count as acknowledged once all of them are: there may be millions.
type together struct {
	*importReceipts
	outcome receipt.Outcome
	sent    *sending
	n       int
	left    atomic.Int32
}

// Acknowledged counts some.
func (t *together) Acknowledged(n int) {
	if t.left.Add(-int32(n)) > 0 {
		return
	}
	t.room.Release(int64(t.n))
	t.lane.metrics.Receipts(t.outcome.String(), t.n)
	t.sent.done(t.n)
}

// rowsAtOnce are how many notes are taken at a time.
const rowsAtOnce = 256

// take takes some of the notes of records below an offset, into the room for rowsAtOnce.
func (n *importReceipts) take(p *kafka.Partition, table string, upTo int64, room []notedRow) (rows []notedRow, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	of := n.notes[p][table]
	if of == nil {
		return nil, nil
	}
	rows = room[:0]
	of.late = slices.DeleteFunc(of.late, func(r notedRow) bool {
		if len(rows) == rowsAtOnce || r.offset >= upTo {
			return false
		}
		rows = append(rows, r)
		return true
	})
	if len(rows) > 0 {
		return rows, nil
	}
	before := &of.read
	err = of.Take(func(note []byte) bool {
		if len(rows) == rowsAtOnce {
			return false
		}
		rows = append(rows, *before)
		row := &rows[len(rows)-1]
		if row.read(note, n.mappings); row.offset >= upTo {
			rows = rows[:len(rows)-1]
			return false
		}
		before = row
		return true
	})
	of.read = *before
	if len(rows) > 0 {
		err = nil // it is met again
	}
	return rows, err
}

// send sends the receipts of some rows, rowsAtOnce at most, but of those that were in error. It
// changes rows.
func (n *importReceipts) send(ctx context.Context, p *kafka.Partition, rows []notedRow, end ended, sent *sending) error {
	if rows = n.loaded(p, rows, sent); len(rows) == 0 {
		return nil
	}
	if err := n.room.Acquire(ctx, int64(len(rows))); err != nil {
		return err
	}
	sent.add(len(rows))
	all := &together{importReceipts: n, outcome: end.outcome, sent: sent, n: len(rows)}
	all.left.Store(int32(len(rows)))
	r := n.receipt(p, &rows[0])
	r.Outcome, r.Row, r.Execution, r.Started, r.Ended = end.outcome, end.row, end.execution, end.began, end.at
	n.lane.receipts.SendEach(len(rows), &r, func(i int) (like bool) {
		row := &rows[i]
		r.Offset, r.Written, r.Key.Hash = row.offset, time.UnixMilli(row.written), row.key.Hash
		if i > 0 && row.like(&rows[i-1]) {
			return true
		}
		r.Part, r.Parts, r.Mapping, r.Op, r.Key.ID = row.part, row.parts, row.mapping.Name, row.op, row.key.ID
		return false
	}, all)
	return nil
}

// loaded leaves the rows that were not in error, and notes the others.
func (n *importReceipts) loaded(p *kafka.Partition, rows []notedRow, sent *sending) []notedRow {
	n.mu.Lock()
	defer n.mu.Unlock()
	told := n.told[p]
	if len(told) == 0 {
		return rows
	}
	return slices.DeleteFunc(rows, func(row notedRow) bool {
		_, inError := told[row.rowAt]
		if inError {
			if sent.inError == nil {
				sent.inError = map[*kafka.Partition][]rowAt{}
			}
			sent.inError[p] = append(sent.inError[p], row.rowAt)
		}
		return inError
	})
}

// readAgain sends the receipts of an import that a former owner sent, which is found out
// from its records.
func (n *importReceipts) readAgain(ctx context.Context, imp *batcher.Import, held []*kafka.Claim, end ended, sent *sending) error {
	n.mu.Lock()
	done := n.reads[imp.File]
	n.mu.Unlock()
	if done {
		return nil
	}
	stretches := kafka.Stretches(held)
	behind := claimsOf(stretches, held)
	wanted := func(i int, record *kafka.Record) bool {
		return !behind[i].Apart(record.Offset) && record.Offset < behind[i].UpTo()
	}
	err := again{n.lane.source, n.lane.router, n.writers}.read(ctx, stretches, wanted, func(i int, record *kafka.Record, routed []router.Routed) error {
		p := behind[i].Partition()
		for j := range routed {
			w := &routed[j]
			if w.Err != nil || !loads(imp, w.Mapping.Name) || !behindImport(imp, p, w, record.Offset) {
				continue
			}
			if err := n.send(ctx, p, []notedRow{n.row(w, record, j, len(routed))}, end, sent); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reads[imp.File] = true
	return nil
}

// row is what a write's receipt needs.
func (n *importReceipts) row(w *router.Routed, r *kafka.Record, part, parts int) notedRow {
	return notedRow{
		rowAt: rowAt{r.Offset, part}, parts: parts, mapping: w.Mapping, op: w.Write.Op, written: r.Timestamp.UnixMilli(), key: n.lane.receipts.Of(&w.Write),
	}
}

// confirmed forgets the executions of an import whose offsets are released.
func (n *importReceipts) confirmed(imp *batcher.Import) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.runs, imp.Table.Qualified())
	delete(n.reads, imp.File)
}
