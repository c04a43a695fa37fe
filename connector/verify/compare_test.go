package verify

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/schemas"
)

func TestValueIsTheSameHoweverTheServiceWritesIt(t *testing.T) {
	for _, c := range []struct {
		sent, stored string
		want         bool
	}{
		{`"PAID"`, `"PAID"`, true},
		{`"PAID"`, `"paid"`, false},
		{`"A"`, `"\u0041"`, true},
		{`12.50`, `12.5`, true},
		{`12.50`, `"12.5"`, true}, // a file has texts only
		{`"12.50"`, `12.5`, true},
		{`"12.50"`, `"12.5"`, false}, // of a field that takes texts
		{`12`, `12.0`, true},
		{`1e2`, `100`, true},
		{`12345678901234567890`, `12345678901234567891`, false},
		{`12`, `13`, false},
		{`0`, `null`, false},
		{`0`, ``, false},
		{`"Infinity"`, `1`, false},
		{`"true"`, `true`, true},
		{`"true"`, `"false"`, false},
		{`null`, ``, true},
		{`null`, `null`, true},
		{`null`, `""`, true},
		{`""`, ``, true},
		{`""`, `"x"`, false},
		{`null`, `0`, false},
		{`"2026-11-21T10:00:00Z"`, `"2026-11-21T11:00:00.000+01:00"`, true},
		{`"2026-11-21T10:00:00Z"`, `"2026-11-21T11:00:00+0100"`, true},
		{`"2026-11-21T10:00:00Z"`, `"2026-11-21T10:00:00+01:00"`, false},
		{`"2026-11-21T10:00:00"`, `"2026-11-21T10:00:00.000+01:00"`, true}, // whose zone is not known
		{`"2026-11-21T10:00:00"`, `"2026-11-21T10:00:01"`, false},
		{`"2026-11-21"`, `"2026-11-21T00:00:00+01:00"`, true},
		{`"2026-11-21"`, `"2026-11-22"`, false},
		{`"2026-11-21"`, `"soon"`, false},
	} {
		sent, err := schemas.NewJSON().Decode([]byte(c.sent))
		if err != nil {
			t.Fatal(err)
		}
		if got := same(sent, json.RawMessage(c.stored)); got != c.want {
			t.Errorf("sent %s, stored %s: got %v, want %v", c.sent, c.stored, got, c.want)
		}
	}
}

// What is not named may be anybody's.
func TestOnlyNamedFieldsAreCompared(t *testing.T) {
	cell := func(name, value string) schemas.Cell {
		return schemas.Cell{Place: &schemas.Place{Section: schemas.Properties, Name: name}, Value: schemas.StringValue(value)}
	}
	w := &schemas.Write{Cells: []schemas.Cell{cell("a", "1"), cell("b", "2"), cell("c", "3")}}
	have := &service.Record{Properties: []service.Property{
		{Name: "id", Value: json.RawMessage("7")}, {Name: "a", Value: json.RawMessage(`"1"`)}, {Name: "b", Value: json.RawMessage(`"x"`)}, {Name: "d", Value: json.RawMessage(`"4"`)},
	}}
	if got, want := differing(w, have), []string{"b", "c"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
