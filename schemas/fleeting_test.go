package schemas

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// TestFleetingDecodersReadTheSame has records of all shapes take each other's
// memory, broken ones and large ones among them.
func TestFleetingDecodersReadTheSame(t *testing.T) {
	const schema = `{"type":"record","name":"r","fields":[{"name":"a","type":["null","string"]},{"name":"l","type":{"type":"array","items":["null","long"]}}]}`
	many := make([]any, 2*usualMembers)
	for i := range many {
		many[i] = int64(i)
	}
	typ := parsed(t, schema)
	descriptor := reference(t, `syntax = "proto3"; message M { string a = 1; repeated int64 l = 2; M m = 3; map<string, int64> p = 4; }`)
	proto := compiledProto(t, `syntax = "proto3"; message M { string a = 1; repeated int64 l = 2; M m = 3; map<string, int64> p = 4; }`)
	message := func(text string) []byte { return append([]byte{0}, wireOfJSON(t, descriptor, text)...) }
	fleeting := (*Registry)(nil).FleetingDecoder(FormatAvro).(*wire)
	owning := func() *wire { return &wire{json: NewJSON()} }
	for name, c := range map[string]struct {
		decode  func(d *wire, data []byte) (Value, error)
		records [][]byte
	}{
		"avro": {
			func(d *wire, data []byte) (Value, error) { return d.avro.decode(typ, data) },
			[][]byte{
				encoded(t, schema, map[string]any{"a": "first", "l": []any{int64(1), nil, int64(3)}}),
				encoded(t, schema, map[string]any{"a": nil, "l": []any{nil}}),
				{2, 2, 'x', 4, 2}, // ends too early
				encoded(t, schema, map[string]any{"a": "large", "l": many}),
				encoded(t, schema, map[string]any{"a": nil, "l": []any{int64(4)}}),
			},
		},
		"json": {
			func(d *wire, data []byte) (Value, error) { return d.json.Decode(data) },
			[][]byte{
				[]byte(`{"a":"first","l":[1,null,{"b":3}]}`), []byte(`[[1],[2,3],{"c":null}]`), []byte(`{"a":1,"a":2}`),
				[]byte(`{"a":[`), []byte(`{"é":{"x\n":[true,false]},"z":"\""}`), []byte(`7`),
			},
		},
		"protobuf": {
			func(d *wire, data []byte) (Value, error) { return proto.read(d, data) },
			[][]byte{
				message(`{"a":"first","l":["1","2"],"m":{"a":"inner","p":{"x":"1"}}}`), message(`{}`),
				{0, 10, 200},
				message(`{"p":{"x":"1","y":"2"},"m":{"m":{"l":["3"]}}}`), message(`{"l":["4"]}`),
			},
		},
	} {
		for i, data := range c.records {
			got, err := c.decode(fleeting, data)
			want, wantErr := c.decode(owning(), data)
			if !got.Equal(want) || (err == nil) != (wantErr == nil) {
				t.Errorf("%s, record %d: got %s, %v; want %s, %v", name, i, got.AppendJSON(nil), err, want.AppendJSON(nil), wantErr)
			}
		}
	}
}

// TestTextsOutliveTheirRecord keeps the texts of records that share blocks, of
// different lengths.
func TestTextsOutliveTheirRecord(t *testing.T) {
	const schema = `{"type":"record","name":"r","fields":[{"name":"s","type":"string"},{"name":"n","type":"long"}]}`
	typ := parsed(t, schema)
	avro := (*Registry)(nil).FleetingDecoder(FormatAvro).(*wire)
	plain := NewFleetingJSON()
	var got, want []string
	for i := range 300 {
		text, number := strings.Repeat(string(rune('a'+i%26)), i*7%900), int64(i)<<(i%40)
		v, err := avro.avro.decode(typ, encoded(t, schema, map[string]any{"s": text, "n": number}))
		if err != nil {
			t.Fatal(err)
		}
		w, err := plain.Decode(fmt.Appendf(nil, `{"s":%q,"n":%d}`, text, number))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []Value{v, w} {
			got = append(got, v.Get("s").Text(), v.Get("n").Text())
			want = append(want, text, strconv.FormatInt(number, 10))
		}
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("text %d: got %q, want %q", i, got[i], want[i])
		}
	}
}
