package batcher

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/schemas"
)

func TestImportGoesThroughItsStepsInOrder(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.results = []contract.Results{{Status: contract.InProgress}, {Status: contract.InProgress}, {Status: contract.Finished, Read: 2}}
		w.start(testMapping())
		w.append(write(schemas.Upsert, "1", "a", "x"), write(schemas.Upsert, "2", "a", "y"), write(schemas.Upsert, "1", "a", "z"))
		time.Sleep(time.Hour + time.Minute)
		w.said(
			`1h0m0s intend upsert 1/1 attempt 1 "" holds 100-102`,
			`1h0m0s trigger 101 with customers-*.upsert.csv.gz: "k,a,b\n1,z,\n2,y,\n", <nil>`,
			`1h0m0s record upsert 1/1 attempt 1 "e1" holds 100-102`,
			`1h0m2s poll e1: IN_PROGRESS`,
			`1h0m5s poll e1: IN_PROGRESS`,
			`1h0m12s poll e1: FINISHED`,
			`1h0m12s confirm upsert 1/1 attempt 1 "e1" holds 100-102`,
		)
		w.wantSpool()
		if got := w.b.SpoolBytes(); got != 0 {
			t.Errorf("spool bytes after confirmation: got %d, want 0", got)
		}
	})
}

func TestFilesOfAGenerationLoadInOrderAndAreConfirmedTogether(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.start(testMapping())
		w.append(write(schemas.Patch, "1", "b", "x"), write(schemas.Create, "2"), write(schemas.Upsert, "3"), write(schemas.Delete, "4"))
		time.Sleep(time.Hour + time.Minute)
		w.said(
			`1h0m0s intend delete 1/4 attempt 1 "" holds 100-103`,
			`1h0m0s trigger 104 with customers-*.delete.csv.gz: "k\n4\n", <nil>`,
			`1h0m0s record delete 1/4 attempt 1 "e1" holds 100-103`,
			`1h0m2s poll e1: FINISHED`,
			`1h0m2s intend upsert 2/4 attempt 1 "" holds 100-103`,
			`1h0m2s trigger 101 with customers-*.upsert.csv.gz: "k,a,b\n3,,\n", <nil>`,
			`1h0m2s record upsert 2/4 attempt 1 "e2" holds 100-103`,
			`1h0m4s poll e2: FINISHED`,
			`1h0m4s intend create 3/4 attempt 1 "" holds 100-103`,
			`1h0m4s trigger 103 with customers-*.create.csv.gz: "k,a,b\n2,,\n", <nil>`,
			`1h0m4s record create 3/4 attempt 1 "e3" holds 100-103`,
			`1h0m5s poll e3: FINISHED`,
			`1h0m5s intend patch 4/4 attempt 1 "" holds 100-103`,
			`1h0m5s trigger 102 with customers-*.patch.csv.gz: "k,a,b\n1,,x\n", <nil>`,
			`1h0m5s record patch 4/4 attempt 1 "e4" holds 100-103`,
			`1h0m7s poll e4: FINISHED`,
			`1h0m7s confirm patch 4/4 attempt 1 "e4" holds 100-103`,
		)
	})
}

