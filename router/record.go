package router

import (
	"errors"
	"slices"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// Record is a Kafka record after decoding. The router reads it and keeps
// nothing of Key and Headers; the writes share the texts of Value.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	Timestamp time.Time
	Headers   []Header
	Key       []byte
	KeyValue  schemas.Value // where the mappings' kafkaKey needs a registry: Key, decoded
	KeyErr    error         // instead of KeyValue: why it cannot be decoded
	Value     schemas.Value
	Tombstone bool // the record's value was null: Value is Absent, the record deletes its key
}

// Header is one header of a record.
type Header struct {
	Key   string
	Value []byte
}

// header is the text of the last header of that name, as Kafka's own clients
// read headers; Absent where there is none, Null where it has no value.
func (r *Record) header(name string) schemas.Value {
	for i := range slices.Backward(r.Headers) {
		if h := &r.Headers[i]; h.Key == name {
			if h.Value == nil {
				return schemas.NullValue()
			}
			return schemas.StringValue(string(h.Value))
		}
	}
	return schemas.Value{}
}

// sent is the record's timestamp in UTC; not ok where it has none, which Kafka says with -1.
func (r *Record) sent() (t time.Time, ok bool) {
	return r.Timestamp.UTC(), r.Timestamp.UnixMilli() >= 0
}

// Routed is what one mapping makes of one record: a write for a lane, or the
// reason why it cannot be written. Exactly one of the two groups, on every
// member of either, owns the record by Lane, also when Err is set. Of one that a
// route skips neither does: there is no write.
type Routed struct {
	Mapping *Compiled // nil: no mapping of the topic takes the record, which is skipped
	Lane    schemas.Lane
	Route   int // of the mapping, from 0: the one that matched, whatever Lane became; -1: it was rejected before any was asked
	Write   schemas.Write
	Err     error // nil or *Reject
	// Taken is for the lanes: the other one takes the write, which the routes give
	// to Lane.
	Taken bool
	// Part is for the lanes: which part of its record it is, counted over both lanes.
	Part int
}

// The codes of a Reject, as they appear in dead letters.
const (
	CodeDecode = "decode" // the record's key cannot be read
	CodeValue  = "value"  // a field breaks a rule
	CodeNoID   = "no_id"  // a profile's patch or delete without the service's id
)

// Reject is a permanent reason not to write an event. It names the field and
// the rule, never the field's value.
type Reject struct { //nolint:errname // it is the word of dead letters: a record is rejected
	Code               string
	schemas.ValueError        // which part of the event breaks which rule
	key                string // of the row, if that was read before
}

// Key is that of the row which the event would have written; "" where that is not known.
func (r *Reject) Key() string { return r.key }

// badValue keeps the bound that schemas puts on names taken from a record.
func badValue(field, rule string) *Reject {
	return &Reject{Code: CodeValue, ValueError: *schemas.Invalid(field, rule)}
}

func noID(rule string) *Reject {
	return &Reject{Code: CodeNoID, ValueError: schemas.ValueError{Field: "profileId", Rule: rule}}
}

func rejectOf(err error) *Reject {
	if e, ok := errors.AsType[*schemas.ValueError](err); ok {
		return &Reject{Code: CodeValue, ValueError: *e}
	}
	return &Reject{Code: CodeDecode, ValueError: schemas.ValueError{Rule: err.Error()}}
}
