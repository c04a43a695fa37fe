package batcher

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/schemas"
)

// The deletes of a generation are loaded; what is left of it is built from the
// same records and no others.
func TestRebuiltGenerationHasTheMissingFilesOnly(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		m := testMapping()
		m.Roll.Rows = 2
		w.open(Config{}, m)
		other := &partition{}
		a := w.left(103, contract.Import{Part: 2, Parts: 3, Attempt: 2})
		a.Rebuild, a.UpTo[other] = true, 51
		w.adopt(a)
		w.run()
		w.read(w.p, 100, write(schemas.Delete, "1"))
		w.read(w.p, 101, write(schemas.Upsert, "2", "a", "old"))
		w.read(w.p, 102, write(schemas.Patch, "3", "b", "old"))
		w.read(w.p, 103, write(schemas.Upsert, "2", "a", "new"))
		w.read(w.p, 104, write(schemas.Upsert, "3", "a", "new"))
		time.Sleep(2 * time.Hour)
		w.said() // newer rows are complete, but the older ones are not all there
		w.read(other, 50, write(schemas.Upsert, "4", "a", "old"))
		time.Sleep(time.Minute)
		w.said(
			`2h0m0s intend upsert 2/3 attempt 2 "" holds 100-102 100-102 50-50`,
			`2h0m0s trigger 101 with customers-*.upsert.csv.gz: "k,a,b\n2,old,\n4,old,\n", <nil>`,
			`2h0m0s record upsert 2/3 attempt 2 "e1" holds 100-102 100-102 50-50`,
			`2h0m2s poll e1: FINISHED`,
			`2h0m2s intend patch 3/3 attempt 1 "" holds 100-102 100-102 50-50`,
			`2h0m2s trigger 102 with customers-*.patch.csv.gz: "k,a,b\n3,,old\n", <nil>`,
			`2h0m2s record patch 3/3 attempt 1 "e2" holds 100-102 100-102 50-50`,
			`2h0m3s poll e2: FINISHED`,
			`2h0m3s confirm patch 3/3 attempt 1 "e2" holds 100-102 100-102 50-50`,
			`2h0m3s intend upsert 1/1 attempt 1 "" holds 103-104`,
			`2h0m3s trigger 101 with customers-*.upsert.csv.gz: "k,a,b\n2,new,\n3,new,\n", <nil>`,
			`2h0m3s record upsert 1/1 attempt 1 "e3" holds 103-104`,
			`2h0m5s poll e3: FINISHED`,
			`2h0m5s confirm upsert 1/1 attempt 1 "e3" holds 103-104`,
		)
		w.wantSpool()
	})
}

// Of a compacted topic, the last record of a generation may be gone.
func TestRebuiltGenerationIsCompleteOnceItsEndIsPassed(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.start(testMapping())
		a := w.left(103, contract.Import{Part: 1, Parts: 1, Attempt: 1})
		a.Rebuild = true
		w.adopt(a)
		w.read(w.p, 100, write(schemas.Upsert, "1"))
		time.Sleep(time.Hour)
		w.said()
		w.b.Passed("customers", w.p, 110)
		w.lastSaid("record upsert 1/1")
	})
}

// A former owner has left a row out of a part that is loaded, for a call that the service has refused: its
// record is in no file that is left.
func TestRowThatIsMissingFromALoadedPartIsADeadLetterWhereItsCallIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, peer, m := newWorld(t), &noCalls{}, testMapping()
		peer.answer = func([]schemas.Write) ([]int, error) { return nil, &refusal{} }
		peer.refused.Store(102)
		peer.confirmed.Store(1000)
		m.DualLane = true
		w.open(Config{Peer: peer}, m)
		a := w.left(103, contract.Import{Part: 2, Parts: 2, Attempt: 1})
		a.Rebuild = true
		w.adopt(a)
		w.run()
		w.log = []schemas.Write{write(schemas.Upsert, "1", "a", "old"), write(schemas.Patch, "2", "a", "x")}
		w.read(w.p, 100, w.log[0])
		w.read(w.p, 101, w.log[1])
		w.other(write(schemas.Upsert, "1", "a", "new"), 102)
		w.b.Passed("customers", w.p, 103)
		time.Sleep(time.Hour)
		if got := strings.Join(w.transcript(), "\n"); !strings.Contains(got, "reject 100 of") {
			t.Errorf("got\n%s\nwant the record of offset 100 to be a dead letter", got)
		}
	})
}

