package router

import (
	"slices"

	"github.com/feedsink/feedsink/schemas"
)

// debezium is the envelope of Debezium's events.
const debezium = "debezium"

// unwrap takes a change out of Debezium's envelope; nil where the topic's records
// have none. A delete that comes without its row, as a tombstone does, has the
// record's key as its row: the columns of the primary key. changes is false
// where the event says that no row has changed.
func (t *Topic) unwrap(rec *Record) (ch *schemas.Change, reject *Reject, changes bool) {
	if t.debezium == nil {
		return nil, nil, true
	}
	ch = &schemas.Change{Op: schemas.Delete}
	if !rec.Tombstone {
		var err error
		if *ch, err = t.debezium.Change(rec.Value); err != nil {
			return nil, rejectOf(err), true
		}
	}
	if ch.Op == schemas.Delete && ch.Row.Kind() == schemas.Absent {
		if len(rec.Key) == 0 {
			return nil, unreadableKey(ruleNoKey), true
		}
		ch.Row, reject = kafkaKeyValue(rec, t.mappings[0].keyFormat)
	}
	return ch, reject, ch.Op != 0
}

// changeEvent is what a change does to the mapping's row, or why the mapping
// cannot use it: it reads a column whose value is none, or is not there.
//
// An update leaves out large values that did not change. It must not replace
// them, so it is a patch, if the mapping reads them at all, or stays the merge that
// it is. Of a row that came under a new key nothing is there to be patched.
func (c *Compiled) changeEvent(in *input) (ev schemas.Event, reject *Reject) {
	ch := in.change
	if ev.Op = ch.Op; ev.Op == schemas.Delete {
		return ev, nil // only the key is read, and missed if it is not there
	}
	if at := slices.IndexFunc(ch.Unavailable, c.decidesBy); at >= 0 {
		return ev, badValue(ch.Unavailable[at], "did not change, so that its value is not in the event, and the mapping's op, when or routes look at it; "+
			"set the source table's replica identity to full")
	}
	for i := range ch.Unreadable {
		if c.decidesBy(ch.Unreadable[i].Name) {
			return ev, rejectOf(ch.Unreadable[i].Err)
		}
	}
	if ev.Op, reject = c.op.of(in); reject != nil || ev.Op == schemas.Delete {
		return ev, reject
	}
	for i := range ch.Unreadable {
		if c.readsColumn(ch.Unreadable[i].Name) {
			return ev, rejectOf(ch.Unreadable[i].Err)
		}
	}
	at := slices.IndexFunc(ch.Unavailable, c.readsColumn)
	if at < 0 || ev.Op == schemas.Patch {
		return ev, nil
	}
	if ch.New || present(in.record.header(oldKey)) {
		return ev, badValue(ch.Unavailable[at], "did not change when the row's key did, so that its value is not in the event; "+
			"set the source table's replica identity to full")
	}
	if ev.Op != schemas.Merge {
		ev.Op = schemas.Patch
	}
	return ev, nil
}

// oldKey is the header of the first event of a row under a new key.
const oldKey = "__debezium.oldkey"

// readsColumn reports whether one of the fields comes from that column.
func (c *Compiled) readsColumn(name string) bool {
	return slices.ContainsFunc(c.fields, func(f field) bool { return slices.Contains(f.columns, name) })
}

// decidesBy reports whether op or a condition looks at that column.
func (c *Compiled) decidesBy(name string) bool {
	return lookAt(c.reads, name) || c.op != nil && c.op.compute != nil && lookAt(c.op.compute.reads, name)
}

// lookAt reports whether one of the paths leads to that column.
func lookAt(paths []readPath, column string) bool {
	return slices.ContainsFunc(paths, func(p readPath) bool { return !p.ofRecord() && p.member() == column })
}

// lacks reports whether a change leaves out a value that the field is read or
// computed from.
func (in *input) lacks(f *field) bool {
	return slices.ContainsFunc(in.change.Unavailable, func(name string) bool { return slices.Contains(f.columns, name) })
}

// deletedKey is the key of a deleted row. The row may lack it where the record's
// key has it.
func (c *Compiled) deletedKey(in *input) (string, *Reject) {
	v, reject := c.key.read(in)
	switch {
	case reject != nil:
		return "", reject
	case present(v):
		v, reject = c.key.converted(v)
	case len(in.record.Key) > 0:
		if v, reject = kafkaKeyValue(in.record, in.keyFormat); reject == nil {
			v, reject = c.key.ofKafkaKey(in, v)
		}
	}
	switch {
	case reject != nil:
		return "", reject
	case !present(v):
		return "", badValue(c.key.label, "the key is neither in the deleted row nor in the record's key; "+
			"make it part of Debezium's key (message.key.columns) and of the table's replica identity")
	}
	return c.checkedKey("", c.key.label, v)
}
