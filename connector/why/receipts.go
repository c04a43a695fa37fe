package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/receipt"
)

// Receipt is how a record has ended, as its receipt says.
type Receipt struct {
	Outcome    string    `json:"outcome"` // as in schemas/receipt.avsc
	Lane       string    `json:"lane"`    // that has ended it
	Status     int       `json:"status,omitempty"`
	Executions []string  `json:"executions,omitempty"`
	Row        string    `json:"row,omitempty"` // its state in the executions; "": there are none
	Ended      time.Time `json:"ended"`
	// Unchanged: it was skipped, since the last call for its key had said the same.
	Unchanged bool `json:"unchanged,omitempty"`
	// Again are later receipts of the record, the oldest first: after a crash or a move it
	// was read once more.
	Again []Receipt `json:"again,omitempty"`
}

// Has reports whether a receipt is of the record and of what that mapping makes of it. One
// that names no mapping is of all of them. One of a record that had the same offset in an
// earlier topic is another's.
func (f *Found) Has(r *receipt.Receipt, mapping string) bool {
	written := f.Timestamp.UnixMilli()
	return r.Topic == f.Topic && r.Partition == f.Partition && r.Offset == f.Offset && (r.Mapping == "" || r.Mapping == mapping) &&
		(r.Written.IsZero() && written == 0 || r.Written.UnixMilli() == written)
}

// Receipt is the record's, nil if none was read.
func (s *State) Receipt(f *Found) *Receipt {
	var own []receipt.Receipt
	for _, r := range s.Receipts[cluster.PlaceOf(f.Record)] {
		// The mapping may have been renamed since. The hash, of table and key, tells its receipts
		// from those of a mapping of another table that is no longer configured.
		renamed := s.Router.Mapping(r.Mapping) == nil && f.Hashed.ID != "" && r.Key == f.Hashed && f.Has(&r, r.Mapping)
		if (renamed || f.Has(&r, s.Mapping.Name)) && !slices.Contains(own, r) { // Kafka may have one twice
			own = append(own, r)
		}
	}
	if len(own) == 0 {
		return nil
	}
	slices.SortStableFunc(own, func(a, b receipt.Receipt) int {
		return cmp.Or(a.Ended.Compare(b.Ended), a.Assigned.Compare(b.Assigned))
	})
	first := receiptOf(&own[0])
	for i := range own[1:] {
		first.Again = append(first.Again, receiptOf(&own[1+i]))
	}
	return &first
}

func receiptOf(r *receipt.Receipt) Receipt {
	shown := Receipt{Outcome: r.Outcome.String(), Lane: r.Lane.String(), Status: r.Status, Ended: r.Ended.UTC()}
	shown.Unchanged = r.Outcome == receipt.Skipped && r.Op != 0 // what is skipped otherwise has no write
	if r.Execution != "" {
		shown.Executions = strings.Split(r.Execution, ",")
	}
	if r.Row != receipt.NoRow {
		shown.Row = r.Row.String()
	}
	return shown
}

// Ended reports whether the ledgers show a record's end, so that it is to have a receipt.
func (s *State) Ended(f *Found) bool {
	v, _, _ := s.verdict(f)
	return v != Waiting
}

// told is the verdict on a record of which there is no dead letter, with what its receipt
// adds.
func told(v Verdict, why string, r *Receipt) (Verdict, string) {
	if r == nil || v != Unknown && v != Confirmed {
		return v, why
	}
	switch outcome := r.last().Outcome; {
	case outcome == receipt.DeadLetter.String():
		return Unknown, why + "; it was a dead letter, which is no longer there: whether it was replayed is not on record"
	case v == Confirmed:
		return v, why
	case outcome == receipt.Skipped.String() && !r.last().Unchanged:
		return Skipped, "its receipt says so; the ledgers alone do not: " + why
	}
	return Confirmed, "its receipt says so; the ledgers alone do not: " + why
}

// last is the last end of the record.
func (r *Receipt) last() *Receipt {
	if len(r.Again) > 0 {
		return &r.Again[len(r.Again)-1]
	}
	return r
}

// String is the receipt in words.
func (r *Receipt) String() string {
	text := r.end()
	switch n := len(r.Again); {
	case n == 1 && r.Again[0].Outcome == r.Outcome && r.Again[0].Unchanged == r.Unchanged:
		text += ", again at " + r.Again[0].Ended.Format(time.RFC3339)
	case n == 1:
		text += ", again: " + r.Again[0].end()
	case n > 1:
		text += fmt.Sprintf(", again %d times, the last: %s", n, r.last().end())
	}
	return text
}

// outcomeWords says for people what the outcomes are.
var outcomeWords = map[string]string{
	receipt.Merged.String():     "merged into a newer record's call",
	receipt.Superseded.String(): "superseded by a newer record",
	receipt.Absent.String():     "absent: a delete of what was not there",
	receipt.Skipped.String():    "skipped: nothing to write",
	receipt.DeadLetter.String(): "dead letter",
}

func (r *Receipt) end() string {
	text := cmp.Or(outcomeWords[r.Outcome], r.Outcome)
	if r.Unchanged {
		text = "unchanged: the last call for its key had said the same, so none was made"
	}
	if len(r.Executions) > 0 {
		text += " by execution " + strings.Join(r.Executions, ", ")
	}
	if r.Row != "" {
		text += " (row " + r.Row + ")"
	}
	if r.Status != 0 {
		text += fmt.Sprintf(", status %d", r.Status)
	}
	return text + ", " + r.Lane + " lane, at " + r.Ended.Format(time.RFC3339)
}
