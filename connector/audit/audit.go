package audit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/avro"
)

// Options say what is judged.
type Options struct {
	Schema    string           // of receipts: schemas/receipt.avsc
	Connector string           // the deployment's name in dead letters: its configured group
	Tables    map[string]Table // by mapping, where it has imports
	// From has all records that were written since then judged, whenever receipts began.
	// The zero time: what the rule says that Begin describes.
	From time.Time
	All  bool   // as From, for all that the topics hold
	Dir  string // of files that memory has no room for; "": the system's
	Room int    // receipts that memory holds; 0: a quarter of a million, some 150 MB
}

const usualRoom = 1 << 18

// audit is one at work.
type audit struct {
	Options
	*Evidence
	report  Report
	schema  *avro.Schema
	places  map[string]map[int32]int32 // by topic and partition: of parts
	topics  map[string]bool
	parts   []*part
	names   []string
	numbers map[string]int32
	records sorter // receipts and dead letters, by record
	keys    sorter // receipts with a key, by key
	begun   [2]int64
	imports map[string]map[string]int64 // by table and execution: when it began
}

// part is a partition, and what is known of it before its records are judged.
type part struct {
	*Partition
	ledgers [2]*ledger // nil: nothing is committed, or it cannot be read
	lanes   []Lane     // that have to confirm a record
	begun   [2]int64   // by lane: the first assignment that has a receipt, in milliseconds of Unix; 0: none
	fickle  int64      // below, routes have changed, and parts may have ended under several
	former  int64      // below, a lane has ended parts that reads the partition no more
	unsure  int64      // from here up to fickle, records may have been on their way meanwhile
	judged  Judged
}

// Run audits. An error is one of reading, or of ctx; what is wrong with the records is in
// the report.
func Run(ctx context.Context, e *Evidence, o Options) (*Report, error) {
	a := &audit{
		Options: o, Evidence: e, places: map[string]map[int32]int32{}, topics: map[string]bool{}, numbers: map[string]int32{},
		imports: map[string]map[string]int64{},
		report: Report{
			At: e.Read.UTC(), Outcomes: map[string]int64{}, Kinds: map[string]int64{}, Notes: []string{}, Gaps: []Gap{}, Partitions: []Judged{},
		},
	}
	room := cmp.Or(o.Room, usualRoom)
	a.records = sorter{dir: o.Dir, room: room, compare: byPlace}
	a.keys = sorter{dir: o.Dir, room: room, compare: byKey}
	defer a.records.close()
	defer a.keys.close()
	var err error
	if a.schema, err = avro.Parse(o.Schema); err != nil {
		return nil, fmt.Errorf("schema of receipts: %w", err)
	}
	a.number("") // is 0
	a.takeLedgers()
	for _, step := range []func(context.Context) error{a.readReceipts, a.readLetters, a.judgeRecords, a.judgeKeys} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	a.judgeSlots()
	for _, p := range a.parts {
		a.report.Partitions = append(a.report.Partitions, p.judged)
	}
	slices.Sort(a.report.Notes)
	a.report.sort()
	return &a.report, nil
}

// number gives names numbers.
func (a *audit) number(name string) int32 {
	n, ok := a.numbers[name]
	if !ok {
		name = strings.Clone(name)
		n = int32(len(a.names))
		a.numbers[name], a.names = n, append(a.names, name)
	}
	return n
}

func (a *audit) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(a.report.Notes, text) {
		a.report.Notes = append(a.report.Notes, text)
	}
}

func (a *audit) gap(p *part, kind Kind, offset int64, format string, args ...any) {
	a.report.gap(Gap{Kind: kind, Topic: p.Topic, Partition: p.ID, Offset: offset, What: fmt.Sprintf(format, args...)})
}

// place finds a partition; ok is false where the mappings do not read the topic, and with a
// topic that they read, where it has no such partition.
func (a *audit) place(topic string, partition int32) (number int32, ok bool) {
	number, ok = a.places[topic][partition]
	return number, ok
}

// readReceipts keeps what is needed of each receipt.
func (a *audit) readReceipts(ctx context.Context) error {
	return a.Receipts(ctx, func(m *Message) error {
		a.report.Receipts++
		r, err := openReceipt(a.schema, m.Value)
		if err != nil {
			a.report.gap(Gap{Kind: Unreadable, Topic: a.ReceiptsTopic, Offset: m.Offset, Partition: m.Partition, What: fmt.Sprintf(
				"the record at offset %d of partition %d of the receipts topic is no receipt: %v", m.Offset, m.Partition, err)})
			return nil
		}
		return a.receipt(m, &r)
	})
}

