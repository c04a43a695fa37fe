package schemas

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/twmb/avro"
)

// avroKind is how a type is encoded and what its values become.
type avroKind uint8

const (
	avroNull avroKind = iota
	avroBoolean
	avroInt
	avroLong
	avroFloat
	avroDouble
	avroString
	avroBytes // or fixed
	avroEnum
	avroUnion
	avroRecord
	avroArray
	avroMap

	// The logical types.
	avroTime // an integer
	avroDecimal
	avroUUID
	avroDuration
)

// avroType is one type of a writer schema, made for reading. Types that a
// schema names are shared, so that a recursive schema is a cycle of pointers.
type avroType struct {
	kind     avroKind
	narrow   bool // int: 32 bits
	fields   []avroField
	item     *avroType   // of arrays and maps
	branches []*avroType // of unions
	symbols  []string    // of enums
	time     timeType    // of dates and times
	size     int         // of bytes, if it is fixed; else -1
	scale    int         // of decimals: digits behind the point
	convert  convert     // nil: the value is what the type says
}

type avroField struct {
	name string
	typ  *avroType
}

var avroKinds = map[string]avroKind{
	"null": avroNull, "boolean": avroBoolean, "int": avroInt, "long": avroLong,
	"float": avroFloat, "double": avroDouble, "string": avroString, "bytes": avroBytes, "fixed": avroBytes,
	"enum": avroEnum, "union": avroUnion, "record": avroRecord, "error": avroRecord, "array": avroArray, "map": avroMap,
}

// avroTimes are the dates and times by the type that they annotate and their
// name. Any other annotation is none: Avro's rule for readers that do not know it.
var avroTimes = map[[2]string]timeType{
	{"int", "date"}:                    {kind: daysSince1970},
	{"int", "time-millis"}:             {timeOfDay, perMilli},
	{"long", "time-micros"}:            {timeOfDay, perMicro},
	{"long", "time-nanos"}:             {timeOfDay, perNano},
	{"long", "timestamp-millis"}:       {timestamp, perMilli},
	{"long", "timestamp-micros"}:       {timestamp, perMicro},
	{"long", "timestamp-nanos"}:        {timestamp, perNano},
	{"long", "local-timestamp-millis"}: {localTimestamp, perMilli},
	{"long", "local-timestamp-micros"}: {localTimestamp, perMicro},
	{"long", "local-timestamp-nanos"}:  {localTimestamp, perNano},
}

// parseAvro parses and checks a writer schema; parts are the schemas it refers
// to, those first that others refer to.
func parseAvro(text string, parts []string) (*avroType, error) {
	cache := &avro.SchemaCache{} // of this schema alone: names mean something else in the next
	anyName := avro.WithLaxNames(func(string) error { return nil })
	for _, part := range parts {
		if _, err := cache.Parse(forReaders(part), anyName); err != nil {
			return nil, fmt.Errorf("a schema it refers to: %w", err)
		}
	}
	schema, err := cache.Parse(forReaders(text), anyName)
	if err != nil {
		return nil, err
	}
	return avroCompiler{}.compile(schema.Root(), "", 0)
}

// scaleOfDecimal is our property in the place of the annotation decimal.
const scaleOfDecimal = "feedsink.scale"

// forReaders is a schema without what is nothing to those who read what it wrote, as far
// as the parser is stricter than what other languages write with: defaults, orders,
// aliases, and annotations of decimals, of which the scale is kept.
func forReaders(text string) string {
	var schema any
	if json.Unmarshal([]byte(text), &schema) != nil {
		return text // the parser says why
	}
	strip(schema)
	stripped, err := json.Marshal(schema)
	if err != nil {
		return text
	}
	return string(stripped)
}

