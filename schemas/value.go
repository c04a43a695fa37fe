package schemas

import (
	"strconv"
	"strings"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"
)

// Kind tells what a Value holds. The zero Kind is Absent: nothing was said,
// which is not the same as Null (said to be nothing) nor as an empty String.
type Kind uint8

// The kinds of a Value, named after JSON's, with Absent for "not there" and
// Unreadable for what is there, but is not what its schema says that it is: no
// table takes it, and it is an error only where a mapping reads it.
const (
	Absent Kind = iota
	Null
	Unreadable
	Bool
	Number
	String
	List
	Object
)

// Value is one decoded value of any format, immutable once built. Numbers keep
// the literal they were written with, so that no digit is lost between the
// topic and the table.
//
// It is two words instead of the six of a string beside a slice: a record has a
// dozen values, each copied a few times on its way, and what that costs is
// mostly memory.
type Value struct {
	data unsafe.Pointer // the first byte of a text, or the first of the items
	size uint32         // bytes or items; a record has at most maxBytes
	kind Kind
}

// Field is a named member of an object.
type Field struct {
	Name  string
	Value Value
}

// Constructors. The slices are taken over, not copied.

// NullValue is the explicit null.
func NullValue() Value { return Value{kind: Null} }

// StringValue holds text as it is.
func StringValue(s string) Value { return textValue(String, s) }

// NumberValue holds a number by its JSON literal, which the caller has checked.
func NumberValue(literal string) Value { return textValue(Number, literal) }

// BoolValue holds true or false.
func BoolValue(b bool) Value {
	if b {
		return textValue(Bool, "true")
	}
	return textValue(Bool, "false")
}

// ObjectValue holds members in the order given; a later member of the same
// name is not looked at.
func ObjectValue(members []Field) Value { return itemsValue(Object, members) }

// ListValue holds elements; their names are ignored.
func ListValue(elements []Field) Value { return itemsValue(List, elements) }

func textValue(kind Kind, s string) Value {
	return Value{kind: kind, data: unsafe.Pointer(unsafe.StringData(s)), size: uint32(len(s))}
}

func itemsValue(kind Kind, items []Field) Value {
	return Value{kind: kind, data: unsafe.Pointer(unsafe.SliceData(items)), size: uint32(len(items))}
}

// Kind tells what v holds.
func (v Value) Kind() Kind { return v.kind }

// Text is the content of a String, the literal of a Number, "true" or "false"
// of a Bool, and "" for everything else.
func (v Value) Text() string {
	if v.kind < Bool || v.kind > String {
		return ""
	}
	return unsafe.String((*byte)(v.data), v.size)
}

// Rule is what holds for a good value in the place of an Unreadable one, "" of
// everything else.
func (v Value) Rule() string {
	if v.kind != Unreadable {
		return ""
	}
	return unsafe.String((*byte)(v.data), v.size)
}

// Unreadable is what is wrong with v, or with the first of its members or elements that
// something is wrong with; the error's field is the path to it. nil: all can be read.
func (v Value) Unreadable() *ValueError {
	if v.kind == Unreadable {
		return Invalid("", v.Rule())
	}
	for i := range v.Items() {
		if err := v.Items()[i].Value.Unreadable(); err != nil {
			return err.within(v.Items()[i].Name)
		}
	}
	return nil
}

// Items are the members of an Object or the elements of a List, not to be
// changed by the caller.
func (v Value) Items() []Field {
	if v.kind < List {
		return nil
	}
	return unsafe.Slice((*Field)(v.data), v.size)
}

// Members are the members of an Object, not to be changed by the caller; none for
// anything else.
func (v Value) Members() []Field {
	if v.kind != Object {
		return nil
	}
	return unsafe.Slice((*Field)(v.data), v.size)
}

// Get returns the named member of an Object, or an Absent Value.
func (v Value) Get(name string) Value {
	members := v.Members()
	for i := range members {
		if members[i].Name == name {
			return members[i].Value
		}
	}
	return Value{}
}

// IsWhole reports whether v is a Number written with nothing but digits and a
// sign. Only such a number has one spelling and may serve as a key.
func (v Value) IsWhole() bool {
	if v.kind != Number {
		return false
	}
	for i := range len(v.Text()) {
		if c := v.Text()[i]; c != '-' && (c < '0' || c > '9') {
			return false
		}
	}
	return v.Text() != "-0"
}

// Any is v as plain Go: nil (Absent and Null), bool, int or float64, string,
// []any, map[string]any. Numbers outside both lose digits: it is meant for
// conditions, not for what is written.
func (v Value) Any() any {
	switch v.kind {
	case Bool:
		return v.Text() == "true"
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

func (v Value) textSize() (n int) {
	n = len(v.Text())
	for _, f := range v.Items() {
		n += len(f.Name) + f.Value.textSize()
	}
	return n
}

func (v Value) own(text *strings.Builder, bytes *int64) Value {
	switch v.kind {
	case String, Number:
		return textValue(v.kind, copied(text, v.Text()))
	case List, Object:
		items := make([]Field, v.size)
		*bytes += int64(len(items)) * int64(unsafe.Sizeof(Field{}))
		for i, f := range v.Items() {
			items[i] = Field{Name: copied(text, f.Name), Value: f.Value.own(text, bytes)}
		}
		return itemsValue(v.kind, items)
	}
	return v
}
