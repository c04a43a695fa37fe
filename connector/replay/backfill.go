package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// BackfillConfig is what a backfill is asked to do.
type BackfillConfig struct {
	Mapping *router.Compiled
	// Asked are since and until as they were said: who says the same again means the
	// run that was interrupted, although an age such as 36h is another time by then.
	Asked string
	Since time.Time
	Until time.Time // zero: up to what the sink has confirmed, beyond which it never goes
	// Restart begins anew where a run was interrupted.
	Restart bool
	// Keys is how many bytes the keys take that are looked at together. The span is
	// read once for each so many.
	Keys int64
	// Only are the keys that are meant; nil: all. Such a run was told by Look what to send,
	// so that one that was interrupted is not gone on with: it begins anew.
	Only map[string]bool
}

// Backfill sends the newest state of every key again of which the sink has confirmed
// records in a span of time. A key that newer records have replaced since is left to
// live traffic; what they only changed is sent together with them. From then on
// its row is treated as that of a dead letter: once the call is answered the log is read to
// its end, and what changed meanwhile is sent again.
//
// Keys go in the order of their hashes, so that a number says how far a run is. As many
// are kept in memory as Keys allows; then the span is read again for the next. Before
// calls are made the hash up to which they go is noted in Kafka: after a crash the next
// run waits until none of them can be applied any more, and sends these keys' newest
// states, replaced or not.
//
// What is an open or discarded dead letter never came to the table, and counts as if it
// were not there.
type Backfill struct {
	BackfillConfig
	// Replay makes the calls and reads on. Of its Config, Connector, Topic (of the dead
	// letters; "" without), AsCalls, DryRun, GiveUp, Late and Round count.
	Replay *Replay
	// Behind says what live traffic has waiting, "" for nothing: until then no call is made.
	Behind func(context.Context) (string, error)
	// Files are sent instead of calls; nil: calls are made. With DryRun they are counted
	// beside the calls.
	Files *Files
	// Tell is told how the run gets on; nil: not told.
	Tell func(BackfillReport)

	report  BackfillReport
	state   backfillState
	ids     map[string]ack.TopicID // of the topics, when the run began
	leftOut map[cluster.RecordPlace][]leftOut
	first   bool                             // the span was not read yet
	looking *Looking                         // nil: what is found is sent
	late    []backfillRow                    // an attempt at them may still be applied
	settle  time.Time                        // when it can't be any more; zero: there are none
	aside   []backfillRow                    // they came to no answer, and are sent once more when the others are
	tried   time.Time                        // the last of them
	silent  bool                             // the last call came to no answer, and was the only one of its round
	routes  map[cluster.TopicPartition]int64 // from where on the mapping's present ones count, when the run began
	former  map[kafkaKey]int64               // the last record of each that former ones may have applied
	held    *backfillState                   // as far as all keys are done, where some of this run are not; nil: all are
}

// BackfillReport is what a run did so far, those that it went on from included; or with
// DryRun what one would do.
type BackfillReport struct {
	DryRun  bool      `json:"dryRun"`
	Mapping string    `json:"mapping"`
	Table   string    `json:"table"`
	Since   time.Time `json:"since"`
	Until   time.Time `json:"until,omitzero"` // of the records; zero: what the sink had confirmed when the backfill began
	Resumed bool      `json:"resumed"`
	BackfillCounts
	Done    float64        `json:"done"` // the share of the keys that is done, from 0 to 1
	Ended   bool           `json:"ended"`
	Waiting string         `json:"waiting,omitempty"` // what holds the run up now
	Gone    []string       `json:"gone,omitempty"`    // where the log has lost the beginning of the span
	Former  []string       `json:"former,omitempty"`  // where records may have been applied that the mapping does not take any more
	Notes   []BackfillNote `json:"notes"`             // of the refused and left, as many as are kept
	// Callable says that the mapping's states may be sent by calls, Calls how many are still
	// to be made with DryRun.
	Callable bool    `json:"callable"`
	Calls    int64   `json:"calls"`
	Minutes  float64 `json:"minutes"` // they take at the rate; 0: there is none
	// Files are what the keys come to by files; nil: it has none, or goes by calls.
	Files *BackfillFiles `json:"files,omitempty"`
	// By is how it goes, calls or file, and Why what decided that.
	By    string `json:"by"`
	Why   string `json:"why"`
	Error string `json:"error,omitempty"` // why the run did not come to its end
}

// Empty reports whether the run has met no record yet.
func (r *BackfillReport) Empty() bool { return r.Records == 0 }

// How a backfill goes.
const (
	ByCalls = "calls"
	ByFile  = "file"
	ByAuto  = "auto" // by file where the mapping makes no calls of its own
)

