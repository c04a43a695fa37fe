package planted

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/audit"
)

// Place is where a plant is to be found.
type Place struct {
	Topic     string
	Partition int32
	Offset    int64
}

// Plant alters a world.
type Plant struct {
	Name string
	Kind audit.Kind // that has to be found
	All  bool       // only if all records are judged
	// Alter does it, and says where. ok is false in a world that has nothing to do it with.
	Alter func(w *World) (at Place, ok bool)
}

func placeOf(r *Receipt) Place { return Place{r.Topic, r.Partition, r.Offset} }

func called(r *Receipt) bool   { return r.Outcome == "called" && r.Lane == "immediate" }
func instead(r *Receipt) bool  { return r.Outcome == "called" && r.Lane == "batch" } // of a row
func imported(r *Receipt) bool { return r.Outcome == "imported" }
func alone(r *Receipt) bool    { return r.Parts == 1 && r.Mapping != "" }

// altered alters the receipt that is found.
func altered(like func(*Receipt) bool, alter func(*World, *Receipt)) func(*World) (Place, bool) {
	return func(w *World) (Place, bool) {
		r := w.find(like)
		if r == nil {
			return Place{}, false
		}
		at := placeOf(r)
		alter(w, r)
		return at, true
	}
}

// copied writes another receipt like the one that is found.
func copied(like func(*Receipt) bool, alter func(*Receipt)) func(*World) (Place, bool) {
	return altered(like, func(w *World, r *Receipt) {
		c := *r
		alter(&c)
		w.add(c)
	})
}

// Plants are all of them.
func Plants() []Plant {
	return slices.Concat(losses, doubles, forgeries, orders, letters, commits, counts)
}

var losses = []Plant{
	{"a receipt is removed", audit.NoReceipt, false, altered(func(r *Receipt) bool { return alone(r) && r.Offset > 0 }, func(w *World, r *Receipt) { w.remove(*r) })},
	{"the receipt of a row is removed", audit.NoReceipt, false, altered(imported, func(w *World, r *Receipt) { w.remove(*r) })},
	{"the receipts of a stretch are removed", audit.NoReceipt, false, func(w *World) (Place, bool) {
		return w.removeFrom(func(r *Receipt, _ int64) bool { return r.Offset >= 2 && r.Offset < 6 }, 2)
	}},
	{"the first receipts of a partition are removed", audit.NoReceipt, true, func(w *World) (Place, bool) {
		return w.removeFrom(func(r *Receipt, first int64) bool { return r.Offset < first+2 }, 0)
	}},
	{"all receipts of the batch lane are removed from a partition", audit.NoReceipt, false, func(w *World) (at Place, ok bool) {
		r := w.find(func(r *Receipt) bool { return imported(r) && alone(r) })
		if r == nil {
			return at, false
		}
		in := placeOf(r)
		first := int64(-1)
		for i := range w.Receipts {
			if o := &w.Receipts[i]; o.Topic == in.Topic && o.Partition == in.Partition && imported(o) && alone(o) && w.below(o) && w.onlyBy(o) && (first < 0 || o.Offset < first) {
				first = o.Offset
			}
		}
		w.Receipts = slices.DeleteFunc(w.Receipts, func(o Receipt) bool { return o.Topic == in.Topic && o.Partition == in.Partition && o.Lane == "batch" })
		in.Offset = first
		return in, first >= 0
	}},
	{"the last receipt below the commit is removed", audit.NoReceipt, false, func(w *World) (at Place, ok bool) {
		var last *Receipt
		for i := range w.Receipts {
			if r := &w.Receipts[i]; w.below(r) && (last == nil || r.Topic == last.Topic && r.Partition == last.Partition && r.Offset > last.Offset) {
				last = r
			}
		}
		if last == nil {
			return at, false
		}
		at = placeOf(last)
		w.remove(*last)
		return at, true
	}},
	{"a receipt says that there is another part", audit.PartMissing, false, altered(alone, func(_ *World, r *Receipt) { r.Parts = 2 })},
	{"the receipt of one part of two is removed", audit.PartMissing, false, func(w *World) (at Place, ok bool) {
		for i := range w.Receipts {
			if r := w.Receipts[i]; r.Parts == 2 && w.below(&r) && len(w.of(&r)) == 2 {
				w.Receipts = slices.Delete(w.Receipts, i, i+1)
				return placeOf(&r), true
			}
		}
		return at, false
	}},
	{"the receipt of a record that is confirmed beyond the commit is removed", audit.NoReceipt, false, func(w *World) (at Place, ok bool) {
		for i := range w.Partitions {
			p := &w.Partitions[i]
			c := p.Commits[audit.Immediate]
			if c == nil || p.Commits[audit.Batch] != nil {
				continue
			}
			if l, err := ack.Decode(c.Metadata, c.Offset); err == nil && len(l.Done) > 0 {
				at = Place{p.Topic, p.ID, l.Done[0].From}
				w.remove(Receipt{Topic: at.Topic, Partition: at.Partition, Offset: at.Offset})
				return at, true
			}
		}
		return at, false
	}},
}

