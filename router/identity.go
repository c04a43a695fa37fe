package router

import (
	"strings"

	"github.com/feedsink/feedsink/schemas"
)

// Identify is the row of the mapping that a record names, as far as it can be read,
// whatever else is wrong with the record, and also if a route skips it: the key, and of a
// profile the service's id; what cannot be read is "". Where the value names no row,
// byRecordKey says that the key is the one that a tombstone with this record's key would
// delete.
func (r *Router) Identify(c *Compiled, rec *Record) (key, profileID string, byRecordKey bool) {
	ch, reject, _ := r.topics[rec.Topic].unwrap(rec)
	in := input{record: rec, value: &rec.Value, keyFormat: c.keyFormat}
	if ch != nil {
		in.value, in.change = &ch.Row, ch
	}
	if reject == nil {
		var ev schemas.Event
		if ev, reject = c.event(&in); reject == nil {
			profileID, _ = c.id(&in, &ev)
			key, _ = c.keyOf(&in, &ev)
		}
	}
	if key == "" && len(rec.Key) > 0 {
		in.change, byRecordKey = nil, !rec.Tombstone
		key, _ = c.kafkaKey(&in)
	}
	return strings.Clone(key), strings.Clone(profileID), byRecordKey && key != ""
}

// Verbatim reports whether the key, and the service's id, of every write of the mapping stand
// byte for byte in the record's value, its key or one of its headers. That holds of
// records of whose value and key neither contains any of the texts.
func (c *Compiled) Verbatim() (unless []string, ok bool) {
	if c.Config.ValueFormat() != string(schemas.FormatJSON) { // of others the schema may say what a value means
		return nil, false
	}
	key := !c.keyTarget.Converts() && (c.fields == nil || c.key.verbatim())
	if !key || c.profileID != nil && !c.profileID.verbatim() || schemas.Format(c.Config.KeyFormat()).Registered() {
		return nil, false
	}
	unless = []string{`\`} // a text may be written with escapes
	switch c.Config.Envelope {
	case debezium:
		unless = append(unless, `"payload"`) // values may be converted as a schema beside them says
	case CloudEvents:
		unless = append(unless, "_base64")
	}
	return unless, true
}

// verbatim reports whether the field is a text or number as the record has it.
func (f *field) verbatim() bool {
	return f != nil && f.from != nil && f.from.verbatim() && f.compute == nil && f.convert == nil && f.absent != useDefault && f.null != useDefault
}

func (s *source) verbatim() bool {
	switch s.root {
	case "", rootHeaders, rootKafkaKey:
		return true
	}
	return false
}
