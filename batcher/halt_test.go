package batcher

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/schemas"
)

func TestFailedImportIsRetriedThenHaltsUntilReleased(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		failed := contract.Results{Status: contract.Failed, Reason: "twice k: M. Dupont", Cause: "duplicate headers"}
		w.results = []contract.Results{failed, failed}
		m := testMapping()
		m.Roll.Rows, m.RetryFailed = 1, 1
		w.start(m)
		w.append(write(schemas.Upsert, "1"))
		time.Sleep(time.Hour)
		w.said(
			`0s intend upsert 1/1 attempt 1 "" holds 100-100`,
			`0s trigger 101 with customers-*.upsert.csv.gz: "k,a,b\n1,,\n", <nil>`,
			`0s record upsert 1/1 attempt 1 "e1" holds 100-100`,
			`2s poll e1: FAILED`,
			`4s intend upsert 1/1 attempt 2 "" holds 100-100`,
			`4s trigger 101 with customers-*.upsert.csv.gz: "k,a,b\n1,,\n", <nil>`,
			`4s record upsert 1/1 attempt 2 "e2" holds 100-100`,
			`5s poll e2: FAILED`,
		)
		reason, halted := w.b.Halted("customers")
		if !halted || !strings.Contains(reason, "duplicate headers") || !strings.Contains(reason, "e2") {
			t.Errorf("halted: got %v, %q, want the execution and its reason", halted, reason)
		}
		if strings.Contains(reason, "Dupont") || !strings.Contains(reason, "(it names k)") || !strings.Contains(reason, "--show-reason") {
			t.Errorf("reason: got %q, want the column and where the service's words are, and none of these", reason)
		}
		said, _ := w.b.LastServiceMessage("customers")
		if said.Execution != "e2" || said.Words != "twice k: M. Dupont" || time.Since(said.At) < 59*time.Minute {
			t.Errorf("said: got %+v, want the words about e2, and since when", said)
		}
		w.wantSpool("customers-*.upsert.csv.gz.failed")
		if got := w.b.Status()[0]; got.Halted != reason || len(got.Kept) != 1 || got.Import.Attempt != 2 {
			t.Errorf("status: got %+v, want the reason, one kept file and the try that FAILED", got)
		}
		w.append(write(schemas.Upsert, "2"))
		time.Sleep(3 * time.Hour)
		w.said()

		w.release("customers")
		time.Sleep(time.Second)
		w.said(
			`4h0m0s intend upsert 1/1 attempt 3 "" holds 100-100`,
			`4h0m0s trigger 101 with customers-*.upsert.csv.gz: "k,a,b\n1,,\n", <nil>`,
			`4h0m0s record upsert 1/1 attempt 3 "e3" holds 100-100`,
		)
		time.Sleep(time.Minute)
		w.lastSaid(`confirm upsert 1/1 attempt 1 "e4"`)
		w.wantSpool()
		w.goesOn()
		if err := w.b.Release("customers"); err == nil {
			t.Error("release of a mapping that is not halted: got no error, want one")
		}
	})
}

func TestReleaseGivesAllTriesAgainAndCountsOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.results = slices.Repeat([]contract.Results{{Status: contract.Failed}}, 100)
		m := testMapping()
		m.Roll.Rows, m.RetryFailed = 1, 2
		w.start(m)
		w.append(write(schemas.Upsert, "1"))
		for i := range 3 {
			time.Sleep(time.Hour)
			tries := len(sent(w.transcript(), "poll")) // each time it FAILED
			if _, halted := w.b.Halted("customers"); tries != 3 || !halted {
				t.Errorf("round %d: got %d tries, halted %v, want 3 and halted", i+1, tries, halted)
			}
			w.release("customers")
			if err := w.b.Release("customers"); err == nil {
				t.Error("second release: got no error, want one")
			}
		}
	})
}

func TestPermanentRefusalHaltsAtOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.triggers <- &refusal{}
		m := testMapping()
		m.Roll.Rows, m.RetryFailed = 1, 5
		w.start(m)
		w.append(write(schemas.Upsert, "1"))
		time.Sleep(time.Hour)
		w.said(
			`0s intend upsert 1/1 attempt 1 "" holds 100-100`,
			`0s trigger 101 with customers-*.upsert.csv.gz: "k,a,b\n1,,\n", service said no`,
			`0s refuse upsert 1/1 attempt 1 "" holds 100-100`,
		)
		if reason, _ := w.b.Halted("customers"); !strings.Contains(reason, "service said no") {
			t.Errorf("reason: got %q, want the service's words", reason)
		}
	})
}

// Until it is released the day's slots may be used up, or the next day have begun.
func TestReleasedFileWaitsForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, gate := fullFiles(t, func(m *files.Mapping) { m.Roll.Rows = 1 })
		w.triggers <- &refusal{}
		gate.roll.Store(0)
		w.run()
		w.append(write(schemas.Upsert, "1"))
		time.Sleep(time.Hour)
		gate.roll.Store(int64(time.Hour))
		w.release("customers")
		time.Sleep(time.Hour)
		w.lastSaid("refuse")
		gate.roll.Store(0)
		time.Sleep(time.Hour)
		w.lastSaid("confirm")
	})
}

