package replay

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// deadLetter is a dead letter that is replayed.
type deadLetter struct {
	*deadletter.Received
	parts []*part
	tried bool   // an earlier run may have sent it
	found bool   // its record was met where it came from, so that nothing in between is missing
	moved string // the partition to which newer records of its Kafka key go by now; "": its own
}

// part is what one mapping makes of a dead letter, and what became of its row since.
type part struct {
	deadLetter *deadLetter
	mapping    *router.Compiled // nil: the record cannot be decoded
	placesOnly bool             // of what follows only the place is kept, not the record's memory

	name     schemas.Write      // tells the profile's id
	own      schemas.Op         // of the dead letter's own write
	byFile   bool               // newest begins with an upsert by file, which keeps of a profile what it does not name
	keyCell  schemas.Cell       // the profile's unique key, as the dead letter's own write says it
	newest   schemas.Write      // of the row: the dead letter's own write and what followed
	replaced bool               // nothing of the dead letter's own write shows in it
	changed  *deadletter.Record // the last record that followed; nil: none
	since    int64              // the offset from which on the mapping's present routes count
	former   string             // the place of a record that may have followed under former ones
	asOf     *deadletter.Record // changed, when newest was sent

	sent       bool
	profileID  string             // the service's, if it told when the row was sent
	touched    bool               // the service may hold the dead letter's own write
	landed     bool               // it has said yes to the row
	unsure     bool               // an attempt at it may still be applied
	stuck      string             // why no call can bring the row to its newest state
	refusal    *deadletter.Reason // why that failed again
	lost       *deadletter.Reason // why the newest state was refused that was sent for it
	unanswered error              // the last sending came to no answer
	flood      string             // how it was refused as nearly all are
	unposted   error              // the dead-letter topic does not take it again
	pending    string             // its newest record was refused, and the sink has not confirmed it
}

// Row names a row of a table.
type Row struct {
	table schemas.Table
	key   string
}

// RowOf is the row that the write is about.
func RowOf(w *schemas.Write) Row { return Row{w.Table, w.Key} }

// follows takes up a newer write of the row.
func (p *part) follows(w schemas.Write, byFile bool, r *deadletter.Record) {
	if p.placesOnly {
		r = &deadletter.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}
	}
	p.byFile = begunByFile(&p.newest, p.byFile, &w, byFile)
	newest, replaced := Follow(p.newest, w, byFile)
	p.newest, p.replaced, p.changed = newest, p.replaced || replaced, r
	if replaced {
		p.former = ""
	}
}

// OfMapping reports whether a dead letter is of what the mapping makes of its topics. One
// that names a mapping which the configuration does not have is of the table that it names:
// the mapping that wrote the table may have been renamed since.
func OfMapping(r *router.Router, m *router.Compiled, l *deadletter.Received) bool {
	if l.Mapping == "" || r.Mapping(l.Mapping) != nil {
		return l.Mapping == m.Name
	}
	return (l.Table == "" || l.Table == m.Label) && (l.NoRecord() || slices.Contains(m.Config.Topics, l.Record.Topic))
}

// plan makes the dead letter's parts: of the mapping it names, or, where the record
// could not even be decoded, of every mapping of its topic. An error is none of
// the record.
func (r *Replay) plan(l *deadLetter) error {
	decoded, err := r.Decode(l.Record)
	if bad, ok := errors.AsType[*schemas.DecodeError](err); ok {
		l.parts = []*part{{deadLetter: l, refusal: &deadletter.Reason{Stage: deadletter.Decoding, Code: "decode", Message: bad.Error()}}}
		return nil
	}
	if err != nil {
		return fmt.Errorf("decode %s: %w", Origin(l.Received), err)
	}
	for _, routed := range router.WithoutSkipped(r.Router.Route(nil, decoded)) {
		if l.Mapping != "" && l.Mapping != routed.Mapping.Name {
			continue
		}
		p := &part{deadLetter: l, mapping: routed.Mapping, newest: r.said(&routed), own: routed.Write.Op, touched: l.tried, byFile: routed.Lane == schemas.Batch}
		p.keyCell = p.keyOf(&routed.Write)
		if routed.Err != nil {
			why := r.Rejected(routed.Err)
			p.refusal = &why
		}
		l.parts = append(l.parts, p)
	}
	return nil
}

