// Package fieldpath reads the paths by which a configuration names what is in a record.
package fieldpath

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/feedsink/feedsink/schemas"
)

// Step is one part of a path: a member's name, an element of a list, or all of
// its elements.
type Step struct {
	Name  string
	Index int
	Kind  Kind
}

// Kind is what a step leads to.
type Kind uint8

// The kinds of steps.
const (
	Member  Kind = iota // of an object
	Element             // of a list
	Every               // of a list, each
)

// Parse reads a path as `from` and `profileId` write it: names separated by
// dots, elements as [0] (from the end: [-1]), all elements as [*], and names with
// anything in them quoted, alone or in brackets: a."b.c"[0]["d e"]. Quoted tells
// whether the first name was: a name in quotes is always the value's own.
func Parse(text string) (steps []Step, quoted bool, err error) {
	rest := text
	at := func() int { return len(text) - len(rest) + 1 }
	for first := true; first || rest != ""; first = false {
		var s Step
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
func readName(text string) (s Step, inQuotes bool, rest string, err error) {
	if text != "" && (text[0] == '"' || text[0] == '\'') {
		end := strings.IndexByte(text[1:], text[0])
		switch {
		case end < 0:
			return s, true, text, errUnquoted
		case end == 0:
			return s, true, text, errNoName
		}
		return Step{Name: text[1 : end+1]}, true, text[end+2:], nil
	}
	end := strings.IndexAny(text, `.[]"'`)
	if end < 0 {
		end = len(text)
	}
	if end == 0 {
		return s, false, text, errNoName
	}
	return Step{Name: text[:end]}, false, text[end:], nil
}

// maxIndex bounds the number of an element, beyond any list of a record.
const maxIndex = 1 << 20

func readBracket(text string) (s Step, inQuotes bool, rest string, err error) {
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
		return Step{Kind: Every}, false, rest, nil
	}
	n, err := strconv.Atoi(inside)
	if !ok || err != nil || n < -maxIndex || n > maxIndex || inside[0] == '+' {
		return s, false, text, errBracket
	}
	return Step{Kind: Element, Index: n}, false, rest, nil
}

// Follow is the value at the steps' end; Absent where one of them leads
// nowhere. All elements of a list are a list again, flat, without those that
// are absent or null: a multi-value has no place for nothing.
func Follow(v schemas.Value, steps []Step) schemas.Value {
	for i := range steps {
		switch s := &steps[i]; s.Kind {
		case Member:
			v = v.Get(s.Name)
		case Element:
			v = ElementAt(v, s.Index)
		case Every:
			return eachOf(v, steps[i+1:])
		}
	}
	return v
}

// ElementAt is an element of a list, from the end with a negative index; Absent where there is none.
func ElementAt(v schemas.Value, index int) schemas.Value {
	items := v.Items()
	if index < 0 {
		index += len(items)
	}
	if v.Kind() != schemas.List || index < 0 || index >= len(items) {
		return schemas.Value{}
	}
	return items[index].Value
}

func eachOf(v schemas.Value, steps []Step) schemas.Value {
	if v.Kind() != schemas.List {
		return schemas.Value{}
	}
	found := make([]schemas.Field, 0, len(v.Items()))
	several := slices.ContainsFunc(steps, func(s Step) bool { return s.Kind == Every })
	for _, item := range v.Items() {
		at := Follow(item.Value, steps)
		switch {
		case at.Kind() == schemas.Absent, at.Kind() == schemas.Null:
		case several:
			found = append(found, at.Items()...)
		default:
			found = append(found, schemas.Field{Value: at})
		}
	}
	return schemas.ListValue(found)
}
