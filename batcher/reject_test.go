package batcher

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/batcher/rejects"
	"github.com/feedsink/feedsink/schemas"
)

// rejecting is a world in which the first execution has rows in error.
func rejecting(t *testing.T, inError int64, files string) *world {
	w := newWorld(t)
	w.results = []contract.Results{{Status: contract.Finished, InError: inError}}
	w.files = files
	return w
}

// rejected runs writes through an import and returns what follows its first poll.
func (w *world) rejected(m files.Mapping, writes ...schemas.Write) []string {
	w.t.Helper()
	return w.rejectedOf([]files.Mapping{m}, writes...)
}

func (w *world) rejectedOf(mappings []files.Mapping, writes ...schemas.Write) []string {
	w.t.Helper()
	w.start(mappings...)
	w.append(writes...)
	time.Sleep(2 * time.Hour)
	var lines []string
	polled := false
	for _, line := range w.transcript() {
		_, what, _ := strings.Cut(line, " ")
		if polled && !strings.HasPrefix(what, "output files") {
			lines = append(lines, what)
		}
		polled = polled || strings.HasPrefix(what, "poll e1: FINISHED")
	}
	return lines
}

func TestRowsInErrorAreDeadLettersBeforeTheImportIsConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rejecting(t, 1, "k,a,b,error\n1,x,,a: too long\n")
		got := w.rejected(testMapping(), write(schemas.Upsert, "1", "a", "x"), write(schemas.Upsert, "2", "a", "y"))
		wantLines(t, got, `reject 100 of e1: a: too long`, `confirm upsert 1/1 attempt 1 "e1" holds 100-101`)
		w.wantSpool()
	})
}

func TestRecordsOfARowShareItsFate(t *testing.T) {
	keeping := testMapping()
	keeping.Columns[1].Kept = true
	u := func(pairs ...string) schemas.Write { return write(schemas.Upsert, "1", pairs...) }
	c := func(pairs ...string) schemas.Write { return write(schemas.Create, "1", pairs...) }
	p := func(pairs ...string) schemas.Write { return write(schemas.Patch, "1", pairs...) }
	for _, tc := range []struct {
		name    string
		mapping files.Mapping
		inError []int64 // rows, of the files in the order of their loading
		writes  []schemas.Write
		want    []string
	}{
		{"what an upsert replaced and what was merged into it", testMapping(), []int64{1}, []schemas.Write{u("a", "x"), u("a", "y"), p("b", "z")}, []string{"100 of e1", "101 of e1", "102 of e1"}},
		{"not what a row of another file holds", testMapping(), []int64{1}, []schemas.Write{
			u("a", "x"), write(schemas.Upsert, "2"), c("a", "y"), p("b", "z"),
		}, []string{"100 of e1"}},
		{"not what never became a row", testMapping(), []int64{1}, []schemas.Write{
			u("a", "x"), {Op: schemas.Upsert, Key: "1", Cells: []schemas.Cell{{
				Place: &schemas.Place{Section: schemas.Attributes, Name: "a"}, Value: schemas.ObjectValue(nil),
			}}},
		}, []string{"100 of e1"}},
		{"not what a row of the next round holds", testMapping(), []int64{1, 0, 0}, []schemas.Write{p("a", "x"), c("a", "y"), p("b", "z")}, []string{"100 of e1"}},
		{"not what a row of the round before holds", testMapping(), []int64{0, 0, 1}, []schemas.Write{p("a", "x"), c("a", "y"), p("b", "z")}, []string{"102 of e3"}},
		{"a patch before an upsert that leaves what it says", keeping, []int64{1, 0}, []schemas.Write{p("a", "x"), u("b", "y")}, []string{"100 of e1"}},
		{"an upsert that leaves what a patch before it says", keeping, []int64{0, 1}, []schemas.Write{p("a", "x"), u("b", "y")}, []string{"101 of e2"}},
		{"a create between upserts", keeping, []int64{0, 1, 0}, []schemas.Write{u("a", "x"), c("a", "y"), u("b", "z")}, []string{"101 of e2"}},
		{"a create that is repeated", testMapping(), []int64{1}, []schemas.Write{c("a", "x"), c("a", "x")}, []string{"100 of e1", "101 of e1"}},
		{"another create, of the next round", testMapping(), []int64{0, 1}, []schemas.Write{c("a", "x"), c("a", "y"), c("a", "x")}, []string{"101 of e2"}},
		{"a create of which another one is applied", testMapping(), []int64{1, 0}, []schemas.Write{c("a", "x"), c("a", "y")}, []string{"100 of e1"}},
		{"a third create with the second", testMapping(), []int64{0, 1}, []schemas.Write{c("a", "x"), c("a", "y"), c("a", "z")}, []string{"101 of e2", "102 of e2"}},
		{"a third create with the first", testMapping(), []int64{1, 0}, []schemas.Write{c("a", "x"), c("a", "y"), c("a", "z")}, []string{"100 of e1", "102 of e1"}},
		{"a third create once", testMapping(), []int64{1, 1}, []schemas.Write{c("a", "x"), c("a", "y"), c("a", "z")}, []string{"100 of e1", "102 of e1", "101 of e2"}},
		{"an upsert that another one has taken the place of", keeping, []int64{1, 0}, []schemas.Write{u("a", "x"), p("a", ""), u("b", "z")}, []string{"100 of e1", "102 of e1"}},
	} {
		each(t, tc.name, func(t *testing.T, w *world) {
			w.files = "k,error\n1,bad\n"
			w.lenient = true
			for _, rows := range tc.inError {
				w.results = append(w.results, contract.Results{Status: contract.Finished, InError: rows})
			}
			var got []string
			for _, line := range w.rejected(tc.mapping, tc.writes...) {
				if of, ok := strings.CutPrefix(line, "reject "); ok {
					of, _, _ = strings.Cut(of, ":")
					got = append(got, of)
				}
			}
			wantLines(t, got, tc.want...)
		})
	}
}

