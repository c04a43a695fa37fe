package batcher

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/schemas"
)

// adoptErrors runs a batcher that adopts what is left of an import: a record whose row was in
// error under a former owner. It returns what follows the poll, without the asking. after three
// minutes is called.
func (w *world) adoptErrors(after func()) []string {
	w.t.Helper()
	w.open(Config{}, testMapping())
	w.log = []schemas.Write{write(schemas.Upsert, "1")}
	left := w.left(101, running(1, 1))
	left.OnlyErrors = true
	w.adopt(left)
	w.run()
	time.Sleep(3 * time.Minute)
	after()
	time.Sleep(time.Hour)
	w.goesOn()
	var lines []string
	for _, line := range w.transcript() {
		if _, what, _ := strings.Cut(line, " "); !strings.HasPrefix(what, "poll") && !strings.HasPrefix(what, "output files") {
			lines = append(lines, what)
		}
	}
	return lines
}

// halfOf is the beginning of a GZIP of the text.
func halfOf(t *testing.T, text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	check(t, z.Close())
	return b.String()[:b.Len()/2]
}

// TestHeldRecordsAreNotConfirmedWithoutADeadLetter: what a former owner had found in the output
// files may not be in them any more.
func TestHeldRecordsAreNotConfirmedWithoutADeadLetter(t *testing.T) {
	const untold = "reject 100 of e7: the service put the row in error and does not tell the reason any more"
	for _, tc := range []struct {
		name    string
		results contract.Results
		files   string
		reject  string
	}{
		{"as they were", contract.Results{InError: 1}, "k,error\n1,bad\n", "reject 100 of e7: bad"},
		{"empty", contract.Results{InError: 1}, "-", untold},
		{"a header alone", contract.Results{InError: 1}, "k,error\n", untold},
		{"half a GZIP", contract.Results{InError: 1}, halfOf(t, "k,error\n1,bad\n"), untold},
		{"fewer rows than were counted", contract.Results{InError: 3}, "k,error\n1,bad\n", untold},
		{"rows of other keys", contract.Results{InError: 1}, "k,error\n9,bad\n", untold},
		{"lines without a key", contract.Results{InError: 1}, "Sorry\nNo such files\n", untold},
		{"empty, and their number is not told", contract.Results{InError: -1}, "-", untold},
		{"the counters leave none in error any more", contract.Results{Read: 2, InError: -1, Inserted: 2}, "-", untold},
		{"none in error any more", contract.Results{Read: 2}, "-", untold},
	} {
		each(t, tc.name, func(t *testing.T, w *world) {
			tc.results.Status = contract.Finished
			w.results, w.files = []contract.Results{tc.results}, tc.files
			wantLines(t, w.adoptErrors(func() {}), tc.reject, `confirm upsert 1/1 attempt 1 "e7" holds 100-100`)
		})
	}
}

func TestOutputFilesOfHeldRecordsAreAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rejecting(t, 1, "-")
		lines := w.adoptErrors(func() {
			if imp := w.b.Status()[0].Import; imp == nil || !strings.Contains(fmt.Sprint(imp.LastErr), "all records that waited become dead letters") {
				t.Errorf("status: got import %+v, want it to say what follows", imp)
			}
			w.change(func() { w.files = "k,error\n1,bad\n" })
		})
		wantLines(t, lines, "reject 100 of e7: bad", `confirm upsert 1/1 attempt 1 "e7" holds 100-100`)
	})
}

// Nothing is decided any more about the rows of an import that has ended.
func TestHeldRecordOfAConflictingKeyIsADeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rejecting(t, 1, "k,error\n1,bad\n")
		m, row := testMapping(), write(schemas.Upsert, "1")
		m.DualLane = true
		w.open(Config{Peer: &noCalls{}}, m)
		w.log = []schemas.Write{row}
		left := w.left(101, running(1, 1))
		left.OnlyErrors = true
		w.adopt(left)
		w.run()
		synctest.Wait()
		w.b.Covered("customers", row, w.p, 100)
		w.other(row, 101)
		time.Sleep(time.Minute)
		w.said(`2s poll e7: FINISHED`, `2s output files of e7: <nil>`, `2s reject 100 of e7: bad`, `2s confirm upsert 1/1 attempt 1 "e7" holds 100-100`)
	})
}
