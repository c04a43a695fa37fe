package spool

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// refusing takes so many bytes and then fails.
type refusing struct {
	room int
	got  bytes.Buffer
}

var errRefused = errors.New("refused")

func (r *refusing) Write(p []byte) (int, error) {
	if r.got.Len()+len(p) > r.room {
		return 0, errRefused
	}
	return r.got.Write(p)
}

func TestAheadWritesAllInOrder(t *testing.T) {
	to := &refusing{room: 1 << 30}
	a := &ahead{to: to}
	var want strings.Builder
	for piece := range 3 { // it may be ended and go on
		a.begin()
		for i := range 100 {
			part := strings.Repeat(string(rune('a'+i%26)), 1000*(piece+1))
			want.WriteString(part)
			if n, err := a.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatalf("write: got %d, %v", n, err)
			}
		}
		if err := a.end(); err != nil || a.end() != nil {
			t.Fatalf("end: got %v", err)
		}
		if got := to.got.String(); got != want.String() {
			t.Fatalf("piece %d: got %d bytes, want the %d that were written", piece, len(got), want.Len())
		}
	}
}

func TestAheadTellsOfBytesThatCouldNotBeWritten(t *testing.T) {
	a := &ahead{to: &refusing{room: 10}}
	a.begin()
	if _, err := a.Write(make([]byte, 20)); err != nil {
		t.Errorf("the first write: got %v, want none: it is not known yet", err)
	}
	if _, err := a.Write(make([]byte, 20)); !errors.Is(err, errRefused) {
		t.Errorf("the next: got %v, want what has failed", err)
	}
	if err := a.end(); !errors.Is(err, errRefused) {
		t.Errorf("end: got %v, want what has failed", err)
	}
}