func strip(schema any) {
	switch s := schema.(type) {
	case []any:
		for _, one := range s {
			strip(one)
		}
	case map[string]any:
		for _, key := range [...]string{"default", "order", "aliases", "doc"} {
			delete(s, key)
		}
		if s["logicalType"] == "decimal" {
			scale, isNumber := s["scale"].(float64)
			if s["scale"] == nil || isNumber && scale >= 0 && scale == math.Trunc(scale) { // else, as in Java, it annotates nothing
				s[scaleOfDecimal] = strconv.Itoa(int(min(scale, tooLargeScale)))
			}
			delete(s, "logicalType")
			delete(s, "precision")
			delete(s, "scale")
		}
		for _, key := range [...]string{"type", "fields", "items", "values"} {
			strip(s[key])
		}
	}
}

// avroCompiler has the types by their full names.
type avroCompiler map[string]*avroType

var errDeepSchema = errors.New("types nested deeper than 64 levels")

// compile makes a node ready; names without a dot are of the namespace space.
func (c avroCompiler) compile(n *avro.SchemaNode, space string, depth int) (*avroType, error) {
	if depth > maxDepth {
		return nil, errDeepSchema
	}
	kind, ok := avroKinds[n.Type]
	if !ok {
		return c.named(n.Type, space)
	}
	t := &avroType{kind: kind, narrow: kind == avroInt, size: -1, symbols: n.Symbols, convert: connectType(n.Props)}
	var err error
	switch n.Type {
	case "fixed", "enum":
		name, _ := fullName(n)
		c[name] = t
		if n.Type == "fixed" {
			t.size = n.Size
		}
	case "record", "error":
		name, inside := fullName(n)
		c[name] = t
		t.fields = make([]avroField, len(n.Fields))
		for i := range n.Fields {
			t.fields[i].name = n.Fields[i].Name
			if t.fields[i].typ, err = c.compile(&n.Fields[i].Type, inside, depth+1); err != nil {
				return nil, err
			}
		}
	case "array":
		t.item, err = c.compile(n.Items, space, depth+1)
	case "map":
		t.item, err = c.compile(n.Values, space, depth+1)
	case "union":
		t.branches = make([]*avroType, len(n.Branches))
		for i := range n.Branches {
			if t.branches[i], err = c.compile(&n.Branches[i], space, depth+1); err != nil {
				return nil, err
			}
		}
	}
	if err != nil {
		return nil, err
	}
	t.logical(n)
	return t, nil
}

// named is a type that the schema has named before.
func (c avroCompiler) named(name, space string) (*avroType, error) {
	known := c[space+"."+name]
	if known == nil || strings.Contains(name, ".") {
		known = c[name]
	}
	if known == nil {
		return nil, fmt.Errorf("the type %q is not defined", name)
	}
	return known, nil
}

// logical applies the annotation of a type.
func (t *avroType) logical(n *avro.SchemaNode) {
	times, isTime := avroTimes[[2]string{n.Type, n.LogicalType}]
	scale, isDecimal := n.Props[scaleOfDecimal].(string)
	isDecimal = isDecimal && (n.Type == "bytes" || n.Type == "fixed")
	if isTime || isDecimal {
		t.convert = nil // the annotation says the same as any name beside it
	}
	switch {
	case isTime:
		t.kind, t.time = avroTime, times
		if n.LogicalType == "timestamp-millis" && n.Props["connect.name"] == connectTimestamp {
			t.time.kind = localTimestamp // but for Connect's, which has no zone: see connectTimes
		}
	case isDecimal:
		t.kind = avroDecimal
		t.scale, _ = strconv.Atoi(scale)
	case n.Type == "fixed" && n.LogicalType == "uuid" && n.Size == 16:
		t.kind = avroUUID
	case n.Type == "fixed" && n.LogicalType == "duration" && n.Size == 12:
		t.kind = avroDuration
	}
}

// fullName is the name of a named type, with the namespace that names inside it
// are of.
func fullName(n *avro.SchemaNode) (name, space string) {
	name = n.Name
	if n.Namespace != "" && !strings.Contains(name, ".") {
		name = n.Namespace + "." + name
	}
	return name, name[:max(0, strings.LastIndexByte(name, '.'))]
}
