package e2e_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"strconv"
	"testing"
	"time"

	hamba "github.com/hamba/avro/v2"
)

// avroOf writes JSON as a schema has it: texts of logical types as what they
// mean, bytes in base64, and of a union the branch that is not null.
func avroOf(t *testing.T, schema string, text []byte) []byte {
	t.Helper()
	parsed, err := hamba.ParseBytesWithCache([]byte(schema), "", &hamba.SchemaCache{})
	if err != nil {
		t.Fatal(err)
	}
	var value any
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber()
	if err := numbers.Decode(&value); err != nil {
		t.Fatal(err)
	}
	data, err := hamba.Marshal(parsed, avroValue(t, parsed, value))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// avroValue is a JSON value as hamba wants it for the schema.
func avroValue(t *testing.T, schema hamba.Schema, value any) any {
	t.Helper()
	switch s := schema.(type) {
	case *hamba.RefSchema:
		return avroValue(t, s.Schema(), value)
	case *hamba.UnionSchema:
		if value == nil {
			return nil
		}
		branch := s.Types()[len(s.Types())-1]
		if named, is := branch.(*hamba.RefSchema); is {
			branch = named.Schema()
		}
		inner := avroValue(t, branch, value)
		if named, is := branch.(hamba.NamedSchema); is {
			return map[string]any{named.FullName(): inner}
		}
		name := string(branch.Type())
		if logical, is := branch.(hamba.LogicalTypeSchema); is && logical.Logical() != nil {
			name += "." + string(logical.Logical().Type())
		}
		return map[string]any{name: inner}
	case *hamba.RecordSchema:
		object, is := value.(map[string]any)
		if !is {
			t.Fatalf("%s: got %v, want an object", s.FullName(), value)
		}
		record := map[string]any{}
		for _, f := range s.Fields() {
			record[f.Name()] = avroValue(t, f.Type(), object[f.Name()])
		}
		return record
	case *hamba.ArraySchema:
		list := []any{}
		for _, element := range value.([]any) {
			list = append(list, avroValue(t, s.Items(), element))
		}
		return list
	case *hamba.MapSchema:
		entries := map[string]any{}
		for name, element := range value.(map[string]any) {
			entries[name] = avroValue(t, s.Values(), element)
		}
		return entries
	case *hamba.PrimitiveSchema:
		return avroPrimitive(t, s, value)
	}
	return value
}

func avroPrimitive(t *testing.T, schema *hamba.PrimitiveSchema, value any) any {
	t.Helper()
	text, _ := value.(string)
	if logical := schema.Logical(); logical != nil && text != "" {
		switch logical.Type() {
		case hamba.Decimal:
			exact, ok := new(big.Rat).SetString(text)
			if !ok {
				t.Fatalf("%q is no decimal", text)
			}
			return exact
		case hamba.TimestampMillis, hamba.TimestampMicros:
			at, err := time.Parse(time.RFC3339Nano, text)
			if err != nil {
				t.Fatal(err)
			}
			return at
		}
	}
	number, _ := value.(json.Number)
	switch schema.Type() {
	case hamba.Int:
		n, err := number.Int64()
		if err != nil {
			t.Fatal(err)
		}
		return int(n)
	case hamba.Long:
		n, err := number.Int64()
		if err != nil {
			t.Fatal(err)
		}
		return n
	case hamba.Float, hamba.Double:
		n, err := strconv.ParseFloat(number.String()+text, 64) // what is no number, such as NaN, is a text in JSON
		if err != nil {
			t.Fatal(err)
		}
		if schema.Type() == hamba.Float {
			return float32(n)
		}
		return n
	case hamba.Bytes:
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	return value
}
