package router

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/feedsink/feedsink/router/fieldpath"
	"github.com/feedsink/feedsink/router/problem"
	"github.com/feedsink/feedsink/schemas"
)

// NotFound is a path of a mapping that no record of a sample has: it may be misspelt.
type NotFound struct {
	At      []string `json:"at"` // where it is configured: fields[2].from
	Path    string   `json:"path"`
	Records int64    `json:"records"`        // of which none has it
	Hint    string   `json:"hint,omitempty"` // did you mean …?, from the members that the records have
}

// Sought finds the paths of mappings that no record of a sample has. It is used by one
// goroutine.
type Sought struct {
	topics map[string]*Topic
	paths  map[*Compiled][]*soughtPath
}

// soughtPath is a path of the value that one place of a mapping reads.
type soughtPath struct {
	at, text string
	steps    []fieldpath.Step
	of       taken
	records  int64 // that were looked at
	found    bool  // one has it, or may have it
	depth    int   // how many steps some record has
	names    map[string]bool
}

// readings are the paths that one condition reads.
type readings struct {
	at    string
	reads []readPath
}

// taken says of which records a path is to be found in some.
type taken int

const (
	ofTopic   taken = iota // all of the mapping's topics: its `when` is asked of each
	ofMapping              // those that the mapping takes
	ofWrites               // those that it makes a row of
)

// FewestSought is how many records say that a path is in none.
const FewestSought = 5

// mostMembers bounds the members of one object that are kept for a hint.
const mostMembers = 200

