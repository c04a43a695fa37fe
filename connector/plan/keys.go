package plan

import (
	"errors"
	"fmt"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// OtherKeys are how many records of Debezium, by mapping, have a Kafka key that does not
// say the row's key. Where a row's key changes and the Kafka key does not, one event tells
// of both, and it is one write: the row under the former key stays in the table. Debezium
// writes a delete of the former key only where the Kafka key changes.
type OtherKeys map[*router.Compiled]*otherKeys

type otherKeys struct{ looked, other int64 }

// enoughKeys is of how many records of a mapping the keys are looked at.
const enoughKeys = 1000

// Look looks at a record and what the router made of it. That stays as it is.
func (o OtherKeys) Look(r *router.Router, record *router.Record, routed []router.Routed) {
	var deleted []router.Routed
	for i := range routed {
		one := &routed[i]
		if one.Mapping == nil || one.Mapping.Config.Envelope != "debezium" || one.Err != nil ||
			one.Lane == schemas.Skip || len(record.Key) == 0 || record.Tombstone {
			continue
		}
		n := o[one.Mapping]
		if n == nil {
			n = &otherKeys{}
			o[one.Mapping] = n
		}
		if n.looked == enoughKeys {
			continue
		}
		if n.looked++; deleted == nil {
			tombstone := *record
			tombstone.Value, tombstone.Tombstone = schemas.Value{}, true
			deleted = r.Route(nil, &tombstone)
		}
		if !deletes(deleted, one) {
			n.other++
		}
	}
}

// deletes reports whether a tombstone of the same Kafka key deletes the row of a write, or
// is not the mapping's, or has no way to the table.
func deletes(deleted []router.Routed, w *router.Routed) bool {
	for i := range deleted {
		d := &deleted[i]
		if d.Mapping != w.Mapping {
			continue
		}
		if reject, ok := errors.AsType[*router.Reject](d.Err); ok {
			return reject.Field == "op" || reject.Field == "profileId"
		}
		return d.Lane == schemas.Skip || d.Write.Key == w.Write.Key
	}
	return true
}

// Text says what to do about a mapping's; "" where there are none.
func (o OtherKeys) Text(m *router.Compiled) string {
	n := o[m]
	if n == nil || n.other == 0 {
		return ""
	}
	return fmt.Sprintf("the Kafka key of %d of %d records does not say the row's %s: where that changes in the database, the row under its former key "+
		"stays in the table, and a key's changes may come in another order; name the key's columns in Debezium's message.key.columns", n.other, n.looked, m.KeyName)
}
