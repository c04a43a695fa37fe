package replay

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// letter is a dead letter that is replayed.
type letter struct {
	*deadletter.Received
	parts []*part
	tried bool // an earlier run may have sent it
	found bool // its record was met where it came from, so that nothing in between is missing
}

// part is what one mapping makes of a letter, and what became of its row since.
type part struct {
	letter  *letter
	mapping *router.Compiled // nil: the record cannot be decoded

	newest   schemas.Write      // of the row: the letter's own write and what followed
	replaced bool               // nothing of the letter's own write shows in it
	changed  *deadletter.Record // the last record that followed; nil: none
	asOf     *deadletter.Record // changed, when newest was sent

	sent       bool
	profileID  string             // the service's, if it told when the row was sent
	touched    bool               // the service may hold the letter's own write
	refusal    *deadletter.Letter // why that failed again
	lost       *deadletter.Letter // why the newest state was refused that was sent for it
	unanswered error              // the last sending came to no answer
	unposted   error              // the dead-letter topic does not take it again
}

// row names a row of a table.
type row struct {
	table schemas.Table
	key   string
}

func rowOf(w *schemas.Write) row { return row{w.Table, w.Key} }

// follows takes up a newer write of the row.
func (p *part) follows(w schemas.Write, r *deadletter.Record) {
	newest, replaced := follow(p.newest, w)
	p.newest, p.replaced, p.changed = newest, p.replaced || replaced, r
}

// plan makes the letter's parts: of the mapping it names, or, where the record
// could not even be decoded, of every mapping of its topic. An error is none of
// the record.
func (r *Replay) plan(l *letter) error {
	decoded, err := r.Decode(l.Record)
	if bad, ok := errors.AsType[*schemas.DecodeError](err); ok {
		l.parts = []*part{{letter: l, refusal: &deadletter.Letter{Stage: deadletter.Decoding, Code: "decode", Message: bad.Error()}}}
		return nil
	}
	if err != nil {
		return fmt.Errorf("decode %s: %w", Origin(l.Received), err)
	}
	for _, routed := range r.Router.Route(nil, decoded) {
		if l.Mapping != "" && l.Mapping != routed.Mapping.Name {
			continue
		}
		p := &part{letter: l, mapping: routed.Mapping, newest: routed.Write, touched: l.tried}
		if routed.Err != nil {
			why := r.Rejected(routed.Err)
			p.refusal = &why
		}
		l.parts = append(l.parts, p)
	}
	return nil
}

// obstacle is why the letter cannot be replayed by a call, as a word and in
// full; "" if nothing is in the way. What of it needs no call has none.
func (r *Replay) obstacle(l *letter) (why, message string) {
	if len(l.parts) == 0 {
		name := l.Mapping
		if name == "" {
			name = "of any name"
		}
		return NoMapping, fmt.Sprintf("the configuration has no mapping %s that reads %s", name, l.Record.Topic)
	}
	for _, p := range l.parts {
		if p.refusal != nil || p.replaced {
			continue
		}
		if !callable(&p.newest) {
			return NeedsImport, fmt.Sprintf("mapping %s: no call can %s a profile without the service's id; import it, or produce it again",
				p.mapping.Name, p.newest.Op)
		}
		if calls, _ := p.mapping.Lanes(); !calls && !p.newest.Table.Custom && p.newest.Op == schemas.Upsert && !r.AsCalls {
			return BatchOnly, fmt.Sprintf("mapping %s: writes profiles by imports only, which keep what a file does not name; "+
				"a call replaces the profile whole, which has to be allowed", p.mapping.Name)
		}
	}
	return "", ""
}

// needsCall reports whether the row's newest state has to be sent: an earlier
// run may have put the letter's older one over it.
func (p *part) needsCall() bool { return p.refusal == nil && (!p.replaced || p.letter.tried) }

// sameRecord compares what the letter keeps with what lies where it came from.
func sameRecord(a, b *deadletter.Record) bool {
	return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) && (a.Value == nil) == (b.Value == nil)
}
