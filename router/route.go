package router

import (
	"github.com/feedsink/feedsink/schemas"
)

// Route appends to dst what each mapping of the record's topic makes of it, in
// the order of the configuration; nothing where the record says that no row has
// changed. It is a pure function of record and configuration and safe for
// concurrent use.
func (r *Router) Route(dst []Routed, rec *Record) []Routed {
	return r.RouteFrom(dst, rec, &Slab{alone: true})
}

// RouteFrom is Route with the memory for what the writes keep.
func (r *Router) RouteFrom(dst []Routed, rec *Record, slab *Slab) []Routed {
	return r.topics[rec.Topic].route(dst, rec, slab)
}

// Topic routes the records of one topic.
type Topic struct{ topic *topic }

// Topic returns the one of that name, of which nothing becomes anything if no
// mapping reads it.
func (r *Router) Topic(name string) Topic { return Topic{r.topics[name]} }

// RouteOver is Route for writes that are needed only until the next call, and no
// longer than the record's value: it writes over those that dst has room for,
// their cells included, and shares the lists of the value.
func (t Topic) RouteOver(dst []Routed, rec *Record) []Routed {
	return t.topic.route(dst[:0], rec, nil)
}

// route appends what the topic's mappings make of a record. Without a slab, the
// memory of the cells behind dst is taken again.
func (t *topic) route(dst []Routed, rec *Record, slab *Slab) []Routed {
	if t == nil {
		return dst
	}
	ch, reject, changes := t.open(rec)
	if !changes {
		return dst
	}
	// Whose a record is when no route can be asked: both lanes agree on the
	// immediate one where both read the topic.
	fallback := schemas.Batch
	if t.immediate {
		fallback = schemas.Immediate
	}
	for _, c := range t.mappings {
		var cells []schemas.Cell
		switch {
		case slab != nil:
			cells = slab.rest()
		case cap(dst) > len(dst):
			cells = dst[:len(dst)+1][len(dst)].Write.Cells[:0]
		}
		dst = append(dst, Routed{Mapping: c, Lane: fallback, Write: schemas.Write{Cells: cells}})
		routed, why := &dst[len(dst)-1], reject
		if why == nil {
			why = c.route(routed, rec, ch, slab)
		}
		if why != nil {
			routed.Write = schemas.Write{Cells: cells}
			routed.Err = why
		}
		if slab != nil {
			slab.keep(&routed.Write)
		}
	}
	return dst
}

// route makes the write of a record, or of the change that it tells.
func (c *Compiled) route(to *Routed, rec *Record, ch *schemas.Change, slab *Slab) *Reject {
	look := subject{record: rec, value: &rec.Value, keyFormat: c.keyFormat}
	if ch != nil {
		look.value, look.change = &ch.Row, ch
	}
	ev, reject := c.event(&look)
	if reject != nil {
		return reject
	}
	look.op = ev.Op
	to.Lane = c.lane(&look, &ev)
	w := &to.Write
	w.Op, w.Table = ev.Op, c.Table
	if w.ProfileID, reject = c.id(&look, &ev); reject != nil {
		return reject
	}
	if to.Lane, reject = c.place(to.Lane, w); reject != nil {
		return reject
	}
	if w.Key, reject = c.keyOf(&look, &ev); reject != nil {
		return reject
	}
	if w.Op == schemas.Delete {
		return nil
	}
	if c.fields != nil {
		w.Cells, reject = c.mappedCells(room(w.Cells, len(c.fields)+len(c.literals), slab), &look, w.Op)
	} else {
		w.Cells, reject = c.canonicalCells(w.Cells, &ev, slab)
	}
	if reject != nil {
		return reject
	}
	if c.literals != nil {
		c.fill(w)
	}
	if to.Lane == schemas.Batch {
		to.Lane, reject = c.guard(w)
	}
	return reject
}

// event is the change that a record means. Where fields are mapped it carries
// only the op: the rest is read through them.
func (c *Compiled) event(look *subject) (ev schemas.Event, reject *Reject) {
	if look.change != nil {
		return c.changeEvent(look)
	}
	if look.record.Tombstone {
		return c.tombstone(look)
	}
	if c.fields != nil {
		ev.Op, reject = c.op.of(look)
		return ev, reject
	}
	var err error
	if c.Table.Custom {
		ev, err = schemas.RecordEvent(*look.value)
	} else {
		ev, err = schemas.ProfileEvent(*look.value)
	}
	if err != nil {
		return ev, rejectOf(err)
	}
	return ev, nil
}

// lane asks the routes; the first match wins.
func (c *Compiled) lane(look *subject, ev *schemas.Event) schemas.Lane {
	if len(c.reads) == 0 && c.routes[0].when == nil {
		return c.routes[0].lane
	}
	view := *look // for the conditions only: fields look at the value itself
	if c.fields == nil {
		view.event = ev
	}
	e := c.evaluations.Get().(*evaluation)
	defer c.evaluations.Put(e)
	for _, p := range c.reads {
		e.env[p.variable] = view.plain(p)
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
