package config

import (
	"errors"
	"reflect"
	"strconv"
	"strings"

	"github.com/feedsink/feedsink/router"
)

// decoder fills the configuration from nodes and notes where each path stands.
// It goes on after a problem, leaving the default in place.
type decoder struct {
	*findings
	env func(string) (string, bool)
}

var (
	errUnclosed     = errors.New("${ without }")
	errVariableName = errors.New("not a variable's name")
)

// unsetError is a variable, by its name, that has neither value nor default.
type unsetError string

func (e unsetError) Error() string { return "the environment variable " + string(e) + " is not set" }

// value fills into from n. A value that is left empty keeps the default.
func (d *decoder) value(path string, n *node, into reflect.Value) {
	if n.kind != scalar || wantsBlock(into.Type()) {
		d.block(path, n, into)
		return
	}
	text, ok := d.scalar(path, n, into.Type() == reflect.TypeFor[Secret]())
	if !ok || n.plain && isNothing(text) && !meansNull(text, into) {
		return
	}
	if message, hint := parseScalar(text, n.plain, into.Addr().Interface()); message != "" {
		d.unreadable(d.places[path], path, message+shown(d.places[path]), hint)
	}
}

// shown is a value for the end of a message.
func shown(p place) string {
	if p.written == "" {
		return ""
	}
	return ", is " + quote(p.written)
}

// scalar notes the place of a scalar and gives its text with environment
// variables replaced.
func (d *decoder) scalar(path string, n *node, secret bool) (text string, ok bool) {
	p := place{line: n.line, column: n.column}
	if !secret {
		p.written = n.text
	}
	d.places[path] = p
	text, err := expand(n.text, d.env)
	if err == nil {
		return text, true
	}
	message, hint := err.Error(), "write $${ where ${ itself is meant"
	if unset, ok := errors.AsType[unsetError](err); ok {
		hint = "set it, or write ${" + string(unset) + ":-default}"
	} else if secret {
		message = "a ${…} that cannot be read" // what is in it may be the secret
	}
	d.unreadable(p, path, message, hint)
	return "", false
}

// isNothing reports whether an unquoted scalar is YAML's null, or was written
// as a variable that is empty.
func isNothing(text string) bool {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return true
	}
	return false
}

// meansNull reports whether the word null is a choice here, and no sign of
// something left empty.
func meansNull(text string, into reflect.Value) bool {
	return text == string(router.AsNull) && into.Type() == reflect.TypeFor[router.Missing]()
}

// wantsBlock reports whether a value of this type is written as a list or as
// keys.
func wantsBlock(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		return t != reflect.TypeFor[Secret]() && t != reflect.TypeFor[Address]()
	case reflect.Slice, reflect.Pointer:
		return true
	}
	return false
}

// block fills a list, an object or a pointer to one from n.
func (d *decoder) block(path string, n *node, into reflect.Value) {
	if _, known := d.places[path]; !known {
		d.places[path] = place{line: n.line, column: n.column}
	}
	if n.kind == scalar && d.shorthand(path, n, into) {
		return
	}
	switch {
	case into.Kind() == reflect.Pointer:
		if into.IsNil() {
			into.Set(reflect.New(into.Type().Elem()))
		}
		d.value(path, n, into.Elem())
	case into.Kind() == reflect.Slice && n.kind == list:
		into.Set(reflect.MakeSlice(into.Type(), len(n.items), len(n.items)))
		for i, item := range n.items {
			d.item(index(path, i), item, into.Index(i))
		}
	case into.Kind() == reflect.Struct && n.kind == object && wantsBlock(into.Type()):
		d.object(path, n, into)
	default:
		d.mismatch(path, n, into)
	}
}

// shorthand handles a scalar where a block is expected: nothing at all, and the
// bare name of a column.
func (d *decoder) shorthand(path string, n *node, into reflect.Value) bool {
	if n.plain && isNothing(n.text) {
		return true
	}
	if column, ok := reflect.TypeAssert[*router.Column](into.Addr()); ok {
		if text, ok := d.scalar(path, n, false); ok {
			column.Name = text
		}
		return true
	}
	return false
}

// item fills one element of a list, which starts from its type's defaults.
func (d *decoder) item(path string, n *node, into reflect.Value) {
	if mapping, ok := reflect.TypeAssert[*router.Mapping](into.Addr()); ok {
		*mapping = mappingDefaults()
	}
	if n.kind == scalar && n.plain && isNothing(n.text) && !d.unread[path] {
		d.unreadable(place{line: n.line, column: n.column}, path, "an empty element", "write a value or remove the element")
		return
	}
	d.value(path, n, into)
}

// object fills a struct key by key.
func (d *decoder) object(path string, n *node, into reflect.Value) {
	for _, e := range n.entries {
		below := join(path, e.key)
		field, known := fieldOf(into, e.key)
		if !known {
			hint, meant := suggest(path, e.key, into.Type())
			if meant != "" && n.find(meant) < 0 {
				d.unread[join(path, meant)] = true // misspelt is not also missing
			}
			d.unreadable(place{line: e.line, column: e.column}, below, "unknown key", hint)
			continue
		}
		if e.value.kind != scalar || wantsBlock(field.Type()) {
			d.places[below] = place{line: e.line, column: e.column}
		}
		d.value(below, e.value, field)
	}
}

// mismatch reports a list, block or single value where another is wanted.
func (d *decoder) mismatch(path string, n *node, into reflect.Value) {
	wanted, hint := scalar, ""
	switch {
	case n.kind == list && into.Kind() == reflect.String:
		hint = hintBrackets
	case into.Kind() == reflect.Slice:
		wanted = list
		if n.kind == scalar {
			hint = "write " + listOf(n.text)
		}
	case wantsBlock(into.Type()):
		wanted, hint = object, "its keys are "+strings.Join(keysOf(into.Type()), ", ")
	}
	message := "must be " + wanted.String() + ", is " + n.kind.String()
	d.unreadable(place{line: n.line, column: n.column}, path, message, hint)
}

// listOf is a list of one value as it can be written on a line.
func listOf(text string) string {
	if strings.ContainsAny(text, "{}[],#'\"") {
		text = strconv.Quote(text)
	}
	return "[" + text + "]"
}
