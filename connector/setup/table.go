package setup

import (
	"cmp"
	"slices"
	"strings"
)

// table is what becomes one mapping: the records of a topic that change one table.
type table struct {
	*Sample
	shape   shape
	records []Record  // with the values that fields are mapped from
	by      *division // what tells its kinds of event apart; nil: nothing does
	stem    string    // what its kinds say of their table; "" where the topic is one table's
	tables  []string  // what the topic's tables are of, where it holds several
	when    string    // which of the topic's records are its; "": all
	share   string    // how many of the topic's records those are

	fields []*field
	offers []*field // inside of lists of objects: for a person to choose
	key    *field
	why    string
	custom bool
	name   string // of mapping and table
	parent *reference
	twin   string // the mapping whose name it would have
	changes
}

// tablesOf are the tables that the records of a topic change. The error is ErrNothing.
func tablesOf(s *Sample, at Place) ([]*table, error) {
	if s.Records() == 0 {
		return nil, ErrNothing
	}
	shape := s.shape()
	whole := &table{Sample: s, shape: shape, records: s.rowsOf(shape)}
	tables := []*table{whole}
	if shape == plain {
		all := divisions(s.records)
		if at.ProfileTable+at.CustomTable == "" {
			tables = whole.divided(all)
		}
	}
	for _, t := range tables {
		if err := t.guess(at); err != nil {
			return nil, err
		}
	}
	return tables, nil
}

// divided is the table, or those that its records are of.
func (t *table) divided(all []division) []*table {
	for _, d := range all {
		t.tables = nil
		for _, k := range d.kinds {
			if len(k.stem) > 0 {
				t.tables = append(t.tables, k.stem[len(k.stem)-1])
			}
		}
		groups := t.joined(d.tables())
		if len(groups) < 2 {
			continue
		}
		var tables []*table
		for i, stem := range stemsOf(groups) {
			part := t.part(groups[i], stem)
			if part.keyPath() == "" {
				return []*table{t} // not all of them have a key of their own
			}
			var words []string
			for _, k := range groups[i] {
				words = append(words, k.word)
			}
			part.said = []string{d.path}
			part.when, part.share = oneOf(d.expression, words), percent(len(part.records), len(t.records))
			tables = append(tables, part)
		}
		return tables
	}
	return []*table{t}
}

// part is a table of the records of some kinds.
func (t *table) part(kinds []kind, stem string) *table {
	part := &table{Sample: t.Sample, shape: t.shape, stem: stem, tables: t.tables}
	for _, k := range kinds {
		for _, row := range k.rows {
			part.records = append(part.records, t.records[row])
		}
	}
	return part
}

// joined are the groups, with those of which the words of one go on where the other's
// end, and that have the same key, as one: customer.registered, customer.consent.changed.
func (t *table) joined(groups [][]kind) (joined [][]kind) {
	for _, group := range groups {
		stem := group[0].stem
		i := slices.IndexFunc(joined, func(other []kind) bool {
			n := min(len(stem), len(other[0].stem))
			return n > 0 && slices.Equal(stem[:n], other[0].stem[:n]) &&
				t.part(group, stem[n-1]).keyPath() == t.part(other, stem[n-1]).keyPath()
		})
		switch {
		case i < 0:
			joined = append(joined, group)
		case len(stem) < len(joined[i][0].stem): // the shorter one names the table
			joined[i] = append(slices.Clone(group), joined[i]...)
		default:
			joined[i] = append(joined[i], group...)
		}
	}
	return joined
}

// keyPath is where the key is, as far as it is known yet; "" where nothing could be it.
func (t *table) keyPath() string {
	fields, _ := fieldsOf(t.records, t.entity())
	if key, _ := keyOf(append(fields, t.subject()...), t.records, t.stem, t.tables); key != nil {
		return key.path
	}
	return ""
}

// entity is what the records are of: what their kinds say, or the topic's last word.
func (t *table) entity() string {
	words := wordsOf(cmp.Or(t.stem, t.Topic))
	if len(words) == 0 {
		return ""
	}
	return words[len(words)-1]
}

// stemsOf are names of groups: what the words of their kinds begin with, less what all
// groups begin with.
func stemsOf(groups [][]kind) []string {
	common := len(groups[0][0].stem)
	for _, group := range groups {
		n := 0
		for n < common && n < len(group[0].stem) && group[0].stem[n] == groups[0][0].stem[n] {
			n++
		}
		common = min(n, max(len(group[0].stem)-1, 0))
	}
	stems := make([]string, len(groups))
	for i, group := range groups {
		stems[i] = cmp.Or(strings.Join(group[0].stem[min(common, len(group[0].stem)):], "-"), group[0].word)
	}
	return stems
}

