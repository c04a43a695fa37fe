package router

import (
	"testing"

	"github.com/feedsink/feedsink/schemas"
)

func TestSourcesOfTheRecordAreCheckedByName(t *testing.T) {
	for text, want := range map[string]string{
		`headers`:         `name one header, such as headers.source`,
		`headers[0]`:      `name one header, such as headers.source`,
		`headers.a.b`:     `a header has no members; a name with dots is written headers["a.b"]`,
		`topic.x`:         `topic is the record's and has no members; the value's own member is written ["topic"]`,
		`timestamp[0]`:    `timestamp is the record's and has no members; the value's own member is written ["timestamp"]`,
		`headers["a.b"]`:  ``,
		`"headers".a.b`:   ``,
		`["timestamp"].x`: ``,
		`kafkaKey.a[0]`:   ``,
		`order.topic`:     ``,
	} {
		got := ""
		if _, err := newSource(text); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// TestMembersAreFoundWhereverTheyAre has a member move from record to record.
func TestMembersAreFoundWhereverTheyAre(t *testing.T) {
	from, err := newSource("b")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ value, want string }{
		{`{"a":1,"b":2}`, "2"},
		{`{"a":1,"b":3}`, "3"},
		{`{"b":4,"a":1}`, "4"},
		{`{"a":1,"x":2}`, "null"},
		{`{}`, "null"},
		{`7`, "null"},
		{`{"x":0,"y":0,"b":[5]}`, "[5]"},
	} {
		v, err := schemas.NewJSON().Decode([]byte(tc.value))
		if err != nil {
			t.Fatal(err)
		}
		got, reject := from.read(&input{record: &Record{}, value: &v})
		if text := string(got.AppendJSON(nil)); reject != nil || text != tc.want {
			t.Errorf("%s: got %s, %v, want %s", tc.value, text, reject, tc.want)
		}
	}
}
