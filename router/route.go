package router

import (
	"cmp"
	"slices"
	"strings"

	"github.com/feedsink/feedsink/router/values"
	"github.com/feedsink/feedsink/schemas"
)

// Route appends to dst what each mapping of the record's topic makes of it, in
// the order of the configuration; nothing where the record says that no row has
// changed, and one that is skipped where no mapping takes it. It is a pure function
// of record and configuration and safe for concurrent use.
func (r *Router) Route(dst []Routed, rec *Record) []Routed {
	return r.RouteFrom(dst, rec, &Arena{alone: true})
}

// RouteFrom is Route with the memory for what the writes keep.
func (r *Router) RouteFrom(dst []Routed, rec *Record, arena *Arena) []Routed {
	return r.topics[rec.Topic].route(dst, rec, arena)
}

// Topic returns the one of that name, of which nothing becomes anything if no
// mapping reads it.
func (r *Router) Topic(name string) *Topic { return r.topics[name] }

// RouteOver is Route for writes that are needed only until the next call, and no
// longer than the record's value: it writes over those that dst has room for,
// their cells included, and shares the lists of the value.
func (t *Topic) RouteOver(dst []Routed, rec *Record) []Routed {
	return t.route(dst[:0], rec, nil)
}

// route appends what the topic's mappings make of a record. Without an arena, the
// memory of the cells behind dst is taken again.
func (t *Topic) route(dst []Routed, rec *Record, arena *Arena) []Routed {
	if t == nil {
		return dst
	}
	ch, reject, changes := t.unwrap(rec)
	if !changes {
		return dst
	}
	// Whose a record is when no route can be asked: both lanes agree on the
	// immediate one where both read the topic.
	fallback := schemas.Batch
	if t.immediate {
		fallback = schemas.Immediate
	}
	before := len(dst)
	for _, c := range t.mappings {
		var cells []schemas.Cell
		switch {
		case arena != nil:
			cells = arena.rest()
		case cap(dst) > len(dst):
			cells = dst[:len(dst)+1][len(dst)].Write.Cells[:0]
		}
		dst = append(dst, Routed{Mapping: c, Lane: fallback, Route: -1, Write: schemas.Write{Cells: cells}})
		routed, why := &dst[len(dst)-1], reject
		if why == nil {
			why = c.route(routed, rec, ch, arena)
		}
		if routed.Lane == notTaken {
			dst = dst[:len(dst)-1]
			continue
		}
		if why != nil {
			if key := routed.Write.Key; key != "" {
				why.key = key
			}
			routed.Write = schemas.Write{Cells: cells}
			routed.Err = why
		}
		if arena != nil {
			arena.keep(&routed.Write)
		}
	}
	if len(dst) == before { // no mapping takes it; the cells' memory stays
		dst = dst[:before+1]
		dst[before].Mapping, dst[before].Lane = nil, schemas.Skip
	}
	return dst
}

// notTaken is the lane of a record that is not the mapping's.
const notTaken schemas.Lane = 0

// WithoutSkipped removes from what Route made of a record what is skipped.
func WithoutSkipped(routed []Routed) []Routed {
	return slices.DeleteFunc(routed, func(r Routed) bool { return r.Lane == schemas.Skip })
}

// route makes the write of a record, or of the change that it tells.
func (c *Compiled) route(to *Routed, rec *Record, ch *schemas.Change, arena *Arena) *Reject {
	in := input{record: rec, value: &rec.Value, keyFormat: c.keyFormat}
	if ch != nil {
		in.value, in.change = &ch.Row, ch
	}
	ev, reject := c.event(&in)
	if in.op = ev.Op; reject == nil {
		to.Route, reject = c.match(&in, &ev)
	}
	if reject != nil {
		if c.when != nil && in.value.Kind() == schemas.Object && !c.takes(&in) {
			to.Lane = notTaken
		}
		return reject
	}
	if to.Route < 0 {
		to.Lane = notTaken
		return nil
	}
	if to.Lane = c.routes[to.Route].lane; to.Lane == schemas.Skip {
		return nil
	}
	w := &to.Write
	w.Op, w.Table = ev.Op, c.Table
	if w.ProfileID, reject = c.id(&in, &ev); reject != nil {
		return reject
	}
	if to.Lane, reject = c.possibleLane(to.Lane, w); reject != nil {
		return reject
	}
	if w.Key, reject = c.keyOf(&in, &ev); reject != nil {
		return reject
	}
	if w.Op == schemas.Delete {
		return nil
	}
	switch {
	case c.ofObjects && ch == nil && in.value.Kind() != schemas.Object && in.value.Kind() != schemas.Absent:
		return badValue("", "must be an object") // of which an upsert would be a row without anything
	case c.fields != nil:
		w.Cells, reject = c.mappedCells(arena.room(w.Cells, len(c.fields)+len(c.constants)), &in, w.Op)
	default:
		w.Cells, reject = c.canonicalCells(w.Cells, &ev, arena)
	}
	if reject != nil {
		return reject
	}
	if c.constants != nil {
		c.fillConstants(w)
	}
	if to.Lane == schemas.Batch {
		to.Lane, reject = c.rowLane(w)
	}
	return reject
}

