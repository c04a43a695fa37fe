package schemas

import (
	"cmp"
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
)

// Debezium reads the change events of Debezium's connectors, from a decoded
// value of any format: in their envelope, or flattened by its transformation
// ExtractNewRecordState. It is immutable and serves any number of goroutines.
type Debezium struct {
	// What stands for a value that is not there, in each of the forms that columns of
	// different types give it.
	text   string
	base64 string   // columns of bytes
	pairs  string   // hstore as JSON
	uuid   string   // the one element of a list of UUIDs
	bytes  []string // the elements of a list of whole numbers: a literal for each byte
}

// NewDebezium takes the unavailable.value.placeholder of the connector; "" is
// its default.
func NewDebezium(unavailable string) *Debezium {
	text := cmp.Or(unavailable, DefaultUnavailable)
	d := &Debezium{
		text:   text,
		base64: base64.StdEncoding.EncodeToString([]byte(text)),
		pairs:  string(ObjectValue([]Field{{Name: text, Value: StringValue(text)}}).AppendJSON(nil)),
	}
	// As Java makes a UUID of a name: version 3 without a name space.
	sum := md5.Sum([]byte(text))
	sum[6], sum[8] = sum[6]&0x0f|0x30, sum[8]&0x3f|0x80
	d.uuid = fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:])
	for i := range len(text) {
		d.bytes = append(d.bytes, strconv.Itoa(int(text[i])))
	}
	return d
}

// Change is the change of one row.
type Change struct {
	// Op is Upsert or Delete; 0 where the event changes no row: a logical message.
	Op Op
	// New says that the event tells of a row that was not there before. Flattened
	// events tell it only with __op.
	New bool
	// Row holds the columns as they are now, of a delete as they were (as far as
	// the database's log says). Values with a schema are converted (see Logical);
	// unavailable ones are Absent. It has two more members, as far as the event
	// says them: __op, Debezium's code of the operation, and __source, where
	// the change comes from; of flattened events those that were added to them.
	// Row is Absent where the event says of a delete only that it happened.
	Row Value
	// Unavailable names the columns of Row whose values did not change and are
	// not in the event.
	Unavailable []string
	// Unreadable has the columns of Row whose values are not what their schema
	// says, or nothing that a table can hold, such as the date infinity. They are
	// Absent too, and an error only for a mapping that reads them.
	Unreadable []UnreadableColumn
}

// UnreadableColumn is a column and what is wrong with its value; the error's
// field is the path from the row.
type UnreadableColumn struct {
	Name string
	Err  *ValueError
}

// Lacks reports whether a column has a value that Row lacks.
func (c *Change) Lacks(column string) bool {
	return slices.Contains(c.Unavailable, column) ||
		slices.ContainsFunc(c.Unreadable, func(u UnreadableColumn) bool { return u.Name == column })
}

const ruleTruncate = "is t: the source table was truncated, and no operation of the service empties a table; " +
	"empty it by hand, or have Debezium skip truncates (skipped.operations)"

// What MongoDB's connector sends instead of rows.
const (
	ruleDocument = "is text, and must be an object: have Debezium's transformation io.debezium.connector.mongodb.transforms.ExtractNewDocumentState " +
		"make rows of MongoDB's documents"
	ruleUpdate = "is not there, and must be an object: set capture.mode of Debezium's connector for MongoDB to change_streams_update_full"
)

