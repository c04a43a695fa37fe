package router

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/feedsink/feedsink/router/fieldpath"
	"github.com/feedsink/feedsink/router/values"
	"github.com/feedsink/feedsink/schemas"
)

// source is a place that a path of the configuration leads to: in the decoded
// value, or in the record around it.
type source struct {
	text  string // as configured, for errors
	root  string // one of recordRoots; "": the value
	steps []fieldpath.Step
	// lastIndex is where the first step's member was last: the records of a topic are
	// alike. It is only a guess, which any number of goroutines may make.
	lastIndex atomic.Int32
}

// errHeader asks for exactly one name below headers.
var errHeader = errors.New("name one header, such as headers.source")

// newSource compiles a path.
func newSource(text string) (*source, error) {
	steps, quoted, err := fieldpath.Parse(text)
	if err != nil {
		return nil, err
	}
	s := &source{text: text, steps: steps}
	_, reserved := recordRoots[steps[0].Name]
	if quoted || !reserved {
		return s, nil
	}
	s.root, s.steps = steps[0].Name, steps[1:]
	switch s.root {
	case rootKafkaKey:
	case rootHeaders:
		if len(s.steps) == 0 || s.steps[0].Kind != fieldpath.Member {
			return nil, errHeader
		}
		if len(s.steps) > 1 {
			name := strings.TrimLeft(strings.TrimPrefix(text, rootHeaders), ".")
			return nil, fmt.Errorf("a header has no members; a name with dots is written headers[%q]", name)
		}
	default:
		if len(s.steps) > 0 {
			return nil, fmt.Errorf("%s is the record's and has no members; the value's own member is written [%q]", s.root, s.root)
		}
	}
	return s, nil
}

// readsAttribute reports whether the path leads to the header of an event's attribute.
func (s *source) readsAttribute() bool {
	return s != nil && s.root == rootHeaders && strings.HasPrefix(s.steps[0].Name, schemas.AttributePrefix)
}

// read is the value at the source; Absent where there is none.
func (s *source) read(in *input) (schemas.Value, *Reject) {
	switch s.root {
	case "":
		return s.inside(in), nil
	case rootTimestamp:
		if t, ok := in.record.sent(); ok {
			return values.Timestamp(t), nil
		}
		return schemas.Value{}, nil
	case rootKafkaKey:
		key, reject := kafkaKeyValue(in.record, in.keyFormat)
		return fieldpath.Follow(key, s.steps), reject
	case rootHeaders:
		v := in.record.header(s.steps[0].Name)
		if !utf8.ValidString(v.Text()) {
			return schemas.Value{}, badValue(s.text, ruleUTF8)
		}
		return v, nil
	}
	return in.root(s.root), nil
}

// inside is the value at the end of the steps in the record's value.
func (s *source) inside(in *input) schemas.Value {
	first := &s.steps[0]
	if first.Kind != fieldpath.Member || in.change != nil { // rows may have two members of one name
		return fieldpath.Follow(*in.value, s.steps)
	}
	members := in.value.Members()
	v := s.whereLast(members)
	if v == nil {
		at := slices.IndexFunc(members, func(m schemas.Field) bool { return m.Name == first.Name })
		if at < 0 {
			return schemas.Value{}
		}
		s.lastIndex.Store(int32(at))
		v = &members[at].Value
	}
	if len(s.steps) == 1 {
		return *v
	}
	return fieldpath.Follow(*v, s.steps[1:])
}

// whereLast is the first step's member, if it is where it was last.
func (s *source) whereLast(members []schemas.Field) *schemas.Value {
	if at := int(s.lastIndex.Load()); at < len(members) {
		if m := &members[at]; m.Name == s.steps[0].Name {
			return &m.Value
		}
	}
	return nil
}

const ruleUTF8 = "must be valid UTF-8"
