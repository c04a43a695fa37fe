package router

import (
	"errors"
	"unicode/utf8"

	"github.com/feedsink/feedsink/schemas"
)

func rejectOf(err error) *Reject {
	if e, ok := errors.AsType[*schemas.ValueError](err); ok {
		return &Reject{Code: CodeValue, Field: e.Field, Rule: e.Rule}
	}
	return &Reject{Code: CodeDecode, Rule: err.Error()}
}

// tombstone is the delete that a record without a value means. It carries the
// record's key where the event of a delete would.
func (c *Compiled) tombstone(look *subject) (schemas.Event, *Reject) {
	key, reject := c.kafkaKey(look)
	if reject != nil {
		return schemas.Event{}, reject
	}
	if c.Table.Custom {
		return schemas.Event{Op: schemas.Delete, BusinessKey: key}, nil
	}
	members := []schemas.Field{{Name: c.KeyName, Value: schemas.StringValue(key)}}
	return schemas.Event{Op: schemas.Delete, Key: schemas.ObjectValue(members)}, nil
}

// labelKafkaKey names a record's key in errors.
const labelKafkaKey = "kafka key"

// kafkaKey reads the row's key from a record's key, in the spelling that the
// key of the record's events has.
func (c *Compiled) kafkaKey(look *subject) (string, *Reject) {
	if len(look.record.Key) == 0 {
		return "", unreadableKey(ruleNoKey)
	}
	v, reject := kafkaKeyValue(look.record, look.keyFormat)
	if reject != nil {
		return "", reject
	}
	if c.key != nil {
		v, reject = c.key.ofKafkaKey(look, v)
	} else if v.Kind() == schemas.Object {
		v = v.Get(c.KeyName)
	}
	if reject != nil {
		return "", badValue(labelKafkaKey, reject.Rule)
	}
	text, rule := keyText(v)
	if rule != "" {
		return "", unreadableKey(rule)
	}
	return text, nil
}

const ruleNoKey = "missing, but the record has no value: nothing says what to delete"

func unreadableKey(rule string) *Reject {
	return &Reject{Code: CodeDecode, Field: labelKafkaKey, Rule: rule}
}

// kafkaKeyValue decodes a record's key; Absent where there is none.
func kafkaKeyValue(rec *Record, format string) (schemas.Value, *Reject) {
	if len(rec.Key) == 0 {
		return schemas.Value{}, nil
	}
	v, err := rec.KeyValue, rec.KeyErr
	switch format {
	case "text":
		if !utf8.Valid(rec.Key) {
			return schemas.Value{}, unreadableKey("not valid UTF-8")
		}
		return schemas.StringValue(string(rec.Key)), nil
	case "json", connectKey:
		v, err = schemas.NewJSON().Decode(rec.Key)
	}
	if err != nil {
		return schemas.Value{}, unreadableKey(err.Error())
	}
	if format == connectKey {
		if v, err = schemas.FromConnect(v); err != nil {
			return schemas.Value{}, unreadableKey("does not hold what its schema says")
		}
	}
	return v, nil
}

// id is the service's id of the profile, "" where the record has none.
func (c *Compiled) id(look *subject, ev *schemas.Event) (string, *Reject) {
	if ev.ProfileID != "" || c.profileID == nil {
		return ev.ProfileID, nil
	}
	v, reject := c.profileID.read(look)
	if reject != nil || !present(v) {
		return "", reject
	}
	text, rule := keyText(v)
	if rule != "" {
		return "", badValue(c.Config.ProfileID, rule)
	}
	return text, nil
}

// keyOf is the write's key.
func (c *Compiled) keyOf(look *subject, ev *schemas.Event) (string, *Reject) {
	switch {
	case look.change != nil && ev.Op == schemas.Delete:
		return c.deletedKey(look)
	case c.fields != nil && (look.change != nil || !look.record.Tombstone):
		v, reject := c.key.value(look, ev.Op)
		if reject != nil {
			return "", reject
		}
		return checkedKey("", c.key.label, v)
	case c.Table.Custom:
		return checkedKey("", "businessKey", schemas.StringValue(ev.BusinessKey))
	}
	inKey, inAttributes := ev.Key.Get(c.KeyName), ev.Attributes.Get(c.KeyName)
	if !present(inKey) {
		return checkedKey("attributes.", c.KeyName, inAttributes)
	}
	if present(inAttributes) && inAttributes.Text() != inKey.Text() {
		return "", badValue("attributes."+c.KeyName, "must equal key."+c.KeyName)
	}
	return checkedKey("key.", c.KeyName, inKey)
}

