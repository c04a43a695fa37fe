package verify

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/schemas"
)

// differing are the fields of the record that do not hold what was written to them.
func differing(w *schemas.Write, have *service.Record) (fields []string) {
	for _, cell := range w.Cells {
		if !same(cell.Value, have.Value(cell.Name)) {
			fields = append(fields, cell.Name)
		}
	}
	return fields
}

// same reports whether a stored value says what was written, in whatever way the service
// writes it. The interface shows numbers and strings, whatever the type of the field: so
// 12.50 is 12.5 and "12.5", true is "true". A file cannot tell an empty text from null, so
// that both are what is not there. Timestamps are compared as instants, or by their
// digits where one has no zone, and a date is the midnight that begins it.
func same(sent schemas.Value, stored json.RawMessage) bool {
	a, aNumber := plain(sent.AppendJSON(nil))
	b, bNumber := plain(stored)
	switch {
	case a == b:
		return true
	case aNumber || bNumber:
		return number(a) && number(b) && writes.SameJSON([]byte(a), []byte(b))
	}
	return sameTime(a, b)
}

// plain is a JSON value as text: "" for null and nothing.
func plain(value json.RawMessage) (text string, isNumber bool) {
	text = strings.TrimSpace(string(value))
	switch {
	case text == "null":
		return "", false
	case strings.HasPrefix(text, `"`):
		_ = json.Unmarshal(value, &text) // it was decoded as JSON before
		return text, false
	}
	return text, number(text)
}

// number reports whether text is a number as JSON writes it, or an integer of more digits.
func number(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil && json.Valid([]byte(text))
}

// Layouts of dates and timestamps. Parsing takes fractions of a second that they do not name.
const (
	localTime = "2006-01-02T15:04:05"
	offset    = "2006-01-02T15:04:05Z0700"
)

func sameTime(a, b string) bool {
	x, xZoned, isTime := moment(a)
	y, yZoned, areTimes := moment(b)
	switch {
	case !isTime || !areTimes:
		return false
	case xZoned && yZoned:
		return x.Truncate(time.Second).Equal(y.Truncate(time.Second)) // the interface's have no fraction
	}
	return x.Format(localTime) == y.Format(localTime)
}

func moment(text string) (t time.Time, zoned, ok bool) {
	for _, layout := range []string{time.RFC3339, offset} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true, true
		}
	}
	for _, layout := range []string{localTime, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, false, true
		}
	}
	return t, false, false
}
