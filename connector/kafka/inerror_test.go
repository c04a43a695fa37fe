package kafka_test

import (
	"testing"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka"
)

func TestRecordInErrorIsAllThatAConfirmedImportKeeps(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 10)
	l := newLane(t)
	l.inFile = func(*kafka.Record) bool { return true }
	m := b.join(l)
	m.awaitOffsets("a", 0, upTo(0, 10)...)
	im := ack.Import{State: ack.Running, Table: "customers", File: "customers-1.csv.gz", Execution: "4711", Part: 1, Parts: 1, Attempt: 1}
	m.records(im, nil, l.file)
	l.file.Refuse(3, im.File)
	l.file.Refuse(7, im.File)
	l.file.Refuse(3, im.File) // told twice
	for range 2 {             // a confirmation may be repeated
		m.confirms("customers", l.file)
	}
	b.awaitDone("a", 0, "[{4 7} {8 10}]")
	im.State, im.UpTo = ack.InError, 8
	if offset, l := b.ledger("a", 0); offset != 3 || len(l.Imports) != 1 || l.Imports[0] != im {
		t.Errorf("ledger: got %d %+v, want 3 %+v", offset, l.Imports, im)
	}
	m.set(func(l *lane) { l.inFile = func(*kafka.Record) bool { return false } })
	m.ReadAgain(m.Partitions())
	eventually(t, "the next assignment adopts what is left", func() (bool, any) {
		got := m.assignment("a", 0).Adopted()
		return len(got) == 1 && got[0].Import == im, got
	})
	p := m.assignment("a", 0)
	if !p.Covered("customers", 3) || p.Covered("customers", 8) || p.Covered("orders", 3) {
		t.Error("covered: want the record in error alone, for its own table")
	}
	m.awaitOffsets("a", 0, append(upTo(0, 10), 3, 7)...)
	m.confirm("a", 0, 3, 7)
	left := p.Adopted()[0]
	m.confirms(left.Key(), left.Claim)
	b.awaitDone("a", 0, "[]")
	if offset, l := b.ledger("a", 0); offset != 10 || len(l.Imports) != 0 {
		t.Errorf("ledger in the end: got %d %+v, want 10 and nothing else", offset, l.Imports)
	}
}

// TestRecordInErrorOfAnEarlierFileSurvivesACrash: nobody knows any more which it is,
// so that the earlier file is looked at once more.
func TestRecordInErrorOfAnEarlierFileSurvivesACrash(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 10)
	l := newLane(t)
	l.inFile = func(*kafka.Record) bool { return true }
	m := b.join(l)
	m.awaitOffsets("a", 0, upTo(0, 10)...)
	first := ack.Import{State: ack.Running, Table: "customers", File: "customers-1.csv.gz", Execution: "4711", Part: 1, Parts: 2, Attempt: 1}
	next := ack.Import{State: ack.Running, Table: "customers", File: "customers-2.csv.gz", Execution: "4712", Part: 2, Parts: 2, Attempt: 1}
	claims := []*kafka.Claim{l.file}
	m.records(first, nil, claims...)
	l.file.Refuse(3, first.File)
	m.records(next, nil, claims...)
	m.ReadAgain(m.Partitions()) // as after a crash: the handler has forgotten everything
	eventually(t, "the later file is adopted", func() (bool, any) {
		got := m.assignment("a", 0).Adopted()
		return len(got) == 1 && got[0].File == next.File, got
	})
	adopted := m.assignment("a", 0).Adopted()[0]
	m.confirms("customers", adopted.Claim)
	eventually(t, "the earlier file is adopted in a new assignment", func() (bool, any) {
		got := m.assignment("a", 0).Adopted()
		return len(got) == 1 && got[0].File == first.File && got[0].State == ack.InError && got[0].UpTo == 10, got
	})
	if offset, l := b.ledger("a", 0); offset != 0 || len(l.Imports) != 1 {
		t.Errorf("ledger: got %d %+v, want 0 and the earlier file: nothing is lost", offset, l.Imports)
	}
}

func TestHaltOfAMappingStaysInTheLedgerUntilItIsForgotten(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 1)
	m := b.join(autoLane(t))
	m.awaitOffsets("a", 0, 0)
	b.awaitCommit("a", 0, 1)
	halt := ack.Halt{Mapping: 4711, Stage: "TASK_PUT", Code: "rejected", Status: 400}
	p := m.assignment("a", 0)
	p.KeepHalt(halt)
	p.KeepHalt(ack.Halt{Mapping: 4711, Stage: "TASK_PUT", Code: "rejected", Status: 422}) // one for each mapping
	p.KeepHalt(halt)
	m.CommitSoon()
	eventually(t, "the halt is committed", func() (bool, any) {
		_, l := b.ledger("a", 0)
		return len(l.Halts) == 1 && l.Halts[0] == halt, l.Halts
	})
	m.ReadAgain(m.Partitions())
	eventually(t, "the next assignment knows it", func() (bool, any) {
		p := m.assignment("a", 0)
		return p != nil && len(p.KeptHalts()) == 1 && p.KeptHalts()[0] == halt, nil
	})
	eventually(t, "it is forgotten", func() (bool, any) {
		m.assignment("a", 0).ForgetHalt(4711)
		m.CommitSoon()
		_, l := b.ledger("a", 0)
		return len(l.Halts) == 0, l.Halts
	})
}
