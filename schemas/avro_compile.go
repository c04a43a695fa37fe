package schemas

import (
	"errors"
	"fmt"
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
	avroBytes
	avroFixed
	avroEnum
	avroUnion
	avroRecord
	avroArray
	avroMap

	// The logical types.
	avroDate
	avroTimeMillis
	avroTimeMicros
	avroTimeNanos
	avroTimestampMillis
	avroTimestampMicros
	avroTimestampNanos
	avroLocalMillis
	avroLocalMicros
	avroLocalNanos
	avroDecimal
	avroFixedDecimal
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
	size     int         // of fixed, in bytes
	scale    int         // of decimals: digits behind the point
	convert  convert     // nil: the value is what the type says
}

type avroField struct {
	name string
	typ  *avroType
}

var avroPrimitives = map[string]avroKind{
	"null": avroNull, "boolean": avroBoolean, "int": avroInt, "long": avroLong,
	"float": avroFloat, "double": avroDouble, "string": avroString, "bytes": avroBytes,
}

// avroLogical are the logical types by what they annotate. Any other annotation
// is none: Avro's rule for readers that do not know it.
var avroLogical = map[[2]string]avroKind{
	{"int", "date"}: avroDate, {"int", "time-millis"}: avroTimeMillis,
	{"long", "time-micros"}: avroTimeMicros, {"long", "time-nanos"}: avroTimeNanos,
	{"long", "timestamp-millis"}: avroTimestampMillis, {"long", "local-timestamp-millis"}: avroLocalMillis,
	{"long", "timestamp-micros"}: avroTimestampMicros, {"long", "local-timestamp-micros"}: avroLocalMicros,
	{"long", "timestamp-nanos"}: avroTimestampNanos, {"long", "local-timestamp-nanos"}: avroLocalNanos,
	{"bytes", "decimal"}: avroDecimal, {"fixed", "decimal"}: avroFixedDecimal,
}

// parseAvro parses and checks a writer schema; parts are the schemas it refers
// to, those first that others refer to.
func parseAvro(text string, parts []string) (*avroType, error) {
	cache := &avro.SchemaCache{} // of this schema alone: names mean something else in the next
	for _, part := range parts {
		if _, err := cache.Parse(part); err != nil {
			return nil, fmt.Errorf("a schema it refers to: %w", err)
		}
	}
	schema, err := cache.Parse(text)
	if err != nil {
		return nil, err
	}
	c := avroCompiler{named: map[string]*avroType{}}
	return c.compile(schema.Root(), "", 0)
}

type avroCompiler struct{ named map[string]*avroType }

var errDeepSchema = errors.New("types nested deeper than 64 levels")

// compile makes a node ready; names without a dot are of the namespace space.
func (c *avroCompiler) compile(n *avro.SchemaNode, space string, depth int) (*avroType, error) {
	if depth > MaxDepth {
		return nil, errDeepSchema
	}
	t := &avroType{size: n.Size, scale: n.Scale, symbols: n.Symbols, convert: connectType(n.Props)}
	if kind, ok := avroPrimitives[n.Type]; ok {
		t.kind, t.narrow = kind, kind == avroInt
	}
	var err error
	switch n.Type {
	case "null", "boolean", "int", "long", "float", "double", "string", "bytes":
	case "fixed", "enum":
		t.kind = avroFixed
		if n.Type == "enum" {
			t.kind = avroEnum
		}
		name, _ := fullName(n)
		c.named[name] = t
	case "record", "error":
		t.kind = avroRecord
		name, inside := fullName(n)
		c.named[name] = t
		t.fields = make([]avroField, len(n.Fields))
		for i := range n.Fields {
			t.fields[i].name = n.Fields[i].Name
			if t.fields[i].typ, err = c.compile(&n.Fields[i].Type, inside, depth+1); err != nil {
				return nil, err
			}
		}
	case "array":
		t.kind = avroArray
		t.item, err = c.compile(n.Items, space, depth+1)
	case "map":
		t.kind = avroMap
		t.item, err = c.compile(n.Values, space, depth+1)
	case "union":
		t.kind = avroUnion
		t.branches = make([]*avroType, len(n.Branches))
		for i := range n.Branches {
			if t.branches[i], err = c.compile(&n.Branches[i], space, depth+1); err != nil {
				return nil, err
			}
		}
	default:
		known := c.named[space+"."+n.Type]
		if known == nil || strings.Contains(n.Type, ".") {
			known = c.named[n.Type]
		}
		if known == nil {
			return nil, fmt.Errorf("the type %q is not defined", n.Type)
		}
		return known, nil
	}
	if err != nil {
		return nil, err
	}
	return t, t.logical(n)
}

// logical applies the annotation of a type.
func (t *avroType) logical(n *avro.SchemaNode) error {
	if kind, ok := avroLogical[[2]string{n.Type, n.LogicalType}]; ok {
		t.kind, t.convert = kind, nil // it says the same as any name beside it
		if kind == avroTimestampMillis && n.Props["connect.name"] == connectTimestamp {
			t.kind = avroLocalMillis // but for Connect's, which has no zone: see Logical
		}
	}
	switch {
	case n.Type == "fixed" && n.LogicalType == "uuid" && n.Size == 16:
		t.kind = avroUUID
	case n.Type == "fixed" && n.LogicalType == "duration" && n.Size == 12:
		t.kind = avroDuration
	case t.kind != avroDecimal && t.kind != avroFixedDecimal:
	case n.Scale < 0 || n.Scale > 2*maxDecimal:
		return fmt.Errorf("a decimal has the scale %d: from 0 to %d", n.Scale, 2*maxDecimal)
	}
	return nil
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
