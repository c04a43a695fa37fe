package writes

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/schemas"
)

// Operations makes of each write the one operation of the interface that it means.
type Operations struct{ Client *service.Client }

// Call makes one attempt. retried says that an earlier one may have been
// applied.
func (c Operations) Call(ctx context.Context, w *schemas.Write, retried bool) error {
	return c.Make(ctx, w, Create{Unsure: retried})
}

// Make makes one attempt; of a create with what is known of earlier ones.
func (c Operations) Make(ctx context.Context, w *schemas.Write, earlier Create) error {
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
var ErrNoCall calls.Failure = noCall{}

type noCall struct{}

func (noCall) Error() string             { return "the interface has no call that creates a profile only" }
func (noCall) Transient() bool           { return false }
func (noCall) Overload() bool            { return false }
func (noCall) Unknown() bool             { return false }
func (noCall) RetryAfter() time.Duration { return 0 }
func (noCall) Status() int               { return 0 }

func (c Operations) record(ctx context.Context, w *schemas.Write, earlier Create) error {
	var err error
	switch w.Op {
	case schemas.Upsert:
		_, err = c.Client.UpsertRecord(ctx, w.Table.Name, (*RecordBody)(w), true)
	case schemas.Patch:
		_, err = c.Client.UpdateRecord(ctx, w.Table.Name, w.Key, (*RecordBody)(w))
	case schemas.Create:
		_, err = c.Client.UpsertRecord(ctx, w.Table.Name, (*RecordBody)(w), false)
		if conflict(err) {
			return c.met(ctx, w, err, earlier)
		}
	case schemas.Delete:
		err = c.Client.DeleteRecord(ctx, w.Table.Name, w.Key)
	}
	return err
}

func conflict(err error) bool {
	e, ok := errors.AsType[*service.Error](err)
	return ok && e.Kind() == service.Conflict
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

// AppendJSON is feed.Body's. Sections that have no cell are left out.
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

// RecordBody is a write as the body of operations 4 and 5.
type RecordBody schemas.Write

// AppendJSON is feed.Body's. The key is left out where the write has none.
func (w *RecordBody) AppendJSON(b []byte) []byte {
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
