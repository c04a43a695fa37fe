package schemas

// FromConnect reads what Kafka Connect's JSON converter wrote. With
// schemas.enable=true that is an object of schema and payload, and every value
// of the payload becomes what the schema says that it is (see Logical); without,
// it is the value itself, returned as it is. Errors are *ValueError.
func FromConnect(v Value) (Value, error) {
	schema, payload := connectParts(v)
	converted, err := connectValue(schema, payload)
	if err != nil {
		return Value{}, err
	}
	return converted, nil // not err, whose nil would not be error's
}

// connectParts takes the wrapper off; schema is Absent where there is none.
func connectParts(v Value) (schema, payload Value) {
	if v.kind != Object || len(v.Items()) != 2 {
		return Value{}, v
	}
	schema, payload = v.Get("schema"), v.Get("payload")
	wrapper := payload.kind != Absent && (schema.kind == Null || schema.Get("type").kind == String)
	if !wrapper {
		return Value{}, v // a row may have columns of these names
	}
	return schema, payload
}

// connectValue converts v as its Connect schema says.
func connectValue(schema, v Value) (Value, *ValueError) {
	if schema.kind != Object || v.kind == Null || v.kind == Absent {
		return v, nil
	}
	if name := schema.Get("name").Text(); name != "" {
		converted, err := logical(name, schema.Get("parameters"), v)
		if err != nil || !same(converted, v) {
			return converted, err
		}
	}
	switch schema.Get("type").Text() {
	case "struct":
		columns := columnsOf(schema)
		return eachItem(v, Object, func(i int, name string) Value { return columns.schema(i, name) })
	case "array":
		items := schema.Get("items")
		return eachItem(v, List, func(int, string) Value { return items })
	case "map":
		values := schema.Get("values")
		return eachItem(v, Object, func(int, string) Value { return values })
	}
	return v, nil
}

// eachItem converts the members or elements of v. What v holds is copied only
// where one of them changes.
func eachItem(v Value, kind Kind, schemaOf func(i int, name string) Value) (Value, *ValueError) {
	if v.kind != kind {
		return v, nil
	}
	items, copied := v.Items(), false
	for i := range v.Items() {
		old := v.Items()[i]
		converted, err := connectValue(schemaOf(i, old.Name), old.Value)
		if err != nil {
			return Value{}, err.within(old.Name)
		}
		if same(converted, old.Value) {
			continue
		}
		if !copied {
			items, copied = append([]Field(nil), v.Items()...), true
		}
		items[i].Value = converted
	}
	return itemsValue(v.kind, items), nil
}

// columns are the member schemas of a struct.
type columns []Field

func columnsOf(schema Value) columns { return schema.Get("fields").Items() }

// schema is the schema of the named member, which converters write in the
// order of the schema. Absent where there is none.
func (c columns) schema(i int, name string) Value {
	if i < len(c) && c[i].Value.Get("field").Text() == name {
		return c[i].Value
	}
	for i := range c {
		if c[i].Value.Get("field").Text() == name {
			return c[i].Value
		}
	}
	return Value{}
}

// same reports whether w is v itself, not a conversion of it.
func same(v, w Value) bool {
	return v.kind == w.kind && v.Text() == w.Text() && len(v.Items()) == len(w.Items()) &&
		(len(v.Items()) == 0 || &v.Items()[0] == &w.Items()[0])
}

// within puts a member's name before the path of an error. Elements of a list
// have none.
func (e *ValueError) within(name string) *ValueError {
	switch {
	case name == "":
		return e
	case e.Field != "":
		name += "." + e.Field
	}
	return Invalid(name, e.Rule)
}
