package router

import (
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr/ast"

	"github.com/feedsink/feedsink/schemas"
)

// pathMark separates the names of a path inside a variable's name. No text of
// a condition can hold it outside of a string.
const pathMark = "\x00"

// readPath is a place that conditions and expressions read, such as
// segments.tier, with the name of the variable that stands for it.
type readPath struct {
	variable string
	names    []string
}

// ofRecord reports whether the path leads to the record around the value.
func (p readPath) ofRecord() bool {
	_, ok := recordRoots[p.names[0]]
	return ok
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

// The names that fields, conditions and expressions know of the record around
// the value. They win over members of the value with the same name; `from`
// reaches those in quotes.
const (
	rootHeaders   = "headers"
	rootTopic     = "topic"
	rootPartition = "partition"
	rootOffset    = "offset"
	rootTimestamp = "timestamp"
	rootKafkaKey  = "kafkaKey"
)

// recordRoots are those names by example of their type.
var recordRoots = map[string]any{
	rootHeaders: map[string]any{}, rootTopic: "", rootPartition: 0, rootOffset: 0, rootTimestamp: time.Time{},
	rootKafkaKey: any(nil),
}

// subject is what fields, conditions and expressions look at: the event of a
// canonical record, or the decoded value itself.
type subject struct {
	record    *Record
	event     *schemas.Event // nil: names are members of value
	value     *schemas.Value
	keyFormat string // how the record's key is read
	// Of a record of Debezium's value is the row, and names are its columns, but
	// for op.
	change *schemas.Change
	op     schemas.Op // once it is known
}

// read is the value at the end of names; Absent where there is none. The
// timestamp, and headers as a whole, are no values: plain knows them.
func (s *subject) read(names []string) schemas.Value {
	switch root, below := names[0], names[1:]; root {
	case rootTopic:
		return only(below, schemas.StringValue(s.record.Topic))
	case rootPartition:
		return only(below, number(int64(s.record.Partition)))
	case rootOffset:
		return only(below, number(s.record.Offset))
	case rootKafkaKey:
		key, _ := kafkaKeyValue(s.record, s.keyFormat) // a key that cannot be read is not there
		return descend(key, below)
	case rootHeaders:
		if len(below) == 1 {
			return s.record.header(below[0])
		}
		return schemas.Value{}
	case rootTimestamp:
		return schemas.Value{}
	}
	if s.event == nil {
		if s.change != nil && s.op != 0 && names[0] == "op" {
			return only(names[1:], schemas.StringValue(s.op.String()))
		}
		return descend(*s.value, names)
	}
	return s.ofEvent(names[0], names[1:])
}

func (s *subject) ofEvent(root string, below []string) schemas.Value {
	switch root {
	case "op":
		return only(below, schemas.StringValue(s.event.Op.String()))
	case "profileId":
		return only(below, textOrAbsent(s.event.ProfileID))
	case "businessKey":
		return only(below, textOrAbsent(s.event.BusinessKey))
	case "key":
		return descend(s.event.Key, below)
	case "attributes":
		return descend(s.event.Attributes, below)
	case "subscriptions":
		return descend(s.event.Subscriptions, below)
	case "segments":
		return descend(s.event.Segments, below)
	case "properties":
		return descend(s.event.Properties, below)
	}
	return schemas.Value{}
}

// plain is the plain Go value at p, as expressions take it: nil where there is
// none.
func (s *subject) plain(p readPath) any {
	if len(p.names) == 1 {
		switch p.names[0] {
		case rootTimestamp:
			return s.record.Timestamp.UTC()
		case rootHeaders:
			return s.headers()
		}
	}
	return s.read(p.names).Any()
}

func (s *subject) headers() any {
	all := make(map[string]any, len(s.record.Headers))
	for _, h := range s.record.Headers {
		all[h.Key] = nil
		if h.Value != nil {
			all[h.Key] = string(h.Value)
		}
	}
	return all
}

// only is v where the path ends at its root: a scalar has no members.
func only(below []string, v schemas.Value) schemas.Value {
	if len(below) > 0 {
		return schemas.Value{}
	}
	return v
}

func textOrAbsent(text string) schemas.Value {
	if text == "" {
		return schemas.Value{}
	}
	return schemas.StringValue(text)
}
