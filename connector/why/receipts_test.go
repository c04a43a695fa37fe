package why_test

import (
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/receipt"
	"github.com/feedsink/feedsink/connector/why"
	"github.com/feedsink/feedsink/schemas"
)

// receipted is the receipt of a record, with an assignment and an end so many minutes after
// noon.
func receipted(f why.Found, outcome receipt.Outcome, minutes int) receipt.Receipt {
	at := noon.Add(time.Duration(minutes) * time.Minute)
	return receipt.Receipt{
		Topic: f.Topic, Partition: f.Partition, Offset: f.Offset, Parts: 1, Lane: f.Lane, Mapping: "customers", Op: f.Write.Op,
		Outcome: outcome, Written: f.Timestamp.Local(), Assigned: at, Ended: at,
	}
}

func TestReceiptTellsHowARecordEnded(t *testing.T) {
	call, row := at(5, schemas.Immediate), at(6, schemas.Batch)
	imported := receipted(row, receipt.Imported, 1)
	imported.Execution, imported.Row = "17,18", receipt.Loaded
	later := receipted(row, receipt.Merged, 3)
	refused := receipted(call, receipt.DeadLetter, 1)
	refused.Status = 422
	gone := receipted(call, receipt.Absent, 1)
	gone.Status = 404
	with := func(r receipt.Receipt, change func(*receipt.Receipt)) receipt.Receipt {
		change(&r)
		return r
	}
	called, hashed := receipted(call, receipt.Called, 1), call
	hashed.Hashed = receipt.Key{ID: "s", Hash: [receipt.HashSize]byte{1}}
	for name, c := range map[string]struct {
		of    why.Found
		there []receipt.Receipt
		want  string // "": none
	}{
		"unchanged": {call, []receipt.Receipt{receipted(call, receipt.Skipped, 1)}, "unchanged: the last call for its key had said the same, so none was made, immediate lane, at 2026-11-23T12:01:00Z"},
		"unchanged, then called": {
			call,
			[]receipt.Receipt{receipted(call, receipt.Skipped, 1), receipted(call, receipt.Called, 2)},
			"unchanged: the last call for its key had said the same, so none was made, immediate lane, at 2026-11-23T12:01:00Z, again: called, immediate lane, at 2026-11-23T12:02:00Z",
		},
		"a call":                           {call, []receipt.Receipt{called}, "called, immediate lane, at 2026-11-23T12:01:00Z"},
		"an import":                        {row, []receipt.Receipt{imported}, "imported by execution 17, 18 (row loaded), batch lane, at 2026-11-23T12:01:00Z"},
		"a refusal":                        {call, []receipt.Receipt{refused}, "dead letter, status 422, immediate lane, at 2026-11-23T12:01:00Z"},
		"nothing to delete":                {call, []receipt.Receipt{gone}, "absent: a delete of what was not there, status 404, immediate lane, at 2026-11-23T12:01:00Z"},
		"twice in the topic":               {call, []receipt.Receipt{called, called}, "called, immediate lane, at 2026-11-23T12:01:00Z"},
		"a repetition":                     {call, []receipt.Receipt{receipted(call, receipt.Called, 2), called}, "called, immediate lane, at 2026-11-23T12:01:00Z, again at 2026-11-23T12:02:00Z"},
		"ends otherwise again":             {row, []receipt.Receipt{imported, later}, "imported by execution 17, 18 (row loaded), batch lane, at 2026-11-23T12:01:00Z, again: merged into a newer record's call, batch lane, at 2026-11-23T12:03:00Z"},
		"several repetitions":              {call, []receipt.Receipt{called, receipted(call, receipt.Called, 2), receipted(call, receipt.Called, 3)}, "called, immediate lane, at 2026-11-23T12:01:00Z, again 2 times, the last: called, immediate lane, at 2026-11-23T12:03:00Z"},
		"of no mapping":                    {call, []receipt.Receipt{with(called, func(r *receipt.Receipt) { r.Mapping = "" })}, "called, immediate lane, at 2026-11-23T12:01:00Z"},
		"of another mapping":               {call, []receipt.Receipt{with(called, func(r *receipt.Receipt) { r.Mapping = "orders" })}, ""},
		"of a former name":                 {hashed, []receipt.Receipt{with(called, func(r *receipt.Receipt) { r.Mapping, r.Key = "former", hashed.Hashed })}, "called, immediate lane, at 2026-11-23T12:01:00Z"},
		"of a former mapping":              {hashed, []receipt.Receipt{with(called, func(r *receipt.Receipt) { r.Mapping, r.Key = "former", receipt.Key{ID: "s"} })}, ""},
		"of a former name, without a hash": {call, []receipt.Receipt{with(called, func(r *receipt.Receipt) { r.Mapping = "former" })}, ""},
		"of another partition":             {call, []receipt.Receipt{with(called, func(r *receipt.Receipt) { r.Partition++ })}, ""},
		"of an earlier topic":              {call, []receipt.Receipt{with(called, func(r *receipt.Receipt) { r.Written = r.Written.Add(-time.Hour) })}, ""},
		"none":                             {call, nil, ""},
	} {
		s := world(t)
		s.Receipts = map[cluster.RecordPlace][]receipt.Receipt{{TopicPartition: partition, Offset: c.of.Offset}: c.there}
		got := s.Judge("C1", []why.Found{c.of}).Records[0].Receipt
		switch {
		case got == nil && c.want != "", got != nil && got.String() != c.want:
			t.Errorf("%s: got %v, want %q", name, got, c.want)
		case got != nil && len(got.Executions) != len(c.there[0].Execution)/2:
			t.Errorf("%s: got executions %q", name, got.Executions)
		}
	}
}