// BackfillCounts are a run's, and are kept with its progress.
type BackfillCounts struct {
	// Records of the span, of which DeadLetters never came to the table and NoKey have
	// no business key: each call would make another row of them.
	Records     int64 `json:"records"`
	DeadLetters int64 `json:"deadLetters"`
	NoKey       int64 `json:"noKey"`
	// Keys is how many the span has, about, where they are not all in memory at once.
	Keys    int64            `json:"keys"`
	About   bool             `json:"about"`
	Sent    int64            `json:"sent"`    // to be sent, with DryRun
	Newer   int64            `json:"newer"`   // newer records replaced them: live traffic's
	Refused map[string]int64 `json:"refused"` // by reason code
	// Untold are rows of imports of which the service does not say how many are in error.
	Untold int64            `json:"untold,omitempty"`
	Left   map[string]int64 `json:"left"` // by why: NeedsImport, Unanswered
}

// newBackfillCounts are old, of an earlier run or none, to go on counting with.
func newBackfillCounts(old BackfillCounts) BackfillCounts {
	counts := old
	counts.Refused, counts.Left = map[string]int64{}, map[string]int64{}
	maps.Copy(counts.Refused, old.Refused)
	maps.Copy(counts.Left, old.Left)
	return counts
}

// BackfillNote is why the newest state of one key was not sent or taken.
type BackfillNote struct {
	Record  string `json:"record"` // the last of the key in the span: topic[partition]@offset
	Why     string `json:"why"`
	Message string `json:"message"` // without the service's own words, which may quote values
}

// What keeps a backfill from beginning.
var (
	// ErrNothing says that the span holds no record.
	ErrNothing = errors.New("nothing to send again")
	// ErrUnfinished says that another backfill of the mapping was begun and has not ended.
	ErrUnfinished = errors.New("another backfill of the mapping has not ended")
	// ErrNeedsCalls says that a call would do more than the import that the mapping uses.
	ErrNeedsCalls = errors.New("writes profiles by imports only, which keep what a file does not name; a call replaces the profile whole, which has to be allowed")
)

var errPartitions = errors.New("its topics have got new partitions, where newer records of the same keys may be; run again to go on")

// Run sends what is to be sent, or with DryRun finds out how much that is. When ctx ends it
// finishes the calls of the present round; when working does, it leaves them. After
// either, or an error, another run goes on where this one was.
func (b *Backfill) Run(ctx, working context.Context) (BackfillReport, error) {
	r := b.Replay
	r.begun, r.floods = time.Now(), map[string]string{}
	b.reset()
	if b.Files == nil && !b.callable() {
		return b.report, fmt.Errorf("mapping %s: %w", b.Mapping.Name, ErrNeedsCalls)
	}
	if err := b.open(ctx, working); err != nil {
		return b.report, err
	}
	if r.DryRun {
		return b.report, b.foreseeBoth(ctx, working)
	}
	err := b.send(ctx, working)
	b.report.Ended = b.state.Ended && b.held == nil
	return b.report, err
}

// callable reports whether the mapping's states may be sent by calls.
func (b *Backfill) callable() bool {
	return b.Mapping.Uses(schemas.Immediate) || b.Mapping.Table.Custom || b.Replay.AsCalls
}

// send sends what is left to be sent.
func (b *Backfill) send(ctx, working context.Context) error {
	if b.Files != nil && !b.state.Ended {
		return b.byFiles(ctx, working)
	}
	for !b.state.Ended {
		if err := b.pass(ctx, working, hashes); err != nil {
			return err
		}
	}
	return b.unanswered()
}

// foreseeBoth counts the calls that would be made, and the files.
func (b *Backfill) foreseeBoth(ctx, working context.Context) error {
	if b.callable() {
		if err := b.pass(ctx, working, hashes); err != nil {
			return err
		}
	}
	if b.Files == nil {
		return nil
	}
	return b.foreseeFiles(ctx)
}

func (b *Backfill) reset() {
	b.first = true
	b.report = BackfillReport{
		DryRun: b.Replay.DryRun, Mapping: b.Mapping.Name, Table: b.Mapping.Label, Since: b.Since, Until: b.Until,
		BackfillCounts: newBackfillCounts(BackfillCounts{}), Notes: []BackfillNote{},
	}
	b.report.Callable = b.callable()
	if b.Files != nil {
		b.report.Files = &BackfillFiles{}
	}
}

