package kafka_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka"
)

// left writes what a member that died during an import has left behind.
func (b *broker) left(partition int32, offset int64, l ack.Ledger) {
	b.t.Helper()
	l.Topic = ack.TopicID(b.TopicInfo("a").TopicID)
	metadata, _, err := l.Encode(offset, ack.MetadataLimit)
	if err != nil {
		b.t.Fatal(err)
	}
	b.commit("a", partition, offset, metadata)
}

func TestNewOwnerHoldsTheRecordsOfAnImportOnItsWay(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 20)
	im := ack.Import{
		State: ack.Running, Table: "customers", Mode: "CREATE_OR_UPDATE", File: "customers-1.csv.gz", Execution: "4711",
		UpTo: 12, Fingerprint: 7, Part: 1, Parts: 1, Attempt: 1,
	}
	used := time.Now().Add(-time.Hour).Unix()
	b.left(0, 5, ack.Ledger{Done: ack.Ranges{{From: 8, To: 9}}, Imports: []ack.Import{im}, Slots: []ack.Slots{{Table: "customers", Used: []int64{used}}}})
	m := b.join(autoLane(t))
	m.awaitOffsets("a", 0, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19)
	p := m.assignment("a", 0)
	adopted := p.Adopted()
	if len(adopted) != 1 || adopted[0].Import != im {
		t.Fatalf("adopted: got %+v, want %+v", adopted, im)
	}
	for offset, want := range map[int64]bool{5: true, 11: true, 12: false} {
		if got := p.Covered("customers", offset); got != want {
			t.Errorf("covered(customers, %d): got %v, want %v", offset, got, want)
		}
	}
	if p.Covered("orders", 5) {
		t.Error("record of another table: got covered")
	}
	if got, ok := m.Slots("a", "customers"); !ok || len(got) != 1 || got[0].Unix() != used {
		t.Errorf("slots used: got %v %v, want %v", got, ok, used)
	}
	b.awaitDone("a", 0, "[{5 20}]") // confirmed one by one by this lane, but the file holds the watermark
	if offset, l := b.ledger("a", 0); offset != 5 || len(l.Imports) != 1 || l.Imports[0] != im {
		t.Errorf("ledger while the import is on its way: got %d %+v, want 5 %+v", offset, l.Imports, im)
	}
	m.confirms("customers", adopted[0].Claim)
	if offset, l := b.ledger("a", 0); offset != 20 || len(l.Imports) != 0 || len(l.Slots) != 1 {
		t.Errorf("ledger after the import: got %d %+v %+v, want 20, no import, the slot", offset, l.Imports, l.Slots)
	}
}

func TestStartOverReadsTheFilesRecordsAgain(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a", "b")
	b.produce("a", 0, 10)
	b.produce("b", 0, 4)
	l := newLane(t)
	l.inFile = func(r *kafka.Record) bool { return r.Topic == "a" && r.Offset >= 6 }
	m := b.join(l)
	m.awaitOffsets("a", 0, upTo(0, 10)...)
	m.awaitOffsets("b", 0, upTo(0, 4)...)
	m.confirm("a", 0, 0, 1, 4)
	b.awaitDone("a", 0, "[{4 5}]")
	old, file := m.assignment("a", 0), l.file
	im := ack.Import{State: ack.Rebuild, Table: "customers", File: "customers-1.csv.gz", Part: 1, Parts: 1, Attempt: 1}
	for range 2 { // asked twice, it begins again once
		m.startsOver(im, file)
	}
	b.produce("a", 0, 5)
	b.produce("b", 0, 4)
	m.awaitOffsets("b", 0, upTo(0, 8)...)
	if !old.Live() || slices.Contains(m.offsets("a", 0), 10) {
		t.Error("while records are pending: got a new assignment or new records, want neither")
	}
	m.confirm("a", 0, 2, 3, 5)
	m.awaitOffsets("a", 0, append(upTo(0, 10), upTo(6, 15)...)...)
	if old.Live() || file.Live() || m.confirm("b", 0, 0) != 1 {
		t.Error("after: got the old assignment live, or the other topic's ended")
	}
	im.UpTo = 10
	if got := m.assignment("a", 0).Adopted(); len(got) != 1 || got[0].Import != im {
		t.Errorf("import of the new assignment: got %+v, want %+v", got, im)
	}
	if m.assignment("a", 0).Covered("customers", 6) {
		t.Error("record of a file that is built again: got covered")
	}
}

