package schemas

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
	_ "google.golang.org/protobuf/types/known/anypb" // the files that the schema imports
	_ "google.golang.org/protobuf/types/known/durationpb"
	_ "google.golang.org/protobuf/types/known/structpb"
	_ "google.golang.org/protobuf/types/known/timestamppb"
	_ "google.golang.org/protobuf/types/known/wrapperspb"
)

// everything has a field of each kind there is.
const everything = `syntax = "proto3";
package t;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/any.proto";
message All {
  string text = 1; bytes raw = 2; bool yes = 3;
  int32 i32 = 4; int64 i64 = 5; uint32 u32 = 6; uint64 u64 = 7; sint32 s32 = 8; sint64 s64 = 9;
  fixed32 f32 = 10; fixed64 f64 = 11; sfixed32 sf32 = 12; sfixed64 sf64 = 13; float real = 14; double wide = 15;
  Tier tier = 16; optional int32 maybe = 17; optional string said = 18;
  oneof contact { string email = 19; int64 phone = 20; All other = 21; }
  repeated int32 numbers = 22; repeated string words = 23; repeated All children = 24; repeated sint64 loose = 25 [packed = false];
  map<string, int64> counts = 26; map<int32, All> named = 27; map<bool, Tier> tiers = 28;
  google.protobuf.Timestamp at = 29; google.protobuf.Duration took = 30; google.protobuf.Struct extra = 31;
  google.protobuf.StringValue note = 32; google.protobuf.Int64Value points = 33; google.protobuf.Value any_value = 34;
  All next = 200; string short_name = 300 [json_name = "chosen"]; repeated Tier ranks = 35; repeated double factors = 36;
}
enum Tier { NONE = 0; GOLD = 1; LOW = -2; }`

// reference is protobuf-go's reading of a schema's first message.
func reference(t testing.TB, text string) protoreflect.MessageDescriptor {
	t.Helper()
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(map[string]string{"reference.proto": text}),
	})}
	files, err := compiler.Compile(t.Context(), "reference.proto")
	if err != nil {
		t.Fatal(err)
	}
	// The compiler's own descriptors know no default of a map's key, and dynamicpb
	// panics where one is missing.
	file, err := protodesc.NewFile(protodesc.ToFileDescriptorProto(files[0]), protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	return file.Messages().Get(0)
}

