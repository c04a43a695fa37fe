package schemas

import (
	"encoding/base64"
	"strconv"
	"strings"
)

// convert makes of a decoded value what its producer meant by it. What it does
// not understand it leaves as it is.
type convert func(Value) Value

// connectTimestamp is the name that goes with the logical type timestamp-millis.
const connectTimestamp = "org.apache.kafka.connect.data.Timestamp"

// connectType reads the properties that Kafka Connect's converters put on an
// Avro type, connect.name and connect.parameters, and converts by them as
// logical does. A value that is not what its name says, such as the date
// infinity, is Unreadable: the mapping that reads it refuses it.
func connectType(props map[string]any) convert {
	name, _ := props["connect.name"].(string)
	given, _ := props["connect.parameters"].(map[string]any)
	members := make([]Field, 0, len(given))
	for key, v := range given {
		if text, ok := v.(string); ok {
			members = append(members, Field{Name: key, Value: StringValue(text)})
		}
	}
	return connectName(name, ObjectValue(members))
}

// connectName is the conversion by a semantic name of Connect or Debezium, nil where it
// is neither's.
func connectName(name string, parameters Value) convert {
	if !strings.HasPrefix(name, "org.apache.kafka.connect.data.") && !strings.HasPrefix(name, "io.debezium.") {
		return nil
	}
	return func(v Value) Value {
		converted, err := logical(name, parameters, v)
		if err != nil {
			return textValue(Unreadable, err.Rule)
		}
		return converted
	}
}

// FromConnect reads what Kafka Connect's JSON converter wrote. With
// schemas.enable=true that is an object of schema and payload, and every value
// of the payload becomes what the schema says that it is (see logical); without,
// it is the value itself, returned as it is. Errors are *ValueError.
func FromConnect(v Value) (Value, error) {
	schema, payload := connectParts(v)
	converted, err := connectValue(schema, payload)
	if err != nil {
		return Value{}, err
	}
	return converted, nil // not err, whose nil would not be error's
}

// connectParts takes the wrapper off; schema is Absent where there is none.
func connectParts(v Value) (schema, payload Value) {
	if v.kind != Object || len(v.Items()) != 2 {
		return Value{}, v
	}
	schema, payload = v.Get("schema"), v.Get("payload")
	wrapper := payload.kind != Absent && (schema.kind == Null || schema.Get("type").kind == String)
	if !wrapper {
		return Value{}, v // a row may have columns of these names
	}
	return schema, payload
}

// connectValue converts v as its Connect schema says.
func connectValue(schema, v Value) (Value, *ValueError) {
	if schema.kind != Object || v.kind == Null || v.kind == Absent {
		return v, nil
	}
	if name := schema.Get("name").Text(); name != "" {
		converted, err := logical(name, schema.Get("parameters"), v)
		if err != nil || !same(converted, v) {
			return converted, err
		}
	}
	switch schema.Get("type").Text() {
	case "struct":
		columns := columnsOf(schema)
		return eachItem(v, Object, func(i int, name string) Value { return columns.schema(i, name) })
	case "array":
		items := schema.Get("items")
		return eachItem(v, List, func(int, string) Value { return items })
	case "map":
		values := schema.Get("values")
		return eachItem(v, Object, func(int, string) Value { return values })
	}
	return v, nil
}

// eachItem converts the members or elements of v. What v holds is copied only
// where one of them changes.
func eachItem(v Value, kind Kind, schemaOf func(i int, name string) Value) (Value, *ValueError) {
	if v.kind != kind {
		return v, nil
	}
	items, copied := v.Items(), false
	for i := range v.Items() {
		old := v.Items()[i]
		converted, err := connectValue(schemaOf(i, old.Name), old.Value)
		if err != nil {
			return Value{}, err.within(old.Name)
		}
		if same(converted, old.Value) {
			continue
		}
		if !copied {
			items, copied = append([]Field(nil), v.Items()...), true
		}
		items[i].Value = converted
	}
	return itemsValue(v.kind, items), nil
}

// columns are the member schemas of a struct.
type columns []Field

func columnsOf(schema Value) columns { return schema.Get("fields").Items() }

// schema is the schema of the named member, which converters write in the
// order of the schema. Absent where there is none.
func (c columns) schema(i int, name string) Value {
	if i < len(c) && c[i].Value.Get("field").Text() == name {
		return c[i].Value
	}
	for i := range c {
		if c[i].Value.Get("field").Text() == name {
			return c[i].Value
		}
	}
	return Value{}
}

// same reports whether w is v itself, not a conversion of it.
func same(v, w Value) bool {
	return v.kind == w.kind && v.Text() == w.Text() && len(v.Items()) == len(w.Items()) &&
		(len(v.Items()) == 0 || &v.Items()[0] == &w.Items()[0])
}

// within puts a member's name before the path of an error. Elements of a list
// have none.
func (e *ValueError) within(name string) *ValueError {
	switch {
	case name == "":
		return e
	case e.Field != "":
		name += "." + e.Field
	}
	return Invalid(name, e.Rule)
}

