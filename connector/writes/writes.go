// Package writes makes of each write the one operation of the interface that it means
// (interface.md, operations 1 to 7), and says why one was refused. Of a create that
// meets a record of its key it tells whether that is its own.
package writes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// Operations makes of each write the one operation of the interface that it means; of a
// merge, and of a create that meets a record, it may take a second one.
type Operations struct {
	Client *service.Client
	Spend  func() // is told of each call beyond the first of an attempt; nil: it is not known
	// May says whether an attempt under way may send a further request, as calls.Try has it;
	// nil: it may.
	May func() error
}

// further begins a call beyond the first of an attempt. Its error ends the attempt.
func (c Operations) further() error {
	if c.May != nil {
		if err := c.May(); err != nil {
			return err
		}
	}
	if c.Spend != nil {
		c.Spend()
	}
	return nil
}

// Call makes one attempt. What is known of earlier ones counts for a create only.
func (c Operations) Call(ctx context.Context, w *schemas.Write, earlier Create) error {
	if c.May != nil {
		c.Client = c.Client.While(c.May)
	}
	if w.Table.Custom {
		return c.record(ctx, w, earlier)
	}
	var err error
	switch w.Op {
	case schemas.Upsert:
		_, err = c.Client.UpsertProfile(ctx, w.Table.Name, (*ProfileBody)(w))
	case schemas.Patch:
		_, err = c.Client.PatchProfile(ctx, w.Table.Name, w.ProfileID, (*ProfileBody)(w))
	case schemas.Delete:
		err = c.Client.DeleteProfile(ctx, w.Table.Name, w.ProfileID)
	default:
		err = ErrNoCall
	}
	return err
}

// ErrNoCall is permanent. The router sends no such write to the immediate lane.
var ErrNoCall calls.Failure = calls.NotSent{Why: "the interface has no call that only creates a profile, or that merges one", Never: true}

// Addressable reports whether the address of the write's call can name what it writes. An
// upsert and a create name it in the body.
func Addressable(w *schemas.Write) bool {
	switch {
	case w.Op == schemas.Upsert || w.Op == schemas.Create:
		return true
	case w.Table.Custom:
		return service.Addressable(w.Key)
	}
	return service.Addressable(w.ProfileID)
}

// Unsent is why the write's call is refused before it is made; ok is false where it is made.
func Unsent(w *schemas.Write) (why deadletter.Reason, ok bool) {
	if Addressable(w) {
		return why, false
	}
	return deadletter.Reason{Stage: deadletter.Delivering, Code: codeRejected, Message: service.ErrNotAddressable.Error()}, true
}

func (c Operations) record(ctx context.Context, w *schemas.Write, earlier Create) error {
	var err error
	switch w.Op {
	case schemas.Upsert:
		_, err = c.Client.UpsertRecord(ctx, w.Table.Name, (*recordBody)(w), true)
	case schemas.Patch:
		_, err = c.Client.UpdateRecord(ctx, w.Table.Name, w.Key, (*recordBody)(w))
	case schemas.Merge:
		err = c.merge(ctx, w)
	case schemas.Create:
		_, err = c.Client.UpsertRecord(ctx, w.Table.Name, (*recordBody)(w), false)
		if is(err, service.Conflict) {
			return c.met(ctx, w, err, earlier)
		}
	case schemas.Delete:
		err = c.Client.DeleteRecord(ctx, w.Table.Name, w.Key)
	}
	return err
}

// merge creates the record if there is none and else changes the properties that it is
// given. Whether operation 4 keeps the others the document does not say; so it is
// operation 5 that changes, and operation 4 creates and no more. Where somebody else
// creates or deletes the record in between, it begins again.
func (c Operations) merge(ctx context.Context, w *schemas.Write) (err error) {
	const rounds = 3
	for round := range rounds {
		if round > 0 {
			if err := c.further(); err != nil {
				return err
			}
		}
		var none, met error
		if _, none = c.Client.UpdateRecord(ctx, w.Table.Name, w.Key, (*recordBody)(w)); !is(none, service.NotFound) {
			return none
		}
		if err := c.further(); err != nil {
			return err
		}
		if _, met = c.Client.UpsertRecord(ctx, w.Table.Name, (*recordBody)(w), false); !is(met, service.Conflict) {
			return met
		}
		err = fmt.Errorf("%w; but to its creation the service says that it is there: %w", none, met)
	}
	return err
}

