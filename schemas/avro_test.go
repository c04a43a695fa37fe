package schemas

import (
	"cmp"
	"encoding/json"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	hamba "github.com/hamba/avro/v2"
)

// encoded is what hamba/avro, the second implementation, makes of v.
func encoded(t testing.TB, schema string, v any) []byte {
	t.Helper()
	writer, err := hamba.ParseBytesWithCache([]byte(schema), "", &hamba.SchemaCache{})
	if err != nil {
		t.Fatal(err)
	}
	data, err := hamba.Marshal(writer, v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func parsed(t testing.TB, schema string, parts ...string) *avroType {
	t.Helper()
	typ, err := parseAvro(schema, parts)
	if err != nil {
		t.Fatal(err)
	}
	return typ
}

func TestAvroTypesBecomeValues(t *testing.T) {
	const date, millis, micros = `{"type":"int","logicalType":"date"}`, `{"type":"long","logicalType":"timestamp-millis"}`, `{"type":"long","logicalType":"timestamp-micros"}`
	noon := time.Date(2026, 11, 21, 12, 0, 0, 120_000_000, time.UTC)
	for _, c := range []struct {
		name, schema string
		v            any
		want         string
	}{
		{"null", `"null"`, nil, `null`},
		{"boolean", `"boolean"`, true, `true`},
		{"int", `"int"`, -7, `-7`},
		{"long, smallest", `"long"`, int64(math.MinInt64), `-9223372036854775808`},
		{"long, largest", `"long"`, int64(math.MaxInt64), `9223372036854775807`},
		{"float keeps its own digits", `"float"`, float32(0.1), `0.1`},
		{"double", `"double"`, 1234567.875, `1234567.875`},
		{"double, large", `"double"`, 1e300, `1e+300`},
		{"double without a number", `"double"`, math.NaN(), `"NaN"`},
		{"double without an end", `"double"`, math.Inf(-1), `"-Infinity"`},
		{"string", `"string"`, "é田", `"é田"`},
		{"bytes are base64", `"bytes"`, []byte{0xff, 0, 1}, `"/wAB"`},
		{"fixed is base64", `{"type":"fixed","name":"f","size":2}`, [2]byte{1, 2}, `"AQI="`},
		{"enum", `{"type":"enum","name":"e","symbols":["A","B"]}`, "B", `"B"`},
		{"array", `{"type":"array","items":"int"}`, []int{1, 200}, `[1,200]`},
		{"empty array", `{"type":"array","items":"int"}`, []int{}, `[]`},
		{"map", `{"type":"map","values":"string"}`, map[string]string{"a": "b"}, `{"a":"b"}`},
		{"nullable, null", `["null","string"]`, nil, `null`},
		{"nullable, said", `["null","string"]`, map[string]any{"string": "x"}, `"x"`},
		{"union of many", `["null","long","double","string"]`, map[string]any{"double": 2.5}, `2.5`},
		{"date", date, noon.Truncate(24 * time.Hour), `"2026-11-21"`},
		{"date before 1970", date, time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC), `"1969-12-31"`},
		{"time-millis", `{"type":"int","logicalType":"time-millis"}`, time.Hour + 2*time.Second + 30*time.Millisecond, `"01:00:02.03"`},
		{"time-micros", `{"type":"long","logicalType":"time-micros"}`, 23*time.Hour + 59*time.Minute + 59*time.Second, `"23:59:59"`},
		{"timestamp-millis", millis, noon, `"2026-11-21T12:00:00.12Z"`},
		{"timestamp-micros before 1970", micros, time.Unix(-1, 999_999_000).UTC(), `"1969-12-31T23:59:59.999999Z"`},
		{"local-timestamp-millis", `{"type":"long","logicalType":"local-timestamp-millis"}`, noon, `"2026-11-21T12:00:00.12"`},
		{"decimal", `{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}`, big.NewRat(-1205, 100), `-12.05`},
		{"decimal below one", `{"type":"bytes","logicalType":"decimal","precision":9,"scale":4}`, big.NewRat(5, 10000), `0.0005`},
		{"decimal without scale", `{"type":"bytes","logicalType":"decimal","precision":9}`, big.NewRat(120, 1), `120`},
		{"long decimal", `{"type":"bytes","logicalType":"decimal","precision":40,"scale":3}`, rat("-123456789012345678901234567890.125"), `-123456789012345678901234567890.125`},
		{"fixed decimal", `{"type":"fixed","name":"d","size":12,"logicalType":"decimal","precision":20,"scale":1}`, big.NewRat(-5, 10), `-0.5`},
		{"uuid", `{"type":"string","logicalType":"uuid"}`, "4c1f0c1e-0000-4000-8000-000000000001", `"4c1f0c1e-0000-4000-8000-000000000001"`},
		{"uuid of 16 bytes", `{"type":"fixed","name":"u","size":16,"logicalType":"uuid"}`, [16]byte{0x4c, 0x1f, 15: 1}, `"4c1f0000-0000-0000-0000-000000000001"`},
		{"duration", `{"type":"fixed","name":"d","size":12,"logicalType":"duration"}`, hamba.LogicalDuration{Months: 1, Days: 2, Milliseconds: 3500}, `"P1M2DT3.5S"`},
		{"an annotation that is not Avro's", `{"type":"long","logicalType":"parsecs"}`, int64(3), `3`},
		{"a name of Kafka Connect", `{"type":"long","connect.name":"io.debezium.time.MicroTimestamp"}`, int64(1_500_000), `"1970-01-01T00:00:01.5"`},
		{
			"a name of Kafka Connect on a field's text", `{"type":"record","name":"r","fields":[{"name":"d","type":{"type":"string","connect.name":"io.debezium.time.IsoDate"}}]}`,
			map[string]any{"d": "2026-02-28Z"},
			`{"d":"2026-02-28"}`,
		},
		{"a name of Kafka Connect on text", `{"type":"string","connect.name":"io.debezium.time.IsoDate"}`, "2026-02-28Z", `"2026-02-28"`},
		{"Connect's timestamp has no zone", `{"type":"long","connect.name":"org.apache.kafka.connect.data.Timestamp","logicalType":"timestamp-millis"}`, noon, `"2026-11-21T12:00:00.12"`},
		{
			"Debezium's decimal of any scale", `{"type":"record","name":"v","connect.name":"io.debezium.data.VariableScaleDecimal","fields":[{"name":"scale","type":"int"},{"name":"value","type":"bytes"}]}`,
			map[string]any{"scale": 2, "value": []byte{4, 0xb5}},
			`12.05`,
		},
		{"bits by their length", `{"type":"bytes","connect.name":"io.debezium.data.Bits","connect.parameters":{"length":"3"}}`, []byte{5}, `"101"`},
		{
			"nested records", `{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"record","name":"s","fields":[{"name":"b","type":["null","s"]}]}},{"name":"c","type":"s"}]}`,
			map[string]any{"a": map[string]any{"b": map[string]any{"s": map[string]any{"b": nil}}}, "c": map[string]any{"b": nil}},
			`{"a":{"b":{"b":null}},"c":{"b":null}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := new(avroReader).decode(parsed(t, c.schema), encoded(t, c.schema, c.v))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(v.AppendJSON(nil)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if !json.Valid(v.AppendJSON(nil)) {
				t.Error("not valid JSON")
			}
		})
	}
}

func rat(s string) *big.Rat {
	r, _ := new(big.Rat).SetString(s)
	return r
}

func TestAvroNamesAreOfTheNamespaceAroundThem(t *testing.T) {
	typ := parsed(t, `{"type":"record","name":"a.b.Outer","fields":[
		{"name":"inner","type":{"type":"record","name":"Inner","namespace":"c","fields":[
			{"name":"tier","type":{"type":"enum","name":"Tier","symbols":["X"]}},{"name":"same","type":"Tier"},{"name":"other","type":["null","a.b.Outer"]}]}},
		{"name":"again","type":["null","c.Inner","Outer"]},
		{"name":"tier","type":{"type":"enum","name":"Tier","symbols":["Y"]}},{"name":"mine","type":"Tier"},{"name":"theirs","type":"c.Tier"}]}`)
	v, err := new(avroReader).decode(typ, []byte{0, 0, 0, 0, 0, 0, 0})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(v.AppendJSON(nil)), `{"inner":{"tier":"X","same":"X","other":null},"again":null,"tier":"Y","mine":"Y","theirs":"X"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAvroSchemasReferToOthers(t *testing.T) {
	const part = `{"type":"record","name":"Address","namespace":"com.example","fields":[{"name":"city","type":"string"}]}`
	typ := parsed(t, `{"type":"record","name":"Person","namespace":"org.example","fields":[
		{"name":"home","type":"com.example.Address"},{"name":"work","type":["null","com.example.Address"]}]}`, part)
	v, err := new(avroReader).decode(typ, []byte{2, 'A', 2, 2, 'B'})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(v.AppendJSON(nil)), `{"home":{"city":"A"},"work":{"city":"B"}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAvroRefusesWhatIsNotItsSchemas(t *testing.T) {
	const deep = `{"type":"record","name":"r","fields":[{"name":"next","type":["null","r"]}]}`
	for _, c := range []struct {
		name, schema string
		data         []byte
		want         string
	}{
		{"nothing", `"int"`, nil, "avro: offset 0: ends too early"},
		{"a payload cut at the end of a field", `{"type":"record","name":"r","fields":[{"name":"a","type":"int"},{"name":"b","type":"int"}]}`, []byte{2}, "avro: offset 1: ends too early"},
		{"more than the schema says", `"int"`, []byte{2, 2}, "avro: offset 1: data after the value"},
		{"an int of 33 bits", `"int"`, []byte{0x80, 0x80, 0x80, 0x80, 0x20}, "avro: offset 5: a number is outside its type's range"},
		{"a long of 70 bits", `"long"`, []byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, "avro: offset 0: an integer is longer than its type"},
		{"text that is none", `"string"`, []byte{2, 0xff}, "avro: offset 1: not valid UTF-8"},
		{"text longer than the record", `"string"`, []byte{0xfe, 0xff, 0xff, 0xff, 0x0f}, "avro: offset 5: a length is negative or beyond the end"},
		{"a negative length", `"bytes"`, []byte{1}, "avro: offset 1: a length is negative or beyond the end"},
		{"a boolean of 2", `"boolean"`, []byte{2}, "avro: offset 0: a boolean is neither 0 nor 1"},
		{"a branch that is not there", `["null","int"]`, []byte{4}, "avro: offset 1: a union has no such branch"},
		{"a symbol that is not there", `{"type":"enum","name":"e","symbols":["A"]}`, []byte{1}, "avro: offset 1: an enum has no such symbol"},
		{"nulls without end", `{"type":"array","items":"null"}`, []byte{0xfe, 0xff, 0x7f, 0}, "avro: offset 3: holds more values than a record of its length may, 1,048,576 at most"},
		{"the count without a positive", `{"type":"array","items":"int"}`, []byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0}, "avro: offset 11: holds more values than a record of its length may, 1,048,576 at most"},
		{"an entry twice", `{"type":"map","values":"int"}`, []byte{4, 2, 'a', 2, 2, 'a', 4, 0}, "avro: offset 8: a map key appears twice"},
		{"nested without end", deep, []byte(strings.Repeat("\x02", 65) + "\x00"), "avro: offset 64: nested deeper than 64 levels"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := new(avroReader).decode(parsed(t, c.schema), c.data)
			if err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// Other languages' parsers take these, or take them for something that only writers need.
func TestAvroSchemasAreReadAsTheyWereWrittenWith(t *testing.T) {
	const decimal = `{"type":"bytes","logicalType":"decimal"`
	for _, c := range []struct{ name, schema, data, want string }{
		{"hyphens", `{"type":"record","name":"my-record","namespace":"com.my-shop","fields":[{"name":"first-name","type":"string"},{"name":"next","type":["null","my-record"]}]}`, "\x02x\x00", `{"first-name":"x","next":null}`},
		{"letters and digits", `{"type":"record","name":"Größe","fields":[{"name":"1é","type":"string"}]}`, "\x02x", `{"1é":"x"}`},
		{"symbols", `{"type":"enum","name":"e","symbols":["A-B","1"],"default":"C"}`, "\x02", `"1"`},
		{"a default of another type", `{"type":"record","name":"r","fields":[{"name":"a","type":"int","default":"x","order":"up"},{"name":"b","type":"string","default":null}]}`, "\x02\x02x", `{"a":1,"b":"x"}`},
		{"a decimal's default", `{"type":"record","name":"r","fields":[{"name":"a","type":` + decimal + `,"precision":4,"scale":2},"default":0}]}`, "\x02\x05", `{"a":0.05}`},
		{"no precision", decimal + `}`, "\x02\x05", `5`},
		{"a precision below the scale", decimal + `,"precision":2,"scale":3}`, "\x02\x05", `0.005`},
		{"numbers with a point", decimal + `,"precision":4.0,"scale":2.0}`, "\x02\x05", `0.05`},
		{"a fixed that is too small for its precision", `{"type":"fixed","name":"f","size":1,"logicalType":"decimal","precision":9,"scale":1}`, "\x05", `0.5`},
		{"a negative scale", decimal + `,"precision":4,"scale":-2}`, "\x02\x05", `"BQ=="`},
		{"a negative scale of Connect's", decimal + `,"precision":4,"scale":-2,"connect.name":"org.apache.kafka.connect.data.Decimal","connect.parameters":{"scale":"-2"}}`, "\x02\x05", `500`},
		{"a scale that is text", decimal + `,"precision":"4","scale":"2"}`, "\x02\x05", `"BQ=="`},
		{"a scale beyond any number's", decimal + `,"precision":5000,"scale":4000}`, "\x02\x05", `must be a decimal with a scale from -256 to 256`},
		{"an annotation of another type", `{"type":"fixed","name":"f","size":2,"logicalType":"uuid"}`, "\x05\x05", `"BQU="`},
	} {
		v, err := new(avroReader).decode(parsed(t, c.schema), []byte(c.data))
		if got := cmp.Or(v.Rule(), string(v.AppendJSON(nil))); err != nil || got != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.name, got, err, c.want)
		}
	}
}

func TestAvroSchemasThatCannotBeReadAreRefused(t *testing.T) {
	deep := `"int"`
	for range 70 {
		deep = `{"type":"array","items":` + deep + `}`
	}
	for name, schema := range map[string]string{
		"no schema":    `{`,
		"unknown type": `{"type":"record","name":"r","fields":[{"name":"a","type":"b"}]}`,
		"too deep":     deep,
		"a name twice": `{"type":"record","name":"r","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}`,
	} {
		if _, err := parseAvro(schema, nil); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

// The value must not change when the decoder goes on to another record.
// What Debezium writes through the registry is read like what it writes as JSON.
func TestDebeziumsEnvelopeIsReadFromAvro(t *testing.T) {
	const schema = `{"type":"record","name":"Envelope","namespace":"pg.public.sales","fields":[
		{"name":"before","type":["null",{"type":"record","name":"Value","fields":[
			{"name":"id","type":"int"},{"name":"placed","type":["null",{"type":"long","connect.version":1,"connect.name":"io.debezium.time.MicroTimestamp"}]},
			{"name":"total","type":{"type":"bytes","scale":2,"precision":9,"connect.version":1,"connect.parameters":{"scale":"2"},"connect.name":"org.apache.kafka.connect.data.Decimal","logicalType":"decimal"}}]}]},
		{"name":"after","type":["null","Value"]},
		{"name":"source","type":{"type":"record","name":"Source","namespace":"io.debezium","fields":[{"name":"lsn","type":"long"}]}},
		{"name":"op","type":"string"}]}`
	row := map[string]any{"id": 7, "placed": map[string]any{"long": int64(1_500_000)}, "total": rat("12.05")}
	data := encoded(t, schema, map[string]any{"before": nil, "after": map[string]any{"pg.public.sales.Value": row}, "source": map[string]any{"lsn": int64(9)}, "op": "u"})
	v, err := new(avroReader).decode(parsed(t, schema), data)
	if err != nil {
		t.Fatal(err)
	}
	ch, err := NewDebezium("").Change(v)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(ch.Row.AppendJSON(nil)), `{"id":7,"placed":"1970-01-01T00:00:01.5","total":12.05,"__op":"u","__source":{"lsn":9}}`; got != want || ch.Op != Upsert {
		t.Errorf("got %v of %s, want %s", ch.Op, got, want)
	}
}

// A database's infinity is no date, whoever says that it is one; neither does
// it become a number where a date is wanted.
func TestWhatIsNoMomentIsUnreadable(t *testing.T) {
	for schema, v := range map[string]any{
		`{"type":"int","logicalType":"date"}`:                                            time.Unix(86400*4_000_000, 0).UTC(),
		`{"type":"long","connect.name":"io.debezium.time.Timestamp"}`:                    int64(math.MaxInt64),
		`{"type":"string","connect.name":"io.debezium.time.IsoTimestamp"}`:               "+294247-01-10T04:00:25.2Z",
		`{"type":"array","items":{"type":"int","connect.name":"io.debezium.time.Date"}}`: []int{math.MaxInt32},
	} {
		got, err := new(avroReader).decode(parsed(t, schema), encoded(t, schema, v))
		if err != nil {
			t.Fatal(err)
		}
		if got.kind == List {
			got = got.Items()[0].Value
		}
		if got.Kind() != Unreadable || got.Rule() != ruleYears || got.Text() != "" || got.Items() != nil || string(got.AppendJSON(nil)) != "null" {
			t.Errorf("%s: got kind %d, rule %q, text %q, want Unreadable and %q", schema, got.Kind(), got.Rule(), got.Text(), ruleYears)
		}
	}
}

func TestADecimalThatIsTooLongHarmsOnlyWhoReadsIt(t *testing.T) {
	typ := parsed(t, `{"type":"record","name":"r","fields":[{"name":"d","type":{"type":"bytes","logicalType":"decimal","precision":9}},{"name":"id","type":"string"}]}`)
	v, err := new(avroReader).decode(typ, append(append([]byte{0x82, 2}, make([]byte, 129)...), 2, 'x'))
	if err != nil || v.Get("id").Text() != "x" || v.Get("d").Rule() != "must be a decimal of at most 128 bytes" {
		t.Errorf("got %s, %v, want the id and no decimal", v.AppendJSON(nil), err)
	}
}

func TestTheEndOfADayIsNoTimeOfAvro(t *testing.T) {
	const schema = `{"type":"int","logicalType":"time-millis"}`
	got, err := new(avroReader).decode(parsed(t, schema), encoded(t, schema, 24*time.Hour))
	if err != nil || got.Kind() != Unreadable || got.Rule() != ruleClock {
		t.Errorf("got kind %d, rule %q, %v, want Unreadable and %q", got.Kind(), got.Rule(), err, ruleClock)
	}
}

func TestColumnsThatAvroCannotReadHarmOnlyWhoReadsThem(t *testing.T) {
	const row = `{"type":"record","name":"row","fields":[{"name":"id","type":"int"},{"name":"days","type":{"type":"array","items":{"type":"int","connect.name":"io.debezium.time.Date"}}},{"name":"__op","type":"string"}]}`
	v, err := new(avroReader).decode(parsed(t, row), encoded(t, row, map[string]any{"id": 1, "days": []int{0, math.MaxInt32}, "__op": "c"}))
	if err != nil {
		t.Fatal(err)
	}
	ch, err := NewDebezium("").Change(v)
	if err != nil || len(ch.Unreadable) != 1 || ch.Unreadable[0].Err.Error() != "days: "+ruleYears || ch.Row.Get("days").Kind() != Absent || ch.Row.Get("id").Text() != "1" {
		t.Errorf("got %+v, %v, want the column days unreadable and the rest", ch, err)
	}
}