func TestRebuiltGenerationWithoutRecordsIsConfirmed(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.start(testMapping())
		a := w.left(103, contract.Import{Part: 2, Parts: 2, Attempt: 1})
		a.Rebuild = true
		w.adopt(a)
		w.b.Passed("customers", w.p, 103)
		time.Sleep(time.Minute)
		w.said(`0s confirm unknown 2/2 attempt 1 "" holds 100-102`)
	})
}

func TestRebuiltGenerationWithOtherFilesIsSentWhole(t *testing.T) {
	for _, tc := range []struct {
		name string
		from contract.Import
		want string // the first intent
	}{
		{"fewer files", contract.Import{Part: 3, Parts: 3, Attempt: 4}, `delete 1/2 attempt 1`},
		{"more files", contract.Import{Part: 1, Parts: 1, Attempt: 4}, `delete 1/2 attempt 1`},
		{"another mode", contract.Import{Part: 2, Parts: 2, Mode: "UPDATE_ONLY", Attempt: 4}, `delete 1/2 attempt 1`},
		{"the same", contract.Import{Part: 2, Parts: 2, Mode: "CREATE_OR_UPDATE", Attempt: 4}, `upsert 2/2 attempt 4`},
	} {
		each(t, tc.name, func(t *testing.T, w *world) {
			w.hold = "trigger"
			w.start(testMapping())
			a := w.left(102, tc.from)
			a.Rebuild = true
			w.adopt(a)
			w.read(w.p, 100, write(schemas.Delete, "1"))
			w.read(w.p, 101, write(schemas.Upsert, "2"))
			if got := w.transcript(); !strings.Contains(got[0], "intend "+tc.want) {
				t.Errorf("first intent: got %q, want %q", got[0], tc.want)
			}
		})
	}
}

func TestRebuiltFileThatFailedTooOftenIsKeptAndNotSent(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := testMapping()
		m.RetryFailed = 1
		w.start(m)
		a := w.left(102, contract.Import{Part: 2, Parts: 3, Attempt: 3, Execution: "e7"})
		a.Rebuild = true
		w.adopt(a)
		w.read(w.p, 100, write(schemas.Delete, "1"))
		w.read(w.p, 100, write(schemas.Patch, "2"))
		w.read(w.p, 101, write(schemas.Upsert, "3"))
		time.Sleep(time.Hour)
		w.said()
		if reason, halted := w.b.Halted("customers"); !halted || !strings.Contains(reason, "execution e7: FAILED") {
			t.Errorf("halted: got %v, %q, want it, with the execution that FAILED", halted, reason)
		}
		said, ok := w.b.LastServiceMessage("customers")
		if reason, _ := w.b.Halted("customers"); !ok || said.Execution != "e7" || said.Words != "" || !strings.Contains(reason, "--show-reason") {
			t.Errorf("said: got %+v of %q, want the execution that can be asked for the words", said, reason)
		}
		w.wantSpool("customers-*.patch.csv.gz", "customers-*.upsert.csv.gz.failed")
		w.release("customers")
		time.Sleep(time.Minute)
		if got, want := w.transcript()[0], `1h0m0s intend upsert 2/3 attempt 3 "" holds 100-101 100-101`; got != want {
			t.Errorf("after the release: got %q, want %q", got, want)
		}
		w.wantSpool()
	})
}