// removeFrom removes receipts of a partition with enough records, and says which record is the
// first that then has none.
func (w *World) removeFrom(which func(r *Receipt, first int64) bool, least int64) (at Place, ok bool) {
	for i := range w.Partitions {
		p := &w.Partitions[i]
		rs := w.Records[p.String()]
		n := slices.IndexFunc(rs, func(r Record) bool { return r.Offset >= least })
		if n < 0 {
			continue
		}
		probe := Receipt{Topic: p.Topic, Partition: p.ID, Offset: rs[n].Offset}
		if !which(&probe, rs[0].Offset) || !w.below(&probe) || len(w.of(&probe)) == 0 {
			continue
		}
		w.Receipts = slices.DeleteFunc(w.Receipts, func(r Receipt) bool {
			return r.Topic == p.Topic && r.Partition == p.ID && which(&r, rs[0].Offset)
		})
		return placeOf(&probe), true
	}
	return at, false
}

// onlyBy reports whether all receipts of the record are of its lane.
func (w *World) onlyBy(r *Receipt) bool {
	return !slices.ContainsFunc(w.of(r), func(o *Receipt) bool { return o.Lane != r.Lane })
}

var doubles = []Plant{
	{"a call is made twice in one assignment", audit.Doubled, false, copied(called, func(r *Receipt) { r.Ended = r.Ended.Add(5 * time.Millisecond) })},
	{"a call in the place of a row is made twice in one assignment", audit.Doubled, false, copied(instead, func(r *Receipt) { r.Ended = r.Ended.Add(5 * time.Millisecond) })},
	{"a row is loaded by two executions in one assignment", audit.Doubled, false, copied(imported, func(r *Receipt) { r.Execution = "999999" })},
	{"a record is called and a dead letter in one assignment", audit.Doubled, false, copied(called, func(r *Receipt) { r.Outcome, r.Status = "dead_letter", 400 })},
	{"both lanes end a part", audit.BothLanes, false, copied(called, func(r *Receipt) {
		r.Lane, r.Outcome, r.Execution, r.Row, r.Assigned = "batch", "imported", "999999", "loaded", r.Assigned.Add(time.Millisecond)
	})},
	{"both lanes end a row", audit.BothLanes, false, copied(imported, func(r *Receipt) { r.Lane, r.Outcome, r.Execution, r.Row = "immediate", "called", "", "none" })},
	{"receipts disagree about the parts", audit.PartsDiffer, false, copied(alone, func(r *Receipt) { r.Parts, r.Assigned = 3, r.Assigned.Add(time.Millisecond) })},
}