// Change reads one event. Creates (c), updates (u) and reads of a snapshot (r)
// are an Upsert of the row; a delete (d) is a Delete. A truncate (t) is an
// error. Errors are *ValueError.
func (d *Debezium) Change(v Value) (Change, error) {
	schema, payload := connectParts(v)
	switch payload.kind {
	case Object:
	case Null:
		return Change{Op: Delete}, nil // a tombstone with a schema
	default:
		return Change{}, Invalid("", ruleObject)
	}
	op := opOf(payload)
	if op == "" {
		return d.flattened(schema, payload), nil
	}
	ch := Change{Op: Upsert, New: op == "c"}
	image := "after"
	switch op {
	case "t":
		return Change{}, Invalid("op", ruleTruncate)
	case "m":
		return Change{}, nil
	case "d":
		ch.Op, image = Delete, "before"
	}
	row := payload.Get(image)
	switch {
	case row.kind == Object:
	case ch.Op == Delete && (row.kind == Null || row.kind == Absent):
		return ch, nil
	case row.kind == String:
		return Change{}, Invalid(image, ruleDocument)
	case payload.Get("updateDescription").kind == Object:
		return Change{}, Invalid(image, ruleUpdate)
	default:
		return Change{}, Invalid(image, ruleObject)
	}
	extra := []Field{{Name: "__op", Value: StringValue(op)}}
	if source := payload.Get("source"); source.kind == Object {
		extra = append(extra, Field{Name: "__source", Value: source})
	}
	d.row(&ch, columnsOf(columnsOf(schema).schema(0, image)), row, extra)
	return ch, nil
}

// opOf is the operation of an envelope, "" where payload is none. A row may
// have a column named op, but not beside an object named source.
func opOf(payload Value) string {
	op := payload.Get("op")
	if op.kind != String || payload.Get("source").kind != Object {
		return ""
	}
	switch op.Text() {
	case "c", "r", "u", "d", "t", "m":
		return op.Text()
	}
	return ""
}

// flattened reads a row without its envelope. What the transformation was told
// to add has names that begin with __; __deleted says what it did to a delete.
func (d *Debezium) flattened(schema, payload Value) Change {
	ch := Change{Op: Upsert, New: payload.Get("__op").Text() == "c"}
	if payload.Get("__deleted").Text() == "true" || payload.Get("__op").Text() == "d" {
		ch.Op = Delete
	}
	d.row(&ch, columnsOf(schema), payload, nil)
	return ch
}

// row fills in the columns of a row, converted, and what is missing of them.
func (d *Debezium) row(ch *Change, schemas columns, row Value, extra []Field) {
	items := make([]Field, len(row.Items()), len(row.Items())+len(extra))
	for i := range row.Items() {
		column := row.Items()[i]
		var err *ValueError
		switch {
		case d.isUnavailable(column.Value):
			ch.Unavailable = append(ch.Unavailable, column.Name)
			column.Value = Value{}
		case column.Value.kind == Absent: // of Protobuf, where Kafka Connect leaves out nulls: a column of the schema
			column.Value = NullValue()
		case len(schemas) > 0:
			column.Value, err = connectValue(schemas.schema(i, column.Name), column.Value)
		default:
			err = column.Value.Unreadable() // those of Avro and Protobuf come converted
		}
		if err != nil {
			ch.Unreadable = append(ch.Unreadable, UnreadableColumn{column.Name, err.within(column.Name)})
			column.Value = Value{}
		}
		items[i] = column
	}
	ch.Row = ObjectValue(append(items, extra...))
}

// DefaultUnavailable is what Debezium writes in the place of a large value that
// did not change and is therefore not in the database's log, unless its
// unavailable.value.placeholder says otherwise.
const DefaultUnavailable = "__debezium_unavailable_value"

// isUnavailable reports whether v, the value of a column, is the placeholder.
func (d *Debezium) isUnavailable(v Value) bool {
	switch v.kind {
	case String:
		return v.Text() == d.text || v.Text() == d.base64 || v.Text() == d.pairs
	case Object: // hstore as a map
		return len(v.Items()) == 1 && v.Items()[0].Name == d.text && v.Items()[0].Value.Text() == d.text
	case List:
		if len(v.Items()) == 1 && v.Items()[0].Value.kind == String {
			text := v.Items()[0].Value.Text()
			return text == d.text || text == d.base64 || text == d.uuid
		}
		return slices.EqualFunc(v.Items(), d.bytes, func(item Field, literal string) bool {
			return item.Value.kind == Number && item.Value.Text() == literal
		})
	}
	return false
}
