package schemas

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// fuzzAvro are the schemas whose records are fuzzed: all kinds of types, and
// those that ask for much with few bytes.
var fuzzAvro = []string{
	benchAvro,
	`{"type":"record","name":"all","fields":[
		{"name":"b","type":"boolean"},{"name":"i","type":"int"},{"name":"l","type":"long"},{"name":"f","type":"float"},{"name":"d","type":"double"},
		{"name":"s","type":"string"},{"name":"r","type":"bytes"},{"name":"x","type":{"type":"fixed","name":"F","size":3}},
		{"name":"e","type":{"type":"enum","name":"E","symbols":["A","B"]}},{"name":"u","type":["null","string","long","all"]},
		{"name":"a","type":{"type":"array","items":["int","string"]}},{"name":"m","type":{"type":"map","values":"double"}}]}`,
	`{"type":"array","items":{"type":"array","items":"null"}}`,
	`{"type":"record","name":"n","namespace":"a.b","fields":[{"name":"next","type":["null","n"]},{"name":"more","type":{"type":"map","values":"n"}}]}`,
	`{"type":"record","name":"logical","fields":[
		{"name":"d","type":{"type":"int","logicalType":"date"}},{"name":"t","type":{"type":"long","logicalType":"timestamp-micros"}},
		{"name":"c","type":{"type":"int","logicalType":"time-millis"}},{"name":"n","type":{"type":"bytes","logicalType":"decimal","precision":20,"scale":3}},
		{"name":"u","type":{"type":"fixed","name":"U","size":16,"logicalType":"uuid"}},{"name":"p","type":{"type":"fixed","name":"P","size":12,"logicalType":"duration"}}]}`,
}

// costly measures what f allocates, but for a few small values that the heap has
// not counted yet. Unlike runtime.ReadMemStats it does not stop the world, which
// would be most of a target's time.
func costly(f func()) uint64 {
	before := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	after := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(before)
	f()
	metrics.Read(after)
	return after[0].Value.Uint64() - before[0].Value.Uint64()
}

// allowed is what a record of that length may cost: each value 64 bytes, of
// which growing lists hold a few at a time.
func allowed(length int) uint64 { return uint64(valuesIn(length))*64*5 + 1<<20 }

// FuzzAvro holds the reader against twmb/avro: the two refuse the same records
// and read the others alike, and no record costs more than its bytes can mean.
func FuzzAvro(f *testing.F) {
	types, references := make([]*avroType, len(fuzzAvro)), make([]*avro.Schema, len(fuzzAvro))
	for i, text := range fuzzAvro {
		types[i], references[i] = parsed(f, text), avro.MustParse(text)
	}
	data, err := references[0].Encode(benchCustomer())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint8(0), data)
	f.Add(uint8(1), []byte{1, 2, 2, 0, 0, 128, 63, 0, 0, 0, 0, 0, 0, 240, 63, 2, 'x', 2, 0, 1, 2, 3, 2, 2, 2, 'y', 1, 4, 0, 2, 0, 2, 2, 'k', 0, 0, 0, 0, 0, 0, 240, 63, 0})
	f.Add(uint8(2), []byte{2, 0xfe, 0xff, 0x7f, 0, 0})
	f.Add(uint8(3), []byte{2, 2, 0, 0, 2, 2, 'a', 0, 0, 0})
	f.Add(uint8(4), append([]byte{2, 2, 2, 4, 1, 2}, make([]byte, 28)...))
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		if len(data) > 1<<12 {
			return
		}
		i := int(which) % len(types)
		var v Value
		var err error
		if cost := costly(func() { v, err = new(avroReader).decode(types[i], data) }); cost > allowed(len(data)) {
			t.Fatalf("%d bytes cost %d", len(data), cost)
		}
		var want any
		rest, wantErr := references[i].Decode(data, &want)
		if err != nil {
			return // ours is the stricter one: depth, counts, UTF-8, double entries
		}
		text := v.AppendJSON(nil)
		if !json.Valid(text) {
			t.Fatalf("not valid JSON: %s", text)
		}
		if wantErr != nil || len(rest) > 0 {
			if strings.Contains(string(text), "null") && i == 2 {
				return // lists of nulls, where the two count differently
			}
			t.Fatalf("got %s, but twmb/avro says %v with %d bytes left", text, wantErr, len(rest))
		}
		if i == 4 {
			return // its values have other Go types; the table of types compares them
		}
		alike(t, v, want)
	})
}

