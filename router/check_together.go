package router

import (
	"fmt"
	"slices"

	"github.com/feedsink/feedsink/schemas"
)

// together checks what no mapping can know for itself.
func (ch *checker) together(compiled []*Compiled) {
	names := make(map[string]int)
	tables := make(map[schemas.Table]int)
	topics := make(map[string]int)
	for i := range ch.mappings {
		m := &ch.mappings[i]
		s := &scope{checker: ch, index: i, m: m}
		if first, ok := names[m.Name]; ok && m.Name != "" {
			s.problem("name", "", "%q is the name of mappings[%d] too", m.Name, first)
		} else {
			names[m.Name] = i
		}
		s.oneMappingPerTable(tables)
		s.oneFormatPerTopic(topics)
	}
	for i := range ch.mappings {
		(&scope{checker: ch, index: i, m: &ch.mappings[i]}).parents(names)
	}
	ch.bundles(compiled)
}

// Order, slots and compaction belong to a table, so one mapping feeds it.
func (s *scope) oneMappingPerTable(tables map[schemas.Table]int) {
	for _, t := range []struct {
		path  string
		table schemas.Table
	}{
		{"profileTable", schemas.Table{Name: s.m.ProfileTable}},
		{"customTable", schemas.Table{Name: s.m.CustomTable, Custom: true}},
	} {
		if t.table.Name == "" {
			continue
		}
		if first, ok := tables[t.table]; ok {
			s.problem(t.path, "give one mapping all of the table's topics", "mappings[%d] feeds the table %q already", first, t.table.Name)
			continue
		}
		tables[t.table] = s.index
	}
}

// A record is decoded once, whatever the number of mappings that read it.
func (s *scope) oneFormatPerTopic(topics map[string]int) {
	for _, name := range s.m.Topics {
		first, ok := topics[name]
		if !ok {
			topics[name] = s.index
			continue
		}
		other := &s.mappings[first]
		for _, p := range []struct{ path, mine, theirs string }{
			{"format", orDefault(s.m.Format, "json"), orDefault(other.Format, "json")},
			{"envelope", orDefault(s.m.Envelope, "none"), orDefault(other.Envelope, "none")},
			{"kafkaKey", s.m.keyWord(), other.keyWord()},
			{"unavailableValue", s.m.UnavailableValue, other.UnavailableValue},
		} {
			if p.mine != p.theirs {
				s.problem(p.path, "", "%s, but mappings[%d] reads the topic %s as %s", p.mine, first, name, p.theirs)
			}
		}
	}
}

// parents checks that `after` names mappings and leads back to none of them.
func (s *scope) parents(names map[string]int) {
	for i, name := range s.m.After {
		path := fmt.Sprintf("after[%d]", i)
		parent, ok := names[name]
		switch {
		case !ok:
			s.problem(path, suggest(name, s.otherNames()...), "there is no mapping %q", name)
		case parent == s.index:
			s.problem(path, "", "a mapping cannot wait for itself")
		case s.leadsBack(parent, names):
			s.problem(path, "", "%q waits for this mapping, directly or through others", name)
		}
	}
}

func (s *scope) otherNames() []string {
	var names []string
	for i := range s.mappings {
		if i != s.index {
			names = append(names, s.mappings[i].Name)
		}
	}
	return names
}

// leadsBack walks from a parent through its parents and looks for the mapping.
func (s *scope) leadsBack(parent int, names map[string]int) bool {
	seen, next := []int{parent}, []int{parent}
	for len(next) > 0 {
		at := next[0]
		next = next[1:]
		for _, name := range s.mappings[at].After {
			i, ok := names[name]
			if ok && i == s.index {
				return true
			}
			if ok && !slices.Contains(seen, i) {
				seen, next = append(seen, i), append(next, i)
			}
		}
	}
	return false
}