// obstacle is why the dead letter cannot be replayed by a call, as a word and in
// full; "" if nothing is in the way. What of it needs no call has none.
func (r *Replay) obstacle(l *deadLetter) (why, message string) {
	if len(l.parts) == 0 {
		name, again := l.Mapping, "configure it again"
		switch {
		case name == "":
			name = "of any name"
		case r.Router.Mapping(name) == nil:
			again += " (if it was renamed: replay with a configuration that has its former name)"
		}
		return NoMapping, fmt.Sprintf("the configuration has no mapping %s that takes this record of %s; %s, or discard the letter", name, l.Record.Topic, again)
	}
	for _, p := range l.parts {
		if !p.needsCall() {
			continue
		}
		if !callable(&p.newest) && !p.nameable() {
			return NeedsImport, p.needsImport()
		}
		if r.erases(p) {
			return BatchOnly, fmt.Sprintf("mapping %s: writes this profile by imports, which keep what a file does not name; "+
				"a call replaces the profile whole, which has to be allowed", p.mapping.Name)
		}
	}
	return "", ""
}

// EndedBy is the command that ends an open dead letter with the present configuration, and
// the flags that it needs. Nothing is read of the topic that it came from: replay alone
// knows whether its record is still there.
func (r *Replay) EndedBy(ctx context.Context, received *deadletter.Received, tried bool) (command string, err error) {
	discard := "discard"
	if tried {
		discard += " --tried"
	}
	if received.NoRecord() {
		return discard, nil
	}
	l := &deadLetter{Received: received, tried: tried}
	if err := r.plan(l); err != nil {
		return "", err
	}
	why, _ := r.obstacle(l)
	fails := slices.ContainsFunc(l.parts, func(p *part) bool { return p.refusal != nil })
	if fails || why == NoMapping || why == NeedsImport {
		return discard, nil
	}
	command = "replay"
	if why == BatchOnly {
		command += " --as-calls"
	}
	if l.Attempts >= r.MaxAttempts {
		command += fmt.Sprintf(" --max-attempts %d", l.Attempts+1)
	}
	at := place(l.Record)
	if r.spans[at.Topic] == nil {
		spans, err := spansOf(ctx, r.Reader, []string{at.Topic})
		if err != nil {
			return "", err
		}
		if r.spans == nil {
			r.spans = map[string]map[cluster.TopicPartition]cluster.Span{}
		}
		r.spans[at.Topic] = spans
	}
	if missing(r.spans[at.Topic][at], l.Record.Offset) != "" {
		command += " --assume-newest"
	}
	return command, nil
}

// needsImport says that no call can write the row's newest state, and what ends the dead letter.
func (p *part) needsImport() string {
	if p.deadLetter.tried || p.sent {
		return fmt.Sprintf("mapping %s: an older value may stand over the row's newest record (%s), and %s, then end the letter with feedsink dlq discard --tried",
			p.mapping.Name, p.place(), p.noCall())
	}
	return fmt.Sprintf("mapping %s: %s, then end the letter with feedsink dlq discard", p.mapping.Name, p.noCall())
}

// noCall says what writes the row's newest state, as no call can.
func (p *part) noCall() string {
	what, again := "a profile without the service's id", ", or produce its record again"
	switch {
	case p.newest.Table.Custom:
		what, again = `a record whose key is "." or ".."`, ""
	case p.newest.Op == schemas.Merge || p.newest.Op == schemas.Create:
		what = "a profile"
	case p.newest.Op == schemas.Upsert:
		what = "a profile without erasing what its file keeps"
	case p.newest.ProfileID != "":
		what, again = `a profile whose id is "." or ".."`, ""
	}
	return fmt.Sprintf("no call can %s %s; import its row (feedsink import --mapping %s --op %s FILE.csv)%s", p.newest.Op, what, p.mapping.Name, p.newest.Op, again)
}

