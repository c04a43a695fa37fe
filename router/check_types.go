package router

import (
	"fmt"
	"slices"

	"github.com/feedsink/feedsink/schemas"
)

// maxLength bounds `types[].length`: a text beyond it is no attribute.
const maxLength = 1 << 20

// compileTypes compiles what is said of the table's attributes or properties.
func (s *scope) compileTypes() {
	for i := range s.m.Types {
		t := &s.m.Types[i]
		path := fmt.Sprintf("types[%d]", i)
		section, name, err := target(s.c.Table, t.Name)
		switch {
		case err != nil:
			s.problem(path+".name", "", "%v", err)
			continue
		case section != schemas.Attributes && section != schemas.Properties:
			s.problem(path+".name", "", "%q: the type of subscriptions, segmentations and dataCollection is fixed", t.Name)
			continue
		case section == schemas.Attributes && recencyOf(name) != notRecency:
			s.problem(path+".name", "", "%q: the type of what the service computes is fixed", t.Name)
			continue
		case slices.IndexFunc(s.m.Types, func(u Type) bool { return u.Name == t.Name }) < i:
			s.problem(path+".name", "", "%q is named twice", t.Name)
			continue
		}
		c := s.converter(path, t.As, t.Of, section)
		if c == nil {
			c = &converter{}
		}
		if t.Length < 0 || t.Length > maxLength {
			s.problem(path+".length", "", "%d: from 1 to %d, or 0 for %d", t.Length, maxLength, maxText)
		}
		c.limit = t.Length
		if c.each != nil {
			c.each.limit = t.Length
		}
		if s.c.types == nil {
			s.c.types = make(map[string]*converter, len(s.m.Types))
		}
		s.c.types[name] = c
	}
}