// alike compares a value with plain Go.
func alike(t *testing.T, v Value, want any) {
	t.Helper()
	switch w := want.(type) {
	case map[string]any:
		if v.Kind() != Object || len(v.Items()) != len(w) {
			t.Fatalf("got %s, want %d members", v.AppendJSON(nil), len(w))
		}
		for name, member := range w {
			alike(t, v.Get(name), member)
		}
	case []any:
		if v.Kind() != List || len(v.Items()) != len(w) {
			t.Fatalf("got %s, want %d elements", v.AppendJSON(nil), len(w))
		}
		for i, element := range w {
			alike(t, v.Items()[i].Value, element)
		}
	case float32:
		sameFloat(t, v, float64(w), 32)
	case float64:
		sameFloat(t, v, w, 64)
	case string:
		if v.Kind() != String || v.Text() != w {
			t.Fatalf("got %s, want %q", v.AppendJSON(nil), w)
		}
	case []byte:
		alike(t, v, base64.StdEncoding.EncodeToString(w))
	default:
		if got, want := string(v.AppendJSON(nil)), jsonOf(t, want); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
}

func sameFloat(t *testing.T, v Value, want float64, bits int) {
	t.Helper()
	got, err := strconv.ParseFloat(v.Text(), bits)
	if err != nil || got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
		t.Fatalf("got %s, want %v", v.AppendJSON(nil), want)
	}
}

func jsonNumber(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// FuzzProtobuf holds the reader against protobuf-go and its JSON mapping.
func FuzzProtobuf(f *testing.F) {
	w, d := compiledProto(f, everything), reference(f, everything)
	for _, text := range []string{
		`{}`, `{"text":"a","raw":"AQ==","yes":true,"i64":"-5","tier":"GOLD","maybe":0,"phone":"7"}`,
		`{"numbers":[1,2],"words":["a"],"children":[{"text":"b"},{}],"counts":{"a":"1"},"named":{"1":{"i32":4}},"tiers":{"true":"GOLD"}}`,
		`{"at":"2026-11-21T10:00:00Z","took":"1.5s","extra":{"a":[1,{"b":null}]},"note":"n","points":"4","next":{"other":{"real":1.5}}}`,
	} {
		f.Add(wireOfJSON(f, d, text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<12 {
			return
		}
		var v Value
		var err error
		record := append([]byte{0}, data...)
		if cost := costly(func() { v, err = new(protoReader).decode(w, nil, record) }); cost > allowed(len(record)) {
			t.Fatalf("%d bytes cost %d", len(data), cost)
		}
		if err != nil {
			return // ours is the stricter one: depth, counts
		}
		m := dynamicpb.NewMessage(d)
		// protobuf-go 1.36 panics where a map's key is followed by a field of its
		// number and another type.
		defer func() { _ = recover() }()
		err = proto.Unmarshal(data, m)
		if err != nil {
			t.Errorf("got %s, but protobuf-go says %v", v.AppendJSON(nil), err)
			return
		}
		sameMessage(t, v, m)
	})
}

func sameMessage(t *testing.T, v Value, m protoreflect.Message) {
	t.Helper()
	text, err := protojson.MarshalOptions{EmitDefaultValues: true, UseProtoNames: true}.Marshal(m.Interface())
	if err != nil {
		return // it cannot be said in JSON, e.g. a struct's value that is none
	}
	var want any
	if err := json.Unmarshal(text, &want); err != nil {
		t.Error(err)
	}
	var got any
	if err := json.Unmarshal(v.AppendJSON(nil), &got); err != nil {
		t.Errorf("not valid JSON: %s", v.AppendJSON(nil))
	}
	if got, want := jsonOf(t, plain(got)), jsonOf(t, plain(want)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// plain makes one spelling of what the mapping and the reader spell differently
// on purpose: 64-bit numbers are texts there, moments have zeros at the end,
// and a name that somebody chose is not used there.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, member := range v {
			if name == "short_name" {
				name = "chosen"
			}
			out[name] = plain(member)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plain(v[i])
		}
		return out
	case float64:
		return jsonNumber(v)
	case string:
		if strings.HasSuffix(v, "s") || strings.HasSuffix(v, "Z") {
			return strings.TrimRight(strings.TrimRight(strings.TrimRight(v, "sZ"), "0"), ".")
		}
		return trimmedNumber(v)
	}
	return v
}

// trimmedNumber is a number's text as the mapping's numbers are read: by way of
// a double.
func trimmedNumber(s string) string {
	var f float64
	if json.Unmarshal([]byte(s), &f) == nil {
		return jsonNumber(f)
	}
	return s
}

// FuzzJSONSchema checks records against a schema of many rules: no record costs
// more than its bytes can mean, and no error quotes one.
func FuzzJSONSchema(f *testing.F) {
	w, err := parseJSONSchema(`{"type":"object","required":["id"],"additionalProperties":{"$ref":"#"},
		"properties":{"id":{"type":["string","integer"],"pattern":"^(a|b)*c?$","maxLength":40},"n":{"type":"number","multipleOf":0.01},
		"list":{"type":"array","items":{"anyOf":[{"$ref":"#"},{"type":"null"},{"type":"string","format":"date-time"}]},"uniqueItems":true},
		"kind":{"enum":["a",1,null]}},"patternProperties":{"^x+$":{"not":{"type":"boolean"}}},"if":{"required":["n"]},"then":{"required":["kind"]}}`, nil, true)
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{
		`{"id":"abc"}`, `{"id":1,"n":0.03,"kind":null}`, `{"id":"","list":[null,{"id":1},"2026-11-21T10:00:00Z"]}`, `{"id":1,"x":true}`,
		`{"id":1,"a":{"id":1,"a":{"id":1}}}`, `{"id":1,"n":1e308}`, `{"id":1,"list":[1e999]}`, `[]`,
	} {
		f.Add([]byte(text))
	}
	d := &wire{}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<12 {
			return
		}
		var v Value
		var err error
		// The validator keeps what it found out about each part of the record.
		if cost := costly(func() { v, err = d.checked(w, data) }); cost > 64*allowed(len(data)) {
			t.Fatalf("%d bytes cost %d", len(data), cost)
		}
		if err == nil && (v.Kind() != Object || v.Get("id").Kind() == Absent) {
			t.Fatalf("got %s, which lacks what is required", v.AppendJSON(nil))
		}
		if bad := (*DecodeError)(nil); err != nil && (!errors.As(err, &bad) || bad.Format != string(FormatJSONSchema)) {
			t.Fatalf("error: got %T %v, want *DecodeError of its format", err, err)
		}
	})
}

