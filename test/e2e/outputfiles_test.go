//go:build !image

package e2e_test

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/replay"
)

// A service may say FINISHED a moment before it has the output files.
func TestOutputFilesThatAreNotThereYetLoseNoRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withRules)
	if err := w.service.RejectRows(sandbox.Rejection{Column: "seq", Match: "^-1$", Reason: "not this number"}); err != nil {
		t.Fatal(err)
	}
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 12, Nth: 1}, Answer: sandbox.Status(http.StatusNotFound)})
	w.start(head + deadLetters + mappings)
	w.produce(customer("C1", "basic", -1), customer("C2", "basic", 2))
	w.until("committed", func() bool { return w.lag("batch", "customers") == 0 })
	letters := w.dead()
	if len(letters) != 1 || string(letters[0].Key) != "C1" {
		t.Errorf("dead letters: got %d, want that of C1", len(letters))
	}
	if _, ok := w.service.Row("customers", "C2"); !ok {
		t.Error("C2: got no row, want one")
	}
}

// outputsOf answers operations 11 and 12 of every execution: one row is in error,
// and write gives the output files.
func (w *world) outputsOf(write func(to io.Writer)) {
	w.t.Helper()
	w.between(func(service http.Handler) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/integration-results"):
				_, _ = io.WriteString(rw, `{"status":"FINISHED","integrationResults":{"linesRead":2,"linesInError":1}}`)
			case strings.HasSuffix(r.URL.Path, "/output-files"):
				write(rw)
			default:
				service.ServeHTTP(rw, r)
			}
		}
	})
}

func TestEndlessOutputFilesDoNotFillTheDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	line := []byte(strings.Repeat("x", 1<<20))
	w.outputsOf(func(to io.Writer) {
		for range 100 { // MiB
			if _, err := to.Write(line); err != nil {
				return
			}
		}
	})
	sink := w.start(strings.Replace(head, "spool: {dir: ${DIR}}", "spool: {dir: ${DIR}, maxBytes: 20MiB}", 1) + deadLetters + mappings)
	w.produce(customer("C1", "basic", 1))
	most := int64(0)
	w.until("the mapping halts", func() bool {
		sum := int64(0)
		entries, _ := os.ReadDir(w.dir)
		for _, e := range entries {
			if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
				sum += info.Size()
			}
		}
		most = max(most, sum)
		return strings.Contains(get(t, sink.AdminAddress(), "/metrics"), `feedsink_halted{mapping="customers"} 1`)
	})
	if most > 4<<20 {
		t.Errorf("in the spool's directory: got %d bytes, want a tenth of 20 MiB and a little more", most)
	}
	if w.lag("batch", "customers") == 0 {
		t.Error("lag: got 0, want the record not to be confirmed")
	}
	if text := get(t, sink.AdminAddress(), "/status"); !strings.Contains(text, "a tenth of spool.maxBytes") {
		t.Errorf("/status: got %s, want the limit", text)
	}
}

func TestRowThatMatchesNoRecordIsADeadLetterOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.outputsOf(func(to io.Writer) {
		_, _ = io.WriteString(to, "customerNumber,lastName,error\nC9,\"Doe, J\",no such country\n")
	})
	sink := w.run(head + deadLetters + mappings)
	w.produce(customer("C1", "basic", 1))
	w.until("committed", func() bool { return w.lag("batch", "customers") == 0 })
	letters := w.dead()
	if len(letters) != 1 {
		t.Fatalf("dead letters: got %d, want 1", len(letters))
	}
	l := letters[0]
	if got, want := string(l.Value), "customerNumber,lastName,error\nC9,\"Doe, J\",no such country\n"; got != want || string(l.Key) != "C9" {
		t.Errorf("letter: got key %q, value %q, want the row under its header", l.Key, got)
	}
	for name, want := range map[string]string{
		"__connect.errors.topic": "", "__connect.errors.partition": "", "__connect.errors.offset": "",
		"__connect.errors.stage": "TASK_PUT", "__connect.errors.exception.class.name": "import_row",
		"__connect.errors.exception.message": "no such country",
		"feedsink.mapping":                   "customers", "feedsink.table": "customers", "feedsink.lane": "batch", "feedsink.execution": w.service.Executions()[0].ID,
	} {
		if got := header(l, name); got != want {
			t.Errorf("header %s: got %q, want %q", name, got, want)
		}
	}
	if got := get(t, sink.admin(w), "/metrics"); !strings.Contains(got, `feedsink_import_rows_unmatched_total{mapping="customers"} 1`) {
		t.Error("feedsink_import_rows_unmatched_total: got another number, want 1 for customers")
	}

	out, code := w.execute("dlq list --show-value")
	if code != 0 || !strings.Contains(out, "none") || !strings.Contains(out, "C9") || !strings.Contains(out, "no such country") {
		t.Errorf("dlq list: got exit code %d and\n%s\nwant the row, of no record", code, out)
	}
	if out, code := w.execute("dlq list -o json"); code != 0 || strings.Contains(out, `"offset"`) || strings.Contains(out, "C9") {
		t.Errorf("dlq list -o json: got exit code %d and\n%s\nwant no offset and no customer's value", code, out)
	}
	out, code = w.execute("dlq replay")
	if code != 1 || !strings.Contains(out, replay.NoRecord) {
		t.Errorf("dlq replay: got exit code %d and\n%s\nwant the letter left, and why", code, out)
	}
	if after := w.dead(); len(after) != 1 || string(after[0].Key) != "C9" {
		t.Errorf("after the replay: got %d letters, want the one", len(after))
	}
}

// TestForgetTellsOfARowWhoseKeyIsNotKnown: its file has other columns, or another separator.
func TestForgetTellsOfARowWhoseKeyIsNotKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.outputsOf(func(to io.Writer) {
		_, _ = io.WriteString(to, "externalId;lastName;error\nC9;Doe;no such country\n")
	})
	w.run(head + deadLetters + mappings)
	w.produce(customer("C1", "basic", 1))
	w.until("committed", func() bool { return w.lag("batch", "customers") == 0 })
	if letters := w.dead(); len(letters) != 1 || len(letters[0].Key) > 0 {
		t.Fatalf("dead letters: got %+v, want one without a key", letters)
	}
	if out, code := w.execute("forget --mapping customers C9"); code != 1 || !strings.Contains(out, "dead letter") {
		t.Errorf("got exit code %d and\n%s\nwant the dead letter", code, out)
	}
}

func TestImportThatWouldFailAgainTakesOneSlot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.service.FailImports("customers", 1, `invalid file: header "nope": the table has no field "nope"`)
	for range 2 { // a restart is no reason to send it again
		sink := w.run(head + deadLetters + mappings)
		w.produce(customer("C1", "basic", 1))
		address := sink.admin(w)
		w.until("the mapping halts", func() bool {
			return strings.Contains(get(t, address, "/metrics"), `feedsink_halted{mapping="customers"} 1`)
		})
		sink.terminate(t)
	}
	if got := len(w.service.Executions()); got != 1 {
		t.Errorf("executions: got %d, want 1", got)
	}
	sink := w.run(head + deadLetters + mappings)
	address := sink.admin(w)
	w.until("the mapping halts", func() bool {
		return strings.Contains(get(t, address, "/metrics"), `feedsink_halted{mapping="customers"} 1`)
	})
	if out, code := execute(t, "imports", "release", "--mapping", "customers", "--server", "http://"+address); code != 0 {
		t.Errorf("release: got exit code %d, %s", code, out)
	}
	w.settled()
	if _, ok := w.service.Row("customers", "C1"); !ok {
		t.Error("C1: got no row, want that of the released file")
	}
}