func TestForgottenExecutionHaltsAndIsSentAgainOnceReleased(t *testing.T) {
	for _, tc := range []struct {
		name     string
		released []error // answers after the release
		want     []string
	}{
		{"it is known after all", nil, []string{
			`1h0m0s poll e1: FINISHED`,
			`1h0m0s confirm upsert 1/1 attempt 1 "e1" holds 100-100`,
		}},
		{"it is still not known", []error{&refusal{}}, []string{
			`1h0m0s poll e1: service said no`,
			`1h0m0s intend upsert 1/1 attempt 2 "" holds 100-100`,
			`1h0m0s trigger 101 with customers-*.upsert.csv.gz: "k,a,b\n1,,\n", <nil>`,
			`1h0m0s record upsert 1/1 attempt 2 "e2" holds 100-100`,
			`1h0m0s poll e2: FINISHED`,
			`1h0m0s confirm upsert 1/1 attempt 2 "e2" holds 100-100`,
		}},
	} {
		each(t, tc.name, func(t *testing.T, w *world) {
			w.polls = append(slices.Repeat([]error{&refusal{}}, forgottenPolls), tc.released...)
			w.oneRow()
			time.Sleep(time.Hour)
			if got, want := len(w.transcript()), 3+forgottenPolls; got != want {
				t.Errorf("lines: got %d, want %d: intent, trigger, record and the polls", got, want)
			}
			if reason, _ := w.b.Halted("customers"); !strings.Contains(reason, "execution e1: service said no") {
				t.Errorf("reason: got %q, want the execution and the service's words", reason)
			}
			w.wantSpool("customers-*.upsert.csv.gz.failed")
			w.release("customers")
			time.Sleep(time.Minute)
			got := w.transcript()
			for i := range got { // which second it is does not matter
				_, line, _ := strings.Cut(got[i], " ")
				got[i] = "1h0m0s " + line
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("transcript\n got %s\nwant %s", strings.Join(got, "\n     "), strings.Join(tc.want, "\n     "))
			}
			w.wantSpool()
		})
	}
}

func TestAPollThatIsAnsweredStartsTheCountOfRefusalsAnew(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		almost := slices.Repeat([]error{&refusal{}}, forgottenPolls-1)
		w.polls = slices.Concat(almost, []error{&refusal{transient: true}}, almost)
		w.oneRow()
		time.Sleep(2 * time.Hour)
		w.lastSaid(`confirm upsert 1/1 attempt 1 "e1"`)
	})
}

func TestKeptFileOutlivesDiscardAndRestart(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.triggers <- &refusal{}
		m := testMapping()
		m.Roll.Rows = 2
		w.start(m)
		w.append(write(schemas.Upsert, "1"), write(schemas.Delete, "2"))
		synctest.Wait()
		lose(w.b, "customers")
		synctest.Wait()
		w.goesOn()
		w.wantSpool("customers-*.delete.csv.gz.failed")
		check(t, w.stop())
		w.start(m)
		w.wantSpool("customers-*.delete.csv.gz.failed")
		if got := w.b.Status()[0].Kept; len(got) != 1 {
			t.Errorf("kept after restart: got %q, want one file", got)
		}
	})
}

// TestFileThatIsBuiltAgainIsKeptInThePlaceOfTheFormer: a restart while the mapping is halted
// keeps no second file of the same rows.
func TestFileThatIsBuiltAgainIsKeptInThePlaceOfTheFormer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.results = []contract.Results{{Status: contract.Failed, Cause: "duplicate headers"}}
		m := testMapping()
		m.Roll.Rows = 1
		w.start(m)
		w.append(write(schemas.Upsert, "1"))
		time.Sleep(time.Hour)
		kept := w.b.Status()[0].Kept
		if len(kept) != 1 {
			t.Fatalf("kept: got %q, want one file", kept)
		}
		for range 2 {
			check(t, w.stop())
			w.start(m)
			a := w.left(101, contract.Import{Part: 1, Parts: 1, Attempt: 2, Execution: "e1", Refused: true, Mode: "CREATE_OR_UPDATE"})
			a.Rebuild, a.File = true, strings.TrimSuffix(kept[0], spool.FailedSuffix)
			w.adopt(a)
			w.read(w.p, 100, write(schemas.Upsert, "1"))
			w.b.Passed("customers", w.p, 101)
			time.Sleep(time.Minute)
			if _, halted := w.b.Halted("customers"); !halted {
				t.Error("after a restart: got not halted, want halted")
			}
			if got := w.b.Status()[0]; !slices.Equal(got.Kept, kept) || got.Import.Attempt != 1 {
				t.Errorf("after a restart: got %q kept and attempt %d, want %q and the one that FAILED", got.Kept, got.Import.Attempt, kept)
			}
		}
		w.transcript()
		w.release("customers")
		time.Sleep(time.Second)
		w.lastSaid(`record upsert 1/1 attempt 2`)
		time.Sleep(time.Minute)
		w.lastSaid("confirm")
		w.wantSpool()
	})
}

