package replay

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// deadLetter is a dead letter that is replayed.
type deadLetter struct {
	*deadletter.Received
	parts []*part
	tried bool // an earlier run may have sent it
	found bool // its record was met where it came from, so that nothing in between is missing
}

// part is what one mapping makes of a dead letter, and what became of its row since.
type part struct {
	deadLetter *deadLetter
	mapping    *router.Compiled // nil: the record cannot be decoded

	name     schemas.Write      // tells the profile's id
	keyCell  schemas.Cell       // the profile's unique key, as the dead letter's own write says it
	newest   schemas.Write      // of the row: the dead letter's own write and what followed
	replaced bool               // nothing of the dead letter's own write shows in it
	changed  *deadletter.Record // the last record that followed; nil: none
	asOf     *deadletter.Record // changed, when newest was sent

	sent       bool
	profileID  string             // the service's, if it told when the row was sent
	touched    bool               // the service may hold the dead letter's own write
	unsure     bool               // an attempt at it may still be applied
	stuck      string             // why no call can bring the row to its newest state
	refusal    *deadletter.Reason // why that failed again
	lost       *deadletter.Reason // why the newest state was refused that was sent for it
	unanswered error              // the last sending came to no answer
	flood      string             // how it was refused as nearly all are
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
	for _, routed := range r.Router.Route(nil, decoded) {
		if l.Mapping != "" && l.Mapping != routed.Mapping.Name {
			continue
		}
		p := &part{deadLetter: l, mapping: routed.Mapping, newest: routed.Write, touched: l.tried}
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
		name := l.Mapping
		if name == "" {
			name = "of any name"
		}
		return NoMapping, fmt.Sprintf("the configuration has no mapping %s that reads %s", name, l.Record.Topic)
	}
	for _, p := range l.parts {
		if !p.needsCall() {
			continue
		}
		if !callable(&p.newest) && !p.nameable() {
			return NeedsImport, p.needsImport()
		}
		if calls, _ := p.mapping.Lanes(); !calls && !p.newest.Table.Custom && p.newest.Op == schemas.Upsert && !r.AsCalls {
			return BatchOnly, fmt.Sprintf("mapping %s: writes profiles by imports only, which keep what a file does not name; "+
				"a call replaces the profile whole, which has to be allowed", p.mapping.Name)
		}
	}
	return "", ""
}

// needsImport says that no call can write the row's newest state.
func (p *part) needsImport() string {
	if p.deadLetter.tried || p.sent {
		return fmt.Sprintf("mapping %s: an older value may stand over the row's newest record (%s), and no call can %s a profile without the service's id; "+
			"import it, or produce it again, then run again", p.mapping.Name, p.place(), p.newest.Op)
	}
	return fmt.Sprintf("mapping %s: no call can %s a profile without the service's id; import it, or produce it again",
		p.mapping.Name, p.newest.Op)
}

// place is where the row's newest record came from.
func (p *part) place() string {
	r := p.changed
	if r == nil {
		r = p.deadLetter.Record
	}
	return fmt.Sprintf("%s@%d", place(r), r.Offset)
}

// nameable reports whether the service can be asked for the id of the profile by an
// upsert of its key alone: where all that is left to do is to delete the profile
// that an older call of ours may have brought back.
func (p *part) nameable() bool {
	return p.newest.Op == schemas.Delete && !p.newest.Table.Custom && (p.deadLetter.tried || p.sent)
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