func is(err error, kind service.Kind) bool {
	e, ok := errors.AsType[*service.Error](err)
	return ok && e.Kind() == kind
}

// SameJSON compares values, not spellings: 12.50 is 12.5. Whole numbers are
// compared digit by digit: two that differ may be one as floating point.
func SameJSON(a, b []byte) bool {
	if len(a) == 0 || string(bytes.TrimSpace(a)) == "null" {
		return string(b) == "null"
	}
	x, y := jsontext.Value(a).Clone(), jsontext.Value(b).Clone()
	whole := jsontext.CanonicalizeRawInts(false)
	return x.Canonicalize(whole) == nil && y.Canonicalize(whole) == nil && bytes.Equal(x, y)
}

var profileSections = []struct {
	section schemas.Section
	name    string
}{
	{schemas.Attributes, `"attributes":{`},
	{schemas.Subscriptions, `"subscriptions":{`},
	{schemas.Segments, `"segments":{`},
	{schemas.DataCollection, `"dataCollection":{`},
}

// ProfileBody is a write as the body of operations 1 and 2.
type ProfileBody schemas.Write

// AppendJSON is service.Body's. Sections that have no cell are left out.
func (w *ProfileBody) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	for _, s := range profileSections {
		open := false
		for i := range w.Cells {
			cell := &w.Cells[i]
			if cell.Section != s.section {
				continue
			}
			if !open {
				b = append(comma(b), s.name...)
				open = true
			}
			b = appendName(comma(b), cell.Name)
			b = append(b, ':')
			b = cell.Value.AppendJSON(b)
		}
		if open {
			b = append(b, '}')
		}
	}
	return append(b, '}')
}

// recordBody is a write as the body of operations 4 and 5.
type recordBody schemas.Write

// AppendJSON is service.Body's. The key is left out where the write has none.
func (w *recordBody) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	if w.Key != "" {
		b = appendName(append(b, `"businessKey":`...), w.Key)
	}
	b = append(comma(b), `"properties":[`...)
	for i := range w.Cells {
		b = append(comma(b), `{"name":`...)
		b = appendName(b, w.Cells[i].Name)
		b = append(b, `,"value":`...)
		b = w.Cells[i].Value.AppendJSON(b)
		b = append(b, '}')
	}
	return append(b, ']', '}')
}

// comma separates from what stands before, unless that just opened.
func comma(b []byte) []byte {
	switch b[len(b)-1] {
	case '{', '[':
		return b
	}
	return append(b, ',')
}

// appendName quotes text. It was decoded as UTF-8, so that quoting can't fail.
func appendName(b []byte, text string) []byte {
	b, _ = jsontext.AppendQuote(b, text)
	return b
}

// A create that meets a record of its key may meet its own: it was carried out
// before, and a crash or a lost answer kept that from being known. Operation 6
// tells. Where it does not tell for certain, the create is a dead letter that
// says so: what is confirmed by mistake would be lost silently.

// Create is a create that the service refused because there is a record of its
// key.
type Create struct {
	Written  time.Time // the Kafka record; zero: not known, only an equal record counts
	Assigned time.Time // its partition: what was created before may be the work of a former owner, or of the other lane
	Tried    time.Time // when this process made its first try; zero: not known
	Unsure   bool      // an earlier try of this process, or of this import, may have been carried out
}

// skew is how far the service's clock may be behind or ahead of ours before a
// record is taken for another one's.
const skew = time.Minute

// Verdict says whose a record is that a create has met.
type Verdict uint8

// The verdicts.
const (
	Theirs  Verdict = iota // not this create's
	Perhaps                // it cannot be told
	Ours
)