var forgeries = []Plant{
	{"a part beyond the parts", audit.Impossible, false, copied(alone, func(r *Receipt) { r.Part = 1 })},
	{"the immediate lane imports", audit.Impossible, false, altered(imported, func(_ *World, r *Receipt) { r.Lane = "immediate" })},
	{"an import without an execution", audit.Impossible, false, altered(imported, func(_ *World, r *Receipt) { r.Execution = "" })},
	{"a part that ended before the assignment", audit.Impossible, false, altered(called, func(_ *World, r *Receipt) { r.Ended = r.Assigned.Add(-time.Hour) })},
	{"a receipt of a record beyond the log's end", audit.NoSuchRecord, false, func(w *World) (at Place, ok bool) {
		r := w.find(called)
		if r == nil {
			return at, false
		}
		c := *r
		c.Offset = w.partition(c.Topic, c.Partition).End + 7
		w.add(c)
		return placeOf(&c), true
	}},
	{"a receipt of a partition that is not there", audit.NoSuchRecord, false, func(w *World) (at Place, ok bool) {
		r := w.find(called)
		if r == nil {
			return at, false
		}
		c := *r
		c.Partition = 4711
		w.add(c)
		return placeOf(&c), true
	}},
	{"a receipt of an offset that has no record", audit.NoSuchRecord, false, altered(called, func(w *World, r *Receipt) {
		in := fmt.Sprintf("%s[%d]", r.Topic, r.Partition)
		w.Records[in] = slices.DeleteFunc(slices.Clone(w.Records[in]), func(o Record) bool { return o.Offset == r.Offset })
	})},
	{"what is no receipt", audit.Unreadable, false, func(w *World) (Place, bool) {
		w.add(Receipt{Bytes: []byte("hello")})
		return Place{"receipts", 0, w.Receipts[len(w.Receipts)-1].At}, true
	}},
}

// pair finds two receipts of one key of one partition and assignment, each the only one of its
// record, with nothing of the key in between.
func (w *World) pair(like func(*Receipt) bool) (older, newer *Receipt) {
	last := map[string]*Receipt{}
	sorted := make([]*Receipt, 0, len(w.Receipts))
	for i := range w.Receipts {
		sorted = append(sorted, &w.Receipts[i])
	}
	slices.SortStableFunc(sorted, func(a, b *Receipt) int { return int(a.Offset - b.Offset) })
	for _, r := range sorted {
		if len(r.Key) == 0 {
			continue
		}
		id := fmt.Sprintf("%s[%d] %x", r.Topic, r.Partition, r.Key)
		o := last[id]
		last[id] = r
		if o == nil || !like(o) || !like(r) || o.Offset == r.Offset || !w.single(o) || !w.single(r) || !w.below(o) || !w.below(r) || !o.Assigned.Equal(r.Assigned) {
			continue
		}
		if like(&Receipt{Outcome: "imported"}) && (o.Execution == r.Execution || o.Started.UnixMilli() == 0 || r.Started.UnixMilli() == 0) {
			continue
		}
		return o, r
	}
	return nil, nil
}

// otherOrder has the older of two calls end last.
func otherOrder(like func(*Receipt) bool) func(*World) (Place, bool) {
	return func(w *World) (at Place, ok bool) {
		o, n := w.pair(like)
		if o == nil {
			return at, false
		}
		o.Ended = n.Ended.Add(time.Millisecond)
		return placeOf(o), true
	}
}

var orders = []Plant{
	{"two calls of a key in the other order", audit.Order, false, otherOrder(called)},
	{"two calls in the place of rows of a key in the other order", audit.Order, false, otherOrder(instead)},
	{"two rows of a key in the other order", audit.Order, false, func(w *World) (at Place, ok bool) {
		o, n := w.pair(imported)
		if o == nil {
			return at, false
		}
		o.Started = n.Started.Add(time.Millisecond)
		o.Ended = n.Ended.Add(time.Second)
		return placeOf(o), true
	}},
	{"after a crash an older call is repeated, and the newer one is not", audit.Order, false, func(w *World) (at Place, ok bool) {
		o, _ := w.pair(called)
		if o == nil {
			return at, false
		}
		c := *o
		c.Assigned, c.Ended = c.Assigned.Add(time.Hour), c.Ended.Add(time.Hour)
		w.add(c)
		return placeOf(&c), true
	}},
}

