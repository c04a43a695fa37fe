package router

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/feedsink/feedsink/schemas"
)

// field is one entry of `fields`, compiled.
type field struct {
	source  string // as configured, for errors
	from    []string
	section schemas.Section
	name    string
	key     bool       // fills the write's key
	cell    bool       // fills a cell: everything but a business key
	convert conversion // nil: the value as it is
	scale   int
}

// maxScale bounds `scale`, far beyond the digits of any currency.
const maxScale = 100

func (s *scope) compileFields() {
	for i, f := range s.m.Fields {
		path := fmt.Sprintf("fields[%d]", i)
		compiled := field{source: f.From, from: splitPath(f.From), scale: f.Scale, cell: true}
		if compiled.from == nil {
			s.problem(path+".from", "write names separated by dots", "%q is not a path", f.From)
		}
		if f.As != "" {
			if compiled.convert = conversions[f.As]; compiled.convert == nil {
				s.problem(path+".as", suggest(f.As, slices.Sorted(maps.Keys(conversions))...), "unknown conversion %q", f.As)
			}
		}
		switch {
		case f.Scale != 0 && f.As != "number":
			s.problem(path+".scale", "write as: number", "only a number has a scale")
		case f.Scale < -maxScale || f.Scale > maxScale:
			s.problem(path+".scale", "", "%d: from -%d to %d", f.Scale, maxScale, maxScale)
		}
		var err error
		compiled.section, compiled.name, err = target(s.c.Table, f.To)
		switch {
		case err != nil:
			s.problem(path+".to", "", "%v", err)
		case slices.IndexFunc(s.m.Fields, func(g Field) bool { return g.To == f.To }) < i:
			s.problem(path+".to", "", "%q is filled twice", f.To)
		}
		compiled.key = f.To == s.m.Key
		compiled.cell = !compiled.key || !s.c.Table.Custom
		s.c.fields = append(s.c.fields, compiled)
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

// value reads the field from a decoded value: Absent where it is not there.
func (f *field) value(from schemas.Value) (schemas.Value, *Reject) {
	v := descend(from, f.from)
	if v.Kind() == schemas.Absent || v.Kind() == schemas.Null {
		return v, nil
	}
	return f.converted(v)
}

// converted is v, which is not null, as the field writes it.
func (f *field) converted(v schemas.Value) (schemas.Value, *Reject) {
	if f.convert == nil {
		return v, nil
	}
	out, rule := f.convert(v, f.scale)
	if rule != "" {
		return schemas.Value{}, badValue(f.source, rule)
	}
	return out, nil
}