func TestEveryRowInErrorIsLookedForWhateverTheirNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rejecting(t, 3, "k,error\n1,bad\n2,bad\n3,bad\n")
		w.unread = errDisconnected
		w.atOnce = 2
		got := w.rejected(testMapping(), write(schemas.Upsert, "1"), write(schemas.Upsert, "2"), write(schemas.Upsert, "3"), write(schemas.Upsert, "4"))
		wantLines(t, got, "reject 100 of e1: bad", "reject 101 of e1: bad", "reject 102 of e1: bad", `confirm upsert 1/1 attempt 1 "e1" holds 100-103`)
	})
}

func TestRowsThatMatchNoRecordAreDeadLettersOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rejecting(t, 3, "k,a,error\n1,x,bad\nC9,\"y,z\",bad\n,,\n")
		got := w.rejected(testMapping(), write(schemas.Upsert, "1", "a", "x"))
		wantLines(t, got, "reject 100 of e1: bad",
			`unmatched customers "": "k,a,error\n,,\n": `+rejects.Unexplained, `unmatched customers "C9": "k,a,error\nC9,\"y,z\",bad\n": bad`,
			"2 rows of customers-*.upsert.csv.gz unmatched", `confirm upsert 1/1 attempt 1 "e1" holds 100-100`)
		w.wantSpool()
	})
}

func TestEveryUnmatchedRowIsADeadLetterWhateverTheirNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rejecting(t, 5, "k,error\n,a\n,b\n,c\nx,d\ny,e\n")
		w.atOnce = 2
		var reasons []string
		for _, line := range w.rejected(testMapping(), write(schemas.Upsert, "1")) {
			if strings.HasPrefix(line, "unmatched") {
				reasons = append(reasons, line[len(line)-1:])
			}
		}
		wantLines(t, reasons, "a", "b", "c", "d", "e")
	})
}

