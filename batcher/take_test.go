package batcher

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/schemas"
)

// taking is a world whose mapping has no import for deletes. Calls are lines of the
// transcript.
func taking(t *testing.T) (*world, *noCalls, files.Mapping) {
	w, peer, m := newWorld(t), &noCalls{}, testMapping()
	peer.answer = func(writes []schemas.Write) ([]int, error) {
		for _, c := range writes {
			w.say("call %v %s", c.Op, c.Key)
		}
		return nil, nil
	}
	m.DualLane, m.Roll.Age = true, time.Minute
	delete(m.Loads, schemas.Delete)
	w.open(Config{Peer: peer}, m)
	return w, peer, m
}

func (w *world) take(write schemas.Write, offset int64) {
	w.t.Helper()
	check(w.t, w.b.Take("customers", write, w.p, offset, false))
}

func (w *world) other(write schemas.Write, offset int64) {
	w.t.Helper()
	check(w.t, w.b.Other("customers", write, w.p, offset, false))
}

// steps is the transcript without times, files and claims that are not told apart.
func (w *world) steps() string {
	var all []string
	for _, line := range w.transcript() {
		words := strings.Fields(line)
		switch what := words[1]; {
		case strings.HasSuffix(line, " is held"):
		case what == "call":
			all = append(all, strings.Join(words[1:], " "))
		case what == "reject":
			all = append(all, fmt.Sprint("letter ", words[2]))
		case what == "confirm":
			_, holds, _ := strings.Cut(line, "holds ")
			all = append(all, "confirm "+holds)
		case strings.HasSuffix(line, ": FINISHED"):
			all = append(all, "landed")
		}
	}
	return strings.Join(all, ", ")
}

func TestTakenWriteThatNoRowSaysIsSentOnceItsFileHasLanded(t *testing.T) {
	row, gone, newer := write(schemas.Upsert, "1", "a", "x"), write(schemas.Delete, "1"), write(schemas.Upsert, "1", "a", "y")
	for _, c := range []struct {
		name string
		do   func(w *world)
		want string
	}{
		{"behind an older row", func(w *world) { w.append(row); w.take(gone, 101) }, "landed, call delete 1, confirm 100-101"},
		{"without a row", func(w *world) { w.take(gone, 101) }, "call delete 1, confirm 101-101"},
		{"of another key than the row's", func(w *world) { w.append(row); w.take(write(schemas.Delete, "2"), 101) }, "landed, call delete 2, confirm 100-101"},
		{"but for a newer write of the other lane", func(w *world) { w.take(gone, 101); w.other(newer, 102) }, "call upsert 1, confirm 101-101"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, peer, _ := taking(t)
				peer.confirmed.Store(102)
				c.do(w)
				w.run() // only now: all of it is there before its file is sent
				time.Sleep(time.Hour)
				if got := w.steps(); got != c.want {
					t.Errorf("got %q, want %q", got, c.want)
				}
			})
		})
	}
}

// A write that is taken as a row, and confirmed by the other lane, which has not made the call, is
// what the older rows of its file end with: where it is in error, their records are dead letters, too.
func TestRowsBeforeATakenRowEndWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, peer, _ := taking(t)
		w.run()
		peer.confirmed.Store(1000)
		w.results, w.files = []contract.Results{{Status: contract.Finished, InError: 1}}, "k,a,error\n1,y,bad\n"
		w.append(write(schemas.Upsert, "1", "a", "x"))
		newer := write(schemas.Upsert, "1", "a", "y")
		check(t, w.b.Other("customers", newer, w.p, 101, true))
		check(t, w.b.Take("customers", newer, w.p, 101, true))
		time.Sleep(time.Hour)
		if got, want := strings.Join(w.transcript(), "\n"), "reject 100 of e1: bad"; !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %s, too", got, want)
		}
	})
}

// TestTakenWriteIsNotSentBeforeItsOwnFile has an earlier file on its way.
func TestTakenWriteIsNotSentBeforeItsOwnFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, peer, _ := taking(t)
		w.run()
		peer.confirmed.Store(1000)
		w.results = []contract.Results{{Status: contract.InProgress}}
		w.append(write(schemas.Upsert, "2", "a", "x"))
		time.Sleep(time.Minute + time.Second) // it is on its way
		w.add("customers", write(schemas.Upsert, "1", "a", "x"), w.p, 101)
		w.take(write(schemas.Delete, "1"), 102)
		time.Sleep(time.Hour)
		if got, want := w.steps(), "landed, confirm 100-100, landed, call delete 1, confirm 101-102"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestTakenWriteWaitsForAnOlderCallOfTheOtherLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, peer, _ := taking(t)
		w.run()
		peer.confirmed.Store(100)
		w.other(write(schemas.Upsert, "1", "a", "x"), 100)
		w.take(write(schemas.Delete, "1"), 101)
		time.Sleep(time.Hour)
		if got := w.steps(); got != "" {
			t.Errorf("while the older call may still land: got %q, want nothing", got)
		}
		peer.confirmed.Store(102)
		time.Sleep(time.Hour)
		if got, want := w.steps(), "call delete 1, confirm 101-101"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestTakenWriteIsTakenAgainAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, peer, m := taking(t)
		w.run()
		peer.confirmed.Store(1000)
		w.hold = "confirm"
		w.take(write(schemas.Delete, "1"), 101)
		time.Sleep(time.Hour)
		if got, want := w.steps(), "call delete 1"; got != want {
			t.Errorf("before the crash: got %q, want %q", got, want)
		}
		_ = w.stop()
		w.change(func() { w.hold = "" })
		w.open(Config{Peer: peer}, m)
		w.run()
		w.take(write(schemas.Delete, "1"), 101)
		time.Sleep(time.Hour)
		if got, want := w.steps(), "call delete 1, confirm 101-101"; got != want {
			t.Errorf("after it: got %q, want %q", got, want)
		}
	})
}

// TestTakenWriteThatTheServiceRefusesIsADeadLetter: the other lane has it confirmed,
// so nothing else would tell of it.
func TestTakenWriteThatTheServiceRefusesIsADeadLetter(t *testing.T) {
	gone := write(schemas.Delete, "1")
	for _, c := range []struct {
		name  string
		err   error
		newer bool // a write of the other lane that the service takes
		want  string
	}{
		{"refused", &refusal{words: "no"}, false, "letter 101, confirm 100-101"},
		{"no call says it", errNoCall, false, "letter 101, confirm 100-101"},
		{"made void by a newer write", &refusal{words: "no"}, true, "call upsert 1, confirm 100-101"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, peer, _ := taking(t)
				w.run()
				peer.confirmed.Store(102)
				called := peer.answer
				peer.answer = func(writes []schemas.Write) ([]int, error) {
					if writes[0].Op == schemas.Delete {
						if c.newer {
							w.other(write(schemas.Upsert, "1", "a", "y"), 102)
						}
						return nil, c.err
					}
					return called(writes)
				}
				w.append(write(schemas.Upsert, "1", "a", "x"))
				w.log = append(w.log, gone)
				w.take(gone, 101)
				time.Sleep(time.Hour)
				if got := strings.TrimPrefix(w.steps(), "landed, "); got != c.want {
					t.Errorf("got %q, want %q", got, c.want)
				}
			})
		})
	}
}
