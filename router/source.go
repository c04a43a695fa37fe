package router

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/feedsink/feedsink/schemas"
)

// source is a place that a path of the configuration leads to: in the decoded
// value, or in the record around it.
type source struct {
	text  string // as configured, for errors
	root  string // one of recordRoots; "": the value
	steps []step
	// seen is where the first step's member was last: the records of a topic look
	// alike. It is only a guess, which any number of goroutines may make.
	seen atomic.Int32
}

// errHeader asks for exactly one name below headers.
var errHeader = errors.New("name one header, such as headers.source")

// newSource compiles a path.
func newSource(text string) (*source, error) {
	steps, quoted, err := parsePath(text)
	if err != nil {
		return nil, err
	}
	s := &source{text: text, steps: steps}
	_, reserved := recordRoots[steps[0].name]
	if quoted || !reserved {
		return s, nil
	}
	s.root, s.steps = steps[0].name, steps[1:]
	switch s.root {
	case rootKafkaKey:
	case rootHeaders:
		if len(s.steps) == 0 || s.steps[0].kind != stepMember {
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

// read is the value at the source; Absent where there is none.
func (s *source) read(look *subject) (schemas.Value, *Reject) {
	switch s.root {
	case "":
		return s.inside(look), nil
	case rootTimestamp:
		return formatted(look.record.Timestamp.UTC(), zonedTime), nil
	case rootKafkaKey:
		key, reject := kafkaKeyValue(look.record, look.keyFormat)
		return follow(key, s.steps), reject
	case rootHeaders:
		v := look.record.header(s.steps[0].name)
		if !utf8.ValidString(v.Text()) {
			return schemas.Value{}, badValue(s.text, ruleUTF8)
		}
		return v, nil
	}
	return look.read([]string{s.root}), nil
}

// inside is the value at the end of the steps in the record's value.
func (s *source) inside(look *subject) schemas.Value {
	first := &s.steps[0]
	if first.kind != stepMember || look.change != nil { // rows may have two members of one name
		return follow(*look.value, s.steps)
	}
	members := look.value.Members()
	v := s.usual(members)
	if v == nil {
		at := slices.IndexFunc(members, func(m schemas.Field) bool { return m.Name == first.name })
		if at < 0 {
			return schemas.Value{}
		}
		s.seen.Store(int32(at))
		v = &members[at].Value
	}
	if len(s.steps) == 1 {
		return *v
	}
	return follow(*v, s.steps[1:])
}

// usual is the first step's member, if it is where it was last.
func (s *source) usual(members []schemas.Field) *schemas.Value {
	at := int(s.seen.Load())
	if at >= len(members) || members[at].Name != s.steps[0].name {
		return nil
	}
	return &members[at].Value
}

const ruleUTF8 = "must be valid UTF-8"
