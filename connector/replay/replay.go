// Package replay tries dead letters again. It applies each dead letter by calls of its
// own, beside the running sink, and sees to it that an older value never stays
// over a newer one of the same row.
//
// A dead letter is an old record: what came after it in its partition may have been
// applied long ago. So the partition is read from the dead letter's record to its end
// first. What is a dead letter itself does not count: it may be refused again, or was
// discarded. A dead letter whose values were all replaced since is done without a call;
// what was not replaced is sent together with what changed since, as the row's
// newest state. When the call is answered the partition is read on, to its end as
// it stood then: whatever changed the row meanwhile may have been overtaken by
// the call, so its newest state is sent again, until nothing came between. What
// is produced later than that the sink applies later too. And a dead letter waits
// until the sink has confirmed everything before it in its partition, so that
// nothing older can follow.
//
// Before the first call it is noted, in Kafka, which dead letters are about to be
// sent (Marks). A run that is killed may leave a call of unknown outcome; the
// next one waits until it can't be applied any more, and does not take such a
// dead letter for superseded without sending the row's newest state. An attempt that
// came to no answer before another was answered is treated alike. To delete a
// profile that such a call has brought back takes the service's id: where it is
// not known, an upsert of the key alone tells.
//
// The order that is kept is the one that the sink keeps: of one row's records in
// one partition. Where a topic does not hold any more what followed a dead letter's
// record, it is unknown whether it is the newest, and it is left where it is.
//
// A Backfill sends the newest states of a span of time again, whose rows the records
// themselves name: by calls in the same way, or by files, see Files.
//
// It knows dead letters, rows and their order. It knows nothing about HTTP, and what a
// record means it asks the router.
package replay

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// Config is what a run is asked to do.
type Config struct {
	Topic     string // of the dead letters
	Connector string // the configured group: only its dead letters are replayed, and only its lanes are asked
	Filter    Filter
	// MaxAttempts is how many times a dead letter may have failed again; it is left then.
	MaxAttempts int
	DryRun      bool // find out what would become of each dead letter; send and mark nothing
	AsCalls     bool // profiles that are written by imports may be replayed by calls
	// AssumeNewest also replays dead letters of which it is unknown whether they are
	// the newest of their row.
	AssumeNewest bool
	// GiveUp is how long the run waits while no call is answered.
	GiveUp time.Duration
	// Late is how long after it was made a call may still be applied whose
	// outcome is unknown.
	Late time.Duration
	// Round is how many dead letters are sent before their rows are looked at again.
	Round int
	// Progress is told the counts after each round; nil: not told.
	Progress func(Report)
}

// Service brings writes to the service, in order per key, each to its end.
type Service interface {
	Submit(calls.Item)
	// ProfileID is the service's id of a profile that was just upserted, "" if it
	// did not tell. It is asked after each upsert, once.
	ProfileID(w *schemas.Write) string
	// Unsure reports whether it is unknown what became of an attempt at the row
	// before the one that was answered. It is asked after each answer, once.
	Unsure(w *schemas.Write) bool
}

// Replay is one run. Its fields are set by its caller.
type Replay struct {
	Config
	Reader  *cluster.Reader
	Post    *deadletter.Post
	Service Service
	Router  *router.Router
	// Rows are of the mappings that have files.
	Rows map[*router.Compiled]*spool.Rows
	// Decode is the sink's; its result is valid until the next call. Errors that
	// are no *schemas.DecodeError end the run.
	Decode func(*deadletter.Record) (*router.Record, error)
	// Rejected and Refused make dead letters of what the router and the service say.
	Rejected, Refused func(error) deadletter.Reason
	// Flood counts how dead letters of a mapping or topic come out of a stage, nil for
	// through it. Once too many were refused alike it says how many. nil: no run stops.
	Flood func(of string, stage deadletter.Stage, why *deadletter.Reason) (how string)
	// Wait returns after so long, or with the context's error.
	Wait func(context.Context, time.Duration) error
	Log  *slog.Logger

	begun  time.Time
	marks  *Marks
	dead   *dead
	report Report
	floods map[string]string                                  // how dead letters were refused alike, by mapping or topic
	routed []router.Routed                                    // reused from record to record
	spans  map[string]map[cluster.TopicPartition]cluster.Span // by topic, for EndedBy
}

// A window is as many dead letters as are looked at together: the topics they came
// from are read once for each window.
const (
	windowDeadLetters = 10_000
	windowBytes       = 64 << 20
)

// MarksPrefix begins the names of the groups whose commits are the marks of the
// connector's replays.
func MarksPrefix(connector string) string { return connector + "-replay" }

