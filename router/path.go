package router

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/feedsink/feedsink/schemas"
)

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
