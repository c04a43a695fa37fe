package schemas

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Any is v as plain Go: nil (Absent and Null), bool, int or float64, string,
// []any, map[string]any. Numbers outside both lose digits: it is meant for
// conditions, not for what is written.
func (v Value) Any() any {
	switch v.kind {
	case Bool:
		return v.IsTrue()
	case Number:
		if i, err := strconv.Atoi(v.Text()); err == nil {
			return i
		}
		f, _ := strconv.ParseFloat(v.Text(), 64) // out of range: ±Inf, which compares as it should
		return f
	case String:
		return v.Text()
	case List:
		list := make([]any, len(v.Items()))
		for i := range v.Items() {
			list[i] = v.Items()[i].Value.Any()
		}
		return list
	case Object:
		object := make(map[string]any, len(v.Items()))
		for i := range v.Items() {
			object[v.Items()[i].Name] = v.Items()[i].Value.Any()
		}
		return object
	}
	return nil
}

// AppendJSON appends v as one JSON text without white space; numbers as their
// literal, Absent as null. Absent members of an object are left out.
func (v Value) AppendJSON(dst []byte) []byte {
	switch v.kind {
	case Bool, Number:
		return append(dst, v.Text()...)
	case String:
		return appendQuoted(dst, v.Text())
	case List:
		dst = append(dst, '[')
		for i := range v.Items() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = v.Items()[i].Value.AppendJSON(dst)
		}
		return append(dst, ']')
	case Object:
		dst = append(dst, '{')
		first := true
		for i := range v.Items() {
			if v.Items()[i].Value.kind == Absent {
				continue
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(appendQuoted(dst, v.Items()[i].Name), ':')
			dst = v.Items()[i].Value.AppendJSON(dst)
		}
		return append(dst, '}')
	}
	return append(dst, "null"...)
}

// appendQuoted ignores AppendQuote's only error, invalid UTF-8: it has then
// appended the text with replacement characters, and decoders let none through.
func appendQuoted(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}

// Equal reports whether v and w say the same: numbers by their literal, lists
// in order, objects by their members in any order.
func (v Value) Equal(w Value) bool {
	if v.kind != w.kind || v.Text() != w.Text() || len(v.Items()) != len(w.Items()) {
		return false
	}
	for i := range v.Items() {
		other := w.Items()[i].Value
		if v.kind == Object {
			other = w.Get(v.Items()[i].Name)
		}
		if !v.Items()[i].Value.Equal(other) {
			return false
		}
	}
	return true
}
