package schemas

import (
	"bytes"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"
	"weak"
)

// TestDecodersReadTheSame has records of all shapes take each other's
// memory, broken ones and large ones among them.
func TestDecodersReadTheSame(t *testing.T) {
	const schema = `{"type":"record","name":"r","fields":[{"name":"a","type":["null","string"]},{"name":"l","type":{"type":"array","items":["null","long"]}}]}`
	many := make([]any, 2*usualMembers)
	for i := range many {
		many[i] = int64(i)
	}
	typ := parsed(t, schema)
	descriptor := reference(t, `syntax = "proto3"; message M { string a = 1; repeated int64 l = 2; M m = 3; map<string, int64> p = 4; }`)
	proto := compiledProto(t, `syntax = "proto3"; message M { string a = 1; repeated int64 l = 2; M m = 3; map<string, int64> p = 4; }`)
	message := func(text string) []byte { return append([]byte{0}, wireOfJSON(t, descriptor, text)...) }
	used := (*Registry)(nil).Decoder(FormatAvro).(*wire)
	fresh := func() *wire { return &wire{} }
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
			func(d *wire, data []byte) (Value, error) { return d.proto.decode(proto, nil, data) },
			[][]byte{
				message(`{"a":"first","l":["1","2"],"m":{"a":"inner","p":{"x":"1"}}}`), message(`{}`),
				{0, 10, 200},
				message(`{"p":{"x":"1","y":"2"},"m":{"m":{"l":["3"]}}}`), message(`{"l":["4"]}`),
			},
		},
	} {
		for i, data := range c.records {
			got, err := c.decode(used, data)
			want, wantErr := c.decode(fresh(), data)
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
	avro := (*Registry)(nil).Decoder(FormatAvro).(*wire)
	plain := NewJSON()
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

// Nothing of the record is changed, and none but the last is held.
func TestTextsArePartsOfTheirRecord(t *testing.T) {
	const schema = `{"type":"record","name":"r","fields":[{"name":"s","type":"string"},{"name":"n","type":"long"}]}`
	typ := parsed(t, schema)
	avro := func(d *wire, data []byte) (Value, error) { return d.avro.decode(typ, data) }
	inJSON := func(d *wire, data []byte) (Value, error) { return d.json.Decode(data) }
	record := encoded(t, schema, map[string]any{"s": "a text of some length", "n": int64(123456)})
	for _, c := range []struct {
		name   string
		decode func(d *wire, data []byte) (Value, error)
		data   []byte
		next   []byte
	}{
		{"avro", avro, record, encoded(t, schema, map[string]any{"s": "", "n": int64(1)})},
		{"json", inJSON, []byte(`{"s":"a text of some length","l":["one","two",["three"]],"n":1.50}`), []byte(`7`)},
		{"json, not plain", inJSON, []byte(`{"s":"a \ud83d\ude00 text","é":{"x\n":[true,"y"]},"n":1.50} `), []byte(`[]`)},
		{"json, broken", inJSON, []byte(`{"a":[{"b":"a text of some length"},"c","d`), []byte(`{}`)},
		{"json, a name twice", inJSON, []byte(`{"a":["x","y","z"],"b":"a text of some length","a":1}`), []byte(`{}`)},
	} {
		used := (*Registry)(nil).Decoder(FormatAvro).(*wire)
		held := func() weak.Pointer[byte] {
			data := bytes.Clone(c.data)
			got, err := c.decode(used, data)
			want, wantErr := c.decode(&wire{}, c.data)
			if !got.Equal(want) || (err == nil) != (wantErr == nil) {
				t.Errorf("%s: got %s, %v; want %s, %v", c.name, got.AppendJSON(nil), err, want.AppendJSON(nil), wantErr)
			}
			if s := got.Get("s").Text(); c.name != "json, not plain" && s != "" && !within(s, data) {
				t.Errorf("%s: got a copy of %q, want a part of the record", c.name, s)
			}
			if !bytes.Equal(data, c.data) {
				t.Errorf("%s: the record became %q", c.name, data)
			}
			return weak.Make(&data[0])
		}()
		if _, err := c.decode(used, c.next); err != nil {
			t.Fatal(err)
		}
		if runtime.GC(); held.Value() != nil {
			t.Errorf("%s: the record is held beyond the next one", c.name)
		}
		runtime.KeepAlive(used)
	}
}

// within reports whether a text lies in data.
func within(s string, data []byte) bool {
	at := uintptr(unsafe.Pointer(unsafe.StringData(s)))
	first := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	return at >= first && at+uintptr(len(s)) <= first+uintptr(len(data))
}