// event is the change that a record means. Where fields are mapped it carries
// only the op: the rest is read through them.
func (c *Compiled) event(in *input) (ev schemas.Event, reject *Reject) {
	if in.change != nil {
		return c.changeEvent(in)
	}
	if in.record.Tombstone {
		return c.tombstone(in)
	}
	if c.fields != nil {
		ev.Op, reject = c.op.of(in)
		return ev, reject
	}
	var err error
	if c.Table.Custom {
		ev, err = schemas.RecordEvent(*in.value)
	} else {
		ev, err = schemas.ProfileEvent(*in.value)
	}
	if err != nil {
		return ev, rejectOf(err)
	}
	return ev, nil
}

// match asks whether the record is the mapping's, and then the routes; the first
// match wins. It is negative where the record is not the mapping's, or where a value
// decides that cannot be read.
func (c *Compiled) match(in *input, ev *schemas.Event) (route int, reject *Reject) {
	if c.when == nil && c.routes[0].when == nil {
		return 0, nil
	}
	view := *in // for the conditions only: fields read the value itself
	if c.fields == nil {
		view.event = ev
	}
	e := c.evaluation(&view)
	defer c.evaluations.Put(e)
	if e.broken != nil || c.when != nil && !c.when(e) {
		return -1, e.broken
	}
	for i, r := range c.routes {
		if r.when == nil || r.when(e) {
			return i, nil
		}
	}
	return len(c.routes) - 1, nil // the last has no condition
}

// takes reports whether a record that is no event is the mapping's all the same: its
// members are asked as they are.
func (c *Compiled) takes(in *input) bool {
	when := c.conditions[0].reads // it is compiled first
	unknown := func(p readPath) bool {
		return !p.ofRecord() && (in.read(p.names).Unreadable() != nil || in.change != nil && in.change.Lacks(p.member()))
	}
	if slices.ContainsFunc(when, unknown) {
		return true // as far as is known
	}
	e := c.evaluation(in)
	defer c.evaluations.Put(e)
	return c.when(e)
}

// evaluation is ready for the conditions on a record. It goes back to evaluations.
func (c *Compiled) evaluation(in *input) *evaluation {
	e := c.evaluations.Get().(*evaluation)
	e.broken = nil
	for _, p := range c.reads {
		v, broken := in.plain(p)
		if e.env[p.variable] = v; broken != nil {
			e.broken = badValue(strings.Join(p.names, "."), broken.Error())
		}
	}
	return e
}

// possibleLane corrects the route's lane by what each lane can do: a profile's patch
// and delete need the service's id for a call, and its create and merge exist only in
// imports; a row needs an import for its op. Table records can do everything by
// a call.
func (c *Compiled) possibleLane(lane schemas.Lane, w *schemas.Write) (schemas.Lane, *Reject) {
	if lane == schemas.Batch {
		if c.Import(w.Op) == nil {
			return lane, badValue("op", "no import loads it: imports."+w.Op.String()+" is not configured")
		}
		return lane, nil
	}
	if c.Callable(w) {
		return lane, nil
	}
	if c.Import(w.Op) != nil {
		return schemas.Batch, nil
	}
	switch w.Op {
	case schemas.Create:
		return lane, badValue("op", "a profile is created only by an import: imports.create is not configured")
	case schemas.Merge:
		return lane, badValue("op", "a profile is merged only by an import: imports.merge is not configured")
	}
	return lane, noID("a call needs it for " + w.Op.String() + ", and imports." + w.Op.String() + " is not configured")
}

// tombstone is the delete that a record without a value means. It carries the
// record's key where the event of a delete would.
func (c *Compiled) tombstone(in *input) (schemas.Event, *Reject) {
	key, reject := c.kafkaKey(in)
	if reject != nil {
		return schemas.Event{}, reject
	}
	if c.Table.Custom {
		return schemas.Event{Op: schemas.Delete, BusinessKey: key}, nil
	}
	members := []schemas.Field{{Name: c.KeyName, Value: schemas.StringValue(key)}}
	return schemas.Event{Op: schemas.Delete, Key: schemas.ObjectValue(members)}, nil
}

// id is the service's id of the profile, "" where the record has none.
func (c *Compiled) id(in *input, ev *schemas.Event) (string, *Reject) {
	if ev.ProfileID != "" || c.profileID == nil {
		return ev.ProfileID, nil
	}
	v, reject := c.profileID.read(in)
	if reject != nil || !present(v) || v.Kind() == schemas.String && v.Text() == "" {
		return "", reject
	}
	text, rule := new(values.Target).Key(v)
	if rule != "" {
		return "", badValue(c.Config.ProfileID, rule)
	}
	return text, nil
}