func TestTriggerIsRepeatedOnlyAsItsFailureAllows(t *testing.T) {
	for _, tc := range []struct {
		name    string
		failure error
		want    []string // after the first trigger
	}{
		{"refused for now", &refusal{transient: true}, []string{
			`1s intend upsert 1/1 attempt 1 "" holds 100-100`, `1s trigger 101`,
		}},
		{"refused with a time", &refusal{transient: true, after: 90 * time.Second}, []string{
			`1m30s intend upsert 1/1 attempt 1 "" holds 100-100`, `1m30s trigger 101`,
		}},
		{"outcome unknown takes another slot", &refusal{transient: true, unknown: true}, []string{
			`1s intend upsert 1/1 attempt 2 "" holds 100-100`, `1s trigger 101`,
		}},
		{"unclassified counts as unknown", errDisconnected, []string{
			`1s intend upsert 1/1 attempt 2 "" holds 100-100`, `1s trigger 101`,
		}},
		{"no slot left", &refusal{noSlot: true}, []string{
			`15m0s intend upsert 1/1 attempt 1 "" holds 100-100`, `15m0s trigger 101`,
		}},
		{"no slot until", &refusal{noSlot: true, after: 5 * time.Hour}, []string{
			`5h0m0s intend upsert 1/1 attempt 1 "" holds 100-100`, `5h0m0s trigger 101`,
		}},
	} {
		each(t, tc.name, func(t *testing.T, w *world) {
			w.hold = "record"
			w.triggers <- tc.failure
			w.oneRow()
			time.Sleep(6 * time.Hour)
			got := w.transcript()[2:4]
			for i, want := range tc.want {
				if !strings.HasPrefix(got[i], want) {
					t.Errorf("line %d after the refusal: got %q, want %q…", i+1, got[i], want)
				}
			}
		})
	}
}

// TestExecutionOfAnEarlierImportIsNoAnswer: something in between may answer a trigger with what the service
// said to one before.
func TestExecutionOfAnEarlierImportIsNoAnswer(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.oneRow()
		time.Sleep(time.Minute)
		w.mu.Lock()
		w.executions-- // the next trigger is answered e1 again
		w.mu.Unlock()
		w.append(write(schemas.Upsert, "2"))
		time.Sleep(time.Minute)
		w.lastSaid(`confirm upsert 1/1 attempt 2 "e2" holds 100-100`)
	})
}

func TestRefusedTriggersAreSpacedFurtherAndFurther(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for range 20 {
			w.triggers <- &refusal{transient: true}
		}
		w.oneRow()
		time.Sleep(10 * time.Minute)
		lines := w.transcript()
		if got := slices.IndexFunc(lines, func(s string) bool { return strings.Contains(s, "record") }); got != 42 {
			t.Errorf("lines before the record: got %d, want 42: an intent before each of 21 triggers", got)
		}
		if got, want := lines[41], "6m5"; !strings.HasPrefix(got, want) {
			t.Errorf("last trigger: got %q, want it in the last seconds of the seventh minute: delays grow to 30 s", got)
		}
	})
}

// TestUnknownOutcomesLeaveTheDaySlots: each further try may repeat the import and takes a slot, so
// that minutes without answers must not take the day's.
func TestUnknownOutcomesLeaveTheDaySlots(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for i := range 8 {
			if i == 3 { // certain, and soon tried again
				w.triggers <- &refusal{transient: true, after: 2 * time.Second}
			}
			w.triggers <- &refusal{transient: true, unknown: true}
		}
		m := testMapping()
		m.Roll.Rows = 1
		w.start(m)
		w.append(write(schemas.Upsert, "1"))
		time.Sleep(4 * time.Hour)
		wants := []time.Duration{time.Second, 4 * time.Second, 16 * time.Second, 8 * time.Second, 64 * time.Second, 256 * time.Second, 1024 * time.Second, time.Hour, time.Hour}
		var last time.Duration
		for _, line := range w.transcript()[2:] {
			since, _, found := strings.Cut(line, " trigger")
			if !found {
				continue
			}
			at, err := time.ParseDuration(since)
			if err != nil || len(wants) == 0 {
				t.Fatalf("got %q, want no more triggers: %v", line, err)
			}
			if wait := at - last; wait < wants[0]*3/4-time.Second || wait > wants[0]+time.Second { // the transcript has whole seconds
				t.Errorf("%s: waited %v, want three quarters of %v to the whole", line, wait, wants[0])
			}
			last, wants = at, wants[1:]
		}
		if len(wants) > 0 {
			t.Errorf("triggers that did not come: after %v", wants)
		}
	})
}

