package schemas

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func jsonValue(t testing.TB, text string) Value {
	t.Helper()
	v, err := NewJSON().Decode([]byte(text))
	if err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
	return v
}

// What a real engine writes is in test/debezium; here are the other databases'
// types, and what nobody should write.
func TestLogicalTypesBecomeWhatTheyStandFor(t *testing.T) {
	for _, tc := range []struct{ name, parameters, value, want string }{
		{"org.apache.kafka.connect.data.Decimal", `{"scale":"2"}`, `"BOI="`, `12.50`},
		{"org.apache.kafka.connect.data.Decimal", `{"scale":"2"}`, `"+w=="`, `-0.05`},
		{"org.apache.kafka.connect.data.Decimal", `{"scale":"2"}`, `"AA=="`, `0.00`},
		{"org.apache.kafka.connect.data.Decimal", `{"scale":"0"}`, `"gA=="`, `-128`},
		{"org.apache.kafka.connect.data.Decimal", `{"scale":"-3"}`, `"BA=="`, `4000`},
		{"org.apache.kafka.connect.data.Decimal", `{"scale":"-3"}`, `""`, `0`},
		{"org.apache.kafka.connect.data.Decimal", `{"scale":"2"}`, `12.50`, `12.50`},
		{"org.apache.kafka.connect.data.Decimal", `{}`, `"BOI="`, `error: a decimal needs a scale from -1000 to 1000`},
		{"org.apache.kafka.connect.data.Decimal", `{"scale":"1001"}`, `"BOI="`, `error: a decimal needs a scale from -1000 to 1000`},
		{"org.apache.kafka.connect.data.Decimal", `{"scale":"2"}`, `"??"`, `error: must be a decimal's bytes in base64, 1000 at most`},
		{"io.debezium.data.VariableScaleDecimal", ``, `{"scale":3,"value":"MDk="}`, `12.345`},
		{"io.debezium.data.VariableScaleDecimal", ``, `{"scale":3,"value":null}`, `null`},
		{"io.debezium.data.VariableScaleDecimal", ``, `1.5`, `1.5`},
		{"io.debezium.time.Date", ``, `-1`, `"1969-12-31"`},
		{"io.debezium.time.Date", ``, `2932896`, `"9999-12-31"`},
		{"io.debezium.time.Date", ``, `2932897`, `error: must be of the years 1 to 9999: infinity has no place in the table`},
		{"io.debezium.time.Date", ``, `-719162`, `"0001-01-01"`},
		{"io.debezium.time.Date", ``, `-719163`, `error: must be of the years 1 to 9999: infinity has no place in the table`},
		{"io.debezium.time.Date", ``, `1e3`, `error: must be a whole number: the schema says that it is a date or a time`},
		{"io.debezium.time.Date", ``, `"2026-01-01"`, `"2026-01-01"`},
		{"org.apache.kafka.connect.data.Date", ``, `20512`, `"2026-02-28"`},
		{"io.debezium.time.Timestamp", ``, `-1`, `"1969-12-31T23:59:59.999"`},
		{"org.apache.kafka.connect.data.Timestamp", ``, `1767323045678`, `"2026-01-02T03:04:05.678"`},
		{"io.debezium.time.MicroTimestamp", ``, `1767323045000000`, `"2026-01-02T03:04:05"`},
		{"io.debezium.time.NanoTimestamp", ``, `-1`, `"1969-12-31T23:59:59.999999999"`},
		{"io.debezium.time.MicroTimestamp", ``, `1.5`, `error: must be a whole number: the schema says that it is a date or a time`},
		{"io.debezium.time.MicroTimestamp", ``, `-9223372036854775808`, `error: must be of the years 1 to 9999: infinity has no place in the table`},
		{"io.debezium.time.Time", ``, `86399999`, `"23:59:59.999"`},
		{"org.apache.kafka.connect.data.Time", ``, `0`, `"00:00:00"`},
		{"io.debezium.time.MicroTime", ``, `86400000000`, `"24:00:00"`},
		{"io.debezium.time.NanoTime", ``, `-1`, `error: must be a time from 00:00:00 to 24:00:00`},
		{"io.debezium.time.NanoTime", ``, `86400000000001`, `error: must be a time from 00:00:00 to 24:00:00`},
		{"io.debezium.time.IsoDate", ``, `"2026-02-28Z"`, `"2026-02-28"`},
		{"io.debezium.time.IsoTimestamp", ``, `"+294247-01-10T04:00:25.2Z"`, `error: must be of the years 1 to 9999: infinity has no place in the table`},
		{"io.debezium.time.IsoTime", ``, `5`, `5`},
		{"io.debezium.time.ZonedTimestamp", ``, `"2026-01-02T03:04:05Z"`, `"2026-01-02T03:04:05Z"`},
		{"io.debezium.time.MicroDuration", ``, `7`, `7`},
		{"io.debezium.time.Year", ``, `2026`, `2026`},
		{"io.debezium.data.EnumSet", ``, `"a,b"`, `"a,b"`},
		{"io.debezium.data.Bits", `{"length":"10"}`, `"AQI="`, `"1000000001"`},
		{"io.debezium.data.Bits", `{"length":"2147483647"}`, `"AQI="`, `"AQI="`},
		{"io.debezium.data.Bits", `{"length":"3"}`, `5`, `5`},
		{"com.example.Unheard", ``, `5`, `5`},
		{"io.debezium.time.Date", ``, `null`, `null`},
	} {
		var parameters Value
		if tc.parameters != "" {
			parameters = jsonValue(t, tc.parameters)
		}
		v, err := logical(tc.name, parameters, jsonValue(t, tc.value))
		got := string(v.AppendJSON(nil))
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != tc.want {
			t.Errorf("%s %s of %s:\n got %s\nwant %s", tc.name, tc.parameters, tc.value, got, tc.want)
		}
	}
}

