package router

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/feedsink/feedsink/schemas"
)

// maxScale bounds `scale`, far beyond the digits of any currency.
const maxScale = 100

func (s *scope) compileFields() {
	for i := range s.m.Fields {
		s.compileField(fmt.Sprintf("fields[%d]", i), i)
	}
	for i := range s.c.fields {
		if s.c.fields[i].key && s.c.key == nil {
			s.c.key = &s.c.fields[i]
		}
	}
	if len(s.c.fields) > 0 && s.c.key == nil && s.m.Key != "" {
		s.problem("fields", fmt.Sprintf("add {from: …, to: %s}", s.m.Key), "none of them fills the key %q", s.m.Key)
	}
}

func (s *scope) compileField(path string, i int) {
	f := s.m.Fields[i]
	compiled := field{label: f.From, fills: true, absent: Omit, null: AsNull}
	section, name, err := target(s.c.Table, f.To)
	compiled.spot = s.c.spot(section, name)
	switch {
	case err != nil:
		s.problem(path+".to", "", "%v", err)
	case slices.IndexFunc(s.m.Fields, func(g Field) bool { return g.To == f.To }) < i:
		s.problem(path+".to", "", "%q is filled twice", f.To)
	case compiled.recency != notRecency && s.c.op != nil && s.c.op.always != schemas.Create:
		s.problem(path+".to", "write op: create and imports.create for a mapping that creates profiles",
			"%s %s, and no record of this mapping does that", f.To, ruleComputed)
	}
	compiled.key = f.To == s.m.Key
	compiled.fills = !compiled.key || !s.c.Table.Custom
	s.conversion(path, &f, &compiled)
	compiled.settled = section == schemas.Attributes && compiled.recency == notRecency && compiled.convert != nil && compiled.typed == nil
	s.origin(path, &f, &compiled)
	from := compiled.from
	compiled.plain = from != nil && from.root == "" && len(from.steps) == 1 && from.steps[0].kind == stepMember &&
		compiled.convert == nil && compiled.free && compiled.fills
	s.missing(path, &f, &compiled)
	s.c.fields = append(s.c.fields, compiled)
}

// origin compiles the one of from, value and expr that the field has.
func (s *scope) origin(path string, f *Field, into *field) {
	if into.label == "" {
		into.label = f.To
	}
	given := 0
	for _, text := range []string{f.From, string(f.Value), f.Expr} {
		if text != "" {
			given++
		}
	}
	switch {
	case given > 1:
		s.problem(path, "keep the one that is meant", "from, value and expr are given together")
	case f.Value != "":
		into.constant = s.literal(path+".value", f.Value, into)
	case f.Expr != "":
		compute, err := compileExpression(f.Expr)
		if err != nil {
			s.conditionProblem(path+".expr", err)
		}
		into.compute = compute
	case f.From == "":
		s.problem(path+".from", "write from, or value for a constant, or expr for an expression", "missing")
	default:
		into.from = s.path(path+".from", f.From)
	}
}

// path compiles a path, nil where it is none.
func (s *scope) path(at, text string) *source {
	from, err := newSource(text)
	if err != nil {
		s.problem(at, `write names separated by dots, elements as [0] or [*], other names as ["a.b"]`, "%q is not a path: %v", text, err)
	}
	return from
}

// literal is a constant, converted and checked as a value of the field is.
func (s *scope) literal(at string, l Literal, into *field) schemas.Value {
	v, err := schemas.NewJSON().Decode([]byte(l))
	if err != nil {
		s.problem(at, "write text, a number, true or false", "%q is not a constant", string(l))
		return v
	}
	rule := ""
	if into.convert != nil && v.Kind() != schemas.Null {
		// It is written as the table takes it: neither scale nor format apply.
		v, rule = into.convert.convert(v, &converter{limit: into.convert.limit, each: into.convert.each})
	}
	if rule == "" && into.Name != "" {
		// As created, so that a technical attribute is checked for its value only.
		v, rule = into.cell(v, schemas.Create)
	}
	if rule != "" {
		s.problem(at, "", "%s %s", string(l), rule)
	}
	return v
}

// missing compiles what becomes of a value that is missing or null.
func (s *scope) missing(path string, f *Field, into *field) {
	if f.Value != "" && (f.Default != "" || f.Absent != "" || f.Null != "") {
		s.problem(path+".value", "remove default, absent and null", "a constant is never missing")
	}
	if f.Default != "" {
		into.absent, into.null = substitute, substitute
		into.fallback = s.literal(path+".default", f.Default, into)
	}
	for _, c := range []struct {
		key    string
		choice Missing
		into   *Missing
	}{{"absent", f.Absent, &into.absent}, {"null", f.Null, &into.null}} {
		switch c.choice {
		case "":
		case Omit, AsNull, Refuse:
			*c.into = c.choice
		default:
			s.problem(path+"."+c.key, suggest(string(c.choice), string(Omit), string(AsNull), string(Refuse)), "unknown choice %q", c.choice)
		}
	}
}

