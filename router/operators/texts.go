package operators

import (
	"errors"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/vm/runtime"
)

// Slice is the name of the operator [FROM:TO], of which either may be nil.
const Slice = "[:]"

// texts are the operators and functions that count in texts. The library's count bytes, and cut
// characters that have several.
var texts = map[string]Function{
	Slice:         func(v ...any) (any, error) { return slice(v[0], v[1], v[2]), nil },
	"get":         at(library("get")),
	"first":       at(library("first"), 0),
	"last":        at(library("last"), -1),
	"indexOf":     index(strings.Index),
	"lastIndexOf": index(strings.LastIndex),
}

// slice is a part of a text, by its characters, or of a list.
func slice(of, from, to any) any {
	if from == nil {
		from = 0
	}
	text, ok := of.(string)
	if to == nil {
		to = math.MaxInt
	}
	if !ok {
		return runtime.Slice(of, from, to)
	}
	length := utf8.RuneCountInString(text)
	within := func(i int) int {
		if i < 0 {
			i += length
		}
		return min(max(i, 0), length)
	}
	begin, end := within(runtime.ToInt(from)), within(runtime.ToInt(to))
	if begin >= end {
		return ""
	}
	if length < len(text) {
		begin, end = byteOf(text, begin), byteOf(text, end)
	}
	return text[begin:end]
}

// byteOf is where a text's character i begins, or where the text ends.
func byteOf(text string, i int) int {
	for at := range text {
		if i == 0 {
			return at
		}
		i--
	}
	return len(text)
}

// character is the one at i, from the end where i is negative; nil where there is none.
func character(text string, i int) any {
	if i < 0 {
		i += utf8.RuneCountInString(text)
	}
	if i < 0 {
		return nil
	}
	begin := byteOf(text, i)
	if begin == len(text) {
		return nil
	}
	_, size := utf8.DecodeRuneInString(text[begin:])
	return text[begin : begin+size]
}

// at is a function for the element at an index, with the characters of texts for elements:
// get, which is told the index.
func at(otherwise Function, index ...any) Function {
	return func(v ...any) (any, error) {
		text, ok := v[0].(string)
		switch {
		case !ok:
			return otherwise(v...)
		case len(index) > 0:
			return character(text, runtime.ToInt(index[0])), nil
		}
		return character(text, runtime.ToInt(v[1])), nil
	}
}

// index is of, which finds a text in another, by characters.
func index(of func(text, part string) int) Function {
	return func(v ...any) (any, error) {
		text, ok := v[0].(string)
		part, both := v[1].(string)
		if !ok || !both {
			return nil, errors.New("no text")
		}
		at := of(text, part)
		if at < 0 {
			return at, nil
		}
		return utf8.RuneCountInString(text[:at]), nil
	}
}