// Of judges by what is there, and by when it was created: never before what it
// was created from, which clocks that differ cannot tell. What newer writes have changed since may differ.
func (c Create) Of(w *schemas.Write, have *service.Record) Verdict {
	if holds(have, w.Cells) {
		return Ours
	}
	if c.Written.UnixMilli() <= 0 { // a record without a timestamp has -1 or 0
		return Theirs
	}
	created, written := have.Created(), c.Written
	if created.Nanosecond() == 0 { // a service that counts seconds
		written = written.Truncate(time.Second)
	}
	switch {
	case created.IsZero(), have.Ahead.Abs() > skew:
		return Perhaps
	case created.Before(written):
		return Theirs
	case !created.After(c.Assigned), c.Unsure && !created.Before(c.Tried.Add(-skew)):
		return Ours
	case c.Unsure, created.Before(c.Assigned.Add(skew)):
		return Perhaps
	}
	return Theirs // of another write, since this partition was assigned
}

// holds reports whether the record has the cells' values.
func holds(have *service.Record, cells []schemas.Cell) bool {
	stored := make(map[string]json.RawMessage, len(have.Properties))
	for _, p := range have.Properties {
		stored[p.Name] = p.Value
	}
	for _, cell := range cells {
		if !SameJSON(stored[cell.Name], cell.Value.AppendJSON(nil)) {
			return false
		}
	}
	return true
}

// Judge reads the record that a create has met.
func (c Operations) Judge(ctx context.Context, w *schemas.Write, cr Create) (Verdict, error) {
	if w.Key == "" {
		return Theirs, nil // the service chose the key
	}
	have, err := c.Client.GetRecord(ctx, w.Table.Name, w.Key)
	if is(err, service.NotFound) {
		return Theirs, nil // it has gone since; whose it was cannot be told any more
	}
	if err != nil {
		return Theirs, err
	}
	return cr.Of(w, &have), nil
}

// met ends a create that was answered with a conflict.
func (c Operations) met(ctx context.Context, w *schemas.Write, conflict error, cr Create) error {
	if err := c.further(); err != nil {
		return err
	}
	v, err := c.Judge(ctx, w, cr)
	switch {
	case err != nil:
		return err
	case v == Ours:
		return nil
	case v == Perhaps:
		return mayBeInTable{conflict}
	}
	return conflict
}

// mayBeInTable is a refusal of a create that may have been carried out before.
type mayBeInTable struct{ error }

func (e mayBeInTable) Error() string { return deadletter.MayBeInTable + ": " + e.error.Error() }
func (e mayBeInTable) Unwrap() error { return e.error }

// RejectReason says why the router could not make a write of a record.
func RejectReason(err error) deadletter.Reason {
	l := deadletter.Reason{Stage: deadletter.Transforming, Code: "value", Message: err.Error()}
	if reject, ok := errors.AsType[*router.Reject](err); ok {
		l.Code = reject.Code
	}
	if l.Code == "decode" {
		l.Stage = deadletter.Decoding
	}
	return l
}

// RefusalReason says why the service refused, with the beginning of its answer.
func RefusalReason(err error) deadletter.Reason {
	l := deadletter.Reason{Stage: deadletter.Delivering, Code: codeRejected, Message: err.Error()}
	if given, up := errors.AsType[*calls.GivenUp](err); up && given.Unsure {
		l.MayBeInTable, l.Message = true, deadletter.MayBeInTable+": "+l.Message
	}
	var f interface {
		Status() int
		Reason() string
		Transient() bool
	}
	if !errors.As(err, &f) {
		return l
	}
	l.Status = f.Status()
	if f.Reason() != "" {
		l.Message += ": " + f.Reason()
	}
	if _, perhaps := errors.AsType[mayBeInTable](err); perhaps {
		l.MayBeInTable = true
	}
	switch {
	case f.Transient(): // given up: the answer was no word about the row
	case l.Status == 404:
		l.Code = "not_found"
	case l.Status == 409:
		l.Code = CodeConflict
	}
	return l
}

// codeRejected is the reason code of what the service refuses, or would.
const codeRejected = "rejected"

// CodeConflict is the reason code of unique keys that match different profiles, and
// of a record that exists already.
const CodeConflict = "conflict"

// CodeImportRow is the reason code of a record whose row was in error in an import.
const CodeImportRow = "import_row"