// place is where the row's newest record came from.
func (p *part) place() string {
	return cluster.PlaceOf(cmp.Or(p.changed, p.deadLetter.Record)).String()
}

// nameable reports whether the service can be asked for the id of the profile by an
// upsert of its key alone: where all that is left to do is to delete the profile
// that an older call of ours may have brought back.
func (p *part) nameable() bool {
	return p.newest.Op == schemas.Delete && !p.newest.Table.Custom && (p.deadLetter.tried || p.sent)
}

// unnamed reports whether it has to be asked for: that of the delete's record is of the
// profile before, if an upsert of ours has made it anew.
func (p *part) unnamed() bool {
	return p.nameable() && p.profileID == "" && (p.newest.ProfileID == "" || p.own == schemas.Upsert)
}

// mayHave says of a refused create that the row may be its own all the same: an attempt
// at it, of this run or before, came to no answer.
func (p *part) mayHave(why *deadletter.Reason) {
	if p.own == schemas.Create && !why.MayBeInTable && (p.touched || p.deadLetter.MayBeInTable) {
		why.MayBeInTable, why.Message = true, deadletter.MayBeInTable+": "+why.Message
	}
}

// keyOf is the unique key of a profile, as a cell.
func (p *part) keyOf(w *schemas.Write) schemas.Cell {
	at := schemas.Place{Section: schemas.Attributes, Name: p.mapping.KeyName}
	for _, c := range w.Cells {
		if *c.Place == at {
			return c
		}
	}
	return schemas.Cell{Place: &at, Value: schemas.StringValue(w.Key)}
}

// needsCall reports whether the row's newest state has to be sent: an earlier
// run may have put the dead letter's older one over it.
func (p *part) needsCall() bool { return p.refusal == nil && (!p.replaced || p.deadLetter.tried) }

// sameRecord compares what the dead letter keeps with what lies where it came from.
func sameRecord(a, b *deadletter.Record) bool {
	return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) && (a.Value == nil) == (b.Value == nil)
}

// said is what a write says of its row. An upsert that goes by file clears the columns that it
// does not name, where a call keeps them of a table record, and keeps what is no column, where a
// call clears it of a profile.
func (r *Replay) said(routed *router.Routed) schemas.Write {
	w := &routed.Write
	rows := r.Rows[routed.Mapping]
	if rows == nil || routed.Err != nil || routed.Lane != schemas.Batch || w.Op != schemas.Upsert {
		return *w
	}
	return rows.Stated(w)
}

// erases reports whether a call of the newest state would erase what an upsert by file has kept.
func (r *Replay) erases(p *part) bool {
	return p.byFile && !p.newest.Table.Custom && p.newest.Op == schemas.Upsert && !r.AsCalls
}

// begunByFile reports whether the newest state of a profile begins with an upsert by file, so
// that what it has kept is not known, where older was followed by w.
func begunByFile(older *schemas.Write, begun bool, w *schemas.Write, byFile bool) bool {
	switch {
	case w.Op != schemas.Upsert:
		return begun
	case !byFile || older.Op == schemas.Delete: // nothing is kept
		return false
	}
	return begun || older.Op != schemas.Upsert
}

// Follow is the newest state of a row where older was followed by w, which goes by file or by
// a call. replaced says that nothing of older shows in it.
//
// An upsert of a profile by a call replaces it whole (operation 1). For table records the
// interface says that operation 4 updates the record: what an upsert does not
// name is kept. Nothing outlives a delete, and a create means that the row began
// anew; a delete that is older than anything else said of the row must not take
// that away.
func Follow(older, w schemas.Write, byFile bool) (newest schemas.Write, replaced bool) {
	switch {
	case w.Op == schemas.Delete, w.Op == schemas.Create, older.Op == schemas.Delete,
		w.Op == schemas.Upsert && (!w.Table.Custom && !byFile || schemas.Covers(w.Cells, older.Cells)),
		(w.Op == older.Op || w.Op == schemas.Merge) && older.Op.Partial() && w.Op.Partial() && schemas.Covers(w.Cells, older.Cells):
		return w, true
	}
	newest = older
	newest.Cells = schemas.Overlay(slices.Clone(older.Cells), w.Cells)
	if w.Op == schemas.Upsert || w.Op == schemas.Merge && w.Table.Custom && older.Op != schemas.Upsert {
		newest.Op = w.Op // it makes the row where there is none
	}
	if w.ProfileID != "" {
		newest.ProfileID = w.ProfileID
	}
	return newest, false
}