var letters = []Plant{
	{"a dead letter is removed", audit.NoDeadLetter, false, altered(func(r *Receipt) bool { return r.Outcome == "dead_letter" }, func(w *World, r *Receipt) {
		w.Letters = slices.DeleteFunc(w.Letters, func(m audit.Message) bool {
			return headerOf(&m, "__connect.errors.topic") == r.Topic && headerOf(&m, "__connect.errors.partition") == strconv.Itoa(int(r.Partition)) &&
				headerOf(&m, "__connect.errors.offset") == strconv.FormatInt(r.Offset, 10)
		})
	})},
	{"a receipt says dead letter, and there is none", audit.NoDeadLetter, false, altered(called, func(_ *World, r *Receipt) { r.Outcome, r.Status = "dead_letter", 400 })},
	{"a dead letter of the other lane", audit.BothLanes, false, altered(called, func(w *World, r *Receipt) { w.letter(r, r.Offset, "batch") })},
	{"a dead letter of a record beyond the log's end", audit.NoSuchRecord, false, func(w *World) (at Place, ok bool) {
		r := w.find(called)
		if r == nil {
			return at, false
		}
		at = placeOf(r)
		at.Offset = w.partition(r.Topic, r.Partition).End + 3
		w.letter(r, at.Offset, "immediate")
		return at, true
	}},
}

