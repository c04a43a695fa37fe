package router

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/feedsink/feedsink/router/values"
	"github.com/feedsink/feedsink/schemas"
)

// source is a place that a path of the configuration leads to: in the decoded
// value, or in the record around it.
type source struct {
	text  string // as configured, for errors
	root  string // one of recordRoots; "": the value
	steps []step
	// lastIndex is where the first step's member was last: the records of a topic are
	// alike. It is only a guess, which any number of goroutines may make.
	lastIndex atomic.Int32
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

// readsAttribute reports whether the path leads to the header of an event's attribute.
func (s *source) readsAttribute() bool {
	return s != nil && s.root == rootHeaders && strings.HasPrefix(s.steps[0].name, schemas.AttributePrefix)
}

// read is the value at the source; Absent where there is none.
func (s *source) read(in *input) (schemas.Value, *Reject) {
	switch s.root {
	case "":
		return s.inside(in), nil
	case rootTimestamp:
		return values.Timestamp(in.record.Timestamp), nil
	case rootKafkaKey:
		key, reject := kafkaKeyValue(in.record, in.keyFormat)
		return follow(key, s.steps), reject
	case rootHeaders:
		v := in.record.header(s.steps[0].name)
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
	if first.kind != stepMember || in.change != nil { // rows may have two members of one name
		return follow(*in.value, s.steps)
	}
	members := in.value.Members()
	v := s.whereLast(members)
	if v == nil {
		at := slices.IndexFunc(members, func(m schemas.Field) bool { return m.Name == first.name })
		if at < 0 {
			return schemas.Value{}
		}
		s.lastIndex.Store(int32(at))
		v = &members[at].Value
	}
	if len(s.steps) == 1 {
		return *v
	}
	return follow(*v, s.steps[1:])
}

// whereLast is the first step's member, if it is where it was last.
func (s *source) whereLast(members []schemas.Field) *schemas.Value {
	if at := int(s.lastIndex.Load()); at < len(members) {
		if m := &members[at]; m.Name == s.steps[0].name {
			return &m.Value
		}
	}
	return nil
}

const ruleUTF8 = "must be valid UTF-8"

// step is one part of a path: a member's name, an element of a list, or all of
// its elements.
type step struct {
	name  string
	index int
	kind  stepKind
}

type stepKind uint8

const (
	stepMember stepKind = iota
	stepElement
	stepEvery
)

// parsePath reads a path as `from` and `profileId` write it: names separated by
// dots, elements as [0] (from the end: [-1]), all elements as [*], and names with
// anything in them quoted, alone or in brackets: a."b.c"[0]["d e"]. Quoted tells
// whether the first name was: a name in quotes is always the value's own.
func parsePath(text string) (steps []step, quoted bool, err error) {
	rest := text
	at := func() int { return len(text) - len(rest) + 1 }
	for first := true; first || rest != ""; first = false {
		var s step
		var inQuotes bool
		switch {
		case strings.HasPrefix(rest, "["):
			s, inQuotes, rest, err = readBracket(rest)
		default:
			if !first {
				if rest[0] != '.' {
					return nil, false, fmt.Errorf("column %d: a dot or [ is missing", at())
				}
				rest = rest[1:]
			}
			s, inQuotes, rest, err = readName(rest)
		}
		if err != nil {
			return nil, false, fmt.Errorf("column %d: %w", at(), err)
		}
		if first {
			quoted = inQuotes
		}
		steps = append(steps, s)
	}
	return steps, quoted, nil
}

var (
	errNoName   = errors.New("a name is missing")
	errUnquoted = errors.New("the quote has no end")
	errBracket  = errors.New("[ wants a number, * or a name in quotes, and ]")
)

// readName reads a name up to the next dot or bracket, or in quotes. On an error
// the rest is what could not be read.
func readName(text string) (s step, inQuotes bool, rest string, err error) {
	if text != "" && (text[0] == '"' || text[0] == '\'') {
		end := strings.IndexByte(text[1:], text[0])
		switch {
		case end < 0:
			return s, true, text, errUnquoted
		case end == 0:
			return s, true, text, errNoName
		}
		return step{name: text[1 : end+1]}, true, text[end+2:], nil
	}
	end := strings.IndexAny(text, `.[]"'`)
	if end < 0 {
		end = len(text)
	}
	if end == 0 {
		return s, false, text, errNoName
	}
	return step{name: text[:end]}, false, text[end:], nil
}

// maxIndex bounds the number of an element, beyond any list of a record.
const maxIndex = 1 << 20

func readBracket(text string) (s step, inQuotes bool, rest string, err error) {
	inside := text[1:]
	if inside != "" && (inside[0] == '"' || inside[0] == '\'') {
		s, inQuotes, rest, err = readName(inside)
		if err != nil {
			return s, inQuotes, rest, err
		}
		if after, ok := strings.CutPrefix(rest, "]"); ok {
			return s, true, after, nil
		}
		return s, true, rest, errBracket
	}
	inside, rest, ok := strings.Cut(inside, "]")
	if ok && inside == "*" {
		return step{kind: stepEvery}, false, rest, nil
	}
	n, err := strconv.Atoi(inside)
	if !ok || err != nil || n < -maxIndex || n > maxIndex || inside[0] == '+' {
		return s, false, text, errBracket
	}
	return step{kind: stepElement, index: n}, false, rest, nil
}

// follow is the value at the steps' end; Absent where one of them leads
// nowhere. All elements of a list are a list again, flat, without those that
// are absent or null: a multi-value has no place for nothing.
func follow(v schemas.Value, steps []step) schemas.Value {
	for i := range steps {
		switch s := &steps[i]; s.kind {
		case stepMember:
			v = v.Get(s.name)
		case stepElement:
			v = elementAt(v, s.index)
		case stepEvery:
			return eachOf(v, steps[i+1:])
		}
	}
	return v
}

func elementAt(v schemas.Value, index int) schemas.Value {
	items := v.Items()
	if index < 0 {
		index += len(items)
	}
	if v.Kind() != schemas.List || index < 0 || index >= len(items) {
		return schemas.Value{}
	}
	return items[index].Value
}

func eachOf(v schemas.Value, steps []step) schemas.Value {
	if v.Kind() != schemas.List {
		return schemas.Value{}
	}
	found := make([]schemas.Field, 0, len(v.Items()))
	several := slices.ContainsFunc(steps, func(s step) bool { return s.kind == stepEvery })
	for _, item := range v.Items() {
		at := follow(item.Value, steps)
		switch {
		case !present(at):
		case several:
			found = append(found, at.Items()...)
		default:
			found = append(found, schemas.Field{Value: at})
		}
	}
	return schemas.ListValue(found)
}

// descend follows member names; Absent where one is missing.
func descend(v schemas.Value, names []string) schemas.Value {
	for _, name := range names {
		v = v.Get(name)
	}
	return v
}
