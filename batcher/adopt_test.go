package batcher

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/schemas"
)

// left is an import that a former owner left of the records below upTo of w.p,
// as the ledger has it.
func (w *world) left(upTo int64, imp contract.Import) Adopted {
	imp.File, imp.Fingerprint = "customers-20260101T000000Z-aaaaaa.upsert.csv.gz", 7
	return Adopted{Import: imp, UpTo: map[Partition]int64{w.p: upTo}, Claims: []Claim{&claim{w.p, 100, upTo - 1, 1}}}
}

func (w *world) adopt(a Adopted) {
	w.t.Helper()
	check(w.t, w.b.Adopt("customers", a))
}

// read appends a write and notes that the partition was read up to behind it.
func (w *world) read(p Partition, offset int64, one schemas.Write) {
	w.t.Helper()
	w.add("customers", one, p, offset)
	w.b.Passed("customers", p, offset+1)
}

func running(part, parts int) contract.Import {
	return contract.Import{Part: part, Parts: parts, Mode: "CREATE_OR_UPDATE", Attempt: 1, Execution: "e7"}
}

// Upserts and merges have one import mode, and the ledger keeps no op.
func TestAdoptedImportIsOfTheOpThatItsFileNames(t *testing.T) {
	m := testMapping()
	m.Loads[schemas.Merge] = files.Load{ETL: "105", Mode: "CREATE_OR_UPDATE"}
	for _, want := range []schemas.Op{schemas.Upsert, schemas.Merge} {
		for range 20 { // of a map, the first one is any
			w := newWorld(t)
			w.open(Config{}, m)
			left := w.left(103, running(1, 1))
			left.File = strings.Replace(left.File, "upsert", want.String(), 1)
			w.adopt(left)
			if got := w.b.byName["customers"].queue.adopted; got.Op != want || got.ETL != m.Loads[want].ETL {
				t.Fatalf("%s: got %v of ETL %s, want %v of %s", left.File, got.Op, got.ETL, want, m.Loads[want].ETL)
			}
		}
	}
}

func TestAdoptedImportIsAwaitedBeforeNewerRowsGoOut(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.results = []contract.Results{{Status: contract.InProgress}, {Status: contract.Finished, Read: 3}}
		m := testMapping()
		m.Roll.Rows = 2
		w.open(Config{}, m)
		left := w.left(103, running(1, 1))
		left.Began = time.Now().Add(-time.Hour)
		w.adopt(left)
		w.run()
		w.read(w.p, 103, write(schemas.Upsert, "1"))
		w.read(w.p, 104, write(schemas.Upsert, "2"))
		w.read(w.p, 105, write(schemas.Upsert, "3"))
		synctest.Wait()
		if s := w.b.Status()[0]; s.Import == nil || !s.Import.Since.Equal(left.Began) {
			t.Errorf("status: got import %+v, want it since %v, as the former owner began it", s.Import, left.Began)
		}
		if s := w.b.Status()[0]; s.Rows != 3 || s.Import == nil || s.Import.Step != contract.Importing || s.Import.ETL != "101" {
			t.Errorf("status: got %+v, import %+v, want 3 open rows and the adopted import", s, s.Import)
		}
		time.Sleep(time.Minute)
		w.said(
			`2s poll e7: IN_PROGRESS`,
			`5s poll e7: FINISHED`,
			`5s confirm upsert 1/1 attempt 1 "e7" holds 100-102`,
			`5s intend upsert 1/1 attempt 1 "" holds 103-105`,
			`5s trigger 101 with customers-*.upsert.csv.gz: "k,a,b\n1,,\n2,,\n3,,\n", <nil>`,
			`5s record upsert 1/1 attempt 1 "e1" holds 103-105`,
			`7s poll e1: FINISHED`,
			`7s confirm upsert 1/1 attempt 1 "e1" holds 103-105`,
		)
		if got := w.endings()[0]; got.Op != schemas.Upsert || got.Rows != 3 || got.Mapping != "customers" || got.Table.Name != "customers" || got.took < time.Hour {
			t.Errorf("observed: got %+v, want 3 rows of upsert into customers, more than an hour after it began", got)
		}
	})
}

func TestAdoptedImportEndsAsItsResultSays(t *testing.T) {
	unknown, changed := running(1, 1), func(a *Adopted) { a.Changed = true }
	unknown.Execution = ""
	rebuilt := func(a *Adopted) { a.Changed, a.Rebuild = true, true }
	left := func(a *Adopted) { rebuilt(a); a.Table.Name = "another" }
	again := unknown
	again.Attempt = 2
	for _, tc := range []struct {
		name    string
		imp     contract.Import
		change  func(*Adopted)
		results []contract.Results
		want    []string
	}{
		{"FAILED", running(2, 3), nil, []contract.Results{{Status: contract.Failed}}, []string{`2s poll e7: FAILED`, `2s start over at 2/3 attempt 2 "e7"`}},
		{"a part of several", running(2, 3), nil, nil, []string{`2s poll e7: FINISHED`, `2s start over at 3/3 attempt 1 ""`}},
		{"nobody knows whether it was sent", unknown, nil, nil, []string{`25s start over at 1/1 attempt 2 ""`}},
		{"its mapping was changed", running(1, 1), changed, nil, []string{`2s poll e7: FINISHED`, `2s start over at 0/0 attempt 0 ""`}},
		{"its mapping was changed, FAILED", running(1, 1), changed, []contract.Results{{Status: contract.Failed}}, []string{`2s poll e7: FAILED`, `2s start over at 0/0 attempt 0 ""`}},
		// Its rows may be loaded for long: those that its records make by now go by file, too, behind it.
		{"its mapping was changed, not sent for sure", unknown, changed, nil, []string{`25s start over at 1/1 attempt 2 ""`}},
		{"its mapping was changed, not sent for sure, to be built", again, rebuilt, nil, []string{`0s start over at 1/1 attempt 2 ""`}},
		{"its mapping has left the lane, not sent for sure", again, left, nil, []string{`0s start over at 0/0 attempt 0 ""`}},
		{"its mapping was changed, to be built", running(2, 3), rebuilt, nil, []string{`0s start over at 0/0 attempt 0 ""`}},
	} {
		each(t, tc.name, func(_ *testing.T, w *world) {
			w.results = tc.results
			w.open(Config{}, testMapping())
			a := w.left(103, tc.imp)
			if tc.change != nil {
				tc.change(&a)
			}
			w.adopt(a)
			w.run()
			w.read(w.p, 103, write(schemas.Upsert, "1"))
			time.Sleep(3 * time.Hour)
			w.said(tc.want...) // newer rows wait for the next assignment
		})
	}
}

