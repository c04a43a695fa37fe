package imports

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

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/outbox"
	"github.com/feedsink/feedsink/connector/receipt"
	"github.com/feedsink/feedsink/connector/tables"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// Receipts are the receipts of the batch lane. A row is noted before it goes into a
// file, and its receipt is written when the import that covers its record has ended,
// before the offsets are released. Of an import that a former owner sent nothing is noted:
// its records are read again. nil: no receipts topic.
type Receipts struct {
	lane     *Lane
	newNotes func(mapping string) *spool.Notes
	room     *semaphore.Weighted // for receipts that are not acknowledged
	mappings []*router.Compiled
	tables   []string // that the ledger knows, of each mapping

	mu    sync.Mutex
	entry []byte                                    // room for a note
	last  lastNotes                                 // most rows are of those of the row before
	notes map[*kafka.Partition]map[string]*rowNotes // by the table that the ledger knows
	runs  map[string]map[int]execution              // by that table and the file's part: of its import
	told  map[*kafka.Partition]map[At]bool          // rows in error: whether the receipt was sent
	reads map[string]bool                           // imports of former owners whose receipts are written, by file
}

// receiptsOnTheWay are how many receipts of imports Kafka may not have acknowledged.
const receiptsOnTheWay = 8 << 10

// rowNotes are the notes of one table's rows of one partition, in the order of offsets.
type rowNotes struct {
	*spool.Notes
	noted         At    // the last
	written, read Row   // the row of the last note that was written, or read; the zero row: none
	late          []Row // of records that waited for calls before they went into a file; not in order
}

// lastNotes are the notes of a mapping's table of a partition.
type lastNotes struct {
	partition *kafka.Partition
	mapping   *router.Compiled
	notes     *rowNotes
}

// At is a record's part.
type At struct {
	Offset int64
	Part   int
}

func (a At) before(b At) bool {
	return a.Offset < b.Offset || a.Offset == b.Offset && a.Part < b.Part
}

// execution is one that has loaded a file, and when it began.
type execution struct {
	id    string
	began time.Time
}

// Row is what is noted of a part.
type Row struct {
	At
	Parts   int
	Mapping *router.Compiled
	Op      schemas.Op
	Written int64 // in milliseconds since 1970
	Key     receipt.Key
}

// like reports whether the receipts differ in offset, time written and the key's hash alone.
func (r *Row) like(o *Row) bool {
	return r.Part == o.Part && r.Parts == o.Parts && r.Mapping == o.Mapping && r.Op == o.Op && r.Key.ID == o.Key.ID
}

// NewReceipts makes the receipts of a lane; nil without a receipts topic. newNotes makes notes
// in the spool, for a mapping's files.
func NewReceipts(lane *Lane, newNotes func(mapping string) *spool.Notes) *Receipts {
	if lane.Book == nil {
		return nil
	}
	mappings := lane.Router.Mappings()
	return &Receipts{
		lane: lane, mappings: mappings, tables: tables.LedgerTables(mappings), newNotes: newNotes, room: semaphore.NewWeighted(receiptsOnTheWay),
		notes: map[*kafka.Partition]map[string]*rowNotes{}, runs: map[string]map[int]execution{},
		told: map[*kafka.Partition]map[At]bool{}, reads: map[string]bool{},
	}
}

// Note notes a row that is about to go into a file. A record that is offered again is
// noted once. An error is the disk's.
func (n *Receipts) Note(p *kafka.Partition, row *Row) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	to := n.notesOf(p, row.Mapping)
	if !to.noted.before(row.At) {
		return nil
	}
	n.entry = to.written.append(n.entry[:0], row)
	if err := to.Append(n.entry); err != nil {
		to.written = Row{}
		return err
	}
	to.noted = row.At
	return nil
}

// NoteLate notes the row of a record that goes into a file, since it was not called meanwhile.
func (n *Receipts) NoteLate(p *kafka.Partition, row *Row) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	to := n.notesOf(p, row.Mapping)
	to.late = append(to.late, *row)
}

// notesOf are the notes of a mapping's table of a partition, with mu held.
func (n *Receipts) notesOf(p *kafka.Partition, m *router.Compiled) *rowNotes {
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
		to = &rowNotes{Notes: n.newNotes(m.Name), noted: At{Offset: -1}}
		tables[table] = to
	}
	n.last = lastNotes{p, m, to}
	return to
}