// callable reports whether one call can write w: patch and delete of a profile
// need the service's id, and no call only creates one, or merges one.
func callable(w *schemas.Write) bool {
	return writes.Addressable(w) && (w.Table.Custom || w.Op != schemas.Create && w.Op != schemas.Merge)
}

// outcome is what became of the dead letter, judged by all of its parts.
func (l *deadLetter) outcome() (outcome Outcome, why, message string) {
	outcome = Superseded
	for _, p := range l.parts {
		switch {
		case p.unanswered != nil:
			return Left, Unanswered, p.unanswered.Error()
		case p.flood != "":
			return Left, Flood, p.flood
		case p.unposted != nil:
			return Left, NotPosted, p.unposted.Error()
		case p.stuck != "":
			return Left, NeedsImport, p.stuck
		case p.pending != "":
			return Left, Unconfirmed, p.pending
		case p.refusal != nil:
			outcome, why, message = Refused, p.refusal.Code, p.refusal.Plain()
		case (!p.replaced || p.landed && p.lost != nil) && outcome != Refused: // with lost, nothing newer has come over it
			outcome = Applied
		}
	}
	return outcome, why, message
}

// end posts what failed again, and marks the dead letters as done unless they are
// left.
func (r *Replay) end(ctx context.Context, letters []*deadLetter) error {
	r.refusedAlike(letters)
	if err := r.awaitSink(ctx, letters); err != nil {
		return err
	}
	var posts []post
	for _, l := range letters {
		if outcome, _, _ := l.outcome(); outcome == Left {
			continue
		}
		for _, p := range l.parts {
			if p.lost != nil && !r.dead.has(r, p.mapping, p.changed) {
				r.Log.Warn("the newest record of a row was sent again and refused; it is a dead letter now", "record", place(p.changed).String(),
					"offset", p.changed.Offset, "mapping", p.mapping.Name, "code", p.lost.Code)
				posts = append(posts, p.letterOf(p.changed, *p.lost, 0))
			}
			if p.refusal != nil {
				posts = append(posts, p.letterOf(l.Record, *p.refusal, l.Attempts+1))
			}
		}
	}
	if err := r.post(ctx, posts); err != nil {
		return err
	}
	for _, l := range letters {
		outcome, why, message := l.outcome()
		if outcome != Left {
			r.marks.done(l.Received)
		}
		r.report.note(l, outcome, why, message)
	}
	return nil
}

// awaitSink finds out which of the newest records that were refused are dead letters already, as the
// sink was refused as well. One that it has not confirmed may become one: it is left to another run.
func (r *Replay) awaitSink(ctx context.Context, letters []*deadLetter) error {
	var confirmed lanes
	var err error
	if slices.ContainsFunc(letters, func(l *deadLetter) bool { return slices.ContainsFunc(l.parts, (*part).isLost) }) {
		if confirmed, err = r.confirmed(ctx); err != nil {
			return err
		}
	}
	// Read after that: what is confirmed has its dead letter in the topic, if it is one.
	if err := r.dead.read(ctx, r); err != nil {
		return err
	}
	for _, l := range letters {
		for _, p := range l.parts {
			if p.pending = ""; p.isLost() && !r.dead.has(r, p.mapping, p.changed) && r.confirmedUpTo(confirmed, p.mapping, place(p.changed)) <= p.changed.Offset {
				p.pending = fmt.Sprintf("the row's newest record (%s) was sent again and refused, and the sink has not confirmed it; run the sink, then try again", p.place())
			}
		}
	}
	return nil
}