// open goes on where a run was, or begins.
func (b *Backfill) open(ctx, working context.Context) error {
	held, err := b.Replay.Reader.Spans(ctx, b.Mapping.Config.Topics...)
	if err != nil {
		return err
	}
	old, err := b.load(ctx)
	if err != nil {
		return err
	}
	unfinished := old != nil && !old.Ended
	switch {
	case unfinished && old.Asked == b.Asked && b.Only != nil: // settled when it was looked
	case unfinished && old.Asked == b.Asked && !b.changed(old) && !b.Restart:
		b.report.Resumed = true
		return b.adopt(ctx, old, held)
	case unfinished && !b.Restart && !b.Replay.DryRun:
		return b.unfinished(old)
	case unfinished && (old.UnderWay != nil || old.Tried > old.Pos) && !b.Replay.DryRun:
		if err := b.endFormer(ctx, working, old, held); err != nil {
			return err
		}
		b.reset()
	}
	return b.begin(ctx, held)
}

// findApplied asks from where on the mapping's present routes count, and which records of the
// span never came to the table.
func (b *Backfill) findApplied(ctx context.Context, held map[cluster.TopicPartition]cluster.Span) error {
	confirmed, err := b.Replay.confirmed(ctx)
	if err != nil {
		return err
	}
	b.routes, b.former = map[cluster.TopicPartition]int64{}, map[kafkaKey]int64{}
	for p := range held {
		b.routes[p] = confirmed.since(b.Mapping, p)
	}
	return b.findDeadLetters(ctx)
}

// endFormer does the part of a former run of which an import, or the last calls, may have put older
// values over newer ones.
func (b *Backfill) endFormer(ctx, working context.Context, old *backfillState, held map[cluster.TopicPartition]cluster.Span) error {
	if old.UnderWay != nil && b.Files == nil {
		return fmt.Errorf("mapping %s: %w: %s left an import that may still go on; say the same again, or --by file", b.Mapping.Name, ErrUnfinished, old.Asked)
	}
	if err := b.adopt(ctx, old, held); err != nil {
		return err
	}
	if old.UnderWay != nil {
		return b.byFiles(ctx, working)
	}
	for b.state.Pos < old.Tried {
		if err := b.pass(ctx, working, old.Tried); err != nil {
			return err
		}
	}
	return b.unanswered()
}

// changed reports whether the mapping is another one than that of the run.
func (b *Backfill) changed(old *backfillState) bool {
	return old.Mapping != 0 && old.Mapping != b.Mapping.Fingerprint
}

func (b *Backfill) unfinished(old *backfillState) error {
	if b.changed(old) {
		return fmt.Errorf("mapping %s: %w: %s, %.0f %% done, and the mapping was changed since; --restart begins anew with the mapping as it is, and going on needs it as it was",
			b.Mapping.Name, ErrUnfinished, old.Asked, 100*old.done())
	}
	return fmt.Errorf("mapping %s: %w: %s, %.0f %% done; say the same again to go on with it, or --restart to begin anew",
		b.Mapping.Name, ErrUnfinished, old.Asked, 100*old.done())
}

// adopt takes over from the run that is gone on with: its span, as far as the log still holds it.
func (b *Backfill) adopt(ctx context.Context, old *backfillState, held map[cluster.TopicPartition]cluster.Span) error {
	b.state = *old
	s := &b.state
	b.report.Since, b.report.Until = s.Since, s.Until
	b.report.BackfillCounts = newBackfillCounts(s.BackfillCounts)
	b.first = s.Records == 0
	for p, now := range held {
		span, known := s.spans[p]
		if !known { // added since: all of it is newer
			s.spans[p] = cluster.Span{From: now.From, To: now.From}
			continue
		}
		if now.From > span.From {
			b.report.Gone = append(b.report.Gone, gone(p, now.From))
			s.spans[p] = cluster.Span{From: now.From, To: max(now.From, span.To)}
		}
	}
	slices.Sort(b.report.Gone)
	return b.findApplied(ctx, held)
}

func gone(p cluster.TopicPartition, from int64) string {
	return fmt.Sprintf("%s begins at offset %d by now: what was written before that is gone", p, from)
}