// TestAdoptedImportThatHasFinishedLeavesNoKeptFile: its mapping was halted, since it was not
// known what became of it.
func TestAdoptedImportThatHasFinishedLeavesNoKeptFile(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const file = "customers-20261128T023643Z-v5j3ig.upsert.csv.gz"
		w.open(Config{}, testMapping())
		other, err := w.b.spool.Create(file + spool.FailedSuffix)
		if err != nil {
			t.Fatal(err)
		}
		check(t, other.Close())
		a := w.left(101, contract.Import{Part: 1, Parts: 1, Attempt: 1, Execution: "e1", Mode: "CREATE_OR_UPDATE"})
		a.File = file
		w.adopt(a)
		w.run()
		time.Sleep(time.Minute)
		w.lastSaid("confirm")
		w.wantSpool()
	})
}

func TestDiscardStopsAnImportAtEveryStep(t *testing.T) {
	for _, step := range []string{"intend", "trigger", "record", "poll", "output files", "confirm"} {
		each(t, step, func(_ *testing.T, w *world) {
			w.hold = step
			w.results = []contract.Results{{Status: contract.Finished, InError: 1}}
			w.oneRow()
			time.Sleep(time.Minute)
			w.lastSaid(step + " is held")
			w.append(write(schemas.Upsert, "2"))
			w.p.dead.Store(true)
			lose(w.b, "customers")
			time.Sleep(3 * time.Hour)
			w.said()
			w.wantSpool()

			w.change(func() { w.hold = "" })
			w.p = &partition{}
			w.append(write(schemas.Upsert, "3"))
			time.Sleep(time.Minute)
			w.lastSaid("confirm upsert 1/1")
		})
	}
}

func TestFencedIntentSendsNothing(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.unfit = errDisconnected
		w.oneRow()
		time.Sleep(time.Minute)
		w.p.dead.Store(true)
		time.Sleep(time.Hour)
		w.said()
		w.change(func() { w.unfit = nil })
		w.p = &partition{}
		w.append(write(schemas.Upsert, "2"))
		time.Sleep(time.Hour)
		w.said() // the lost generation is still there: nothing overtakes the discard
		lose(w.b, "customers")
		w.append(write(schemas.Upsert, "3"))
		w.lastSaid("record upsert 1/1")
	})
}

func TestCommitIsTriedAgainWhileThePartitionsAreOurs(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.unfit = errDisconnected
		w.oneRow()
		time.Sleep(10 * time.Minute)
		w.said()
		w.change(func() { w.unfit = nil })
		time.Sleep(time.Minute)
		w.lastSaid("confirm upsert 1/1")
	})
}

func TestStopDoesNotSealAnOpenFileEarly(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start(testMapping())
		w.append(write(schemas.Upsert, "1"))
		check(t, w.stop())
		w.said()
		w.wantSpool()
	})
}

// Four imports of a day were used up by one file with a wrong header.
func TestFileThatWouldFailAgainIsNotSentTwice(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		again := contract.Results{Status: contract.Failed, Reason: "duplicate headers", Cause: "duplicate headers", SameAgain: true}
		w.results = []contract.Results{again, again}
		m := testMapping()
		m.Roll.Rows, m.RetryFailed = 1, 3
		w.start(m)
		w.append(write(schemas.Upsert, "1"))
		time.Sleep(time.Hour)
		if got := len(w.transcript()); got != 4 {
			t.Errorf("lines: got %d, want intent, trigger, record and poll of one try", got)
		}
		w.wantHalted("FAILED: duplicate headers")
		w.wantSpool("customers-*.upsert.csv.gz.failed")
		for range 2 { // a person has changed the ETL, the first time without effect
			w.release("customers")
			time.Sleep(time.Hour)
		}
		sends := len(sent(w.transcript(), "trigger"))
		if _, halted := w.b.Halted("customers"); sends != 2 || halted {
			t.Errorf("after two releases: got %d sends, halted %v, want one for each", sends, halted)
		}
		w.wantSpool()
	})
}

// What FAILED under a former owner is built again, and then waits for a person.
func TestAdoptedFileThatWouldFailAgainIsNotSent(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.results = []contract.Results{{Status: contract.Failed, SameAgain: true}}
		m := testMapping()
		m.RetryFailed = 3
		w.start(m)
		w.adopt(w.left(101, running(1, 1)))
		time.Sleep(time.Minute)
		w.said(`2s poll e7: FAILED`, `2s start over refused at 1/1 attempt 2 "e7"`)

		lose(w.b, "customers") // the next assignment finds it in the ledger
		a := w.left(101, contract.Import{Part: 1, Parts: 1, Attempt: 2, Execution: "e7", Refused: true})
		a.Rebuild = true
		w.adopt(a)
		w.read(w.p, 100, write(schemas.Upsert, "1"))
		time.Sleep(time.Hour)
		w.said()
		w.wantHalted("execution e7: FAILED", "--show-reason")
		w.release("customers")
		time.Sleep(time.Minute)
		w.lastSaid(`confirm upsert 1/1 attempt 2 "e1"`)
		w.wantSpool()
	})
}