// conversion compiles as, of, scale, format and timezone.
func (s *scope) conversion(path string, f *Field, into *field) {
	into.convert = s.converter(path, f.As, f.Of, into.Section)
	if typed := s.c.types[into.Name]; into.convert != nil && typed != nil {
		into.convert.limit = typed.limit
	}
	numeric, timely := f.As, f.As
	if f.Of != "" {
		numeric, timely = f.Of, f.Of
	}
	switch {
	case f.Scale != 0 && numeric != "number" && numeric != "integer":
		s.problem(path+".scale", "write as: number", "only a number has a scale")
	case f.Scale < -maxScale || f.Scale > maxScale:
		s.problem(path+".scale", "", "%d: from -%d to %d", f.Scale, maxScale, maxScale)
	}
	if timely != "date" && timely != "timestamp" {
		for _, key := range []struct{ name, text string }{{"format", f.Format}, {"timezone", f.Timezone}} {
			if key.text != "" {
				s.problem(path+"."+key.name, "write as: date or as: timestamp", "only a date or a timestamp has a %s", key.name)
			}
		}
		f.Format, f.Timezone = "", ""
	}
	clock, wrong := newClock(f.Format, f.Timezone, timely == "date")
	if wrong != nil {
		s.problem(path+"."+wrong.Path, wrong.Hint, "%s", wrong.Message)
	}
	if into.convert != nil {
		into.convert.with(f.Scale, clock)
	}
}

// with adds what the configuration says to the conversion of the values
// themselves: those of a list are its elements.
func (c *converter) with(scale int, clock *clock) {
	if c.each != nil {
		c = c.each
	}
	c.scale, c.clock = scale, clock
}

// converter finds the conversions of `as` and `of`, nil where there is no as.
func (s *scope) converter(path, as, of string, section schemas.Section) *converter {
	words := slices.Sorted(maps.Keys(conversions))
	if of != "" && as != "list" {
		s.problem(path+".of", "write as: list", "only a list has elements")
	}
	if as == "" {
		return nil
	}
	c := &converter{convert: conversions[as]}
	switch {
	case c.convert == nil:
		s.problem(path+".as", suggest(as, words...), "unknown conversion %q", as)
		return nil
	case !fits(section, as):
		s.problem(path+".as", "", "%s %s", as, unfit[section])
	}
	if of != "" {
		c.each = &converter{convert: conversions[of]}
		switch {
		case of == "list":
			s.problem(path+".of", "", "a list holds no lists")
		case c.each.convert == nil:
			s.problem(path+".of", suggest(of, words...), "unknown conversion %q", of)
			return nil
		}
	}
	return c
}

// unfit says why a conversion's result could only be refused by the section.
var unfit = map[schemas.Section]string{
	schemas.Subscriptions:  "is not what a subscription takes: true or false",
	schemas.Segments:       "is not what a segmentation takes: true, false or the name of a segment",
	schemas.DataCollection: "is not what dataCollection takes: a timestamp, and text",
	schemas.Properties:     "is not what a property takes: text or a number",
}

// fits reports whether a section takes the result of a conversion.
func fits(section schemas.Section, as string) bool {
	switch section {
	case schemas.Subscriptions:
		return as == "boolean"
	case schemas.Segments, schemas.DataCollection:
		return !slices.Contains([]string{"integer", "number", "list"}, as) && (as != "boolean" || section == schemas.Segments)
	case schemas.Properties:
		return as != "list"
	}
	return true
}

// target reads the name of a table's field as columns and fields write it. For
// profiles: an attribute's technical name, subscriptions#NAME, S_NAME for a
// segmentation, and dataCollection.date, .source and .way. For custom tables:
// businessKey, or a property's technical name.
func target(table schemas.Table, text string) (section schemas.Section, name string, err error) {
	if text == "" {
		return 0, "", errors.New("missing")
	}
	subscription, isSubscription := strings.CutPrefix(text, "subscriptions#")
	if table.Custom {
		if isSubscription {
			return 0, "", fmt.Errorf("%q: a custom table has no subscriptions", text)
		}
		return schemas.Properties, text, nil
	}
	section, name = schemas.Attributes, text
	if isSubscription {
		section, name = schemas.Subscriptions, subscription
	} else if segmentation, ok := strings.CutPrefix(text, "S_"); ok {
		section, name = schemas.Segments, segmentation
	} else if member, ok := strings.CutPrefix(text, "dataCollection."); ok {
		if member != "date" && member != "source" && member != "way" {
			return 0, "", fmt.Errorf("%q: dataCollection has date, source and way", text)
		}
		section, name = schemas.DataCollection, member
	}
	if name == "" {
		return 0, "", fmt.Errorf("%q: the name is missing", text)
	}
	return section, name, nil
}