// Withdraw takes the last note back: it is no row.
func (n *Receipts) Withdraw(p *kafka.Partition, m *router.Compiled) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if of := n.notesOf(p, m); of.Withdraw() {
		of.written = Row{}
	}
}

// What a note says: how far its row is behind the one before, of a row that is like that, as
// most are, or all.
const (
	likeBefore byte = iota
	whole
)

// append appends the note of a row behind this one's, and becomes that row.
func (r *Row) append(dst []byte, next *Row) []byte {
	if r.like(next) {
		dst = append(dst, likeBefore)
		dst = binary.AppendVarint(dst, next.Offset-r.Offset)
		dst = binary.AppendVarint(dst, next.Written-r.Written)
		r.Offset, r.Written = next.Offset, next.Written
	} else {
		dst = append(dst, whole, byte(next.Op), byte(len(next.Key.ID)))
		dst = append(dst, next.Key.ID...)
		for _, v := range [...]int64{int64(next.Part), int64(next.Parts), int64(next.Mapping.Index), next.Offset, next.Written} {
			dst = binary.AppendVarint(dst, v)
		}
		*r = *next
	}
	if next.Key.ID == "" {
		return dst
	}
	return append(dst, next.Key.Hash[:]...)
}

// read reads the note of a row behind this one's, and becomes that row.
func (r *Row) read(note []byte, mappings []*router.Compiled) {
	kind, rest := note[0], note[1:]
	number := func() int64 {
		v, size := binary.Varint(rest)
		rest = rest[size:]
		return v
	}
	if kind == likeBefore {
		r.Offset += number()
		r.Written += number()
	} else {
		op, id := schemas.Op(rest[0]), rest[2:2+rest[1]]
		rest = rest[2+len(id):]
		*r = Row{Op: op, Key: receipt.Key{ID: string(id)}}
		r.Part, r.Parts, r.Mapping = int(number()), int(number()), mappings[number()]
		r.Offset, r.Written = number(), number()
	}
	copy(r.Key.Hash[:], rest)
}

