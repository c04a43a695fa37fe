package writes

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

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
// was created from. What newer writes have changed since may differ.
func (c Create) Of(w *schemas.Write, have *service.Record) Verdict {
	if holds(have, w.Cells) {
		return Ours
	}
	if c.Written.IsZero() {
		return Theirs
	}
	created, written := have.Created(), c.Written
	if created.Nanosecond() == 0 { // a service that counts seconds
		written = written.Truncate(time.Second)
	}
	switch {
	case created.IsZero():
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
	if e, ok := errors.AsType[*service.Error](err); ok && e.Kind() == service.NotFound {
		return Theirs, nil // it has gone since; whose it was cannot be told any more
	}
	if err != nil {
		return Theirs, err
	}
	return cr.Of(w, &have), nil
}

// met ends a create that was answered with a conflict.
func (c Operations) met(ctx context.Context, w *schemas.Write, conflict error, cr Create) error {
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

func (e mayBeInTable) Error() string { return MayBeInTableText + ": " + e.error.Error() }
func (e mayBeInTable) Unwrap() error { return e.error }

// MayBeInTableText begins the reason of such a dead letter.
const MayBeInTableText = "it may already be in the table"

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
	l := deadletter.Reason{Stage: deadletter.Delivering, Code: "rejected", Message: err.Error()}
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
	_, l.MayBeInTable = errors.AsType[mayBeInTable](err)
	switch {
	case f.Transient(): // given up: the answer was no word about the row
	case l.Status == 404:
		l.Code = "not_found"
	case l.Status == 409:
		l.Code = CodeConflict
	}
	return l
}

// CodeConflict is the reason code of unique keys that match different profiles, and
// of a record that exists already.
const CodeConflict = "conflict"
