package router

import (
	"strings"

	"github.com/feedsink/feedsink/router/fieldpath"
	"github.com/feedsink/feedsink/schemas"
)

// reads are the members of a value that the mappings of a topic read, by name; nil
// stands for all that is in one.
type reads map[string]reads

// add notes a path of names.
func (r reads) add(names []string) {
	for i, name := range names {
		below, known := r[name]
		switch {
		case known && below == nil:
			return
		case i == len(names)-1:
			r[name] = nil
			return
		case !known:
			below = reads{}
			r[name] = below
		}
		r = below
	}
}

// addMapping notes what a mapping reads of a value by its fields, conditions and
// expressions.
func (r reads) addMapping(c *Compiled) {
	c.eachRead(func(_ string, s *source, _ taken) { r.add(s.names()) }, func(_ string, reads []readPath, _ taken) {
		for _, p := range reads {
			names := p.names
			if names[0] == rootValue {
				names = names[1:]
			}
			if !p.ofRecord() && len(names) > 0 {
				r.add(names)
			}
		}
	})
}

// names are those at the beginning of the path, up to the elements of a list.
func (s *source) names() (names []string) {
	for i := range s.steps {
		if s.steps[i].Kind != fieldpath.Member {
			break
		}
		names = append(names, s.steps[i].Name)
	}
	return names
}

// unread appends the paths of the members of v that are not read.
func (r reads) unread(paths []string, prefix string, v schemas.Value) []string {
	members := v.Members()
	for i := range members {
		m := &members[i]
		below, known := r[m.Name]
		switch {
		case m.Value.Kind() == schemas.Absent:
		case !known:
			paths = append(paths, prefix+m.Name)
		case below != nil:
			paths = below.unread(paths, prefix+m.Name+".", m.Value)
		}
	}
	return paths
}

// Unread are the paths of the members of a record's value that no mapping of the topic
// reads; none where a mapping takes canonical events, of which it reads everything.
func (t *Topic) Unread(rec *Record) []string {
	if t == nil || t.reads == nil || rec.Tombstone {
		return nil
	}
	if t.debezium == nil {
		return t.reads.unread(nil, "", rec.Value)
	}
	ch, reject, changes := t.unwrap(rec)
	if reject != nil || !changes || ch.Op == schemas.Delete {
		return nil
	}
	var paths []string
	for _, path := range t.reads.unread(nil, "", ch.Row) {
		if !strings.HasPrefix(path, "__") { // Debezium's own
			paths = append(paths, path)
		}
	}
	return paths
}
