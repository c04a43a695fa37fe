package schemas

import "unsafe"

// Kind tells what a Value holds. The zero Kind is Absent: nothing was said,
// which is not the same as Null (said to be nothing) nor as an empty String.
type Kind uint8

// The kinds of a Value, named after JSON's, with Absent for "not there" and
// Unreadable for what is there, but is not what its schema says that it is: no
// table takes it, and it harms nobody who does not read it.
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
	size uint32         // bytes or items; a record has at most MaxBytes
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

// IsTrue reports whether v is the Bool true.
func (v Value) IsTrue() bool { return v.kind == Bool && v.Text() == "true" }

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