func compiledProto(t testing.TB, text string) protoFile {
	t.Helper()
	w, err := parseProtobuf(t.Context(), text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// wireOfJSON encodes what protobuf-go reads from the JSON mapping.
func wireOfJSON(t testing.TB, d protoreflect.MessageDescriptor, text string) []byte {
	t.Helper()
	m := dynamicpb.NewMessage(d)
	if err := protojson.Unmarshal([]byte(text), m); err != nil {
		t.Fatal(err)
	}
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestProtobufTypesBecomeValues(t *testing.T) {
	d, w := reference(t, everything), compiledProto(t, everything)
	for _, c := range []struct{ text, field, want string }{
		{`{"text":"é"}`, "text", `"é"`},
		{`{"raw":"/wAB"}`, "raw", `"/wAB"`},
		{`{"yes":true}`, "yes", `true`},
		{`{"i32":-5}`, "i32", `-5`},
		{`{"i64":"-9223372036854775808"}`, "i64", `-9223372036854775808`},
		{`{"u32":4294967295}`, "u32", `4294967295`},
		{`{"u64":"18446744073709551615"}`, "u64", `18446744073709551615`},
		{`{"s32":-2147483648}`, "s32", `-2147483648`},
		{`{"s64":"-3"}`, "s64", `-3`},
		{`{"f32":4294967295}`, "f32", `4294967295`},
		{`{"f64":"18446744073709551615"}`, "f64", `18446744073709551615`},
		{`{"sf32":-1}`, "sf32", `-1`},
		{`{"sf64":"-1"}`, "sf64", `-1`},
		{`{"real":0.1}`, "real", `0.1`},
		{`{"wide":1e300}`, "wide", `1e+300`},
		{`{"wide":"-Infinity"}`, "wide", `"-Infinity"`},
		{`{"tier":"GOLD"}`, "tier", `"GOLD"`},
		{`{"tier":7}`, "tier", `7`},
		{`{"tier":-2}`, "tier", `"LOW"`},
		{`{}`, "text", `""`},
		{`{}`, "i64", `0`},
		{`{}`, "yes", `false`},
		{`{}`, "tier", `"NONE"`},
		{`{}`, "numbers", `[]`},
		{`{}`, "counts", `{}`},
		{`{}`, "maybe", `absent`},
		{`{}`, "email", `absent`},
		{`{}`, "next", `absent`},
		{`{"maybe":0,"said":""}`, "maybe", `0`},
		{`{"said":""}`, "said", `""`},
		{`{"phone":"5"}`, "phone", `5`},
		{`{"phone":"5"}`, "email", `absent`},
		{`{"numbers":[1,-2,300]}`, "numbers", `[1,-2,300]`},
		{`{"loose":[1,-2,300]}`, "loose", `[1,-2,300]`},
		{`{"words":["a",""]}`, "words", `["a",""]`},
		{`{"counts":{"a":"1","":"0"}}`, "counts", `{"a":1,"":0}`},
		{`{"tiers":{"true":"GOLD"}}`, "tiers", `{"true":"GOLD"}`},
		{`{"at":"2026-11-21T10:00:00.120Z"}`, "at", `"2026-11-21T10:00:00.12Z"`},
		{`{"took":"-1.5s"}`, "took", `"-1.5s"`},
		{`{"took":"0s"}`, "took", `"0s"`},
		{`{"extra":{"a":[1,null,{"b":"c"}],"t":true}}`, "extra", `{"a":[1,null,{"b":"c"}],"t":true}`},
		{`{"anyValue":null}`, "any_value", `null`},
		{`{"note":"x"}`, "note", `"x"`},
		{`{"points":"0"}`, "points", `0`},
		{`{"chosen":"x"}`, "chosen", `"x"`},
	} {
		v, err := new(protoReader).decode(w, nil, append([]byte{0}, wireOfJSON(t, d, c.text)...))
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		got := "absent"
		if member := v.Get(c.field); member.Kind() != Absent {
			got = canonical(t, member.AppendJSON(nil))
		}
		if want := c.want; want != "absent" && got != canonical(t, []byte(want)) || want == "absent" && got != want {
			t.Errorf("%s: %s: got %s, want %s", c.text, c.field, got, c.want)
		}
	}
}

// canonical is JSON with its members sorted.
func canonical(t testing.TB, data []byte) string {
	t.Helper()
	var v any
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return jsonOf(t, v)
}

func jsonOf(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestProtobufPartsAreMerged(t *testing.T) {
	w := compiledProto(t, everything)
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"the last scalar counts", []byte{0, 8 * 4, 1, 8 * 4, 2}, `i32 2`},
		{"messages are merged", []byte{0, 0xc2, 0x0c, 2, 8 * 4, 1, 0xc2, 0x0c, 3, 0x0a, 1, 'x'}, `next {"i32":1,"text":"x"}`},
		{"lists follow each other, packed and not", []byte{0, 0xb2, 1, 2, 1, 2, 8 * 4, 9, 0xb0, 1, 3}, `numbers [1,2,3]`},
		{"of a map's entries the last counts", []byte{0, 0xd2, 1, 5, 0x0a, 1, 'a', 0x10, 1, 0xd2, 1, 5, 0x0a, 1, 'a', 0x10, 2}, `counts {"a":2}`},
		{"a map's entry may lack its value", []byte{0, 0xda, 1, 2, 8, 3}, `named {"3":…}`},
		{"of a oneof the last counts", []byte{0, 0x9a, 1, 1, 'x', 0xa0, 1, 5}, `phone 5`},
		{"what the schema does not know is skipped", []byte{0, 0xfa, 0x3f, 1, 'x', 8 * 4, 3}, `i32 3`},
		{"so is what has another type", []byte{0, 8*4 + 2, 1, 'x', 0x0a, 1, 'y'}, `text "y"`},
	} {
		v, err := new(protoReader).decode(w, nil, c.data)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		field, want, _ := strings.Cut(c.want, " ")
		got := v.Get(field)
		switch field {
		case "next": // only what was said
			got = ObjectValue([]Field{{"i32", got.Get("i32")}, {"text", got.Get("text")}})
		case "named":
			if got.Get("3").Get("i32").Text() != "0" {
				t.Errorf("%s: got %s", c.name, got.AppendJSON(nil))
			}
			continue
		}
		if string(got.AppendJSON(nil)) != want {
			t.Errorf("%s: got %s, want %s", c.name, got.AppendJSON(nil), want)
		}
		if field == "phone" && v.Get("email").Kind() != Absent {
			t.Errorf("%s: the other one is still there", c.name)
		}
	}
}

// Each further part of a message reads its maps once more.
func TestAProtobufMessageInManyPartsCostsNoMoreThanItsBytesCanMean(t *testing.T) {
	w := compiledProto(t, `syntax = "proto3"; message R { M x = 1; } message M { map<string, int32> m = 1; }`)
	part := func(data []byte, entries ...[]byte) []byte {
		var all []byte
		for _, entry := range entries {
			all = protowire.AppendBytes(append(all, 0x0a), entry)
		}
		return protowire.AppendBytes(append(data, 0x0a), all)
	}
	entry := func(i int) []byte { return append(protowire.AppendString([]byte{0x0a}, strconv.Itoa(i)), 0x10, 1) }
	var keys, same [][]byte
	for i := range 2_000 {
		keys = append(keys, entry(i))
	}
	for range 20_000 {
		same = append(same, entry(0))
	}
	for _, c := range []struct {
		name         string
		first, later [][]byte
		parts        int
		want         int // entries; 0: it holds too many
	}{
		{"a few parts", keys, nil, 100, 2_000},
		{"many that are empty", keys, nil, 20_000, 0},
		{"many with an entry", keys, keys[:1], 20_000, 0},
		{"of a key the last entry is kept", same, same[:1], 20_000, 1},
	} {
		data := part([]byte{0}, c.first...)
		for range c.parts {
			data = part(data, c.later...)
		}
		var v Value
		var err error
		if cost := costly(func() { v, err = new(protoReader).decode(w, nil, data) }); cost > allowed(len(data)) {
			t.Errorf("%s: %d bytes cost %d", c.name, len(data), cost)
		}
		got := len(v.Get("x").Get("m").Items())
		if bad, ok := errors.AsType[*DecodeError](err); got != c.want || ok != (c.want == 0) || ok && bad.Rule != errMany.Error() {
			t.Errorf("%s: got %d entries, %v, want %d", c.name, got, err, c.want)
		}
	}
}

// Kafka Connect leaves a column that is null out of Protobuf's messages.
func TestColumnsThatProtobufLeavesOutAreNull(t *testing.T) {
	const row = `message Row { int32 id = 1; optional string note = 2; optional int64 total = 3; google.protobuf.Timestamp paid = 4; }`
	const head = `syntax = "proto3"; import "google/protobuf/timestamp.proto"; `
	for _, c := range []struct{ name, schema, event, want string }{
		{
			"an envelope", head + `message Envelope { Row before = 1; Row after = 2; Source source = 3; string op = 4; } message Source { int64 lsn = 1; } ` + row,
			`{"after":{"id":7,"total":"5"},"source":{"lsn":"9"},"op":"u"}`,
			`upsert {"id":7,"note":null,"total":5,"paid":null,"__op":"u","__source":{"lsn":9}}`,
		},
		{
			"a delete", head + `message Envelope { Row before = 1; Row after = 2; Source source = 3; string op = 4; } message Source { int64 lsn = 1; } ` + row,
			`{"before":{"id":7},"source":{"lsn":"9"},"op":"d"}`,
			`delete {"id":7,"note":null,"total":null,"paid":null,"__op":"d","__source":{"lsn":9}}`,
		},
		{
			"a delete without its row", head + `message Envelope { Row before = 1; Row after = 2; Source source = 3; string op = 4; } message Source { int64 lsn = 1; } ` + row,
			`{"source":{"lsn":"9"},"op":"d"}`, `delete null`,
		},
		{"flattened", head + row, `{"id":7,"note":"__debezium_unavailable_value"}`, `upsert {"id":7,"total":null,"paid":null} without note`},
	} {
		v, err := new(protoReader).decode(compiledProto(t, c.schema), nil, append([]byte{0}, wireOfJSON(t, reference(t, c.schema), c.event)...))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := story(NewDebezium("").Change(v)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
	if got, want := story(NewDebezium("").Change(jsonValue(t, `{"op":"u","source":{},"after":{"id":7}}`))), `upsert {"id":7,"__op":"u","__source":{}}`; got != want {
		t.Errorf("JSON, which has no more columns: got %s, want %s", got, want)
	}
}

func TestProtobufRefusesWhatIsNotItsSchemas(t *testing.T) {
	w := compiledProto(t, everything)
	var deep []byte
	for len(deep) < 100 { // 0xc2 0x0c is the field next
		deep = append([]byte{0xc2, 0x0c, byte(len(deep))}, deep...)
	}
	for range 40 {
		deep = append(protowire.AppendVarint([]byte{0xc2, 0x0c}, uint64(len(deep))), deep...)
	}
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"a message that is cut", []byte{0, 0x0a, 5, 'x'}, "protobuf: offset 3: a length is negative or beyond the end"},
		{"a number that is cut", []byte{0, 8 * 4, 0x80}, "protobuf: offset 2: ends too early"},
		{"text that is none", []byte{0, 0x0a, 1, 0xff}, "protobuf: offset 3: not valid UTF-8"},
		{"a field of number zero", []byte{0, 0}, "protobuf: offset 1: not a field"},
		{"a group that has no end", []byte{0, 0x0b}, "protobuf: offset 2: not a field"},
		{"nested without end", append([]byte{0}, deep...), "protobuf: offset 224: nested deeper than 64 levels"},
	} {
		_, err := new(protoReader).decode(w, nil, c.data)
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// Registries take these for granted; each file has to compile, and amounts to be read.
func TestGooglesCommonTypesAreKnown(t *testing.T) {
	files, err := known.ReadDir("protos/google/type")
	if err != nil {
		t.Fatal(err)
	}
	text := `syntax = "proto3"; package t; message M { google.type.Money price = 1; google.type.Decimal rate = 2; google.type.DayOfWeek day = 3; }`
	for _, file := range files {
		text += ` import "google/type/` + file.Name() + `";`
	}
	v, err := new(protoReader).decode(compiledProto(t, text), nil, []byte("\x00\x0a\x09\x0a\x03EUR\x10\x05\x18\x07\x12\x05\x0a\x03-.5\x18\x02"))
	const want = `{"price":{"currency_code":"EUR","units":5,"nanos":7},"rate":{"value":"-.5"},"day":"TUESDAY"}`
	if got := string(v.AppendJSON(nil)); err != nil || got != want || len(files) != 17 {
		t.Errorf("of %d files got %s, %v, want %s of 17", len(files), got, err, want)
	}
}

func TestWhatIsNoMomentOfProtobufIsUnreadable(t *testing.T) {
	w := compiledProto(t, `syntax = "proto3"; package t; import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto"; import "confluent/type/decimal.proto";
		message M { string id = 1; google.protobuf.Timestamp at = 2; google.protobuf.Duration took = 3; confluent.type.Decimal total = 4; }`)
	for _, c := range []struct {
		name  string
		field string
		data  []byte
		want  string // the rule; else JSON
	}{
		{"beyond the calendar", "at", []byte{0x12, 8, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, ruleYears},
		{"nanoseconds that are seconds", "at", []byte{0x12, 6, 0x10, 0x80, 0x94, 0xeb, 0xdc, 3}, "must be a timestamp whose nanoseconds are a fraction of a second"},
		{"a duration of two signs", "took", append([]byte{0x1a, 13, 8, 1, 0x10}, binary.AppendUvarint(nil, math.MaxUint64)...), "must be a duration whose seconds and nanoseconds have one sign, the latter a fraction of a second"},
		{"a scale beyond any number's", "total", []byte{0x22, 6, 0x0a, 1, 5, 0x18, 0x88, 0x27}, "must be a decimal with a scale from -256 to 256"},
		{"a decimal of 129 bytes", "total", append([]byte{0x22, 0x84, 1, 0x0a, 0x81, 1}, make([]byte, 129)...), "must be a decimal of at most 128 bytes"},
		{"a negative scale", "total", append([]byte{0x22, 14, 0x0a, 1, 5, 0x18}, binary.AppendUvarint(nil, math.MaxUint64-1)...), "500"},
	} {
		v, err := new(protoReader).decode(w, nil, append([]byte{0, 0x0a, 1, 'x'}, c.data...))
		if err != nil || v.Get("id").Text() != "x" {
			t.Errorf("%s: got %v of id %q, want the rest of the record", c.name, err, v.Get("id").Text())
			continue
		}
		got := v.Get(c.field)
		if text := cmp.Or(got.Rule(), string(got.AppendJSON(nil))); text != c.want {
			t.Errorf("%s: got %s, want %s", c.name, text, c.want)
		}
	}
}