func TestPollThatFailsChangesNothing(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.polls = []error{errDisconnected, &refusal{transient: true, after: 5 * time.Minute}, &refusal{}}
		w.oneRow()
		time.Sleep(time.Second)
		w.lastSaid("record")
		time.Sleep(time.Hour)
		w.said(
			`2s poll e1: connection reset`,
			`4s poll e1: service said no`,
			`5m4s poll e1: service said no`,
			`5m7s poll e1: FINISHED`,
			`5m7s confirm upsert 1/1 attempt 1 "e1" holds 100-100`,
		)
	})
}

// An import of a second is not to be noticed a minute after an outage.
func TestOutageDoesNotLengthenTheIntervalOfPolling(t *testing.T) {
	for name, failure := range map[string]error{"refused for now": &refusal{transient: true}, "no answer": errDisconnected} {
		each(t, name, func(t *testing.T, w *world) {
			w.results = []contract.Results{{Status: contract.InProgress}, {Status: contract.Finished}}
			w.polls = slices.Repeat([]error{failure}, 100)
			w.oneRow()
			time.Sleep(time.Hour)
			last := time.Duration(0)
			lines := w.transcript()[3:] // behind intent, trigger and record
			if got := lines[len(lines)-1]; !strings.Contains(got, "confirm") {
				t.Errorf("got %q at the end, want the import confirmed", got)
			}
			for i, line := range lines {
				at, what, _ := strings.Cut(line, " ")
				now, err := time.ParseDuration(at)
				if err != nil {
					t.Fatal(err)
				}
				most := 2 * time.Second
				if i == 101 { // the first answer was that it still runs
					most = 4 * time.Second
				}
				if now-last > most+time.Second { // the transcript tells whole seconds
					t.Errorf("line %d, %s: got %v after the one before, want at most %v", i, what, now-last, most)
				}
				last = now
			}
		})
	}
}

// An execution may take a while to be known everywhere.
func TestRefusedPollsAreSpreadOverMinutes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.polls = slices.Repeat([]error{&refusal{}}, forgottenPolls)
		w.oneRow()
		time.Sleep(2 * time.Minute)
		w.goesOn()
		time.Sleep(8 * time.Minute)
		if _, halted := w.b.Halted("customers"); !halted {
			t.Error("got not halted after ten minutes, want it halted")
		}
	})
}

func TestHintPollsAtOnce(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.results = slices.Repeat([]contract.Results{{Status: contract.InProgress}}, 20)
		w.oneRow()
		time.Sleep(5*time.Minute + 10*time.Second)
		w.lastSaid("IN_PROGRESS")
		w.change(func() { w.results = nil })
		w.b.Hint("e7", "101")
		w.said()
		w.b.Hint("e1", "101")
		w.said(`5m10s poll e1: FINISHED`, `5m10s confirm upsert 1/1 attempt 1 "e1" holds 100-100`)
	})
}

func TestNamelessExecutionIsNamedByTheHint(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.nameless = map[int]bool{1: true}
		w.oneRow()
		time.Sleep(time.Hour)
		w.said(`0s intend upsert 1/1 attempt 1 "" holds 100-100`, `0s trigger 101 with customers-*.upsert.csv.gz: "k,a,b\n1,,\n", <nil>`)
		w.b.Hint("", "101")
		w.said()
		w.b.Hint("e9", "101")
		time.Sleep(time.Minute)
		w.said(`1h0m0s record upsert 1/1 attempt 1 "e9" holds 100-100`, `1h0m2s poll e9: FINISHED`, `1h0m2s confirm upsert 1/1 attempt 1 "e9" holds 100-100`)
	})
}

func TestLateHintOfTheFileBeforeNamesNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.nameless = map[int]bool{2: true}
		w.polling = func() { w.b.Hint("e1", "101") }
		w.start(testMapping())
		w.append(write(schemas.Upsert, "1"), write(schemas.Delete, "2"))
		time.Sleep(3 * time.Hour)
		w.lastSaid("trigger 101")
		if got := w.b.Status()[0].Import; got == nil || got.Step != contract.Naming {
			t.Errorf("import: got %+v, want it to wait for a name", got)
		}
	})
}

