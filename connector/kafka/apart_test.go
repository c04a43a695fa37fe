package kafka_test

import (
	"testing"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka"
)

// TestPartitionThatIsSetApartIsReadAgain: the other partitions' share of the
// import is confirmed; of its own the ledger knows that the rows may have landed.
func TestPartitionThatIsSetApartIsReadAgain(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 2, "a")
	b.produce("a", 0, 10)
	b.produce("a", 1, 10)
	l := newLane(t)
	l.inFile = func(r *kafka.Record) bool { return r.Partition == 0 && r.Offset >= 4 && r.Offset < 7 }
	m := b.join(l)
	m.awaitOffsets("a", 0, upTo(0, 10)...)
	m.awaitOffsets("a", 1, upTo(0, 10)...)
	m.confirm("a", 0, 0, 1, 2, 3, 7, 8, 9)
	m.confirm("a", 1, upTo(0, 10)...)
	claims := []*kafka.Claim{l.file, m.assignment("a", 1).Claim(9)}
	im := ack.Import{State: ack.Running, Table: "customers", File: "customers-1.csv.gz", Execution: "4711", Fingerprint: 7, Part: 1, Parts: 1, Attempt: 1}
	m.records(im, nil, claims...)
	no := func(*kafka.Partition) bool { return false }
	if left, err := m.SetApart(t.Context(), im, nil, no, no); left || err != nil {
		t.Fatalf("without claims of such a partition: got %v %v, want nothing set apart", left, err)
	}
	halted := m.assignment("a", 0)
	halted.Halt("record", "it has no other place")
	left, err := m.SetApart(t.Context(), im, claims, func(p *kafka.Partition) bool { return p == halted }, no)
	if !left || err != nil {
		t.Fatalf("got %v %v, want the partition set apart", left, err)
	}
	if offset, ledger := b.ledger("a", 1); offset != 10 || len(ledger.Imports) != 0 {
		t.Errorf("the other partition: got %d %+v, want all confirmed", offset, ledger.Imports)
	}
	want := im
	want.State, want.UpTo, want.Since = ack.SetApart, 7, 4
	if offset, ledger := b.ledger("a", 0); offset != 4 || len(ledger.Imports) != 1 || ledger.Imports[0] != want || !ledger.Routes.Halted {
		t.Errorf("the halted partition: got %d %+v, want its records held, %+v", offset, ledger, want)
	}
	var fresh *kafka.Partition
	eventually(t, "the partition is assigned anew", func() (bool, any) {
		fresh = m.assignment("a", 0)
		_, loaded := fresh.Status()
		return fresh != halted && loaded, nil
	})
	if st, _ := fresh.Status(); len(st.Halted) != 1 || len(fresh.Adopted()) != 0 {
		t.Errorf("after: got halts %v and imports %v, want the halt and no import", st.Halted, fresh.Adopted())
	}
	for offset, want := range map[int64]bool{4: true, 6: true, 7: false} {
		if got := fresh.Repeats("customers", offset); got != want {
			t.Errorf("repeats(customers, %d): got %v, want %v", offset, got, want)
		}
	}
	fresh.Resume("record")
	m.awaitOffsets("a", 0, append(upTo(0, 10), 4, 5, 6)...)
}