func TestRebuiltFileThatWasRefusedIsKeptAndNotSent(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start(testMapping())
		a := w.left(101, contract.Import{Part: 1, Parts: 1, Attempt: 1, Refused: true})
		a.Rebuild = true
		w.adopt(a)
		w.read(w.p, 100, write(schemas.Upsert, "1"))
		time.Sleep(time.Hour)
		w.said()
		if reason, halted := w.b.Halted("customers"); !halted || !strings.Contains(reason, "refused for good under a former owner") {
			t.Errorf("halted: got %v, %q, want it, and that the file was refused", halted, reason)
		}
		w.wantSpool("customers-*.upsert.csv.gz.failed")
		w.release("customers")
		time.Sleep(time.Minute)
		w.lastSaid(`confirm upsert 1/1 attempt 1 "e1"`)
		w.wantSpool()
	})
}

// Crashes are nobody's reason to look at a file; what FAILED before counts.
func TestTriesOfFormerOwnersCountOnceTheFileFailed(t *testing.T) {
	for _, tc := range []struct {
		name string
		from contract.Import
		want int // sends until the mapping halts
	}{
		{"cut off eight times", contract.Import{Part: 1, Parts: 1, Attempt: 9}, 3},
		{"FAILED once", contract.Import{Part: 1, Parts: 1, Attempt: 2, Execution: "e7"}, 2},
		{"FAILED twice", contract.Import{Part: 1, Parts: 1, Attempt: 3, Execution: "e7"}, 1},
	} {
		each(t, tc.name, func(t *testing.T, w *world) {
			w.results = slices.Repeat([]contract.Results{{Status: contract.Failed}}, 10)
			m := testMapping()
			m.RetryFailed = 2
			w.start(m)
			a := w.left(101, tc.from)
			a.Rebuild = true
			w.adopt(a)
			w.read(w.p, 100, write(schemas.Upsert, "1"))
			time.Sleep(time.Hour)
			sends := len(sent(w.transcript(), "trigger"))
			if _, halted := w.b.Halted("customers"); sends != tc.want || !halted {
				t.Errorf("got %d sends, halted %v, want %d and halted", sends, halted, tc.want)
			}
		})
	}
}

func TestRebuiltFileIsAFurtherTryToTheGate(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		gate := &turnstile{}
		gate.roll.Store(int64(time.Hour))
		gate.retry.Store(int64(time.Minute))
		m := testMapping()
		m.Roll.Rows = 1
		w.open(Config{Gate: gate}, m)
		w.run()
		a := w.left(101, contract.Import{Part: 1, Parts: 1, Attempt: 1})
		a.Rebuild = true
		w.adopt(a)
		w.read(w.p, 100, write(schemas.Upsert, "1"))
		w.read(w.p, 101, write(schemas.Upsert, "2"))
		time.Sleep(90 * time.Second)
		w.said()
		gate.retry.Store(0)
		time.Sleep(time.Hour)
		w.lastSaid(`confirm upsert 1/1 attempt 1 "e1" holds 100-100`)
		gate.roll.Store(0)
		time.Sleep(time.Hour)
		w.lastSaid(`confirm upsert 1/1 attempt 1 "e2" holds 101-101`)
	})
}

// Rows that may not go out before older ones must not keep those from being read.
func TestSpoolIsNotFullWhileAGenerationLacksRecords(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.hold = "intend"
		w.open(Config{}, testMapping())
		w.b.segment, w.b.cfg.MaxBytes = 1, 1
		a := w.left(101, contract.Import{Part: 1, Parts: 1, Attempt: 1})
		a.Rebuild = true
		w.adopt(a)
		w.run()
		newer := &partition{}
		w.read(newer, 1, write(schemas.Upsert, "2"))
		w.read(newer, 2, write(schemas.Upsert, "3"))
		if used := w.b.SpoolBytes(); used == 0 || w.b.Full() {
			t.Errorf("with %d bytes of newer rows: got full %v, want room for the older ones", used, w.b.Full())
		}
		w.read(w.p, 100, write(schemas.Upsert, "1"))
		if !w.b.Full() {
			t.Error("with all records there: got not full, want full")
		}
	})
}
