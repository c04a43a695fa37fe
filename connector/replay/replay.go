package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// Config is what a run is asked to do.
type Config struct {
	Topic     string // of the dead letters
	Connector string // the configured group: only its dead letters are replayed, and only its lanes are asked
	Filter    Filter
	// MaxAttempts is how often a dead letter may have failed again; it is left then.
	MaxAttempts int
	DryRun      bool // find out what would become of each dead letter; send and mark nothing
	AsCalls     bool // mappings that write profiles by imports only may be replayed by calls
	// AssumeNewest also replays dead letters of which nobody can tell whether they are
	// the newest of their row.
	AssumeNewest bool
	// GiveUp is how long the run waits while no call is answered.
	GiveUp time.Duration
	// Late is how long after it was made a call may still be applied whose
	// outcome is unknown.
	Late time.Duration
	// Round is how many dead letters are sent before their rows are looked at again.
	Round int
	// Progress is told the counts after each round; nil: nobody asks.
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

// Replay is one run. Its fields are set by whoever makes it.
type Replay struct {
	Config
	Reader  *kafka.Reader
	Post    *deadletter.Post
	Service Service
	Router  *router.Router
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
	report Report
	floods map[string]string // how dead letters were refused alike, by mapping or topic
	routed []router.Routed   // reused from record to record
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
	spans, err := r.Reader.Spans(ctx, r.Topic)
	if err != nil {
		return r.report, err
	}
	if r.marks, err = LoadMarks(ctx, r.Reader, r.Topic, MarksPrefix(r.Connector), spans, r.Log); err != nil {
		return r.report, err
	}
	var letters []*deadLetter
	size := 0
	err = DeadLetters(ctx, r.Reader, r.Topic, spans, func(rec *deadletter.Record, l *deadletter.Received) error {
		if !r.selects(l) {
			return nil
		}
		letters = append(letters, &deadLetter{Received: l, tried: r.marks.Tried(l.Partition, l.Offset)})
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

// DeadLetters calls each for every record that the spans of the dead-letter topic
// hold; the dead letter is nil where the record is none.
func DeadLetters(ctx context.Context, reader *kafka.Reader, topic string, spans map[kafka.Place]kafka.Span,
	each func(*deadletter.Record, *deadletter.Received) error,
) error {
	from, ends := map[kafka.Place]int64{}, map[kafka.Place]int64{}
	for p, s := range spans {
		if p.Topic == topic && s.From < s.To {
			from[p], ends[p] = s.From, s.To
		}
	}
	if len(from) == 0 {
		return nil
	}
	tail, err := reader.Tail(from)
	if err != nil {
		return err
	}
	defer tail.Close()
	return tail.Until(ctx, ends, func(rec *deadletter.Record) error {
		if rec.Offset >= ends[kafka.Place{Topic: rec.Topic, Partition: rec.Partition}] {
			return nil // posted since, perhaps by this very run
		}
		l, err := deadletter.Open(rec)
		if err != nil && !errors.Is(err, deadletter.ErrForeign) {
			return err
		}
		return each(rec, l)
	})
}

// selects counts the dead letter and reports whether this run is to replay it.
func (r *Replay) selects(l *deadletter.Received) bool {
	switch {
	case l == nil || l.Connector != r.Connector:
		r.report.Foreign++
		return false
	case !r.Filter.Match(l):
		if r.marks.Tried(l.Partition, l.Offset) && !r.marks.Done(l.Partition, l.Offset) {
			r.report.Interrupted++
		}
		return false
	case r.marks.Done(l.Partition, l.Offset):
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
			fmt.Sprintf("it has failed again %d times; allow more attempts once the cause is gone", l.Attempts))
		return false
	}
	return true
}