func headerOf(m *audit.Message, key string) string {
	for _, h := range m.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// letter writes a dead letter.
func (w *World) letter(r *Receipt, offset int64, lane string) {
	m := audit.Message{Offset: int64(1000 + len(w.Letters))}
	for _, h := range [][2]string{
		{"__connect.errors.topic", r.Topic},
		{"__connect.errors.partition", strconv.Itoa(int(r.Partition))},
		{"__connect.errors.offset", strconv.FormatInt(offset, 10)},
		{"__connect.errors.connector.name", w.Connector},
		{"__connect.errors.stage", "TASK_PUT"},
		{"feedsink.mapping", r.Mapping},
		{"feedsink.lane", lane},
	} {
		m.Headers = append(m.Headers, audit.Header{Key: h[0], Value: []byte(h[1])})
	}
	w.Letters = append(w.Letters, m)
}

// committed alters a partition that some lane has committed.
func committed(alter func(w *World, p *audit.Partition, lane audit.Lane) (offset int64)) func(*World) (Place, bool) {
	return func(w *World) (at Place, ok bool) {
		for i := range w.Partitions {
			p := &w.Partitions[i]
			for _, lane := range audit.Lanes {
				if c := p.Commits[lane]; c != nil && c.Offset > 2 && c.Metadata != "" {
					return Place{p.Topic, p.ID, alter(w, p, lane)}, true
				}
			}
		}
		return at, false
	}
}

// grown has more records in the partition.
func (w *World) grown(p *audit.Partition, n int64) (first int64) {
	first = p.End
	for i := range n {
		w.Records[p.String()] = append(slices.Clip(w.Records[p.String()]), Record{first + i, w.Read.UnixMilli()})
	}
	p.End += n
	return first
}

var commits = []Plant{
	{"the commits are set forward", audit.NoReceipt, false, committed(func(w *World, p *audit.Partition, _ audit.Lane) int64 {
		first := w.grown(p, 2)
		for _, c := range p.Commits {
			if c != nil {
				ledger(c, p.End, func(l *ack.Ledger) { l.Done = nil })
			}
		}
		return first
	})},
	{"a ledger says that a record is confirmed which has not ended", audit.NoReceipt, false, committed(func(w *World, p *audit.Partition, _ audit.Lane) int64 {
		first := w.grown(p, 3)
		for _, c := range p.Commits {
			if c != nil {
				ledger(c, c.Offset, func(l *ack.Ledger) { l.Done = l.Done.Add(ack.Range{From: first + 1, To: first + 2}) })
			}
		}
		return first + 1
	})},
	{"a ledger is damaged", audit.LedgerLost, false, committed(func(_ *World, p *audit.Partition, lane audit.Lane) int64 {
		c := p.Commits[lane]
		b := bytes.Clone([]byte(c.Metadata))
		b[len(b)/2] ^= 1
		c.Metadata = string(b)
		return c.Offset
	})},
	{"a ledger is removed", audit.LedgerLost, false, committed(func(_ *World, p *audit.Partition, lane audit.Lane) int64 {
		p.Commits[lane].Metadata = ""
		return p.Commits[lane].Offset
	})},
	{"a ledger of another topic", audit.OtherLog, false, committed(func(_ *World, p *audit.Partition, lane audit.Lane) int64 {
		c := p.Commits[lane]
		p.TopicID[0] ^= 1
		return c.Offset
	})},
	{"a commit beyond the log's end", audit.OtherLog, false, committed(func(_ *World, p *audit.Partition, lane audit.Lane) int64 {
		ledger(p.Commits[lane], p.End+100, func(l *ack.Ledger) { l.Done = nil })
		return p.End
	})},
	{"an import that reaches beyond the log's end", audit.OtherLog, false, committed(func(_ *World, p *audit.Partition, lane audit.Lane) int64 {
		c := p.Commits[lane]
		ledger(c, c.Offset, func(l *ack.Ledger) {
			l.Imports = append(l.Imports, ack.Import{State: ack.Running, Table: "profile/customers", File: "a.csv", Execution: "7", UpTo: p.End + 9, Part: 1, Parts: 1, Attempt: 1})
		})
		return p.End
	})},
	{"the log loses records before they ended", audit.Removed, false, committed(func(w *World, p *audit.Partition, lane audit.Lane) int64 {
		ledger(p.Commits[lane], 0, func(l *ack.Ledger) { l.Done = nil })
		p.Start = 2
		in := p.String()
		w.Records[in] = slices.DeleteFunc(slices.Clone(w.Records[in]), func(r Record) bool { return r.Offset < 2 })
		w.Receipts = slices.DeleteFunc(w.Receipts, func(r Receipt) bool { return r.Topic == p.Topic && r.Partition == p.ID && r.Offset < 2 })
		return 0
	})},
}

// homeOf is the place of a table's count, and the receipt of a row of it. Of the row's import it
// is known when that began: only such imports have a day.
func (w *World) homeOf() (r *Receipt, t audit.Table, home *audit.Partition) {
	if r = w.find(func(r *Receipt) bool { return imported(r) && r.Started.UnixMilli() > 0 }); r == nil {
		return nil, t, nil
	}
	t = w.Tables[r.Mapping]
	home = w.partition(t.Home, 0)
	if home.Commits[audit.Batch] == nil {
		return nil, t, nil
	}
	return r, t, home
}

var counts = []Plant{
	{"a ledger counts more imports than there are slots", audit.TooManySlots, false, func(w *World) (at Place, ok bool) {
		r, t, home := w.homeOf()
		if r == nil {
			return at, false
		}
		c := home.Commits[audit.Batch]
		ledger(c, c.Offset, func(l *ack.Ledger) {
			l.Slots = append(slices.DeleteFunc(slices.Clone(l.Slots), func(s ack.Slots) bool { return s.Table == t.Name }),
				ack.Slots{Table: t.Name, Used: slices.Repeat([]int64{w.Read.Unix()}, t.PerDay+1)})
		})
		return Place{home.Topic, home.ID, c.Offset}, true
	}},
	{"receipts name more imports than there are slots", audit.TooManySlots, false, func(w *World) (at Place, ok bool) {
		r, t, home := w.homeOf()
		if r == nil {
			return at, false
		}
		for i := range t.PerDay + 1 {
			c := *r
			c.Execution, c.Assigned = fmt.Sprintf("77%d", i), c.Assigned.Add(time.Duration(i+1)*time.Millisecond)
			c.Started, c.Ended = w.Read, w.Read
			w.add(c)
		}
		return Place{home.Topic, home.ID, home.Commits[audit.Batch].Offset}, true
	}},
	{"a ledger forgets the day's slots", audit.SlotForgotten, false, func(w *World) (at Place, ok bool) {
		r, _, home := w.homeOf()
		if r == nil {
			return at, false
		}
		c := home.Commits[audit.Batch]
		ledger(c, c.Offset, func(l *ack.Ledger) { l.Slots = nil })
		w.Read = w.Read.Add(2 * time.Minute) // an import of the last minute may have begun since the ledger was read
		return Place{home.Topic, home.ID, c.Offset}, true
	}},
}
