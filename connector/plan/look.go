package plan

import (
	"errors"
	"fmt"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// Look is what a sample tells of mappings besides what becomes of its records: paths that no
// record has, and Kafka keys of Debezium that do not say the row's key. It is used by one
// goroutine.
type Look struct {
	router *router.Router
	sought *router.Sought
	others map[*router.Compiled]*otherKeys
}

// NewLook prepares for a sample of the topics of all mappings.
func NewLook(r *router.Router) *Look {
	return &Look{r, router.NewSought(r), map[*router.Compiled]*otherKeys{}}
}

// Take looks at a record and what the router made of it. That stays as it is.
func (l *Look) Take(record *router.Record, routed []router.Routed) {
	l.sought.Look(record, routed)
	l.keys(record, routed)
}

// NotFound are the mapping's paths that none of the records has.
func (l *Look) NotFound(m *router.Compiled) []router.NotFound { return l.sought.NotFound(m) }

// otherKeys are how many records of Debezium have a Kafka key that does not say the row's
// key. Where a row's key changes and the Kafka key does not, one event tells of both, and it
// is one write: the row under the former key stays in the table. Debezium writes a delete of
// the former key only where the Kafka key changes.
type otherKeys struct{ looked, other int64 }

// enoughKeys is of how many records of a mapping the keys are looked at.
const enoughKeys = 1000

func (l *Look) keys(record *router.Record, routed []router.Routed) {
	var deleted []router.Routed
	for i := range routed {
		one := &routed[i]
		if one.Mapping == nil || one.Mapping.Config.Envelope != "debezium" || one.Err != nil ||
			one.Lane == schemas.Skip || len(record.Key) == 0 || record.Tombstone {
			continue
		}
		n := l.others[one.Mapping]
		if n == nil {
			n = &otherKeys{}
			l.others[one.Mapping] = n
		}
		if n.looked == enoughKeys {
			continue
		}
		if n.looked++; deleted == nil {
			tombstone := *record
			tombstone.Value, tombstone.Tombstone = schemas.Value{}, true
			deleted = l.router.Route(nil, &tombstone)
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

// OtherKeys says what to do about a mapping's Kafka keys that do not say the row's; "" where
// there are none.
func (l *Look) OtherKeys(m *router.Compiled) string {
	n := l.others[m]
	if n == nil || n.other == 0 {
		return ""
	}
	return fmt.Sprintf("the Kafka key of %d of %d records does not say the row's %s: where that changes in the database, the row under its former key "+
		"stays in the table, and a key's changes may come in another order; name the key's columns in Debezium's message.key.columns", n.other, n.looked, m.KeyName)
}