func TestForgottenAdoptedImportHaltsAndIsBuiltAgainOnceReleased(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.polls = slices.Repeat([]error{&refusal{}}, forgottenPolls+1)
		w.open(Config{}, testMapping())
		w.adopt(w.left(103, running(2, 3)))
		w.run()
		time.Sleep(time.Hour)
		if got := len(w.transcript()); got != forgottenPolls {
			t.Errorf("lines: got %d, want %d polls", got, forgottenPolls)
		}
		if reason, _ := w.b.Halted("customers"); !strings.Contains(reason, "execution e7: service said no") {
			t.Errorf("reason: got %q, want the execution and the service's words", reason)
		}
		w.release("customers")
		time.Sleep(time.Minute)
		w.lastSaid(`start over at 2/3 attempt 2 ""`)
		w.wantSpool()
	})
}

func TestHintPollsAnAdoptedImport(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.start(testMapping())
		w.adopt(w.left(103, running(1, 1)))
		synctest.Wait()
		w.b.Hint("e7", "101")
		w.said(`0s poll e7: FINISHED`, `0s confirm upsert 1/1 attempt 1 "e7" holds 100-102`)
	})
}

func TestAdoptedRowsInErrorAreDeadLetters(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.results, w.files = []contract.Results{{Status: contract.Finished, InError: 2}}, "k,error\n1,bad\nC9,bad\n"
		w.log = []schemas.Write{write(schemas.Upsert, "1")}
		w.start(testMapping())
		w.adopt(w.left(103, running(1, 1)))
		time.Sleep(time.Minute)
		w.said(
			`2s poll e7: FINISHED`,
			`2s output files of e7: <nil>`,
			`2s reject 100 of e7: bad`,
			`2s unmatched customers "C9": "k,error\nC9,bad\n": bad`,
			`2s 1 rows of customers-*.upsert.csv.gz unmatched`,
			`2s confirm upsert 1/1 attempt 1 "e7" holds 100-102`,
		)
		w.wantSpool()
		if got := w.endings()[0].Rows; got != 2 {
			t.Errorf("rows of an import whose counters lack the rows read: got %d, want 2, those in error", got)
		}
	})
}

func TestDiscardStopsAnAdoptionAtEveryStep(t *testing.T) {
	failed, unknown := []contract.Results{{Status: contract.Failed}}, running(1, 1)
	unknown.Execution = ""
	for _, tc := range []struct {
		step    string
		imp     contract.Import
		rebuild bool
		results []contract.Results
	}{
		{"poll", running(1, 1), false, nil},
		{"output files", running(1, 1), false, []contract.Results{{Status: contract.Finished, InError: 1}}},
		{"start over", running(1, 1), false, failed},
		{"confirm", running(1, 1), false, nil},
		{"the grace", unknown, false, nil},
		{"rebuilding", running(1, 1), true, nil},
	} {
		each(t, tc.step, func(_ *testing.T, w *world) {
			w.hold, w.results = tc.step, tc.results
			m := testMapping()
			m.Roll.Rows = 1
			w.start(m)
			a := w.left(103, tc.imp)
			a.Rebuild = tc.rebuild
			w.adopt(a)
			w.read(w.p, 100, write(schemas.Upsert, "1"))
			time.Sleep(20 * time.Second)
			w.transcript()
			w.p.dead.Store(true)
			lose(w.b, "customers")
			time.Sleep(3 * time.Hour)
			w.said()
			w.wantSpool()

			w.change(func() { w.hold, w.results = "", nil })
			w.p = &partition{}
			w.adopt(w.left(103, running(1, 1)))
			time.Sleep(time.Minute)
			w.lastSaid(`confirm upsert 1/1 attempt 1 "e7" holds 100-102`)
			w.append(write(schemas.Upsert, "3"))
			time.Sleep(time.Minute)
			w.lastSaid(`confirm upsert 1/1 attempt 1 "e1" holds 100-100`)
		})
	}
}

func TestAdoptionForAnUnknownMappingIsAnError(t *testing.T) {
	w := newWorld(t)
	w.open(Config{}, testMapping())
	defer func() { _ = w.b.Close() }()
	if err := w.b.Adopt("orders", Adopted{}); err == nil {
		t.Error("adopt: got no error, want one")
	}
	w.b.Passed("orders", w.p, 1) // of no concern to anybody
}