// TestRepeatedHintNamesNothing: the service calls once more for an execution that has
// ended, or another member passes that on. It is not the one that waits for its name.
func TestRepeatedHintNamesNothing(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.nameless = map[int]bool{1: true, 2: true}
		w.oneRow()
		time.Sleep(time.Minute)
		w.b.Hint("e1", "101")
		time.Sleep(time.Minute)
		w.lastSaid("confirm")
		w.add("customers", write(schemas.Upsert, "2"), w.p, 101)
		time.Sleep(time.Minute)
		w.b.Hint("e1", "101")
		time.Sleep(time.Minute)
		w.lastSaid("trigger 101")
		w.b.Hint("e2", "101")
		time.Sleep(time.Minute)
		w.lastSaid(`confirm upsert 1/1 attempt 1 "e2"`)
	})
}

func TestHintNamesTheNamelessExecutionOfItsETL(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.nameless = map[int]bool{1: true, 2: true}
		a, b := testMapping(), testMapping()
		b.Name, b.Loads = "orders", map[schemas.Op]files.Load{schemas.Upsert: {ETL: "201", Mode: "CREATE_OR_UPDATE"}}
		w.start(a, b)
		for _, mapping := range []string{"customers", "orders"} {
			w.add(mapping, write(schemas.Upsert, "1"), w.p, 1)
		}
		time.Sleep(2 * time.Hour)
		w.transcript()
		w.b.Hint("e9", "")
		w.b.Hint("e9", "301")
		time.Sleep(time.Minute)
		w.said() // it may be of another member's table
		w.b.Hint("e1", "101")
		time.Sleep(time.Minute)
		w.lastSaid(`confirm upsert 1/1 attempt 1 "e1"`)
		w.b.Hint("e2", "201")
		time.Sleep(time.Minute)
		w.lastSaid(`confirm upsert 1/1 attempt 1 "e2"`)
	})
}

// A webhook of before, or one made by hand, may not say whose ETL it is of.
func TestHintWithoutAnETLNamesTheOneNamelessExecutionThereIs(t *testing.T) {
	for _, alone := range []bool{false, true} {
		inWorld(t, func(t *testing.T, w *world) {
			w.nameless = map[int]bool{1: true}
			a, b := testMapping(), testMapping()
			b.Name = "orders"
			w.open(Config{Alone: func() bool { return alone }}, a, b)
			w.run()
			w.append(write(schemas.Upsert, "1"))
			time.Sleep(2 * time.Hour)
			w.transcript()
			w.b.Hint("e1", "")
			time.Sleep(time.Minute)
			if confirmed := len(sent(w.transcript(), "confirm")) > 0; confirmed != alone {
				t.Errorf("alone %v: got confirmed %v", alone, confirmed)
			}
		})
	}
}

func TestHintBeforeTheAnswerNamesTheExecution(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.nameless, w.slow = map[int]bool{1: true}, 10*time.Second
		w.oneRow()
		time.Sleep(5 * time.Second)
		w.b.Hint("e1", "101")
		time.Sleep(time.Minute)
		w.lastSaid(`confirm upsert 1/1 attempt 1 "e1"`)
	})
}

func TestHintNamesNoneOfTwoNamelessExecutions(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.nameless = map[int]bool{1: true, 2: true}
		a, b := testMapping(), testMapping()
		b.Name = "orders"
		w.start(a, b)
		for _, mapping := range []string{"customers", "orders"} {
			w.add(mapping, write(schemas.Upsert, "1"), w.p, 1)
		}
		time.Sleep(2 * time.Hour)
		w.transcript()
		w.b.Hint("e9", "101")
		time.Sleep(time.Hour)
		w.said()
	})
}

func TestRowsInErrorAreObservedOnceTheyHaveEnded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.results = []contract.Results{{Status: contract.Finished, Read: 1, InError: 1}}
		w.oneRow()
		time.Sleep(time.Minute)
		w.lastSaid("confirm")
		w.wantSpool()
		if got := w.endings(); len(got) != 1 || got[0].InError != 1 {
			t.Errorf("observed: got %+v, want one import with one row in error", got)
		}
	})
}