// Without a dead-letter topic, rows that match no record have no place.
func TestMappingHaltsWhereUnmatchedRowsCannotBecomeDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rejecting(t, 1, "k,error\nC9,bad\n")
		w.unposted = fmt.Errorf("%w: dlq.topic is not configured", contract.ErrNoDeadLetter)
		w.start(testMapping())
		w.append(write(schemas.Upsert, "1"))
		time.Sleep(2 * time.Hour)
		asked, lines := askedFor(w.transcript())
		if got := lines[len(lines)-1]; asked != 1 || !strings.Contains(got, "poll e1: FINISHED") {
			t.Errorf("after the result: got asked %d times and %q, want once and nothing further", asked, got)
		}
		w.wantHalted("dlq.topic is not configured", "Set dlq.topic", "restart feedsink")
		if reason, _ := w.b.Halted("customers"); strings.Contains(reason, "generate error files") {
			t.Errorf("reason: got %q, want nothing of output files, which are there", reason)
		}
		w.wantSpool("customers-*.upsert.csv.gz", "customers-*.upsert.csv.gz.errors")
		w.release("customers")
		time.Sleep(time.Minute)
		_, lines = askedFor(w.transcript())
		if len(lines) != 2 || !strings.Contains(lines[0], "1 rows of") || !strings.Contains(lines[1], "confirm") {
			t.Errorf("after the release: got %q, want the row counted, then the confirmation", lines)
		}
		w.wantSpool("customers-*.upsert.csv.gz.errors")
	})
}

func TestOutputFilesAreAskedWhereTheCountersAreSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rejecting(t, -1, "k,error\n1,\n")
		got := w.rejected(testMapping(), write(schemas.Upsert, "1"))
		wantLines(t, got, "reject 100 of e1: "+rejects.Unexplained, `confirm upsert 1/1 attempt 1 "e1" holds 100-100`)
		w.wantSpool()
	})
}

func TestOutputFilesStayIfTheyAreAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rejecting(t, 0, "k,result\n1,INSERTED\n")
		m := testMapping()
		m.KeepResults = true
		wantLines(t, w.rejected(m, write(schemas.Upsert, "1")), `confirm upsert 1/1 attempt 1 "e1" holds 100-100`)
		w.wantSpool("customers-*.upsert.csv.gz.errors")
	})
}

// TestUpsertsThatDeletedAreWarnedOf: the ETL has another mode. The import is confirmed.
func TestUpsertsThatDeletedAreWarnedOf(t *testing.T) {
	for op, warned := range map[schemas.Op]bool{schemas.Upsert: true, schemas.Delete: false} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			w := newWorld(t)
			w.results = []contract.Results{{Status: contract.Finished, Deleted: 3}}
			w.open(Config{}, testMapping())
			w.b.cfg.Log = slog.New(slog.NewTextHandler(&out, nil))
			for _, q := range w.b.queues {
				q.log = w.b.cfg.Log.With("mapping", q.mapping.Name)
			}
			w.run()
			w.append(write(op, "1"))
			time.Sleep(2 * time.Hour)
			_ = w.stop()
			got := out.String()
			if strings.Contains(got, "another mode than the mapping says") != warned {
				t.Errorf("%v: got %q, want a warning: %v", op, got, warned)
			}
			for _, fact := range []string{"mapping=customers", "execution=e1", "etl=", "deleted=3"} {
				if warned && !strings.Contains(got, fact) {
					t.Errorf("%v: got %q, want %s", op, got, fact)
				}
			}
			if _, halted := w.b.Halted("customers"); halted || !strings.Contains(got, "import finished") {
				t.Errorf("%v: got halted %v, %q, want it to go on", op, halted, got)
			}
		})
	}
}

func TestADeleteThatFindsNothingIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rejecting(t, 2, "k,error\n1,profile not found\n2,locked\n")
		got := w.rejected(testMapping(), write(schemas.Delete, "1"), write(schemas.Delete, "2"))
		wantLines(t, got, "reject 101 of e1: locked", `confirm delete 1/1 attempt 1 "e1" holds 100-101`)
	})
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