// keyOf is the write's key.
func (c *Compiled) keyOf(in *input, ev *schemas.Event) (string, *Reject) {
	switch {
	case in.change != nil && ev.Op == schemas.Delete:
		return c.deletedKey(in)
	case c.fields != nil && (in.change != nil || !in.record.Tombstone):
		v, reject := c.key.value(in, ev.Op)
		if in.change == nil && in.value.Kind() != schemas.Object && len(c.key.columns) > 0 && (reject != nil || !present(v)) {
			return "", badValue("", "must be an object")
		}
		if reject != nil {
			return "", reject
		}
		return c.checkedKey("", c.key.label, v)
	case c.Table.Custom:
		return c.checkedKey("", "businessKey", schemas.StringValue(ev.BusinessKey))
	}
	inKey, inAttributes := ev.Key.Get(c.KeyName), ev.Attributes.Get(c.KeyName)
	if !present(inKey) {
		return c.checkedKey("attributes.", c.KeyName, inAttributes)
	}
	if present(inAttributes) && inAttributes.Text() != inKey.Text() {
		return "", badValue("attributes."+c.KeyName, "must equal key."+c.KeyName)
	}
	return c.checkedKey("key.", c.KeyName, inKey)
}

// checkedKey takes the path of the key in two parts: only an error joins them.
func (c *Compiled) checkedKey(object, name string, v schemas.Value) (string, *Reject) {
	if !present(v) {
		return "", badValue(object+name, "the key is missing")
	}
	text, rule := c.keyTarget.Key(v)
	if rule != "" {
		return "", badValue(object+name, rule)
	}
	return text, nil
}

// canonicalCells appends the cells of an event, every value checked. Of the key,
// a profile's upsert, merge and create add to the attributes what these do not name: the
// service matches and creates by the body alone.
func (c *Compiled) canonicalCells(cells []schemas.Cell, ev *schemas.Event, arena *Arena) ([]schemas.Cell, *Reject) {
	if c.Table.Custom {
		return c.section(arena.room(cells, len(ev.Properties.Items())+len(c.constants)), schemas.Properties, "properties", ev.Properties, ev.Op)
	}
	size := len(ev.Attributes.Items()) + len(ev.Subscriptions.Items()) + len(ev.Segments.Items()) + len(ev.DataCollection.Items())
	cells = arena.room(cells, size+len(ev.Key.Items())+len(c.constants))
	if ev.Op != schemas.Patch {
		for i, member := range ev.Key.Items() {
			if !present(member.Value) {
				continue
			}
			attribute := ev.Attributes.Get(member.Name)
			at := c.named(schemas.Attributes, i, member.Name)
			_, rule := at.Key(member.Value)
			v, broken := at.Check(member.Value, ev.Op)
			switch rule = cmp.Or(rule, broken); {
			case rule != "":
				return nil, badValue("key."+member.Name, rule)
			case attribute.Kind() != schemas.Absent && attribute.Text() != member.Value.Text():
				return nil, badValue("attributes."+member.Name, "must equal key."+member.Name)
			case attribute.Kind() != schemas.Absent:
				continue
			}
			cells = append(cells, schemas.Cell{Place: &at.Place, Value: v})
		}
	}
	var reject *Reject
	for _, part := range [...]struct {
		section schemas.Section
		name    string
		v       schemas.Value
	}{
		{schemas.Attributes, "attributes", ev.Attributes},
		{schemas.Subscriptions, "subscriptions", ev.Subscriptions},
		{schemas.Segments, "segments", ev.Segments},
		{schemas.DataCollection, "dataCollection", ev.DataCollection},
	} {
		if cells, reject = c.section(cells, part.section, part.name, part.v, ev.Op); reject != nil {
			return nil, reject
		}
	}
	return cells, nil
}

// section appends the cells of one object of an event.
func (c *Compiled) section(cells []schemas.Cell, s schemas.Section, name string, object schemas.Value, op schemas.Op) ([]schemas.Cell, *Reject) {
	members := object.Items()
	for i := range members {
		member := &members[i]
		at := c.named(s, i, member.Name)
		v, rule := at.Check(member.Value, op)
		if rule != "" {
			return nil, badValue(name+"."+member.Name, rule)
		}
		if v.Kind() != schemas.Absent {
			cells = append(cells, schemas.Cell{Place: &at.Place, Value: v})
		}
	}
	return cells, nil
}

// mappedCells appends the cells that a value has through the mapping's fields, for
// which cells has room.
func (c *Compiled) mappedCells(cells []schemas.Cell, in *input, op schemas.Op) ([]schemas.Cell, *Reject) {
	members := in.value.Members()
	for i := range c.fields {
		f := &c.fields[i]
		if f.plain && in.change == nil {
			if v := f.text(members); v != nil {
				cells = f.fill(cells, *v)
				continue
			}
		}
		if !f.fills || in.change != nil && in.lacks(f) {
			continue
		}
		v, reject := f.value(in, op)
		if reject != nil {
			return nil, reject
		}
		if v.Kind() == schemas.Absent {
			continue
		}
		if !f.checked {
			var rule string
			null := v.Kind() == schemas.Null
			if v, rule = f.Check(v, op); rule != "" {
				return nil, badValue(f.label, f.ruleOf(rule, null))
			}
		}
		if v.Kind() != schemas.Absent {
			cells = f.fill(cells, v)
		}
	}
	return cells, nil
}