func TestConnectSchemasReachNestedValues(t *testing.T) {
	const day = `{"type":"int32","name":"io.debezium.time.Date"`
	for _, tc := range []struct{ text, want string }{
		{`{"a":1}`, `{"a":1}`},
		{`{"schema":1,"payload":2}`, `{"schema":1,"payload":2}`}, // columns of a row
		{`{"schema":null,"payload":2}`, `2`},
		{`{"schema":` + day + `},"payload":0}`, `"1970-01-01"`},
		{`{"schema":{"type":"array","items":` + day + `}},"payload":[0,null,1]}`, `["1970-01-01",null,"1970-01-02"]`},
		{`{"schema":{"type":"map","values":` + day + `}},"payload":{"a":0}}`, `{"a":"1970-01-01"}`},
		{`{"schema":{"type":"map","keys":` + day + `},"values":` + day + `}},"payload":[[0,1]]}`, `[[0,1]]`},
		{
			`{"schema":{"type":"struct","fields":[{"type":"struct","field":"in","fields":[` + day + `,"field":"day"}]},{"type":"int32","field":"n"}]},"payload":{"n":5,"more":6,"in":{"day":0}}}`,
			`{"n":5,"more":6,"in":{"day":"1970-01-01"}}`,
		},
		{`{"schema":{"type":"struct","fields":{}},"payload":[]}`, `[]`},
		{
			`{"schema":{"type":"struct","fields":[{"type":"struct","field":"in","fields":[` + day + `,"field":"day"}]}]},"payload":{"in":{"day":0.5}}}`,
			`error: in.day: must be a whole number: the schema says that it is a date or a time`,
		},
	} {
		v, err := FromConnect(jsonValue(t, tc.text))
		got := string(v.AppendJSON(nil))
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.text, got, tc.want)
		}
	}
}

// story is a change in one line.
func story(ch Change, err error) string {
	switch {
	case err != nil:
		return "error: " + err.Error()
	case ch.Op == 0:
		return "nothing"
	}
	text := ch.Op.String() + " " + string(ch.Row.AppendJSON(nil))
	if len(ch.Unavailable) > 0 {
		text += " without " + strings.Join(ch.Unavailable, ",")
	}
	for _, column := range ch.Unreadable {
		text += "; " + column.Err.Error()
	}
	return text
}

func TestChangesAreReadFromEnvelopes(t *testing.T) {
	for _, tc := range []struct{ event, want string }{
		{`{"op":"c","source":{},"before":null,"after":{"id":1}}`, `upsert {"id":1,"__op":"c","__source":{}}`},
		{`{"op":"r","source":{"table":"t"},"after":{"id":1}}`, `upsert {"id":1,"__op":"r","__source":{"table":"t"}}`},
		{`{"op":"d","source":{},"before":{"id":1},"after":null}`, `delete {"id":1,"__op":"d","__source":{}}`},
		{`{"op":"d","source":{},"before":null,"after":null}`, `delete null`},
		{`{"op":"t","source":{}}`, `error: op: is t: the source table was truncated, and no operation of the service empties a table; empty it by hand, or have Debezium skip truncates (skipped.operations)`},
		{`{"op":"m","source":{},"message":{}}`, `nothing`},
		{`{"op":"u","source":{},"after":null}`, `error: after: must be an object`},
		{`{"op":"u","source":{},"after":"{}"}`, `error: after: is text, and must be an object: have Debezium's transformation io.debezium.connector.mongodb.transforms.ExtractNewDocumentState make rows of MongoDB's documents`},
		{`{"op":"d","source":{},"before":"{}"}`, `error: before: is text, and must be an object: have Debezium's transformation io.debezium.connector.mongodb.transforms.ExtractNewDocumentState make rows of MongoDB's documents`},
		{`{"op":"u","source":{},"after":null,"updateDescription":{"updatedFields":"{}"}}`, `error: after: is not there, and must be an object: set capture.mode of Debezium's connector for MongoDB to change_streams_update_full`},
		{`{"_id":1,"total":2,"__deleted":"false"}`, `upsert {"_id":1,"total":2,"__deleted":"false"}`}, // as the transformation writes
		{`{"op":"d","source":{},"before":5}`, `error: before: must be an object`},
		{`{"schema":null,"payload":null}`, `delete null`},
		{`null`, `delete null`},
		{`5`, `error: must be an object`},
		{`{"op":"u","id":1}`, `upsert {"op":"u","id":1}`}, // a row with a column of that name
		{`{"op":"x","source":{},"id":1}`, `upsert {"op":"x","source":{},"id":1}`},
		{`{"id":1,"__deleted":"true"}`, `delete {"id":1,"__deleted":"true"}`},
		{`{"id":1,"__deleted":true}`, `delete {"id":1,"__deleted":true}`},
		{`{"id":1,"__deleted":"false","__op":"u"}`, `upsert {"id":1,"__deleted":"false","__op":"u"}`},
		{`{"id":1,"__op":"d"}`, `delete {"id":1,"__op":"d"}`},
		{
			`{"schema":{"type":"struct","fields":[{"field":"a","type":"int32","name":"io.debezium.time.Date"},{"field":"b","type":"int32"}]},"payload":{"a":1e9,"b":1}}`,
			`upsert {"b":1}; a: must be a whole number: the schema says that it is a date or a time`,
		},
	} {
		if got := story(NewDebezium("").Change(jsonValue(t, tc.event))); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.event, got, tc.want)
		}
	}
}

