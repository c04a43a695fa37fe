package router

import (
	"sync"

	"github.com/feedsink/feedsink/schemas"
)

// Route appends to dst what each mapping of the record's topic makes of it, in
// the order of the configuration. It is a pure function of record and
// configuration and safe for concurrent use.
func (r *Router) Route(dst []Routed, rec *Record) []Routed {
	t := r.topics[rec.Topic]
	if t == nil {
		return dst
	}
	// Whose a record is when no route can be asked: both lanes agree on the
	// immediate one where both read the topic.
	fallback := schemas.Batch
	if t.immediate {
		fallback = schemas.Immediate
	}
	for _, c := range t.mappings {
		routed := Routed{Mapping: c, Lane: fallback}
		if reject := c.route(&routed, rec); reject != nil {
			routed.Write = schemas.Write{}
			routed.Err = reject
		}
		dst = append(dst, routed)
	}
	return dst
}

func (c *Compiled) route(to *Routed, rec *Record) *Reject {
	ev, reject := c.event(rec)
	if reject != nil {
		return reject
	}
	to.Lane = c.lane(rec, &ev)
	w := &to.Write
	w.Op, w.Table = ev.Op, c.Table
	if w.ProfileID, reject = c.id(rec, &ev); reject != nil {
		return reject
	}
	if to.Lane, reject = c.place(to.Lane, w); reject != nil {
		return reject
	}
	if w.Key, reject = c.keyOf(rec, &ev); reject != nil {
		return reject
	}
	if w.Op == schemas.Delete {
		return nil
	}
	if c.fields != nil {
		w.Cells, reject = c.mappedCells(rec.Value, w.Op)
	} else {
		w.Cells, reject = c.canonicalCells(&ev)
	}
	if reject != nil {
		return reject
	}
	if to.Lane == schemas.Batch && c.escapes(w) {
		to.Lane, reject = c.escape(w)
	}
	return reject
}

// event is the change that a record means. Where fields are mapped it carries
// only the op: the rest is read through them.
func (c *Compiled) event(rec *Record) (schemas.Event, *Reject) {
	if rec.Tombstone {
		return c.tombstone(rec)
	}
	if c.fields != nil {
		return schemas.Event{Op: schemas.Upsert}, nil
	}
	var ev schemas.Event
	var err error
	if c.Table.Custom {
		ev, err = schemas.RecordEvent(rec.Value)
	} else {
		ev, err = schemas.ProfileEvent(rec.Value)
	}
	if err != nil {
		return ev, rejectOf(err)
	}
	return ev, nil
}

// lane asks the routes; the first match wins.
func (c *Compiled) lane(rec *Record, ev *schemas.Event) schemas.Lane {
	if len(c.reads) == 0 && c.routes[0].when == nil {
		return c.routes[0].lane
	}
	look := subject{record: rec}
	if c.fields == nil {
		look.event = ev
	}
	e := c.evaluations.Get().(*evaluation)
	defer c.evaluations.Put(e)
	for _, p := range c.reads {
		e.env[p.variable] = look.read(p)
	}
	for _, r := range c.routes {
		if r.when == nil || r.when.holds(e) {
			return r.lane
		}
	}
	return c.routes[len(c.routes)-1].lane // the last has no condition
}

// place corrects the route's lane by what each lane can do: a profile's patch
// and delete need the service's id for a call, and its create exists only in
// imports; a row needs an import for its op. Table records can do everything by
// a call.
func (c *Compiled) place(lane schemas.Lane, w *schemas.Write) (schemas.Lane, *Reject) {
	if lane == schemas.Batch {
		if c.Import(w.Op) == nil {
			return lane, badValue("op", "no import loads it: imports."+w.Op.String()+" is not configured")
		}
		return lane, nil
	}
	if c.callable(w) {
		return lane, nil
	}
	if c.Import(w.Op) != nil {
		return schemas.Batch, nil
	}
	if w.Op == schemas.Create {
		return lane, badValue("op", "a profile is created only by an import: imports.create is not configured")
	}
	return lane, noID(w.Op)
}

// callable reports whether w can be written by one call.
func (c *Compiled) callable(w *schemas.Write) bool {
	switch {
	case c.Table.Custom, w.Op == schemas.Upsert:
		return true
	case w.Op == schemas.Create:
		return false
	}
	return w.ProfileID != ""
}

func noID(op schemas.Op) *Reject {
	return &Reject{
		Code: CodeNoID, Field: "profileId",
		Rule: "a call needs it for " + op.String() + ", and imports." + op.String() + " is not configured",
	}
}

// escapes reports whether a row of w would meet a column that says that such an
// event takes the immediate lane.
func (c *Compiled) escapes(w *schemas.Write) bool {
	for i := range c.Columns {
		col := &c.Columns[i]
		if (col.Absent != toImmediate && col.Null != toImmediate) || col.Name == c.KeyName {
			continue
		}
		kind := schemas.Absent
		for j := range w.Cells {
			if w.Cells[j].Section == col.Section && w.Cells[j].Name == col.Name {
				kind = w.Cells[j].Value.Kind()
			}
		}
		if kind == schemas.Absent && col.Absent == toImmediate || kind == schemas.Null && col.Null == toImmediate {
			return true
		}
	}
	return false
}

// escape sends w to the immediate lane, or says why a call cannot take it.
func (c *Compiled) escape(w *schemas.Write) (schemas.Lane, *Reject) {
	if c.callable(w) {
		return schemas.Immediate, nil
	}
	return schemas.Batch, &Reject{
		Code: CodeNoID, Field: "profileId",
		Rule: "a column sends this " + w.Op.String() + " to the immediate lane, where it cannot be written without one",
	}
}

// decoders serve the keys of tombstones, which are rare.
var decoders = sync.Pool{New: func() any { return schemas.NewJSON() }}