// What is confirmed beyond the file's first record is not done again, however
// often the file is.
func TestStartOverKeepsWhatIsDone(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 10)
	l := newLane(t)
	l.inFile = func(r *kafka.Record) bool { return r.Offset == 2 || r.Offset == 5 }
	m := b.join(l)
	m.awaitOffsets("a", 0, upTo(0, 10)...)
	m.confirm("a", 0, 0, 1, 3, 4, 7, 8)
	im := ack.Import{State: ack.Rebuild, Table: "customers", File: "customers-1.csv.gz", Part: 1, Parts: 1, Attempt: 2}
	m.startsOver(im, l.file)
	m.confirm("a", 0, 6, 9) // a dead letter that was still on its way
	m.awaitOffsets("a", 0, append(upTo(0, 10), 2, 5)...)
	b.awaitDone("a", 0, "[{3 5} {6 10}]")
	if offset, _ := b.ledger("a", 0); offset != 2 {
		t.Errorf("committed: got %d, want 2, the file's first record", offset)
	}
	p := m.assignment("a", 0)
	claims := []*kafka.Claim{p.Adopted()[0].Claim, l.file}
	im.State = ack.Intended
	m.records(im, home, claims...)
	im.UpTo = 6
	if _, l := b.ledger("a", 0); len(l.Imports) != 1 || l.Imports[0] != im {
		t.Errorf("ledger: got %+v, want %+v", l.Imports, im)
	}
	m.confirms("customers", claims...)
	if offset, l := b.ledger("a", 0); offset != 10 || len(l.Imports) != 0 || len(l.Done) != 0 {
		t.Errorf("ledger in the end: got %d %+v, want 10 and nothing else", offset, l)
	}
}

// The handler lets go while its last steps still get on record.
func TestStartOverReleasesBeforeTheAssignmentEnds(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 10)
	l := newLane(t)
	l.inFile = func(r *kafka.Record) bool { return r.Offset >= 4 }
	m := b.join(l, func(c *kafka.Config) { c.CommitEvery = time.Hour })
	m.awaitOffsets("a", 0, upTo(0, 10)...)
	m.confirm("a", 0, upTo(0, 4)...)
	other := ack.Import{State: ack.Running, Table: "orders", File: "orders-1.csv.gz", Execution: "4711", UpTo: 10, Part: 1, Parts: 1, Attempt: 1}
	file := l.file
	m.set(func(l *lane) {
		l.release = func(ctx context.Context, _ []*kafka.Partition) {
			if !file.Live() {
				return // in the end, on leaving
			}
			if err := m.RecordImport(ctx, other, home, []*kafka.Claim{file}); err != nil {
				t.Errorf("execution of another table's file, recorded on release: %v", err)
			}
		}
	})
	im := ack.Import{State: ack.Rebuild, Table: "customers", File: "customers-1.csv.gz", UpTo: 10, Part: 1, Parts: 1, Attempt: 2}
	m.startsOver(im, file)
	m.awaitOffsets("a", 0, append(upTo(0, 10), upTo(4, 10)...)...)
	got := m.assignment("a", 0).Adopted()
	if len(got) != 2 || got[0].Import != im || got[1].Import != other {
		t.Errorf("imports of the new assignment: got %+v, want %+v and %+v", got, im, other)
	}
}

func TestLateWordOfAFormerOwnerChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 10)
	l := newLane(t)
	l.inFile = func(*kafka.Record) bool { return true }
	first := b.join(l)
	first.awaitOffsets("a", 0, upTo(0, 10)...)
	late := []*kafka.Claim{l.file}
	im := ack.Import{State: ack.Running, Table: "customers", File: "customers-1.csv.gz", Execution: "4711", UpTo: 10, Part: 1, Parts: 1, Attempt: 1}
	first.records(im, home, late...)
	b.freeze(b.owner("a", 0))
	second := b.join(autoLane(t))
	eventually(t, "the second member adopts the import", func() (bool, any) {
		return len(second.Partitions()) == 1 && second.Joined() && len(second.Partitions()[0].Adopted()) == 1, second.logs
	})
	adopted := second.assignment("a", 0).Adopted()[0]
	if adopted.Import != im {
		t.Errorf("adopted: got %+v, want %+v", adopted.Import, im)
	}
	b.thaw()
	// Whether or not the first has noticed by now, it gets nothing on record.
	if err := first.RecordImport(t.Context(), im, home, late); err == nil {
		t.Error("record by a member without the partition: got no error")
	}
	eventually(t, "the first member has noticed", func() (bool, any) { return first.wasReleased("a", 0), first.logs })
	if late[0].Live() {
		t.Error("claim after the assignment ended: got live")
	}
	for what, say := range map[string]func() error{
		"confirm":    func() error { return first.ConfirmImport(t.Context(), "customers", late) },
		"record":     func() error { return first.RecordImport(t.Context(), im, home, late) },
		"start over": func() error { return first.StartOver(t.Context(), im, late, false) },
	} {
		if err := say(); !errors.Is(err, kafka.ErrFenced) {
			t.Errorf("late %s: got %v, want ErrFenced", what, err)
		}
	}
	if offset, l := b.ledger("a", 0); offset != 0 || len(l.Imports) != 1 || l.Imports[0] != im {
		t.Errorf("ledger after that: got %d %+v, want 0 %+v", offset, l.Imports, im)
	}
	second.confirms("customers", adopted.Claim)
	b.awaitCommit("a", 0, 10)
}

// A crash amid a commit leaves ledgers at different steps.
func TestFileThatIsBuiltAgainCoversNoPartition(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 2, "a")
	im := ack.Import{State: ack.Running, Table: "customers", File: "customers-1.csv.gz", Execution: "4711", UpTo: 5, Part: 1, Parts: 1, Attempt: 1}
	orders := im
	orders.Table = "orders"
	b.produce("a", 0, 10)
	b.produce("a", 1, 10)
	b.left(1, 0, ack.Ledger{Imports: []ack.Import{im, orders}})
	im.State, im.Attempt = ack.Rebuild, 2
	b.left(0, 0, ack.Ledger{Imports: []ack.Import{im}})
	m := b.join(autoLane(t))
	m.awaitOffsets("a", 0, upTo(0, 10)...)
	m.awaitOffsets("a", 1, upTo(0, 10)...)
	for id := range int32(2) {
		if m.assignment("a", id).Covered("customers", 3) {
			t.Errorf("record of partition %d in a file that is built again: got covered", id)
		}
	}
	if !m.assignment("a", 1).Covered("orders", 3) {
		t.Error("record of another table's running import: got not covered")
	}
}

// A step is committed for all partitions at once, or a crash would leave some
// of them behind.
func TestNoCommitHasHalfAStep(t *testing.T) {
	t.Parallel()
	const partitions = 60
	b := newBroker(t, partitions, "a")
	m := b.join(autoLane(t), func(c *kafka.Config) { c.CommitEvery = 50 * time.Microsecond })
	eventually(t, "all partitions are there", func() (bool, any) { return len(m.Partitions()) == partitions && m.Joined(), nil })
	for id := range int32(partitions) {
		b.awaitCommit("a", id, 0) // where each starts; partitions are loaded a few at a time
	}
	var claims []*kafka.Claim
	for _, p := range m.Partitions() {
		claims = append(claims, p.Claim(0))
	}
	b.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		if got := len(req.(*kmsg.OffsetCommitRequest).Topics[0].Partitions); got != partitions {
			t.Errorf("partitions in a commit while all change alike: got %d, want %d", got, partitions)
		}
		return nil, nil, false
	})
	for attempt := range 100 {
		im := ack.Import{State: ack.Running, Table: "customers", File: "customers-1.csv.gz", Execution: "4711", Part: 1, Parts: 1, Attempt: attempt}
		m.records(im, home, claims...)
	}
}
