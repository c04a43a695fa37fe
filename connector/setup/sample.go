package setup

import (
	"strings"

	"github.com/feedsink/feedsink/schemas"
)

// shape is what the records of a topic are.
type shape uint8

// The shapes. Plain is whatever knows nothing of feedsink.
const (
	plain shape = iota
	profileEvents
	recordEvents
	debezium
)

// Record is what is looked at of a record.
type Record struct {
	Key       []byte
	Headers   map[string]string // those of text; of a CloudEvent its attributes, too
	Value     schemas.Value     // Absent where there is none; of a CloudEvent its data
	Event     bool              // it holds a CloudEvent
	SchemaKey bool              // the key was written through a schema registry, as the value was
}

// Sample gathers records of one topic. It is used by one goroutine.
type Sample struct {
	Topic  string
	Format string // of the values: json, or that of the registry's schemas

	records    []Record
	Tombstones int
	Unreadable int // values that are no such format
	events     int // of the records: CloudEvents
	others     int // of the records: those that are none
	changes    *schemas.Debezium
}

// NewSample begins with the format of the topic's values.
func NewSample(topic, format string) *Sample {
	return &Sample{Topic: topic, Format: format, changes: schemas.NewDebezium("")}
}

// Add takes a record.
func (s *Sample) Add(r Record) {
	switch {
	case r.Value.Kind() == schemas.Absent && r.Event:
		return // an event without data
	case r.Value.Kind() == schemas.Absent:
		s.Tombstones++
		return
	case r.Event:
		s.events++
	default:
		s.others++
	}
	s.records = append(s.records, r)
}

// inEvents reports whether all values are the data of CloudEvents.
func (s *Sample) inEvents() bool { return s.events > 0 && s.others == 0 }

// Records is how many values there are to guess from.
func (s *Sample) Records() int { return len(s.records) }

// shape is what all of the values are, or else plain.
func (s *Sample) shape() shape {
	for _, c := range []struct {
		shape shape
		is    func(schemas.Value) bool
	}{{profileEvents, isProfileEvent}, {recordEvents, isRecordEvent}, {debezium, isChange}} {
		all := len(s.records) > 0
		for _, r := range s.records {
			all = all && c.is(r.Value)
		}
		if all && c.shape == debezium && s.inEvents() {
			return plain // there is one envelope
		}
		if all {
			return c.shape
		}
	}
	return plain
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

// rowsOf are the records with the values that fields are mapped from: of Debezium's
// the rows that they hold, where they hold one.
func (s *Sample) rowsOf(shape shape) []Record {
	if shape != debezium {
		return s.records
	}
	var rows []Record
	for _, r := range s.records {
		if ch, err := s.changes.Change(r.Value); err == nil && ch.Row.Kind() == schemas.Object {
			var members []schemas.Field
			for _, m := range ch.Row.Items() {
				if !strings.HasPrefix(m.Name, "__") {
					members = append(members, m)
				}
			}
			r.Value = schemas.ObjectValue(members)
			rows = append(rows, r)
		}
	}
	return rows
}

// kafkaKey is how keys are read: in the values' format beside values of a registry, and json where
// all are JSON objects or strings.
func (s *Sample) kafkaKey() string {
	format := "text"
	for _, r := range s.records {
		key := string(r.Key)
		switch {
		case key == "":
			continue
		case r.SchemaKey && schemas.Format(s.Format).Registered():
			return s.Format
		case !strings.HasPrefix(key, "{") && !strings.HasPrefix(key, `"`):
			return "text"
		}
		format = "json"
	}
	return format
}