// begin finds the span: from the first record of its time on, up to what is confirmed.
func (b *Backfill) begin(ctx context.Context, held map[cluster.TopicPartition]cluster.Span) error {
	r, topics := b.Replay, b.Mapping.Config.Topics
	confirmed, err := r.confirmed(ctx)
	if err != nil {
		return err
	}
	since, err := r.Reader.After(ctx, b.Since, topics...)
	if err != nil {
		return err
	}
	var until map[cluster.TopicPartition]int64
	if !b.Until.IsZero() {
		if until, err = r.Reader.After(ctx, b.Until, topics...); err != nil {
			return err
		}
	}
	b.state = backfillState{Version: 1, Asked: b.Asked, Mapping: b.Mapping.Fingerprint, Since: b.Since, Until: b.Until, spans: map[cluster.TopicPartition]cluster.Span{}}
	b.report.Since, b.report.Until = b.Since, b.Until
	records, unconfirmed := int64(0), int64(0)
	for p, now := range held {
		from, some := since[p]
		if !some {
			from = now.To
		}
		if from = max(from, now.From); from == now.From && now.From > 0 {
			b.report.Gone = append(b.report.Gone, gone(p, from))
		}
		end := now.To
		if at, is := until[p]; is {
			end = min(end, at)
		}
		to := min(end, r.confirmedUpTo(confirmed, b.Mapping, p))
		b.state.spans[p] = cluster.Span{From: from, To: max(from, to)}
		records += max(from, to) - from
		unconfirmed += max(end-max(from, to), 0)
	}
	slices.Sort(b.report.Gone)
	if records == 0 {
		why := "no record of its topics is of this time"
		if unconfirmed > 0 {
			why = fmt.Sprintf("the sink has still to confirm the %d records of this time, and sends them itself; a backfill sends again what is confirmed", unconfirmed)
		}
		return fmt.Errorf("mapping %s: %w: %s", b.Mapping.Name, ErrNothing, why)
	}
	if err := b.findApplied(ctx, held); err != nil || r.DryRun {
		return err
	}
	return b.save(ctx)
}

// confirmedUpTo is the offset below which the partition's writes of the mapping's table are
// confirmed. A lane that only other tables take counts as far as records may have been left to it under former routes.
func (r *Replay) confirmedUpTo(confirmed lanes, m *router.Compiled, p cluster.TopicPartition) int64 {
	upTo := int64(1<<63 - 1)
	for _, c := range r.Router.TopicMappings(p.Topic) {
		if c.Table != m.Table {
			continue
		}
		for _, lane := range schemas.Lanes {
			if c.Uses(lane) || r.Router.Reads(p.Topic, lane) && !confirmed.leftNothing(c, p, lane) {
				upTo = min(upTo, confirmed[lane][p].Offset)
			}
		}
	}
	return upTo
}

// leftNothing reports whether a lane that the mapping does not use has confirmed whatever of
// its records the others may have left to it, before the mapping's routes counted for them.
func (all lanes) leftNothing(c *router.Compiled, p cluster.TopicPartition, to schemas.Lane) bool {
	for _, lane := range c.Lanes() {
		commit := all[lane][p]
		ledger, err := ack.Decode(commit.Metadata, commit.Offset)
		if err != nil {
			return false
		}
		if from, ok := ledger.Routes.From(c.Routes); !ok || all[to][p].Offset < from {
			return false
		}
	}
	return true
}

// leftOut tells the record of a dead letter from that of an earlier topic of the same name, which
// had its offset.
type leftOut struct {
	key, value uint64 // their hashes
	tombstone  bool
}

func leftOutOf(rec *deadletter.Record) leftOut {
	return leftOut{xxhash.Sum64(rec.Key), xxhash.Sum64(rec.Value), rec.Value == nil}
}

// isLeftOut reports whether the record is an open or discarded dead letter.
func (b *Backfill) isLeftOut(rec *deadletter.Record) bool {
	letters := b.leftOut[cluster.PlaceOf(rec)]
	return len(letters) > 0 && slices.Contains(letters, leftOutOf(rec))
}

// findDeadLetters notes which records of the span never came to the table.
func (b *Backfill) findDeadLetters(ctx context.Context) error {
	r := b.Replay
	b.leftOut = map[cluster.RecordPlace][]leftOut{}
	if r.Topic == "" {
		return nil
	}
	marks, err := LoadMarks(ctx, r.Reader, r.Topic, r.Connector, r.Log)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil
	}
	if err != nil {
		return err
	}
	return marks.Letters(ctx, func(_ *deadletter.Record, l *deadletter.Received) error {
		if l == nil || l.NoRecord() || !OfMapping(r.Router, b.Mapping, l) {
			return nil
		}
		at := cluster.PlaceOf(l.Record)
		if at.Offset < b.state.spans[at.TopicPartition].From {
			return nil
		}
		if state, _ := marks.State(l); state == deadletter.StateDone {
			return nil // replayed: it has come to the table since, or is a letter anew
		}
		b.leftOut[at] = append(b.leftOut[at], leftOutOf(l.Record))
		return nil
	})
}

// tell reports how far the run is: up to the hash, about.
func (b *Backfill) tell(hash uint64, waiting string) {
	b.report.Done, b.report.Waiting = cmp.Or(float64(hash)/hashes, b.report.Done), waiting
	if b.Tell != nil {
		b.Tell(b.report)
	}
}