func (a *audit) receipt(m *Message, r *wire) error {
	a.report.Outcomes[r.Outcome]++
	lies := func() string {
		return fmt.Sprintf("the receipt at offset %d of partition %d of its topic", m.Offset, m.Partition)
	}
	number, ok := a.place(r.Topic, r.Partition)
	switch {
	case !ok && a.topics[r.Topic]:
		a.report.gap(Gap{Kind: NoSuchRecord, Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, What: lies() + " is of a partition that the topic does not have"})
		return nil
	case !ok:
		a.note("receipts of topic %s are left out: no mapping reads it", r.Topic)
		return nil
	}
	p := a.parts[number]
	if !a.From.IsZero() && r.Ended.UnixMilli() < a.From.UnixMilli()-slack {
		return nil
	}
	if wrong := r.shape(); wrong != "" {
		a.gap(p, Impossible, r.Offset, "%s says what no member writes: %s", lies(), wrong)
		return nil
	}
	e := entry{
		partition: number, offset: r.Offset, part: r.Part, parts: r.Parts, mapping: a.number(r.Mapping), execution: a.number(r.Execution),
		keyID: a.number(r.KeyID), status: r.Status, assigned: r.Assigned.UnixMilli(), started: r.Started.UnixMilli(), ended: r.Ended.UnixMilli(),
		from: m.Partition, at: m.Offset,
	}
	e.outcome = outcome(slices.Index(outcomeNames[:], r.Outcome)) // the schema has no others
	if r.Lane == Batch.String() {
		e.lane = Batch
	}
	if r.KeyID != "" {
		copy(e.key[:], m.Key)
	}
	a.noteAssignment(p, &e)
	a.noteImport(r, &e)
	if err := a.records.add(&e); err != nil {
		return err
	}
	if r.KeyID == "" {
		return nil
	}
	return a.keys.add(&e)
}

// noteAssignment notes when the lane's receipts begin, and where routes have changed.
func (a *audit) noteAssignment(p *part, e *entry) {
	for _, first := range []*int64{&p.begun[e.lane], &a.begun[e.lane]} {
		if *first == 0 || e.assigned < *first {
			*first = e.assigned
		}
	}
	if e.offset >= p.End {
		return
	}
	if l := p.ledgers[e.lane]; l != nil && l.routes.known() && !l.routes.first && e.assigned < l.routes.changed {
		p.fickle = max(p.fickle, e.offset+1)
	}
	if p.Commits[e.lane] == nil || slices.Contains(p.lanes, e.lane) {
		return
	}
	if l := p.ledgers[1-e.lane]; l != nil && e.assigned < l.routes.changed {
		p.former = max(p.former, e.offset+1) // it was stopped before it could commit it
	}
}

// noteImport notes when executions began. Of several that a receipt names only the last one's
// time is known.
func (a *audit) noteImport(r *wire, e *entry) {
	table, counted := a.Tables[r.Mapping]
	if !counted || e.outcome != imported {
		return
	}
	of := a.imports[table.Name]
	if of == nil {
		of = map[string]int64{}
		a.imports[table.Name] = of
	}
	ids := r.executions()
	for i, id := range ids {
		at, seen := of[id]
		if i == len(ids)-1 && e.started > 0 && (at == 0 || e.started < at) {
			at = e.started
		}
		if !seen || at != of[id] {
			of[strings.Clone(id)] = at
		}
	}
}

// readLetters keeps the places of dead letters.
func (a *audit) readLetters(ctx context.Context) error {
	if a.Letters == nil {
		return nil
	}
	return a.Letters(ctx, func(m *Message) error {
		l, ok := openLetter(m.Headers, a.Connector)
		if !ok {
			return nil
		}
		a.report.DeadLetters++
		number, ok := a.place(l.topic, l.partition)
		switch {
		case !ok && a.topics[l.topic]:
			a.report.gap(Gap{Kind: NoSuchRecord, Topic: l.topic, Partition: l.partition, Offset: l.offset, What: fmt.Sprintf(
				"the dead letter %d:%d is of a partition that the topic does not have", m.Partition, m.Offset)})
			return nil
		case !ok || l.replayed: // the first one is there, too, or was replayed
			return nil
		}
		e := entry{letter: true, partition: number, offset: l.offset, part: -1, mapping: a.number(l.mapping), from: m.Partition, at: m.Offset}
		if l.lane == Batch.String() {
			e.lane = Batch
		}
		return a.records.add(&e)
	})
}