func (p *part) isLost() bool { return p.lost != nil }

// post is a record that becomes a new dead letter.
type post struct {
	part   *part
	record *deadletter.Record
	letter deadletter.Reason
	err    error
}

func (p *part) letterOf(rec *deadletter.Record, l deadletter.Reason, attempts int) post {
	l.Attempts, l.Lane = attempts, p.deadLetter.Lane
	if p.mapping != nil {
		l.Mapping, l.Table = p.mapping.Name, p.mapping.Label
	}
	return post{part: p, record: rec, letter: l}
}

// post returns once Kafka has, or refuses, each of the new dead letters.
func (r *Replay) post(ctx context.Context, posts []post) error {
	ends := make(chan post, len(posts))
	for _, p := range posts {
		r.Post.Send(p.record, p.letter, func(err error) {
			p.err = err
			ends <- p
		})
	}
	late := fmt.Errorf("%s: the brokers did not take a letter for %v; run again to go on", r.Topic, r.GiveUp)
	return collect(ctx, len(posts), ends, r.GiveUp, late, func(p post) bool {
		if p.err != nil {
			p.part.unposted = p.err
		}
		return true
	})
}

// collect takes n results. It ends with late when none that counts came for so long.
func collect[T any](ctx context.Context, n int, from <-chan T, giveUp time.Duration, late error, take func(T) (counts bool)) error {
	patience := time.NewTimer(giveUp)
	defer patience.Stop()
	for range n {
		select {
		case one := <-from:
			if take(one) {
				patience.Reset(giveUp)
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-patience.C:
			return late
		}
	}
	return nil
}

// ErrFlood ends a run of which nearly all dead letters of a mapping are refused alike: that
// is a mistake and not data, and each would become a new dead letter. They stay as they are.
var ErrFlood = errors.New("replay stopped")

// count notes how one dead letter of a mapping or topic came out of a stage: refused, or
// with nil through it.
func (r *Replay) count(of string, stage deadletter.Stage, why *deadletter.Reason) {
	if r.Flood == nil || r.floods[of] != "" {
		return
	}
	if how := r.Flood(of, stage, why); how != "" {
		r.floods[of] = of + ": " + how
	}
}

// countRead notes what became of the dead letters before any call.
func (r *Replay) countRead(letters []*deadLetter) {
	for _, l := range letters {
		var undecodable *deadletter.Reason
		for _, p := range l.parts {
			if p.mapping == nil {
				undecodable = p.refusal
				continue
			}
			r.count(p.whose(), deadletter.Transforming, p.refusal)
		}
		r.count("topic "+l.Record.Topic, deadletter.Decoding, undecodable)
	}
}

// whose is the mapping that the part is counted for, or the topic if the record
// cannot be decoded.
func (p *part) whose() string {
	if p.mapping == nil {
		return "topic " + p.deadLetter.Record.Topic
	}
	return "mapping " + p.mapping.Name
}

// refusedAlike leaves those dead letters as they are that would add to a flood.
func (r *Replay) refusedAlike(letters []*deadLetter) {
	for _, l := range letters {
		for _, p := range l.parts {
			if p.refusal != nil || p.lost != nil {
				p.flood = r.floods[p.whose()]
			}
		}
	}
}

// flooded is the error of a run that has to stop.
func (r *Replay) flooded() error {
	if len(r.floods) == 0 {
		return nil
	}
	how := strings.Join(slices.Sorted(maps.Values(r.floods)), "; ")
	return fmt.Errorf("%w: %s, which is a mistake and not data (dlq.flood). What was refused so (%d) was not posted again; that and what was not tried stay dead letters. "+
		"Fix the cause (entity, table, fields), then run again. If these letters themselves are wrong, leave them out (--mapping, --reason, --key), or set dlq.flood.records to 0",
		ErrFlood, how, r.report.Left[Flood])
}
