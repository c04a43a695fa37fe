package router

import "github.com/feedsink/feedsink/schemas"

// spot is a field of the table as far as its values are checked. Of the types of
// the table's fields only those are known that `types` names: the others the
// service decides.
type spot struct {
	schemas.Place
	recency recency
	typed   *converter // nil: nothing is known
	free    bool       // any text of the usual length will do
}

func (c *Compiled) spot(section schemas.Section, name string) spot {
	s := spot{Place: schemas.Place{Section: section, Name: name}}
	switch section {
	case schemas.Attributes:
		s.recency, s.typed = recencyOf(name), c.types[name]
		s.free = s.recency == notRecency && s.typed == nil && name != ""
	case schemas.Properties:
		s.typed = c.types[name]
		s.free = s.typed == nil && name != ""
	case schemas.Segments:
		s.free = name != ""
	}
	return s
}

// cell checks one value of a write against what its place in the table takes and
// returns it as it is sent, or the rule that it breaks.
func (s *spot) cell(v schemas.Value, op schemas.Op) (out schemas.Value, rule string) {
	if s.free && v.Kind() == schemas.String && len(v.Text()) <= maxText {
		return v, ""
	}
	if s.Name == "" {
		return schemas.Value{}, "must have a name"
	}
	switch s.Section {
	case schemas.Attributes:
		if s.recency != notRecency {
			return technical(s.recency, v, op)
		}
		return attribute(v, s.typed)
	case schemas.Subscriptions:
		if v.Kind() != schemas.Bool {
			return schemas.Value{}, ruleBoolean
		}
		return v, ""
	case schemas.Segments:
		return segment(v)
	case schemas.DataCollection:
		return collection(s.Name, v)
	default:
		return property(v, s.typed)
	}
}

// attribute takes scalars, lists of scalars, and null.
func attribute(v schemas.Value, typed *converter) (schemas.Value, string) {
	switch {
	case v.Kind() == schemas.Null:
		return v, ""
	case typed != nil && typed.convert != nil:
		return typed.convert(v, typed)
	case v.Kind() == schemas.List:
		return multiValue(v, typed)
	}
	v, rule := scalar(v, typed)
	if rule == ruleScalar {
		rule = "must be text, a number, true, false or a list of them"
	}
	return v, rule
}

// scalar takes text, numbers, true and false.
func scalar(v schemas.Value, c *converter) (schemas.Value, string) {
	switch v.Kind() {
	case schemas.String:
		return c.bounded(v)
	case schemas.Number:
		if isPlain(v.Text()) {
			return v, ""
		}
		return asNumber(v, &converter{})
	case schemas.Bool:
		return v, ""
	}
	return schemas.Value{}, ruleScalar
}

// isPlain reports whether a number's literal can be sent as it is.
func isPlain(literal string) bool {
	return len(literal) <= maxText && exponentAt(literal) < 0
}

// multiValue takes a list of scalars, each as c.each says. The list is copied
// only where an element has to be written differently.
func multiValue(v schemas.Value, c *converter) (schemas.Value, string) {
	convert, each := conversion(scalar), c
	if c != nil && c.each != nil {
		convert, each = c.each.convert, c.each
	}
	items := v.Items()
	copied := false
	for i := range items {
		element, rule := convert(items[i].Value, each)
		switch {
		case rule == ruleScalar:
			return schemas.Value{}, ruleElements
		case rule != "":
			return schemas.Value{}, "each element: " + rule
		case element.Kind() != items[i].Value.Kind() || element.Text() != items[i].Value.Text():
			if !copied {
				items, copied = append([]schemas.Field(nil), items...), true
			}
			items[i].Value = element
		}
	}
	if copied {
		return schemas.ListValue(items), ""
	}
	return v, ""
}

// segment takes a boolean (simple segmentation) or a segment's name.
func segment(v schemas.Value) (schemas.Value, string) {
	switch {
	case v.Kind() == schemas.Bool:
		return v, ""
	case v.Kind() != schemas.String:
		return schemas.Value{}, "must be true, false or the name of a segment"
	}
	return (*converter)(nil).bounded(v)
}

// collection takes the members of dataCollection. Null says nothing about the
// consent, so it is the same as leaving the member out: Absent.
func collection(name string, v schemas.Value) (schemas.Value, string) {
	if v.Kind() == schemas.Null {
		return schemas.Value{}, ""
	}
	switch name {
	case "date":
		if v.Kind() != schemas.String || !isTimestamp(v.Text()) {
			return schemas.Value{}, "must be a timestamp like 2006-01-02T15:04:05 with Z or an offset"
		}
		return v, ""
	case "source", "way":
		if v.Kind() != schemas.String {
			return schemas.Value{}, ruleText
		}
		return scalar(v, nil)
	}
	return schemas.Value{}, "is not a member of dataCollection"
}

// property takes what a table record's property can be: a number or text, and
// null. A boolean becomes the text true or false, the only way the interface
// leaves to write one.
func property(v schemas.Value, typed *converter) (out schemas.Value, rule string) {
	if v.Kind() == schemas.Null {
		return v, ""
	}
	if typed != nil && typed.convert != nil {
		out, rule = typed.convert(v, typed)
	} else if out, rule = scalar(v, typed); rule == ruleScalar {
		rule = "must be a number, text, true or false"
	}
	if out.Kind() == schemas.Bool {
		out = schemas.StringValue(out.Text())
	}
	return out, rule
}

// keyText is the text of a key: text or a whole number, which has one spelling.
func keyText(v schemas.Value) (text, rule string) {
	switch {
	case v.Kind() != schemas.String && !v.IsWhole():
		return "", "must be text or a whole number"
	case v.Text() == "":
		return "", "must not be empty"
	}
	_, rule = (*converter)(nil).bounded(v)
	return v.Text(), rule
}