func TestPlaceholdersOfUnchangedValuesAreAbsent(t *testing.T) {
	const row = `{"a":"no","b":"bm8=","c":["no"],"d":[110,111],"e":"{\"no\":\"no\"}","f":{"no":"no"},"g":["7fa3b767-c460-354a-abe4-d49030b349c7"],` +
		`"h":"No","i":[110],"j":[110,112],"k":{"no":"yes"},"l":["no","no"],"m":null,"n":["110","111"],"o":["bm8="]}`
	d := NewDebezium("no")
	ch, err := d.Change(jsonValue(t, row))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(ch.Unavailable, ""); got != "abcdefgo" {
		t.Errorf("unavailable: got %s, want abcdefgo", got)
	}
	for _, column := range ch.Row.Items() {
		kind, missing := column.Value.Kind(), slices.Contains(ch.Unavailable, column.Name)
		if missing != (kind == Absent) {
			t.Errorf("%s: got kind %d, unavailable %v", column.Name, kind, missing)
		}
	}
}

// A change may say anything, but is never both a row and a reason not to have
// one, its errors name the rule only, and it costs no more than its bytes can mean.
func FuzzDebezium(f *testing.F) {
	for _, text := range []string{
		`{"schema":{"type":"struct","fields":[{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2"},"field":"a"}]},"payload":{"a":"BOI="}}`,
		`{"op":"u","source":{},"after":{"id":1,"x":"__debezium_unavailable_value"}}`,
		`{"schema":{"type":"struct","fields":[{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2000000000"},"field":"a"}]},"payload":{"a":"AQ=="}}`,
		`{"op":"c","source":{},"after":{"a":{"scale":-2000000000,"value":"AQ=="},"id":1}}`,
		`{"id":1,"__deleted":"true"}`, `{"schema":{"type":"map","values":{"type":"array","items":{}}},"payload":{"a":[1]}}`, `null`,
	} {
		f.Add([]byte(text))
	}
	files, err := filepath.Glob("../test/debezium/testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		f.Fatalf("no recorded events: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			// Larger seeds only keep the fuzzer busy making them smaller.
			if v := jsonValue(f, line).Get("value"); v.Kind() == String && len(v.Text()) < 4000 {
				f.Add([]byte(v.Text()))
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := NewJSON().Decode(data)
		if err != nil {
			return
		}
		before := string(v.AppendJSON(nil))
		var ch Change
		d := NewDebezium("")
		if cost := costly(func() { ch, err = d.Change(v) }); cost > allowed(len(data)) {
			t.Fatalf("%d bytes cost %d", len(data), cost)
		}
		if e := (*ValueError)(nil); err != nil && !errors.As(err, &e) {
			t.Fatalf("error: got %T, want *ValueError", err)
		}
		if err != nil && (ch.Op != 0 || ch.Row.Kind() != Absent) {
			t.Fatalf("a change beside the error %v", err)
		}
		if ch.Op == Upsert && ch.Row.Kind() != Object {
			t.Fatalf("upsert of no row: kind %d", ch.Row.Kind())
		}
		if len(ch.Row.AppendJSON(nil)) > 100*len(data)+10_000 {
			t.Fatalf("%d bytes became %d", len(data), len(ch.Row.AppendJSON(nil)))
		}
		if _, err := FromConnect(v); err != nil && strings.Contains(err.Error(), "\n") {
			t.Fatalf("error of several lines: %v", err)
		}
		if after := string(v.AppendJSON(nil)); after != before {
			t.Fatal("the decoded value was changed")
		}
	})
}
