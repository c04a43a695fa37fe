package ack_test

import (
	"reflect"
	"testing"

	"github.com/feedsink/feedsink/connector/ack"
)

func TestUnknownTopicIDDiffersFromNone(t *testing.T) {
	one, two, unknown := ack.TopicID{1}, ack.TopicID{2}, ack.TopicID{}
	for _, c := range []struct {
		id, from ack.TopicID
		want     bool
	}{{one, two, true}, {one, one, false}, {one, unknown, false}, {unknown, one, false}, {unknown, unknown, false}} {
		if got := c.id.Differs(c.from); got != c.want {
			t.Errorf("%x differs from %x: got %v, want %v", c.id[0], c.from[0], got, c.want)
		}
	}
}

// Of an earlier topic's imports those count that may be running: they are awaited, and cover
// no record of the new one.
func TestLedgerOfAnEarlierTopicKeepsWhatMayRun(t *testing.T) {
	states := []ack.State{ack.Intended, ack.Running, ack.Reconciling, ack.Rebuild, ack.Refused, ack.InError, ack.PartInError, ack.SetApart}
	l := ack.Ledger{
		Topic: ack.TopicID{1}, Done: ack.Ranges{{From: 60, To: 70}}, Routes: ack.Routes{Changed: 5},
		Slots: []ack.Slots{{Table: "t", Used: []int64{1}}}, Halts: []ack.Halt{{Mapping: 1}}, Pauses: []ack.Pause{{Mapping: 2}},
	}
	for _, state := range states {
		l.Imports = append(l.Imports, ack.Import{State: state, Table: "t", File: "f", UpTo: 80, Since: 50, Fingerprint: 7, Part: 1, Parts: 1, Attempt: 1})
	}
	want := ack.Ledger{Slots: l.Slots, Halts: l.Halts, Pauses: l.Pauses}
	for _, state := range states[:3] {
		want.Imports = append(want.Imports, ack.Import{State: state, Table: "t", File: "f", UpTo: 3, Since: 3, Part: 1, Parts: 1, Attempt: 1})
	}
	if got := l.OfEarlierTopic(3); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := l.Imports[0]; got.UpTo != 80 || got.Fingerprint != 7 {
		t.Errorf("its own imports: got %+v, want them as they were", got)
	}
}
