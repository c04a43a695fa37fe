package writes

import (
	"testing"

	"github.com/feedsink/feedsink/schemas"
)

func str(s string) schemas.Value { return schemas.StringValue(s) }

func num(literal string) schemas.Value { return schemas.NumberValue(literal) }

func list(vs ...schemas.Value) schemas.Value {
	fields := make([]schemas.Field, len(vs))
	for i, v := range vs {
		fields[i].Value = v
	}
	return schemas.ListValue(fields)
}

func TestProfileBodyHasOneObjectPerSection(t *testing.T) {
	const attributes, subscriptions, segments, consent = schemas.Attributes, schemas.Subscriptions, schemas.Segments, schemas.DataCollection
	for _, c := range []struct {
		what  string
		cells []schemas.Cell
		want  string
	}{
		{"nothing to say", nil, `{}`},
		{"every section", []schemas.Cell{
			{Place: &schemas.Place{Section: attributes, Name: "customerNumber"}, Value: str("C1")},
			{Place: &schemas.Place{Section: subscriptions, Name: "newsletter"}, Value: schemas.BoolValue(true)},
			{Place: &schemas.Place{Section: segments, Name: "tier"}, Value: str("gold")},
			{Place: &schemas.Place{Section: consent, Name: "date"}, Value: str("2026-11-21T10:00:00Z")},
		}, `{"attributes":{"customerNumber":"C1"},"subscriptions":{"newsletter":true},"segments":{"tier":"gold"},"dataCollection":{"date":"2026-11-21T10:00:00Z"}}`},
		{"sections come together, however the cells lie", []schemas.Cell{
			{Place: &schemas.Place{Section: segments, Name: "vip"}, Value: schemas.BoolValue(false)},
			{Place: &schemas.Place{Section: attributes, Name: "a"}, Value: num("1")},
			{Place: &schemas.Place{Section: segments, Name: "tier"}, Value: str("gold")},
			{Place: &schemas.Place{Section: attributes, Name: "b"}, Value: num("2")},
		}, `{"attributes":{"a":1,"b":2},"segments":{"vip":false,"tier":"gold"}}`},
		{"numbers keep every digit, null is said", []schemas.Cell{
			{Place: &schemas.Place{Section: attributes, Name: "points"}, Value: num("12345678901234567890.10")},
			{Place: &schemas.Place{Section: attributes, Name: "gone"}, Value: schemas.NullValue()},
			{Place: &schemas.Place{Section: attributes, Name: "empty"}, Value: str("")},
		}, `{"attributes":{"points":12345678901234567890.10,"gone":null,"empty":""}}`},
		{"lists, lists in lists and empty ones", []schemas.Cell{
			{Place: &schemas.Place{Section: attributes, Name: "languages"}, Value: list(str("fr"), str("en"))},
			{Place: &schemas.Place{Section: attributes, Name: "none"}, Value: list()},
			{Place: &schemas.Place{Section: attributes, Name: "deep"}, Value: list(list(num("1")), list(), schemas.NullValue())},
		}, `{"attributes":{"languages":["fr","en"],"none":[],"deep":[[1],[],null]}}`},
		{"names and texts are escaped", []schemas.Cell{
			{Place: &schemas.Place{Section: attributes, Name: `a"b\c`}, Value: str("\"\\\n\x00é田")},
		}, `{"attributes":{"a\"b\\c":"\"\\\n\u0000é田"}}`},
		// A value that ends like an object must not be taken for one that just opened.
		{"texts that look like the body's own marks", []schemas.Cell{
			{Place: &schemas.Place{Section: attributes, Name: "{"}, Value: str("{")},
			{Place: &schemas.Place{Section: attributes, Name: "["}, Value: str("[")},
		}, `{"attributes":{"{":"{","[":"["}}`},
		{"properties have no place in a profile", []schemas.Cell{{Place: &schemas.Place{Section: schemas.Properties, Name: "status"}, Value: str("PAID")}}, `{}`},
	} {
		if got := string((&ProfileBody{Cells: c.cells}).AppendJSON(nil)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.what, got, c.want)
		}
	}
}

func TestRecordBodyListsProperties(t *testing.T) {
	property := func(name string, v schemas.Value) schemas.Cell {
		return schemas.Cell{Place: &schemas.Place{Section: schemas.Properties, Name: name}, Value: v}
	}
	for _, c := range []struct {
		what  string
		write schemas.Write
		want  string
	}{
		{"a key and nothing else", schemas.Write{Key: "o1"}, `{"businessKey":"o1","properties":[]}`},
		{"no key", schemas.Write{Cells: []schemas.Cell{property("status", str("PAID"))}}, `{"properties":[{"name":"status","value":"PAID"}]}`},
		{
			"several",
			schemas.Write{Key: "o1", Cells: []schemas.Cell{property("total", num("12.50")), property("status", str("PAID")), property("gone", schemas.NullValue())}},
			`{"businessKey":"o1","properties":[{"name":"total","value":12.50},{"name":"status","value":"PAID"},{"name":"gone","value":null}]}`,
		},
		{
			"escaping",
			schemas.Write{Key: `"{`, Cells: []schemas.Cell{property(`[\`, str("}]"))}},
			`{"businessKey":"\"{","properties":[{"name":"[\\","value":"}]"}]}`,
		},
	} {
		if got := string((*recordBody)(&c.write).AppendJSON(nil)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.what, got, c.want)
		}
	}
}

func TestSameJSONComparesValuesNotSpellings(t *testing.T) {
	for _, c := range []struct {
		a, b string // as the service shows it, as it was sent
		want bool
	}{
		{`"PAID"`, `"PAID"`, true},
		{`"PAID"`, `"paid"`, false},
		{`"\u00e9"`, `"é"`, true},
		{`12.5`, `12.50`, true},
		{`12.0`, `12`, true},
		{`1e2`, `100.0`, true},
		{`12`, `13`, false},
		{`12`, `"12"`, false},
		{` 12 `, `12`, true},
		// Equal as floating point.
		{`9007199254740993`, `9007199254740992`, false},
		{`true`, `true`, true},
		{`true`, `"true"`, false},
		{`["a","b"]`, `["a", "b"]`, true},
		{`["a","b"]`, `["b","a"]`, false},
		{`{"x":1,"y":2}`, `{"y":2,"x":1.0}`, true},
		// A field that is null is one that is not there.
		{``, `null`, true},
		{`null`, `null`, true},
		{` null`, `null`, true},
		{``, `""`, false},
		{`null`, `0`, false},
		{`0`, `null`, false},
		// What is no JSON equals nothing.
		{`{`, `{`, false},
	} {
		if got := SameJSON([]byte(c.a), []byte(c.b)); got != c.want {
			t.Errorf("stored %s, sent %s: got %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

func TestSameJSONLeavesWhatItCompares(t *testing.T) {
	a, b := []byte(`{"y": 1.0, "x": 2}`), []byte(`{"x":2,"y":1}`)
	if !SameJSON(a, b) {
		t.Error("got different, want the same")
	}
	if string(a) != `{"y": 1.0, "x": 2}` || string(b) != `{"x":2,"y":1}` {
		t.Errorf("got %s and %s, want both as they were", a, b)
	}
}
