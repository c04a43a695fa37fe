package router

import (
	"github.com/feedsink/feedsink/schemas"
)

// field is one entry of `fields`, compiled.
type field struct {
	label    string // names the field in errors: its path, else its target
	from     *source
	compute  *expression
	constant schemas.Value // where there is neither of the two

	spot               // in the table
	key     bool       // fills the write's key
	fills   bool       // fills a cell: everything but a business key
	convert *converter // nil: the value as it is
	settled bool       // an attribute takes whatever comes out of the conversion
	plain   bool       // a member's text fills the cell as it is

	absent, null Missing // Omit, AsNull, Refuse or substitute
	fallback     schemas.Value
}

// substitute is the choice that a default makes: the value is replaced by it.
const substitute Missing = "default"

// value reads the field of a record that does op: Absent where it says nothing.
func (f *field) value(look *subject, op schemas.Op) (schemas.Value, *Reject) {
	v, reject := f.read(look)
	if reject != nil {
		return v, reject
	}
	switch v.Kind() {
	case schemas.Absent:
		// A patch says nothing of what it does not name.
		if op == schemas.Patch {
			return v, nil
		}
		return f.settle(f.absent, "is missing")
	case schemas.Null:
		return f.settle(f.null, "is null")
	case schemas.Unreadable:
		return v, badValue(f.label, v.Rule())
	}
	return f.converted(v)
}

// text is the value of a plain field where it is a text that its cell takes, and
// where it was last: nearly always. nil: value has to say.
func (f *field) text(members []schemas.Field) *schemas.Value {
	v := f.from.usual(members)
	if v == nil || v.Kind() != schemas.String || len(v.Text()) > maxText {
		return nil
	}
	return v
}

// read is the value before any conversion.
func (f *field) read(look *subject) (schemas.Value, *Reject) {
	switch {
	case f.from != nil && f.from.root == "":
		return f.from.inside(look), nil
	case f.from != nil:
		return f.from.read(look)
	case f.compute != nil:
		v, rule := f.compute.value(look)
		if rule != "" {
			return v, badValue(f.label, rule)
		}
		return v, nil
	}
	return f.constant, nil
}

// settle is what becomes of a value that is missing or null.
func (f *field) settle(choice Missing, rule string) (schemas.Value, *Reject) {
	switch choice {
	case AsNull:
		return schemas.NullValue(), nil
	case Refuse:
		return schemas.Value{}, badValue(f.label, rule)
	case substitute:
		return f.fallback, nil
	}
	return schemas.Value{}, nil
}

// converted is v, which is not null, as the field writes it. Constants come
// converted.
func (f *field) converted(v schemas.Value) (schemas.Value, *Reject) {
	if f.convert == nil || f.from == nil && f.compute == nil {
		return v, nil
	}
	out, rule := f.convert.convert(v, f.convert)
	if rule != "" {
		return schemas.Value{}, badValue(f.label, rule)
	}
	return out, nil
}

// ofKafkaKey is the row's key as a record's key says it: what the field reads
// of the record around the value, else the key's member under the name that it
// has in the table or in the value, else the key itself.
func (f *field) ofKafkaKey(look *subject, key schemas.Value) (schemas.Value, *Reject) {
	keyed := *look
	keyed.value = &key
	if f.compute != nil {
		return f.computedOf(&keyed)
	}
	v := key
	if f.from != nil && (f.from.root != "" || key.Kind() == schemas.Object) {
		if v = key.Get(f.Name); v.Kind() == schemas.Absent || f.from.root != "" {
			var reject *Reject
			if v, reject = f.from.read(&keyed); reject != nil {
				return v, reject
			}
		}
	}
	if !present(v) {
		return v, nil
	}
	return f.converted(v)
}

// computedOf computes the row's key from a record's key. A bare one can stand
// for one member of the value, not for several.
func (f *field) computedOf(keyed *subject) (schemas.Value, *Reject) {
	var bare *schemas.Value
	if keyed.value.Kind() != schemas.Object {
		bare = keyed.value
	}
	members := 0
	for _, p := range f.compute.reads {
		if !p.ofRecord() {
			members++
		}
	}
	if bare != nil && members > 1 {
		return schemas.Value{}, badValue(f.label, "must be an object with what the key is computed from")
	}
	v, rule := f.compute.valueWith(keyed, bare)
	if rule != "" {
		return v, badValue(f.label, rule)
	}
	if !present(v) {
		return v, nil
	}
	return f.converted(v)
}
