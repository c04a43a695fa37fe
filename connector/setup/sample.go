package setup

import (
	"strings"

	"github.com/feedsink/feedsink/schemas"
)

// Shape is what the records of a topic are.
type Shape uint8

// The shapes. Plain is whatever knows nothing of feedsink.
const (
	Plain Shape = iota
	ProfileEvents
	RecordEvents
	Debezium
)

// most bounds what is remembered of a sample, in records.
const most = 1000

// Sample gathers records. It is used by one goroutine.
type Sample struct {
	Format string // of the values: json, or that of the registry's schemas

	values     []schemas.Value
	keys       []string
	Tombstones int
	Unreadable int // values that are no such format
	changes    *schemas.Debezium
}

// NewSample begins with the format of the topic's values.
func NewSample(format string) *Sample {
	return &Sample{Format: format, changes: schemas.NewDebezium("")}
}

// Add takes a record: its key, and its value, Absent where it has none.
func (s *Sample) Add(key []byte, value schemas.Value) {
	switch {
	case value.Kind() == schemas.Absent:
		s.Tombstones++
	case len(s.values) < most:
		s.values = append(s.values, value)
		s.keys = append(s.keys, string(key))
	}
}

// Records is how many values there are to guess from.
func (s *Sample) Records() int { return len(s.values) }

// shape is what all of the values are, or else Plain.
func (s *Sample) shape() Shape {
	for _, c := range []struct {
		shape Shape
		is    func(schemas.Value) bool
	}{{ProfileEvents, isProfileEvent}, {RecordEvents, isRecordEvent}, {Debezium, isChange}} {
		all := len(s.values) > 0
		for _, v := range s.values {
			all = all && c.is(v)
		}
		if all {
			return c.shape
		}
	}
	return Plain
}

func isProfileEvent(v schemas.Value) bool {
	_, err := schemas.ProfileEvent(v)
	return err == nil && (v.Get("attributes").Kind() == schemas.Object || v.Get("key").Kind() == schemas.Object)
}

func isRecordEvent(v schemas.Value) bool {
	_, err := schemas.RecordEvent(v)
	return err == nil && (v.Get("properties").Kind() == schemas.Object || v.Get("businessKey").Kind() == schemas.String)
}

// isChange recognises Debezium's envelope, with or without its schema, and its
// flattened events by the members that it adds.
func isChange(v schemas.Value) bool {
	if v.Get("schema").Kind() == schemas.Object {
		v = v.Get("payload")
	}
	if v.Kind() != schemas.Object {
		return false
	}
	inEnvelope := v.Get("op").Kind() == schemas.String && v.Get("source").Kind() == schemas.Object
	return inEnvelope || v.Get("__op").Kind() == schemas.String || v.Get("__deleted").Kind() != schemas.Absent
}

// rows are the values that fields are mapped from.
func (s *Sample) rows(shape Shape) []schemas.Value {
	if shape != Debezium {
		return s.values
	}
	var rows []schemas.Value
	for _, v := range s.values {
		if ch, err := s.changes.Change(v); err == nil && ch.Row.Kind() == schemas.Object {
			var members []schemas.Field
			for _, m := range ch.Row.Items() {
				if !strings.HasPrefix(m.Name, "__") {
					members = append(members, m)
				}
			}
			rows = append(rows, schemas.ObjectValue(members))
		}
	}
	return rows
}

// kafkaKey is how keys are read: those that are all JSON objects or strings are
// json.
func (s *Sample) kafkaKey() string {
	json := false
	for _, k := range s.keys {
		if k == "" {
			continue
		}
		if json = strings.HasPrefix(k, "{") || strings.HasPrefix(k, `"`); !json {
			return "text"
		}
	}
	if json {
		return "json"
	}
	return "text"
}
