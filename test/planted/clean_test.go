package planted

import (
	"fmt"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/audit"
)

var (
	noon     = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	firstTry = noon                  // of the partitions
	crashed  = noon.Add(time.Minute) // and the second, after a crash
	topicID  = ack.TopicID{1, 2, 3}
)

// clean is a world in which all is well: customers, of which every third goes by a call and the
// rest by two imports, with a crash in between; and orders, which are called, some of them
// merged, with a dead letter, a record in two parts, a transaction's marker, and records
// that are confirmed beyond the commit; and visits, whose rows are called.
func clean() *World {
	w := &World{Read: noon.Add(time.Hour), Records: map[string][]Record{}, Connector: "sink", Tables: map[string]audit.Table{
		"customers": {Name: "profile/customers", Home: "customers", PerDay: 3, Zone: time.UTC},
		"orders":    {Name: "custom/orders", Home: "orders", PerDay: 3, Zone: time.UTC},
	}}
	w.customers(0)
	w.customers(1)
	w.orders()
	w.visits()
	return w
}

// visits are 8 records of the batch lane.
func (w *World) visits() {
	w.records("visits", 0, 8, -1)
	p := audit.Partition{Topic: "visits", End: 8, TopicID: topicID}
	p.Commits[audit.Batch] = commit(8, false, nil)
	w.Partitions = append(w.Partitions, p)
	for offset := range int64(8) {
		r := w.receipt("visits", 0, offset, firstTry)
		r.Lane = "batch"
		w.add(r)
	}
}

func key(k int) []byte { return []byte(fmt.Sprintf("key %012d", k)) }

// receipt is one of a call.
func (w *World) receipt(topic string, partition int32, offset int64, assigned time.Time) Receipt {
	keys := 4
	if topic == "customers" {
		keys = 5
	}
	r := Receipt{
		Topic: topic, Partition: partition, Offset: offset, Parts: 1, Lane: "immediate", Mapping: topic, Op: "upsert", Outcome: "called", Row: "none",
		Written: noon.Add(-time.Hour), Assigned: assigned, Started: time.UnixMilli(0), Ended: assigned.Add(time.Duration(10*offset+10) * time.Millisecond),
		KeyID: "0a0b0c0d", Key: key(100*int(partition) + int(offset)%keys), In: partition,
	}
	return r
}

func commit(offset int64, shared bool, change func(*ack.Ledger)) *audit.Commit {
	l := ack.Ledger{Topic: topicID, Routes: ack.Routes{Changed: firstTry.Add(time.Millisecond).UnixMilli(), First: true, Shared: shared, Epochs: []ack.Epoch{{Fingerprint: 42}}}}
	if change != nil {
		change(&l)
	}
	metadata, _, err := l.Encode(offset, ack.MetadataLimit)
	if err != nil {
		panic(err)
	}
	return &audit.Commit{Offset: offset, Metadata: metadata}
}

func (w *World) records(topic string, partition int32, n, without int64) {
	in := fmt.Sprintf("%s[%d]", topic, partition)
	for offset := range n {
		if offset != without {
			w.Records[in] = append(w.Records[in], Record{offset, noon.Add(-time.Hour).UnixMilli()})
		}
	}
}

// customers are 24 records, of which offsets 20 on are in an import that runs.
func (w *World) customers(partition int32) {
	w.records("customers", partition, 24, -1)
	p := audit.Partition{Topic: "customers", ID: partition, End: 24, TopicID: topicID}
	p.Commits[audit.Immediate] = commit(24, true, nil)
	p.Commits[audit.Batch] = commit(20, true, func(l *ack.Ledger) {
		l.Imports = []ack.Import{{State: ack.Running, Table: "profile/customers", Mode: "CREATE_OR_UPDATE", File: "c.csv.gz", Execution: "1003", UpTo: 24, Since: 12, Fingerprint: 9, Part: 1, Parts: 1, Attempt: 1}}
		if partition == 0 {
			l.Slots = []ack.Slots{{Table: "profile/customers", Used: []int64{noon.Unix(), noon.Add(2 * time.Minute).Unix()}}}
		}
		l.Halts, l.Pauses = []ack.Halt{{Mapping: 1, Stage: "TASK_PUT", Code: "rejected", Status: 400}}, []ack.Pause{{Mapping: 1, At: 5, Reason: "no reason"}}
	})
	w.Partitions = append(w.Partitions, p)
	for offset := range int64(24) {
		r := w.receipt("customers", partition, offset, firstTry)
		if offset%3 == 0 {
			w.add(r)
			continue
		}
		if offset >= 20 {
			continue
		}
		r.Lane, r.Outcome, r.Execution, r.Row = "batch", "imported", "1001", "loaded"
		r.Started, r.Ended = firstTry.Add(time.Second), firstTry.Add(2*time.Second)
		if offset >= 10 {
			r.Execution, r.Started, r.Ended = "1000,1002", firstTry.Add(3*time.Second), firstTry.Add(4*time.Second)
		}
		w.add(r)
		if offset == 7 || offset == 8 { // the crash came between receipt and commit
			r.Assigned, r.Started, r.Ended = crashed, time.UnixMilli(0), crashed.Add(time.Second)
			w.add(r)
		}
		if offset == 11 { // the import was confirmed twice
			r.Ended = r.Ended.Add(time.Second)
			w.add(r)
		}
	}
}

// orders are 23 records, one of them a marker. Offset 18 waits, 19 and 20 are confirmed.
func (w *World) orders() {
	w.records("orders", 0, 23, 9)
	p := audit.Partition{Topic: "orders", End: 23, TopicID: topicID}
	p.Commits[audit.Immediate] = commit(18, false, func(l *ack.Ledger) { l.Done = ack.Ranges{{From: 19, To: 21}} })
	w.Partitions = append(w.Partitions, p)
	for offset := range int64(21) {
		r := w.receipt("orders", 0, offset, firstTry)
		switch offset {
		case 9, 18:
			continue
		case 3:
			r.Outcome, r.Status = "dead_letter", 422
			w.letter(&r, 3, "immediate")
			w.letter(&r, 3, "immediate") // as the answer of the first was lost
		case 5:
			r.Outcome, r.Mapping, r.KeyID, r.Key, r.Op = "dead_letter", "", "", nil, "none"
			w.letter(&r, 5, "immediate")
		case 6:
			r.Outcome, r.Mapping, r.KeyID, r.Key, r.Op = "skipped", "", "", nil, "none"
		case 10:
			r.Parts = 2
			w.add(r)
			r.Part = 1
		case 12: // in the call of the next of its key
			r.Outcome, r.Ended = "merged", r.Ended.Add(time.Hour)
		case 13:
			w.letter(&r, 13, "immediate") // a crash, and then the service took it
			w.add(r)
			r.Assigned, r.Ended = crashed, crashed.Add(time.Second)
		case 17: // sent again after the crash, as 13 was
			w.add(r)
			r.Outcome, r.Assigned, r.Ended = "merged", crashed, crashed.Add(time.Second)
		}
		w.add(r)
		if offset == 2 { // Kafka's answer was lost
			w.add(r)
		}
	}
}