// logical converts a value by the semantic name that Kafka Connect's schemas
// give a type, such as io.debezium.time.Date: in JSON the member `name` of a
// schema, in Avro `connect.name`. parameters is the object of texts beside it
// (`parameters`, `connect.parameters`). The value becomes what it stands for:
//
//	decimals             a Number with all its digits, 12.50
//	dates                2026-02-28
//	times of a day       23:59:59.123456
//	timestamps           2026-01-02T03:04:05.678901, without a zone where the source column has none
//	strings of bits      101
//
// Null, names that are not known, names whose value says already what it is
// (Json, Uuid, Enum, ZonedTimestamp, durations in microseconds) and values that
// are converted already are returned as they are. Errors are *ValueError
// without a field.
func logical(name string, parameters, v Value) (Value, *ValueError) {
	if v.kind == Null || v.kind == Absent {
		return v, nil
	}
	switch name {
	case "org.apache.kafka.connect.data.Decimal":
		return decimalOf(parameters.Get("scale"), v)
	case "io.debezium.data.VariableScaleDecimal":
		if v.kind != Object {
			return v, nil
		}
		return decimalOf(v.Get("scale"), v.Get("value"))
	case "io.debezium.data.Bits":
		return bitsOf(parameters.Get("length"), v), nil
	case "io.debezium.time.IsoDate", "io.debezium.time.IsoTime", "io.debezium.time.IsoTimestamp":
		return isoOf(v)
	}
	t, known := connectTimes[name]
	if !known || v.kind != Number { // text is a time already
		return v, nil
	}
	n, err := strconv.ParseInt(v.Text(), 10, 64)
	switch {
	case err != nil && t.kind == timeOfDay:
		return Value{}, Invalid("", ruleClock)
	case err != nil, t.kind == daysSince1970 && int64(int32(n)) != n:
		return Value{}, Invalid("", "must be a whole number: the schema says that it is a date or a time")
	}
	text, rule := t.append(nil, n)
	if rule != "" {
		return Value{}, Invalid("", rule)
	}
	return StringValue(string(text)), nil
}

// connectTimes are the semantic names of dates and times. The columns that they
// come from have no zone.
var connectTimes = map[string]timeType{
	"io.debezium.time.Date":              {kind: daysSince1970},
	"org.apache.kafka.connect.data.Date": {kind: daysSince1970},
	"io.debezium.time.Timestamp":         {localTimestamp, perMilli},
	connectTimestamp:                     {localTimestamp, perMilli},
	"io.debezium.time.MicroTimestamp":    {localTimestamp, perMicro},
	"io.debezium.time.NanoTimestamp":     {localTimestamp, perNano},
	"io.debezium.time.Time":              {timeOfDay, perMilli},
	"org.apache.kafka.connect.data.Time": {timeOfDay, perMilli},
	"io.debezium.time.MicroTime":         {timeOfDay, perMicro},
	"io.debezium.time.NanoTime":          {timeOfDay, perNano},
}

// isoOf takes the Z away that Debezium's isostring mode writes after values of
// columns that have no zone: they would be taken for times of UTC.
func isoOf(v Value) (Value, *ValueError) {
	if v.kind != String {
		return v, nil
	}
	if strings.HasPrefix(v.Text(), "-") || strings.HasPrefix(v.Text(), "+") {
		return Value{}, Invalid("", ruleYears)
	}
	return StringValue(strings.TrimSuffix(v.Text(), "Z")), nil
}

// Bounds of a decimal: PostgreSQL's numeric has up to 131072 digits, Oracle's
// scales go from -84 to 127. The service takes far less; a few bytes may not
// ask for a text of megabytes.
const (
	maxScale        = 1_000
	maxDecimalBytes = 1_000
)

// decimalOf reads the unscaled big-endian two's complement of a decimal, which
// JSON carries in base64. A number, as converters write it that were told to, is
// one already.
func decimalOf(scale, v Value) (Value, *ValueError) {
	if v.kind != String {
		return v, nil
	}
	power, err := strconv.Atoi(scale.Text())
	if err != nil || power < -maxScale || power > maxScale {
		return Value{}, Invalid("", "a decimal needs a scale from -1000 to 1000")
	}
	raw, err := base64.StdEncoding.DecodeString(v.Text())
	if err != nil || len(raw) > maxDecimalBytes {
		return Value{}, Invalid("", "must be a decimal's bytes in base64, 1000 at most")
	}
	return NumberValue(string(appendDecimal(nil, raw, power))), nil
}

// bitsOf writes the bits of a column of a fixed length, which come as
// little-endian bytes in base64. Of bit varying the length is not known: it
// stays as it is.
func bitsOf(length, v Value) Value {
	n, err := strconv.Atoi(length.Text())
	if v.kind != String || err != nil || n < 1 {
		return v
	}
	raw, err := base64.StdEncoding.DecodeString(v.Text())
	if err != nil || n > 8*len(raw) {
		return v
	}
	bits := make([]byte, n)
	for i := range bits {
		bits[n-1-i] = '0' + raw[i/8]>>(i%8)&1
	}
	return StringValue(string(bits))
}