// checkedKey takes the path of the key in two parts: only an error joins them.
func checkedKey(object, name string, v schemas.Value) (string, *Reject) {
	if !present(v) {
		return "", badValue(object+name, "the key is missing")
	}
	text, rule := keyText(v)
	if rule != "" {
		return "", badValue(object+name, rule)
	}
	return text, nil
}

func present(v schemas.Value) bool {
	return v.Kind() != schemas.Absent && v.Kind() != schemas.Null
}

// room is cells, which are none yet, with room for n; of the slab if there is one.
func room(cells []schemas.Cell, n int, slab *Slab) []schemas.Cell {
	switch {
	case cap(cells) >= n:
		return cells
	case slab != nil:
		return slab.room(n)
	}
	return make([]schemas.Cell, 0, n)
}

// canonicalCells appends the cells of an event, every value checked. Of the key,
// a profile's upsert and create add to the attributes what these do not name: the
// service matches and creates by the body alone.
func (c *Compiled) canonicalCells(cells []schemas.Cell, ev *schemas.Event, slab *Slab) ([]schemas.Cell, *Reject) {
	if c.Table.Custom {
		return c.section(room(cells, len(ev.Properties.Items())+len(c.literals), slab), schemas.Properties, "properties", ev.Properties, ev.Op)
	}
	size := len(ev.Attributes.Items()) + len(ev.Subscriptions.Items()) + len(ev.Segments.Items()) + len(ev.DataCollection.Items())
	cells = room(cells, size+len(ev.Key.Items())+len(c.literals), slab)
	if ev.Op != schemas.Patch {
		for _, member := range ev.Key.Items() {
			attribute := ev.Attributes.Get(member.Name)
			switch _, rule := keyText(member.Value); {
			case !present(member.Value):
				continue
			case rule != "":
				return nil, badValue("key."+member.Name, rule)
			case attribute.Kind() != schemas.Absent && attribute.Text() != member.Value.Text():
				return nil, badValue("attributes."+member.Name, "must equal key."+member.Name)
			case attribute.Kind() != schemas.Absent:
				continue
			}
			cells = append(cells, schemas.Cell{Place: &c.known(schemas.Attributes, member.Name).Place, Value: member.Value})
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
		at := c.known(s, member.Name)
		v, rule := at.cell(member.Value, op)
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
func (c *Compiled) mappedCells(cells []schemas.Cell, look *subject, op schemas.Op) ([]schemas.Cell, *Reject) {
	members := look.value.Members()
	for i := range c.fields {
		f := &c.fields[i]
		if f.plain && look.change == nil {
			if v := f.text(members); v != nil {
				cells = f.fill(cells, *v)
				continue
			}
		}
		if !f.fills || look.change != nil && look.lacks(f) {
			continue
		}
		v, reject := f.value(look, op)
		if reject != nil {
			return nil, reject
		}
		if v.Kind() == schemas.Absent {
			continue
		}
		if !f.settled {
			var rule string
			if v, rule = f.cell(v, op); rule != "" {
				return nil, badValue(f.label, rule)
			}
		}
		if v.Kind() != schemas.Absent {
			cells = f.fill(cells, v)
		}
	}
	return cells, nil
}

// fill appends the field's cell, for which cells has room. It is set in place: what
// is moved as a whole costs more while garbage is collected.
func (f *field) fill(cells []schemas.Cell, v schemas.Value) []schemas.Cell {
	cells = cells[:len(cells)+1]
	cell := &cells[len(cells)-1]
	cell.Place, cell.Value = &f.Place, v
	return cells
}