// running notes the execution that loads a file.
func (n *Receipts) running(imp contract.Import) {
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

// Release forgets what was noted of partitions that go, and of the imports of their tables.
func (n *Receipts) Release(ps []*kafka.Partition) {
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
func (n *Receipts) rowInError(p *kafka.Partition, at At) (first bool) {
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.told[p] == nil {
		n.told[p] = map[At]bool{}
	}
	if !n.told[p][at] {
		n.told[p][at] = false
		return true
	}
	return false
}

// deadLetter sends the receipt of a row in error that has become a dead letter.
func (n *Receipts) deadLetter(p *kafka.Partition, row Row, imp *contract.Import, done func()) {
	r := n.receipt(p, &row)
	r.Outcome, r.Row, r.Execution, r.Ended = receipt.DeadLetter, receipt.InError, imp.Execution, time.Now()
	n.mu.Lock()
	n.told[p][row.At] = true
	n.mu.Unlock()
	n.lane.Book.Send(&r, &acknowledged{func() {
		n.lane.Metrics.Receipts(receipt.DeadLetter.String(), 1)
		done()
	}})
}

// acknowledged is a function as a receipt's waiter.
type acknowledged struct{ do func() }

// Acknowledged calls it.
func (a *acknowledged) Acknowledged(int) { a.do() }

func (n *Receipts) receipt(p *kafka.Partition, row *Row) receipt.Receipt {
	return receipt.Receipt{
		Topic: p.Topic, Partition: p.ID, Offset: row.Offset, Part: row.Part, Parts: row.Parts, Lane: schemas.Batch,
		Mapping: row.Mapping.Name, Op: row.Op, Written: time.UnixMilli(row.Written), Assigned: p.Assigned(), Key: row.Key,
	}
}

// ended is how the rows of an import have ended.
type ended struct {
	outcome   receipt.Outcome
	row       receipt.Row
	execution string
	began, at time.Time
}

func (n *Receipts) endOf(imp *contract.Import) ended {
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
func (n *Receipts) write(ctx context.Context, imp *contract.Import, held []*kafka.Claim) error {
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
	room := make([]Row, 0, rowsAtOnce)
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
	if err := sent.Wait(ctx); err != nil {
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
	outbox.Outbox
	inError map[*kafka.Partition][]At
}

// together are receipts that count as acknowledged once all of them are: there may be millions.
type together struct {
	*Receipts
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
	t.lane.Metrics.Receipts(t.outcome.String(), t.n)
	t.sent.Done(t.n)
}

// rowsAtOnce are how many notes are taken at a time.
const rowsAtOnce = 256

// take takes some of the notes of records below an offset, into the room for rowsAtOnce.
func (n *Receipts) take(p *kafka.Partition, table string, upTo int64, room []Row) (rows []Row, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	of := n.notes[p][table]
	if of == nil {
		return nil, nil
	}
	rows = room[:0]
	of.late = slices.DeleteFunc(of.late, func(r Row) bool {
		if len(rows) == rowsAtOnce || r.Offset >= upTo {
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
		if row.read(note, n.mappings); row.Offset >= upTo {
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
func (n *Receipts) send(ctx context.Context, p *kafka.Partition, rows []Row, end ended, sent *sending) error {
	if rows = n.loaded(p, rows, sent); len(rows) == 0 {
		return nil
	}
	if err := n.room.Acquire(ctx, int64(len(rows))); err != nil {
		return err
	}
	sent.Add(len(rows))
	all := &together{Receipts: n, outcome: end.outcome, sent: sent, n: len(rows)}
	all.left.Store(int32(len(rows)))
	r := n.receipt(p, &rows[0])
	r.Outcome, r.Row, r.Execution, r.Started, r.Ended = end.outcome, end.row, end.execution, end.began, end.at
	n.lane.Book.SendEach(len(rows), &r, func(i int) (like bool) {
		row := &rows[i]
		r.Offset, r.Written, r.Key.Hash = row.Offset, time.UnixMilli(row.Written), row.Key.Hash
		if i > 0 && row.like(&rows[i-1]) {
			return true
		}
		r.Part, r.Parts, r.Mapping, r.Op, r.Key.ID = row.Part, row.Parts, row.Mapping.Name, row.Op, row.Key.ID
		return false
	}, all)
	return nil
}

// loaded leaves the rows that were not in error, and notes the others.
func (n *Receipts) loaded(p *kafka.Partition, rows []Row, sent *sending) []Row {
	n.mu.Lock()
	defer n.mu.Unlock()
	told := n.told[p]
	if len(told) == 0 {
		return rows
	}
	return slices.DeleteFunc(rows, func(row Row) bool {
		_, inError := told[row.At]
		if inError {
			if sent.inError == nil {
				sent.inError = map[*kafka.Partition][]At{}
			}
			sent.inError[p] = append(sent.inError[p], row.At)
		}
		return inError
	})
}

// readAgain sends the receipts of an import that a former owner sent, which is found out
// from its records.
func (n *Receipts) readAgain(ctx context.Context, imp *contract.Import, held []*kafka.Claim, end ended, sent *sending) error {
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
	err := n.lane.Reader().Read(ctx, stretches, wanted, func(i int, record *kafka.Record, routed []router.Routed) error {
		p := behind[i].Partition()
		for j := range routed {
			w := &routed[j]
			if w.Err != nil || !loads(imp, w.Mapping.Name) || !behindImport(imp, p, w, record.Offset) {
				continue
			}
			if err := n.send(ctx, p, []Row{n.Row(w, record, j, len(routed))}, end, sent); err != nil {
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

// Row is what a write's receipt needs.
func (n *Receipts) Row(w *router.Routed, r *kafka.Record, part, parts int) Row {
	return Row{
		At: At{r.Offset, part}, Parts: parts, Mapping: w.Mapping, Op: w.Write.Op, Written: r.Timestamp.UnixMilli(), Key: n.lane.Book.Of(&w.Write),
	}
}

// confirmed forgets the executions of an import whose offsets are released.
func (n *Receipts) confirmed(imp *contract.Import) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.runs, imp.Table.Qualified())
	delete(n.reads, imp.File)
}
