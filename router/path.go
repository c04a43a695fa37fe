package router

import (
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/feedsink/feedsink/schemas"
)

// pathMark separates the names of a path inside a variable's name. No text of
// a condition can hold it outside of a string.
const pathMark = "\x00"

// readPath is a place that conditions read, such as segments.tier, with the name
// of the variable that stands for it.
type readPath struct {
	variable string
	names    []string
}

// pathCollector finds the variables that rewriter left in a test.
type pathCollector struct{ into *[]readPath }

// Visit implements ast.Visitor.
func (c *pathCollector) Visit(node *ast.Node) {
	n, ok := (*node).(*ast.IdentifierNode)
	if !ok || !strings.HasPrefix(n.Value, pathMark) {
		return
	}
	known := slices.ContainsFunc(*c.into, func(p readPath) bool { return p.variable == n.Value })
	if !known {
		*c.into = append(*c.into, readPath{n.Value, strings.Split(n.Value[len(pathMark):], pathMark)})
	}
}

// subject is what conditions look at: the event of a canonical record, or the
// decoded value itself.
type subject struct {
	record *Record
	event  *schemas.Event // nil: names are members of the decoded value
}

// read is the plain Go value at p, nil where there is none.
func (s subject) read(p readPath) any {
	switch p.names[0] {
	case "headers":
		return s.headers(p.names[1:])
	case "topic":
		return only(p, s.record.Topic)
	case "partition":
		return only(p, int(s.record.Partition))
	case "timestamp":
		return only(p, s.record.Timestamp.UTC())
	}
	if s.event == nil {
		return descend(s.record.Value, p.names).Any()
	}
	switch p.names[0] {
	case "op":
		return only(p, s.event.Op.String())
	case "profileId":
		return textOrNil(p, s.event.ProfileID)
	case "businessKey":
		return textOrNil(p, s.event.BusinessKey)
	}
	return descend(s.object(p.names[0]), p.names[1:]).Any()
}

func (s subject) object(root string) schemas.Value {
	switch root {
	case "key":
		return s.event.Key
	case "attributes":
		return s.event.Attributes
	case "subscriptions":
		return s.event.Subscriptions
	case "segments":
		return s.event.Segments
	case "properties":
		return s.event.Properties
	}
	return schemas.Value{}
}

func (s subject) headers(names []string) any {
	switch len(names) {
	case 0:
		all := make(map[string]any, len(s.record.Headers))
		for _, h := range s.record.Headers {
			all[h.Key] = nil
			if h.Value != nil {
				all[h.Key] = string(h.Value)
			}
		}
		return all
	case 1:
		if text, ok := s.record.header(names[0]); ok {
			return text
		}
	}
	return nil
}

// only is v where the path ends at its root: a scalar has no members.
func only(p readPath, v any) any {
	if len(p.names) > 1 {
		return nil
	}
	return v
}

func textOrNil(p readPath, text string) any {
	if text == "" {
		return nil
	}
	return only(p, text)
}

// descend follows member names; Absent where one is missing.
func descend(v schemas.Value, names []string) schemas.Value {
	for _, name := range names {
		v = v.Get(name)
	}
	return v
}