// fieldName is what a name of a field looks like. Others are likely to be data that
// serve as names.
var fieldName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]{0,99}$`)

// IsFieldName reports whether a path of names may be shown: others are likely to be data
// that serve as names, and stay out of logs and reports.
func IsFieldName(path string) bool { return fieldName.MatchString(path) }

// NewSought prepares for a sample of the topics of all mappings.
func NewSought(r *Router) *Sought {
	s := &Sought{topics: r.topics, paths: map[*Compiled][]*soughtPath{}}
	for _, c := range r.mappings {
		s.paths[c] = c.sought()
	}
	return s
}

// sought are the paths of a mapping that lead into a record's value.
func (c *Compiled) sought() (paths []*soughtPath) {
	c.eachRead(func(at string, s *source, of taken) {
		paths = append(paths, &soughtPath{at: at, text: s.text, steps: s.steps, of: of})
	}, func(at string, reads []readPath, of taken) {
		for _, p := range reads {
			if names := c.inValue(p); len(names) > 0 {
				steps := make([]fieldpath.Step, len(names))
				for i, name := range names {
					steps[i].Name = name
				}
				paths = append(paths, &soughtPath{at: at, text: strings.Join(names, "."), steps: steps, of: of})
			}
		}
	})
	return paths
}

// eachRead tells what the mapping reads, place by place of its configuration: paths that lead
// into a record's value, and what conditions and expressions name.
func (c *Compiled) eachRead(inValue func(at string, s *source, of taken), reads func(at string, reads []readPath, of taken)) {
	source := func(at string, s *source) {
		if s != nil && s.root == "" {
			inValue(at, s, ofWrites)
		}
	}
	source("profileId", c.profileID)
	if c.op != nil && c.op.compute != nil {
		reads("op", c.op.compute.reads, ofMapping)
	}
	for i := range c.fields {
		at := fmt.Sprintf("fields[%d]", i)
		source(at+".from", c.fields[i].from)
		if e := c.fields[i].compute; e != nil {
			reads(at+".expr", e.reads, ofWrites)
		}
	}
	for _, condition := range c.conditions {
		of := ofMapping
		if condition.at == "when" {
			of = ofTopic
		}
		reads(condition.at, condition.reads, of)
	}
}

// inValue are the names of a path that lead into a record's value; none where it reads
// what the record, the event or the envelope says itself.
func (c *Compiled) inValue(p readPath) []string {
	names := p.names
	if names[0] == rootValue {
		return names[1:]
	}
	canonical := c.fields == nil
	_, ofEvent := canonicalRoots[names[0]]
	ofEnvelope := c.Config.Envelope == debezium && (names[0] == "op" || strings.HasPrefix(names[0], "__"))
	if p.ofRecord() || ofEnvelope || canonical && (!ofEvent || len(names) < 2) {
		return nil
	}
	return names
}

// Look takes a record and what the router made of it. One that deletes is left out: it
// may hold nothing but its key.
func (s *Sought) Look(rec *Record, routed []Routed) {
	t := s.topics[rec.Topic]
	if t == nil || rec.Tombstone {
		return
	}
	v := rec.Value
	if t.debezium != nil {
		ch, reject, changes := t.unwrap(rec)
		if reject != nil || !changes || ch.Op == schemas.Delete {
			return
		}
		v = ch.Row
	}
	if v.Kind() != schemas.Object {
		return
	}
	for _, c := range t.mappings {
		of := ofTopic
		if i := slices.IndexFunc(routed, func(r Routed) bool { return r.Mapping == c }); i >= 0 {
			switch r := &routed[i]; {
			case r.Err == nil && r.Write.Op == schemas.Delete:
				continue
			case r.Lane == schemas.Skip:
				of = ofMapping
			default:
				of = ofWrites
			}
		}
		for _, p := range s.paths[c] {
			if p.of <= of {
				p.records++
				p.found = p.found || p.walk(v, 0)
			}
		}
	}
}

// walk reports whether the steps from that depth on lead somewhere in v. Where there is
// null, or a list without elements, they may do so in other records.
func (p *soughtPath) walk(v schemas.Value, depth int) bool {
	if depth == len(p.steps) || v.Kind() == schemas.Null {
		return v.Kind() != schemas.Absent
	}
	items := v.Items()
	switch s := &p.steps[depth]; {
	case s.Kind == fieldpath.Member:
		p.note(v, depth)
		next := v.Get(s.Name)
		if next.Kind() == schemas.Absent { // a schema may have the member, and the record not
			return slices.ContainsFunc(v.Members(), func(m schemas.Field) bool { return m.Name == s.Name })
		}
		return p.walk(next, depth+1)
	case v.Kind() != schemas.List:
		return false
	case s.Kind == fieldpath.Element:
		return len(items) == 0 || p.walk(fieldpath.ElementAt(v, s.Index), depth+1)
	}
	return len(items) == 0 || slices.ContainsFunc(items, func(f schemas.Field) bool { return p.walk(f.Value, depth+1) })
}

// note keeps the names of the members of the object in which the path ends that got
// farthest.
func (p *soughtPath) note(v schemas.Value, depth int) {
	members := v.Members()
	if len(members) == 0 || depth < p.depth {
		return
	}
	if depth > p.depth || p.names == nil {
		p.depth, p.names = depth, map[string]bool{}
	}
	for i := range members {
		if len(p.names) < mostMembers && IsFieldName(members[i].Name) {
			p.names[members[i].Name] = true
		}
	}
}

// hint proposes one of the members that are there in the place of the one that is not.
func (p *soughtPath) hint() string {
	if p.names == nil || p.names[p.steps[p.depth].Name] {
		return ""
	}
	return problem.Similar(p.steps[p.depth].Name, slices.Sorted(maps.Keys(p.names))...)
}

// NotFound are the mapping's paths that none of the records has, in the order of the
// configuration; of few records nothing is said.
func (s *Sought) NotFound(c *Compiled) (missing []NotFound) {
	for _, p := range s.paths[c] {
		if p.found || p.records < FewestSought {
			continue
		}
		i := slices.IndexFunc(missing, func(m NotFound) bool { return m.Path == p.text && m.Records == p.records })
		switch {
		case i < 0:
			missing = append(missing, NotFound{[]string{p.at}, p.text, p.records, p.hint()})
		case !slices.Contains(missing[i].At, p.at):
			missing[i].At = append(missing[i].At, p.at)
		}
	}
	return missing
}