// guess finds fields, key, kind and ops of the table.
func (t *table) guess(at Place) error {
	if t.shape == plain || t.shape == debezium {
		if t.shape == plain {
			t.byKinds()
		}
		t.fields, t.offers = fieldsOf(t.records, t.entity())
		subject := t.subject()
		if t.key, t.why = keyOf(append(slices.Clone(t.fields), subject...), t.records, t.stem, t.tables); t.key == nil {
			return ErrNothing
		}
		if slices.Contains(subject, t.key) {
			t.fields = append(subject, t.fields...)
		}
	}
	t.kindOfTable(at)
	if t.custom && t.key != nil {
		t.rename()
	}
	t.changed()
	if !t.custom {
		t.sections()
		if t.key != nil && t.computed(t.key.to) {
			t.key.to += "2"
		}
	}
	return nil
}

// byKinds finds what tells the kinds of the table's events apart: ops before all else.
func (t *table) byKinds() {
	all := divisions(t.records)
	// One kind alone matters where others may come: no condition keeps them out.
	alone := func(d *division) bool { return t.when == "" && d.saysWhatHappened() }
	for _, is := range []func(*division) bool{(*division).ofOps, func(d *division) bool { return len(d.kinds) > 1 }, alone} {
		for i := range all {
			if t.by == nil && is(&all[i]) {
				t.by = &all[i]
			}
		}
	}
}

// subject is the attribute of CloudEvents that may name the row.
func (t *table) subject() []*field {
	if !t.inEvents() {
		return nil
	}
	const name = "ce_subject"
	f := &field{path: "headers." + name, to: "subject", name: name, names: []string{name}, header: true}
	for _, r := range t.records {
		f.add(r.Headers[name])
	}
	if f.seen == 0 {
		return nil
	}
	return []*field{f}
}

// rename lets the key, and nothing else, be the records' businessKey.
func (t *table) rename() {
	for _, f := range t.fields {
		if f.to == businessKey {
			f.to += "2"
		}
	}
	t.key.to = businessKey
}

// businessKey is what names a record in every custom table.
const businessKey = "businessKey"

// others are objects that hold what is known of somebody else than the row.
var others = []string{"customer", "user", "buyer", "client", "member", "recipient", "shipping", "billing", "sender", "contact"}

// kindOfTable guesses: people have addresses.
func (t *table) kindOfTable(at Place) {
	last := t.Topic[strings.LastIndexAny(t.Topic, ".")+1:]
	t.name = cmp.Or(at.ProfileTable, at.CustomTable, t.stem, last, t.Topic)
	switch {
	case at.ProfileTable+at.CustomTable != "":
		t.custom = at.CustomTable != ""
	case t.shape == profileEvents || t.shape == recordEvents:
		t.custom = t.shape == recordEvents
	default:
		t.custom = !slices.ContainsFunc(slices.Concat(t.fields, t.offers), func(f *field) bool { return f.as == "email" && !t.ofOther(f) })
	}
}

// ofOther holds for what is known of a customer in the records of an order: it stands
// in an object that is named so, and the key beside it.
func (t *table) ofOther(f *field) bool {
	if len(f.names) < 2 {
		return false
	}
	object := singular(bare(f.names[len(f.names)-2]))
	named := cmp.Or(t.stem, t.name)
	return slices.Contains(others, object) && object != "contact" && singular(bare(named)) != object && !t.key.within([]string{bare(f.names[len(f.names)-2])})
}

// reference is a field that seems to hold another table's key.
type reference struct {
	field *field
	table *table
}

// parents finds which tables of records hold keys of others.
func (w *writer) parents() {
	for _, t := range w.tables {
		for _, parent := range w.tables {
			if t.custom && t.parent == nil && parent != t && parent.key != nil {
				if i := slices.IndexFunc(t.fields, func(f *field) bool { return f != t.key && !f.header && refers(f, parent) }); i >= 0 {
					t.parent = &reference{t.fields[i], parent}
				}
			}
		}
	}
}

// refers holds for customerNumber where that is the parent's key, and for customer,
// customerId and customer.id where the parent is called customers.
func refers(f *field, parent *table) bool {
	key, last := parent.key.last(), f.last()
	if bare(last) == bare(key) && len(wordsOf(key)) > 1 {
		return true
	}
	name := wordsOf(parent.name)
	if len(name) == 0 {
		return false
	}
	stem := singular(name[len(name)-1])
	speaks := func(name string) bool {
		rest, ok := strings.CutPrefix(name, stem)
		return ok && (rest == "" || slices.Contains(keyWords, rest) || rest == bare(key))
	}
	return speaks(bare(last)) || len(f.names) > 1 && keyLike(last) == 2 && speaks(bare(f.names[len(f.names)-2:]...))
}
