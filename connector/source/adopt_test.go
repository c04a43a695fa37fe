package source_test

import (
	"slices"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/source"
)

// left writes what a member that died during an import has left behind.
func (b *broker) left(offset int64, l ack.Ledger) {
	b.t.Helper()
	l.Topic = ack.TopicID(b.TopicInfo("a").TopicID)
	metadata, _, err := l.Encode(offset, ack.MetadataLimit)
	if err != nil {
		b.t.Fatal(err)
	}
	b.commit("a", 0, offset, metadata)
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
	b.left(5, ack.Ledger{Done: ack.Ranges{{From: 8, To: 9}}, Imports: []ack.Import{im}, Slots: []ack.Slots{{Table: "customers", Used: []int64{used}}}})
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
	if err := m.ConfirmImport(t.Context(), "customers", []*source.Claim{adopted[0].Claim}); err != nil {
		t.Fatalf("confirm: %v", err)
	}
	if offset, l := b.ledger("a", 0); offset != 20 || len(l.Imports) != 0 || len(l.Slots) != 1 {
		t.Errorf("ledger after the import: got %d %+v %+v, want 20, no import, the slot", offset, l.Imports, l.Slots)
	}
}

func TestIntentTakesASlotOncePerAttempt(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	m := b.join(autoLane(t))
	b.awaitCommit("a", 0, 0)
	claims := []*source.Claim{m.assignment("a", 0).Claim(0)}
	im := ack.Import{State: ack.Intended, Table: "customers", File: "customers-1.csv.gz", Part: 1, Parts: 1, Attempt: 1}
	step := func(what string, slots int) {
		t.Helper()
		if err := m.RecordImport(t.Context(), im, "a", claims); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if _, l := b.ledger("a", 0); len(l.Slots) != 1 || len(l.Slots[0].Used) != slots {
			t.Errorf("slots after %s: got %+v, want %d", what, l.Slots, slots)
		}
	}
	step("the intent", 1)
	step("the same intent again", 1)
	im.State, im.Execution = ack.Running, "4711"
	step("the trigger", 1)
	im.State, im.Execution, im.Attempt = ack.Intended, "", 2
	step("a second attempt", 2)
}

func TestStartOverReadsTheFilesRecordsAgain(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a", "b")
	b.produce("a", 0, 10)
	b.produce("b", 0, 4)
	l := newLane(t)
	l.inFile = func(r *source.Record) bool { return r.Topic == "a" && r.Offset >= 6 }
	m := b.join(l)
	m.awaitOffsets("a", 0, upTo(0, 10)...)
	m.awaitOffsets("b", 0, upTo(0, 4)...)
	m.confirm("a", 0, 0, 1, 4)
	b.awaitDone("a", 0, "[{4 5}]")
	old, file := m.assignment("a", 0), l.file
	im := ack.Import{State: ack.Rebuild, Table: "customers", File: "customers-1.csv.gz", Part: 1, Parts: 1, Attempt: 1}
	for range 2 { // asked twice, it begins again once
		if err := m.StartOver(t.Context(), im, []*source.Claim{file}); err != nil {
			t.Fatalf("start over: %v", err)
		}
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