// Run replays the open dead letters that the dead-letter topic holds when it begins.
// After an error, or when ctx ends, another run goes on where this one was.
func (r *Replay) Run(ctx context.Context) (Report, error) {
	r.report, r.begun, r.floods = newReport(r.DryRun), time.Now(), map[string]string{}
	var err error
	if r.marks, err = LoadMarks(ctx, r.Reader, r.Topic, r.Connector, r.Log); err != nil {
		return r.report, err
	}
	r.dead = &dead{upTo: map[int32]int64{}, at: map[cluster.RecordPlace][]*deadletter.Received{}}
	var letters []*deadLetter
	size := 0
	err = r.marks.Letters(ctx, func(rec *deadletter.Record, l *deadletter.Received) error {
		if l == nil {
			r.report.Foreign++
			return nil
		}
		state, _ := r.marks.State(l)
		if !r.selects(l, state) {
			return nil
		}
		letters = append(letters, &deadLetter{Received: l, tried: state == deadletter.StateTried})
		size += len(rec.Key) + len(rec.Value)
		if len(letters) < windowDeadLetters && size < windowBytes {
			return nil
		}
		full := letters
		letters, size = nil, 0
		return r.window(ctx, full)
	})
	if err == nil {
		err = r.window(ctx, letters)
	}
	return r.report, err
}

// selects counts the dead letter and reports whether this run is to replay it.
func (r *Replay) selects(l *deadletter.Received, state deadletter.State) bool {
	switch {
	case !r.Filter.Match(l):
		if state == deadletter.StateTried {
			r.report.Interrupted++
		}
		return false
	case state.Ended():
		r.report.Done++
		return false
	}
	r.report.Selected++
	if l.NoRecord() {
		r.report.note(&deadLetter{Received: l}, Left, NoRecord,
			"a row of an import that matches no record: there is nothing to send; correct the row and import it by hand, then discard the letter")
		return false
	}
	if l.Attempts >= r.MaxAttempts {
		r.report.note(&deadLetter{Received: l}, Left, MaxAttempts,
			fmt.Sprintf("it has failed again at each attempt (%d); allow more attempts once the cause is gone, or discard the letter", l.Attempts))
		return false
	}
	return true
}

// Filter says which dead letters are meant. What is left zero does not restrict.
type Filter struct {
	Mappings []string
	Reasons  []string // codes
	Keys     []string // keys of the records, as text
	// Since and Until bound the records' timestamps, the latter exclusively.
	Since, Until time.Time
	// Topic, Partitions and Offsets are where the records came from.
	Topic      string
	Partitions []int32
	Offsets    *Offsets
}

// Offsets are those from First to Last, both included.
type Offsets struct{ First, Last int64 }

// Match reports whether the dead letter is meant.
func (f *Filter) Match(l *deadletter.Received) bool {
	r := l.Record
	if l.NoRecord() && (len(f.Partitions) > 0 || f.Offsets != nil) {
		return false // it came from none of them
	}
	return among(f.Mappings, l.Mapping) && among(f.Reasons, l.Code) && among(f.Keys, string(r.Key)) &&
		among(f.Partitions, r.Partition) &&
		(f.Since.IsZero() || !r.Timestamp.Before(f.Since)) &&
		(f.Until.IsZero() || r.Timestamp.Before(f.Until)) &&
		(f.Topic == "" || f.Topic == r.Topic) &&
		(f.Offsets == nil || f.Offsets.First <= r.Offset && r.Offset <= f.Offsets.Last)
}

func among[T comparable](wanted []T, one T) bool {
	return len(wanted) == 0 || slices.Contains(wanted, one)
}

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
	Unknowable  = "unknowable"   // it is not known any more what followed it
	NeedsImport = "needs_import" // no call can write it
	BatchOnly   = "batch_only"   // a call would do more than the import that its mapping uses
	NoRecord    = "no_record"    // it is a row that no record was found for
	NoMapping   = "no_mapping"   // the configuration does not map it
	MaxAttempts = "max_attempts" // it failed as many times as is allowed
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
	Done       int            `json:"done"`    // replayed or discarded before; not selected
	// Interrupted are dead letters that the filter does not mean, and that a run which
	// did not end may have sent: their rows may hold an older value.
	Interrupted int    `json:"interrupted"`
	Foreign     int    `json:"foreign"`         // records of the topic that are no letters of this connector
	Notes       []Note `json:"notes"`           // of the refused and left, as many as are kept
	Error       string `json:"error,omitempty"` // why the run did not come to its end
}

// Empty reports whether the run has met no letter yet.
func (r *Report) Empty() bool { return r.Selected+r.Done+r.Interrupted+r.Foreign == 0 }

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
	return cluster.PlaceOf(l.Record).String()
}
