package router

import (
	"github.com/feedsink/feedsink/router/values"
	"github.com/feedsink/feedsink/schemas"
)

// field is one entry of `fields`, compiled.
type field struct {
	label    string // names the field in errors: its path, else its target
	from     *source
	compute  *expression
	constant schemas.Value // where there is neither of the two
	columns  []string      // the members of the value that it is read or computed from

	attribute bool // from reads an attribute of a CloudEvent

	values.Target
	key     bool              // fills the write's key
	fills   bool              // fills a cell: everything but a business key
	convert *values.Converter // nil: the value as it is
	checked bool              // the target takes whatever comes out of the conversion
	plain   bool              // a member's text fills the cell as it is

	absent, null Missing // Omit, AsNull, Refuse or useDefault
	byDefault    schemas.Value
}

// useDefault is the choice that a default makes: the value is replaced by it.
const useDefault Missing = "default"

// value reads the field of a record that does op: Absent where it says nothing.
func (f *field) value(in *input, op schemas.Op) (schemas.Value, *Reject) {
	v, reject := f.read(in)
	if reject != nil {
		return v, reject
	}
	switch v.Kind() {
	case schemas.Absent:
		// A patch or merge says nothing of what it does not name.
		if op.Partial() {
			return v, nil
		}
		return f.replaced(f.absent, "is missing")
	case schemas.Null:
		return f.replaced(f.null, "is null")
	case schemas.Unreadable:
		return v, badValue(f.label, v.Rule())
	}
	return f.converted(v)
}

// ruleOf is the rule that a value breaks, with the key that decides what becomes of null
// where it was null.
func (f *field) ruleOf(rule string, null bool) string {
	switch {
	case !null || f.from == nil && f.compute == nil:
		return rule
	case f.absent == AsNull:
		return "is null, and " + rule + "; the field's `absent` and `null` choose omit or reject, and default a value"
	}
	return "is null, and " + rule + "; the field's `null: omit` says nothing in its place"
}

// text is the value of a plain field where it is a text that its cell takes, and
// where it was last: nearly always. nil: value has to say.
func (f *field) text(members []schemas.Field) *schemas.Value {
	v := f.from.whereLast(members)
	if v == nil || v.Kind() != schemas.String || len(v.Text()) > values.MaxText {
		return nil
	}
	return v
}

// read is the value before any conversion.
func (f *field) read(in *input) (schemas.Value, *Reject) {
	switch {
	case f.from != nil && f.from.root == "":
		return f.from.inside(in), nil
	case f.from != nil:
		return f.from.read(in)
	case f.compute != nil:
		v, rule := f.compute.value(in)
		if rule != "" {
			return v, badValue(f.label, rule)
		}
		return v, nil
	}
	return f.constant, nil
}

// replaced is what becomes of a value that is missing or null.
func (f *field) replaced(choice Missing, rule string) (schemas.Value, *Reject) {
	switch choice {
	case AsNull:
		return schemas.NullValue(), nil
	case Refuse:
		return schemas.Value{}, badValue(f.label, rule)
	case useDefault:
		return f.byDefault, nil
	}
	return schemas.Value{}, nil
}

// converted is v, which is not null, as the field writes it. Constants come
// converted.
func (f *field) converted(v schemas.Value) (schemas.Value, *Reject) {
	if f.convert == nil || f.from == nil && f.compute == nil {
		return v, nil
	}
	out, rule := f.convert.Convert(v)
	if rule != "" {
		return schemas.Value{}, badValue(f.label, rule)
	}
	return out, nil
}

// ofKafkaKey is the row's key as a record's key says it: what the field reads
// of the record around the value, else the key's member under the name that it
// has in the table or in the value, else the key itself. A tombstone has no event,
// so that its key stands for the attribute which the field reads.
func (f *field) ofKafkaKey(in *input, key schemas.Value) (schemas.Value, *Reject) {
	keyed := *in
	keyed.value = &key
	v := key
	var reject *Reject
	switch {
	case f.compute != nil:
		v, reject = f.computedOf(&keyed)
	case f.from == nil:
	case f.from.root != "":
		v, reject = f.from.read(&keyed)
		if f.attribute && v.Kind() == schemas.Absent && reject == nil {
			if v = key; key.Kind() == schemas.Object {
				v = key.Get(f.Name)
			}
		}
	case key.Kind() == schemas.Object:
		if v = key.Get(f.Name); v.Kind() == schemas.Absent {
			v = f.from.inside(&keyed)
		}
	}
	if reject != nil || !present(v) {
		return v, reject
	}
	return f.converted(v)
}

// computedOf computes the row's key from a record's key. A bare one can stand
// for one member of the value, not for several.
func (f *field) computedOf(keyed *input) (schemas.Value, *Reject) {
	var bare *schemas.Value
	if keyed.value.Kind() != schemas.Object {
		bare = keyed.value
	}
	if bare != nil && len(f.columns) > 1 {
		return schemas.Value{}, badValue(f.label, "must be an object with what the key is computed from")
	}
	v, rule := f.compute.valueWith(keyed, bare)
	if rule != "" {
		return v, badValue(f.label, rule)
	}
	return v, nil
}

// fill appends the field's cell, for which cells has room. It is set in place: what
// is moved as a whole costs more while garbage is collected.
func (f *field) fill(cells []schemas.Cell, v schemas.Value) []schemas.Cell {
	cells = cells[:len(cells)+1]
	cell := &cells[len(cells)-1]
	cell.Place, cell.Value = &f.Place, v
	return cells
}

// operation is what the records of a mapping with fields do, tombstones apart.
type operation struct {
	always  schemas.Op  // 0: computed
	compute *expression // comes to an op's word
	refuses bool        // a choice in it names nil: what comes to nil has no op
}

// mayCreate reports whether some record may be a create. Debezium's envelope says none.
func (o *operation) mayCreate() bool {
	return o != nil && (o.always == 0 || o.always == schemas.Create)
}

// of is the op of a record. A record that does not say is an upsert, as an
// event without op is, unless the expression names nil for what it does not know:
// an upsert replaces the row.
func (o *operation) of(in *input) (schemas.Op, *Reject) {
	if o == nil {
		return schemas.Upsert, nil
	}
	if o.always != 0 {
		return o.always, nil
	}
	v, rule := o.compute.value(in)
	if rule != "" {
		return 0, badValue("op", rule)
	}
	switch {
	case v.Kind() == schemas.Absent && o.refuses:
		return 0, badValue("op", "comes to nil, and must come to "+schemas.OpWords)
	case v.Kind() == schemas.Absent:
		return schemas.Upsert, nil
	}
	if op, ok := schemas.ParseOp(v.Text()); ok && v.Kind() == schemas.String {
		return op, nil
	}
	return 0, badValue("op", "must come to "+schemas.OpWords)
}