// nothing has a receipt tell of a record that no mapping writes.
func nothing(r receipt.Receipt) receipt.Receipt {
	r.Op, r.Mapping = 0, ""
	return r
}

// What the ledgers cannot tell, a receipt may; and it tells of a dead letter that is deleted.
func TestReceiptDecidesWhatLedgersCannot(t *testing.T) {
	f := at(1, schemas.Immediate)
	earlier := func(s *why.State) { // routes: it is below where those of this configuration begin
		change(s, schemas.Immediate, func(l *why.Ledger) { l.Routes.Changed, l.Routes.Epochs[0].From = 2, 2 })
	}
	waits := func(s *why.State) { change(s, schemas.Immediate, func(l *why.Ledger) { l.Offset = 0 }) }
	for name, c := range map[string]struct {
		change func(*why.State)
		there  []receipt.Receipt
		want   why.Verdict
		says   string
	}{
		"earlier routes, no receipt":    {earlier, nil, why.Unknown, "earlier routes"},
		"earlier routes, called":        {earlier, []receipt.Receipt{receipted(f, receipt.Called, 1)}, why.Confirmed, "its receipt says so"},
		"earlier routes, skipped":       {earlier, []receipt.Receipt{nothing(receipted(f, receipt.Skipped, 1))}, why.Skipped, "its receipt says so"},
		"earlier routes, unchanged":     {earlier, []receipt.Receipt{receipted(f, receipt.Skipped, 1)}, why.Confirmed, "its receipt says so"},
		"earlier routes, a dead letter": {earlier, []receipt.Receipt{receipted(f, receipt.DeadLetter, 1)}, why.Unknown, "was a dead letter"},
		"confirmed, called":             {func(*why.State) {}, []receipt.Receipt{receipted(f, receipt.Called, 1)}, why.Confirmed, "below the commit"},
		"confirmed, a deleted letter":   {func(*why.State) {}, []receipt.Receipt{receipted(f, receipt.DeadLetter, 1)}, why.Unknown, "no longer there"},
		"a dead letter, called later":   {func(*why.State) {}, []receipt.Receipt{receipted(f, receipt.DeadLetter, 1), receipted(f, receipt.Called, 2)}, why.Confirmed, "below the commit"},
		"not committed yet":             {waits, []receipt.Receipt{receipted(f, receipt.Called, 1)}, why.Waiting, "has committed up to offset 0"},
	} {
		s := world(t)
		c.change(s)
		s.Receipts = map[cluster.RecordPlace][]receipt.Receipt{{TopicPartition: partition, Offset: 1}: c.there}
		got := s.Judge("C1", []why.Found{f}).Records[0]
		if got.Verdict != c.want || !strings.Contains(got.Why, c.says) {
			t.Errorf("%s: got %s (%s), want %s and %q", name, got.Verdict, got.Why, c.want, c.says)
		}
	}
}
