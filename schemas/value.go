package schemas

// Kind tells what a Value holds. The zero Kind is Absent: nothing was said,
// which is not the same as Null (said to be nothing) nor as an empty String.
type Kind uint8

// The kinds of a Value, named after JSON's, with Absent for "not there".
const (
	Absent Kind = iota
	Null
	Bool
	Number
	String
	List
	Object
)

// Value is one decoded value of any format, immutable once built. Numbers keep
// the literal they were written with, so that no digit is lost between the
// topic and the table.
type Value struct {
	kind  Kind
	text  string  // String: its content. Number: its JSON literal. Bool: "true" or "false"
	items []Field // Object: its members in source order. List: its elements, unnamed
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
func StringValue(s string) Value { return Value{kind: String, text: s} }

// NumberValue holds a number by its JSON literal, which the caller has checked.
func NumberValue(literal string) Value { return Value{kind: Number, text: literal} }

// BoolValue holds true or false.
func BoolValue(b bool) Value {
	if b {
		return Value{kind: Bool, text: "true"}
	}
	return Value{kind: Bool, text: "false"}
}

// ObjectValue holds members in the order given; a later member of the same
// name is not looked at.
func ObjectValue(members []Field) Value { return Value{kind: Object, items: members} }

// ListValue holds elements; their names are ignored.
func ListValue(elements []Field) Value { return Value{kind: List, items: elements} }

// Kind tells what v holds.
func (v Value) Kind() Kind { return v.kind }

// Text is the content of a String, the literal of a Number, "true" or "false"
// of a Bool, and "" for everything else.
func (v Value) Text() string { return v.text }

// IsTrue reports whether v is the Bool true.
func (v Value) IsTrue() bool { return v.kind == Bool && v.text == "true" }

// Items are the members of an Object or the elements of a List, not to be
// changed by the caller.
func (v Value) Items() []Field { return v.items }

// Get returns the named member of an Object, or an Absent Value.
func (v Value) Get(name string) Value {
	if v.kind == Object {
		for i := range v.items {
			if v.items[i].Name == name {
				return v.items[i].Value
			}
		}
	}
	return Value{}
}
