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
		if i, err := strconv.Atoi(v.text); err == nil {
			return i
		}
		f, _ := strconv.ParseFloat(v.text, 64) // out of range: ±Inf, which compares as it should
		return f
	case String:
		return v.text
	case List:
		list := make([]any, len(v.items))
		for i := range v.items {
			list[i] = v.items[i].Value.Any()
		}
		return list
	case Object:
		object := make(map[string]any, len(v.items))
		for i := range v.items {
			object[v.items[i].Name] = v.items[i].Value.Any()
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
		return append(dst, v.text...)
	case String:
		return appendQuoted(dst, v.text)
	case List:
		dst = append(dst, '[')
		for i := range v.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = v.items[i].Value.AppendJSON(dst)
		}
		return append(dst, ']')
	case Object:
		dst = append(dst, '{')
		first := true
		for i := range v.items {
			if v.items[i].Value.kind == Absent {
				continue
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(appendQuoted(dst, v.items[i].Name), ':')
			dst = v.items[i].Value.AppendJSON(dst)
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
	if v.kind != w.kind || v.text != w.text || len(v.items) != len(w.items) {
		return false
	}
	for i := range v.items {
		other := w.items[i].Value
		if v.kind == Object {
			other = w.Get(v.items[i].Name)
		}
		if !v.items[i].Value.Equal(other) {
			return false
		}
	}
	return true
}
