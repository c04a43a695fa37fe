//go:build !image

package e2e_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/forget"
	"github.com/feedsink/feedsink/connector/why"
)

// asksWhy runs the command and reads its report.
func (w *world) asksWhy(words string) (r why.Report) {
	w.t.Helper()
	out, code := w.execute("why -o json " + words)
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		w.t.Fatalf("why %s: got exit code %d, %v and\n%s", words, code, err, out)
	}
	r.Notes = slices.DeleteFunc(r.Notes, func(note string) bool { return strings.HasPrefix(note, "no running sink was asked") })
	return r
}

// endings are the outcomes of a key's records by their receipts, the oldest first; "" is
// none.
func endings(r why.Report) (all []string) {
	for i := range r.Keys[0].Records {
		outcome := ""
		if of := r.Keys[0].Records[i].Receipt; of != nil {
			outcome = of.Outcome
		}
		all = append(all, outcome)
	}
	return all
}

// Receipts tell why what became of each record: with the secret of their keys, without it,
// and after it was changed. Without the topic there is an answer nevertheless.
func TestWhyTellsWhatReceiptsSay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	secret := filepath.Join(w.dir, "receipts-key")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(secret, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("first")
	w.createTopics(partitions, "receipts")
	yaml := head + deadLetters + "\nreceipts: {topic: ${PREFIX}receipts, keyFile: " + shared(t, secret) + "}\n" + mappings
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4, Key: "bad"}, Answer: sandbox.Status(http.StatusBadRequest)},
		sandbox.Fault{Match: sandbox.Match{Op: 4, Key: "o1"}, Count: 3, Answer: sandbox.Status(http.StatusServiceUnavailable)})
	w.produce(order("o1", "NEW", 1), order("o1", "PAID", 2), order("o1", "SENT", 3), order("bad", "NEW", 1), customer("C1", "basic", 1))
	w.produce(event("orders", "bad", `{`)) // its receipt has no key
	sink := w.run(yaml)
	w.settled()
	sink.terminate(t)

	check := func(when string) {
		t.Helper()
		orders := w.asksWhy("--mapping orders o1")
		if got := endings(orders); len(got) != 3 || got[2] != "called" || !slices.Contains(got, "merged") || slices.Contains(got, "") {
			t.Errorf("%s: an order's records ended as %q, want merged ones and the last called", when, got)
		}
		if !strings.Contains(orders.Keys[0].Answer, "is confirmed: called, immediate lane, at ") {
			t.Errorf("%s: got the answer %q", when, orders.Keys[0].Answer)
		}
		customers := w.asksWhy("--mapping customers C1")
		if got := customers.Keys[0].Records[0].Receipt; got == nil || got.Outcome != "imported" || got.Row != "loaded" || len(got.Executions) != 1 || got.Lane != "batch" {
			t.Errorf("%s: the customer's receipt is %+v, want an import by one execution", when, got)
		}
		refused := w.asksWhy("--mapping orders bad")
		if got := endings(refused); !slices.Equal(got, []string{"dead_letter", "dead_letter"}) || refused.Keys[0].Records[0].Receipt.Status != http.StatusBadRequest {
			t.Errorf("%s: refused records ended as %q", when, got)
		}
		for _, r := range []why.Report{orders, customers, refused} {
			if len(r.Notes) > 0 {
				t.Errorf("%s: got notes %q, want none", when, r.Notes)
			}
		}
	}
	check("with the secret")
	var asked forget.Report
	out, _ := w.execute("forget --mapping orders -o json o1")
	if err := json.Unmarshal([]byte(out), &asked); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	last := asked.Places[len(asked.Places)-1]
	if last.Kind != forget.Receipts || last.State != forget.Hashed || !strings.HasPrefix(last.Holds, "3 receipts: ") || len(last.Do) == 0 || asked.Left != 0 {
		t.Errorf("forget: got %+v, want three receipts with hashes, and what to do", asked)
	}
	put("second")
	check("after the secret was changed")
	if out, _ := w.execute("forget --mapping orders o1"); !strings.Contains(out, "3 were hashed with a former secret") {
		t.Errorf("forget, after the secret was changed: got\n%s", out)
	}
	if err := os.Remove(secret); err != nil {
		t.Fatal(err)
	}
	check("without the secret")
	if out, _ := w.execute("why --mapping customers C1"); !strings.Contains(out, "\n  receipt  imported by execution ") {
		t.Errorf("as text: got\n%s", out)
	}

	w.produce(order("o2", "NEW", 1))
	if got := endings(w.asksWhy("--mapping orders o2")); !slices.Equal(got, []string{""}) {
		t.Errorf("a record that waits: its receipt is %q, want none", got)
	}
	if _, err := w.admin.DeleteTopics(t.Context(), w.topic("receipts")); err != nil {
		t.Fatal(err)
	}
	w.until("the broker has deleted the topic, which it does behind its answer", func() bool {
		topics, err := w.admin.ListTopics(t.Context(), w.topic("receipts"))
		return err == nil && topics.Error() != nil
	})
	without := w.asksWhy("--mapping orders o1")
	if len(without.Notes) != 1 || !strings.Contains(without.Notes[0], "create the topic, or correct receipts.topic") || without.Keys[0].Records[2].Verdict != why.Confirmed {
		t.Errorf("without the topic: got %+v, want the verdicts and a note", without)
	}
}

// A record from before the configuration had receipts has none, and why says so.
func TestWhySaysWhichRecordsHaveNoReceipt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.createTopics(1, "receipts")
	sink := w.run(head + deadLetters + mappings)
	w.produce(order("o1", "NEW", 1))
	w.settled()
	sink.terminate(t)
	sink = w.run(head + deadLetters + receiptsBlock + mappings)
	w.produce(order("o1", "PAID", 2))
	w.settled()
	r := w.asksWhy("--mapping orders o1")
	if got := endings(r); !slices.Equal(got, []string{"", "called"}) || len(r.Notes) != 1 || !strings.HasPrefix(r.Notes[0], "1 record that a lane has committed without a receipt") {
		t.Errorf("got %q and notes %q, want a receipt of the second record, and a note on the first", got, r.Notes)
	}
	sink.terminate(t)
}