// FuzzSchemas takes schemas from a registry that anybody may write to: each is
// refused or read by, at a cost that its text explains.
func FuzzSchemas(f *testing.F) {
	for _, text := range fuzzAvro {
		f.Add(uint8(0), text)
	}
	f.Add(uint8(0), `{"type":"fixed","name":"f","size":2147483647}`)
	f.Add(uint8(0), `{"type":"record","name":"r","fields":[{"name":"r","type":"r"}]}`)
	f.Add(uint8(1), everything)
	f.Add(uint8(1), `syntax = "proto3"; message A { repeated A a = 1; map<string, A> m = 536870911; reserved 2 to max; }`)
	f.Add(uint8(2), `{"$ref":"#"}`)
	f.Add(uint8(2), `{"pattern":"(((((x{100}){100}){100}){100}){100})"}`)
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		if len(text) > 1<<12 {
			return
		}
		cost := costly(func() {
			switch which % 3 {
			case 0:
				if typ, err := parseAvro(text, nil); err == nil {
					_, _ = new(avroReader).decode(typ, []byte{2, 0, 2, 0, 2})
				}
			case 1:
				if w, err := parseProtobuf(t.Context(), text, nil); err == nil {
					_, _ = new(protoReader).decode(w, nil, []byte{0, 10, 0, 10, 0})
				}
			default:
				jsonTypes(text).apply(jsonValue(t, `{"a":[1]}`))
				if w, err := parseJSONSchema(text, nil, true); err == nil {
					_, _ = new(wire).checked(w, []byte(`{"a":[1]}`))
				}
			}
		})
		if cost > 256<<20 {
			t.Fatalf("a schema of %d bytes cost %d", len(text), cost)
		}
	})
}

// FuzzWire feeds whole records to each format, schemas and all.
func FuzzWire(f *testing.F) {
	d := newDesk()
	d.SeedSchema("a", 1, 1, schemaOf(benchAvro, FormatAvro))
	d.SeedSchema("p", 1, 2, schemaOf(everything, FormatProtobuf))
	d.SeedSchema("j", 1, 3, schemaOf(`{"type":"object"}`, FormatJSONSchema))
	r := d.open(f, func(c *RegistryConfig) { c.Validate = true })
	f.Cleanup(r.Close)
	formats := []Format{FormatAvro, FormatProtobuf, FormatJSONSchema}
	for i, format := range formats {
		if _, err := soon(f, r.Decoder(format), framed(uint32(i+1))); err == nil {
			f.Fatal("an empty record: got no error")
		}
		f.Add(uint8(i), framed(uint32(i+1), []byte(`{"a":1}`)...))
	}
	f.Add(uint8(1), framed(2, 0, 0x0a, 1, 'x'))
	f.Add(uint8(0), []byte{0, 0, 0})
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		if len(data) > idBytes && bytes.Compare(data[1:idBytes], []byte{0, 0, 0, 3}) > 0 {
			return // a schema that is asked for: the registry's tests
		}
		var v Value
		var err error
		if cost := costly(func() { v, err = r.Decoder(formats[int(which)%len(formats)]).Decode(data) }); cost > 2*allowed(len(data)) {
			t.Fatalf("%d bytes cost %d", len(data), cost)
		}
		if err == nil && !json.Valid(v.AppendJSON(nil)) {
			t.Fatalf("not valid JSON: %s", v.AppendJSON(nil))
		}
	})
}

func schemaOf(text string, f Format) sr.Schema {
	types := map[Format]sr.SchemaType{FormatAvro: sr.TypeAvro, FormatProtobuf: sr.TypeProtobuf, FormatJSONSchema: sr.TypeJSON}
	return sr.Schema{Schema: text, Type: types[f]}
}

// What the targets measure by is seen to measure.
func TestCostlyCountsWhatIsAllocated(t *testing.T) {
	var kept [][]byte
	if got := costly(func() { kept = append(kept, make([]byte, 8<<20)) }); got < 8<<20 || got > 12<<20 {
		t.Errorf("got %d bytes for one of 8 MiB", got)
	}
	if got := costly(func() {
		for range 8 << 10 {
			kept = append(kept, make([]byte, 1<<10))
		}
	}); got < 7<<20 {
		t.Errorf("got %d bytes for 8 MiB in small parts, %d parts", got, len(kept))
	}
}
