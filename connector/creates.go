package connector

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

// creating is a create that the service refused because there is a record of its
// key.
type creating struct {
	written  time.Time // the Kafka record; zero: not known, only an equal record counts
	assigned time.Time // its partition: what was created before may be the work of a former owner, or of the other lane
	tried    time.Time // when this process made its first try; zero: not known
	unsure   bool      // an earlier try of this process, or of this import, may have been carried out
}

// skew is how far the service's clock may be behind or ahead of ours before a
// record is taken for another one's.
const skew = time.Minute

// verdict says whose a record is that a create has met.
type verdict uint8

const (
	theirs  verdict = iota // not this create's
	perhaps                // it cannot be told
	ours
)

// of judges by what is there, and by when it was created: never before what it
// was created from. What newer writes have changed since may differ.
func (c creating) of(w *schemas.Write, have *service.Record) verdict {
	if holds(have, w.Cells) {
		return ours
	}
	if c.written.IsZero() {
		return theirs
	}
	created, written := have.Created(), c.written
	if created.Nanosecond() == 0 { // a service that counts seconds
		written = written.Truncate(time.Second)
	}
	switch {
	case created.IsZero():
		return perhaps
	case created.Before(written):
		return theirs
	case !created.After(c.assigned), c.unsure && !created.Before(c.tried.Add(-skew)):
		return ours
	case c.unsure, created.Before(c.assigned.Add(skew)):
		return perhaps
	}
	return theirs // of another write, since this partition was assigned
}

// holds reports whether the record has the cells' values.
func holds(have *service.Record, cells []schemas.Cell) bool {
	stored := make(map[string]json.RawMessage, len(have.Properties))
	for _, p := range have.Properties {
		stored[p.Name] = p.Value
	}
	for _, cell := range cells {
		if !sameJSON(stored[cell.Name], cell.Value.AppendJSON(nil)) {
			return false
		}
	}
	return true
}

// judge reads the record that a create has met.
func (c serviceCalls) judge(ctx context.Context, w *schemas.Write, cr creating) (verdict, error) {
	if w.Key == "" {
		return theirs, nil // the service chose the key
	}
	have, err := c.client.GetRecord(ctx, w.Table.Name, w.Key)
	if e, ok := errors.AsType[*service.Error](err); ok && e.Kind() == service.NotFound {
		return theirs, nil // it has gone since; whose it was cannot be told any more
	}
	if err != nil {
		return theirs, err
	}
	return cr.of(w, &have), nil
}

// met ends a create that was answered with a conflict.
func (c serviceCalls) met(ctx context.Context, w *schemas.Write, conflict error, cr creating) error {
	v, err := c.judge(ctx, w, cr)
	switch {
	case err != nil:
		return err
	case v == ours:
		return nil
	case v == perhaps:
		return mayBeInTable{conflict}
	}
	return conflict
}

// mayBeInTable is a refusal of a create that may have been carried out before.
type mayBeInTable struct{ error }

func (e mayBeInTable) Error() string { return mayBeInTableText + ": " + e.error.Error() }
func (e mayBeInTable) Unwrap() error { return e.error }

const mayBeInTableText = "it may already be in the table"

// rejectReason says why the router could not make a write of a record.
func rejectReason(err error) deadletter.Reason {
	l := deadletter.Reason{Stage: deadletter.Transforming, Code: "value", Message: err.Error()}
	if reject, ok := errors.AsType[*router.Reject](err); ok {
		l.Code = reject.Code
	}
	if l.Code == "decode" {
		l.Stage = deadletter.Decoding
	}
	return l
}

// refusalReason says why the service refused, with the beginning of its answer.
func refusalReason(err error) deadletter.Reason {
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
		l.Code = codeConflict
	}
	return l
}

// codeConflict is the reason code of unique keys that match different profiles, and
// of a record that exists already.
const codeConflict = "conflict"
