package replay

import (
	"fmt"
	"time"

	"github.com/feedsink/feedsink/connector/deadletter"
)

// Outcome is what became of a dead letter.
type Outcome string

// The outcomes. All but Left end a dead letter.
const (
	Applied    Outcome = "applied"    // the service holds it
	Superseded Outcome = "superseded" // newer records replaced all of it: nothing was sent for it
	Refused    Outcome = "refused"    // it failed again and is a new letter
	Left       Outcome = "left"       // it stays as it is; the note says why
)

// Why a dead letter is left.
const (
	Unconfirmed = "unconfirmed"  // the sink has not confirmed yet what is before it
	Unknowable  = "unknowable"   // nobody can tell any more what followed it
	NeedsImport = "needs_import" // no call can write it
	BatchOnly   = "batch_only"   // a call would do more than the import that its mapping uses
	NoRecord    = "no_record"    // it is a row that no record was found for
	NoMapping   = "no_mapping"   // the configuration does not map it
	MaxAttempts = "max_attempts" // it failed as often as is allowed
	Unanswered  = "unanswered"   // the service did not say yes or no
	NotPosted   = "not_posted"   // it failed again, and the dead-letter topic does not take it
	Flood       = "flood"        // nearly all letters of its mapping are refused alike: it is not posted again
)

// Note is what became of one dead letter, and why.
type Note struct {
	Partition int32     `json:"partition"` // of the dead-letter topic
	Offset    int64     `json:"offset"`
	Record    string    `json:"record"` // where it came from: topic[partition]@offset
	Time      time.Time `json:"time"`
	Mapping   string    `json:"mapping,omitempty"`
	Outcome   Outcome   `json:"outcome"`
	Why       string    `json:"why,omitempty"`     // of Left: the word; of Refused: the reason's code
	Message   string    `json:"message,omitempty"` // without the service's own words, which may quote values
}

// Report is what a run did, or with DryRun what it would have done.
type Report struct {
	DryRun     bool           `json:"dryRun"`
	Selected   int            `json:"selected"` // open letters that the filter means
	Applied    int            `json:"applied"`
	Superseded int            `json:"superseded"`
	Refused    map[string]int `json:"refused"` // by reason code
	Left       map[string]int `json:"left"`    // by why
	Done       int            `json:"done"`    // replayed before; not selected
	// Interrupted are dead letters that the filter does not mean, and that a run which
	// did not end may have sent: their rows may hold an older value.
	Interrupted int    `json:"interrupted"`
	Foreign     int    `json:"foreign"` // records of the topic that are no letters of this connector
	Notes       []Note `json:"notes"`   // of the refused and left, as many as are kept
}

// maxNotes bounds a report's memory; the counts go on.
const maxNotes = 1000

func newReport(dry bool) Report {
	return Report{DryRun: dry, Refused: map[string]int{}, Left: map[string]int{}, Notes: []Note{}}
}

// Ended reports whether every selected dead letter was applied or superseded.
func (r Report) Ended() bool { return r.Applied+r.Superseded == r.Selected }

func (r *Report) note(l *deadLetter, outcome Outcome, why, message string) {
	switch outcome {
	case Applied:
		r.Applied++
		return
	case Superseded:
		r.Superseded++
		return
	case Refused:
		r.Refused[why]++
	case Left:
		r.Left[why]++
	}
	if len(r.Notes) < maxNotes {
		r.Notes = append(r.Notes, Note{
			Partition: l.Partition, Offset: l.Offset, Record: Origin(l.Received), Time: l.Record.Timestamp,
			Mapping: l.Mapping, Outcome: outcome, Why: why, Message: message,
		})
	}
}

// Origin is where the dead letter's record came from: topic[partition]@offset, or
// which execution had the row that is of no record.
func Origin(l *deadletter.Received) string {
	if l.NoRecord() {
		return "row of execution " + l.Execution
	}
	return fmt.Sprintf("%s[%d]@%d", l.Record.Topic, l.Record.Partition, l.Record.Offset)
}
