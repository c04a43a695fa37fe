package router

import (
	"strconv"
	"testing"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// FuzzPlainSpellings: what is recognised in one look is what the whole grammar
// reads, in the same spelling.
func FuzzPlainSpellings(f *testing.F) {
	for _, s := range []string{
		"2026-11-21T10:00:00", "2026-11-21T10:00:00Z", "2026-02-28", "2026-02-30T00:00:00Z", "0000-00-00T24:60:60", "2026-13-01", "2026-1!-21T10:00:00",
		"0", "-0", "-1", "00", "01", "123456789", "-999999999", "9999999999", "", "-",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if isPlainTimestamp(s) {
			layout := zonedTime
			if len(s) == len(localTime) {
				layout = localTime
			}
			if at, ok := parseIn(layout, s); !ok || at.Format(layout) != s {
				t.Errorf("%q: got a moment, want %v", s, at)
			}
		}
		if isPlainDate(s) {
			if day, err := time.Parse(time.DateOnly, s); err != nil || day.Format(time.DateOnly) != s {
				t.Errorf("%q: got a date, want %v, %v", s, day, err)
			}
		}
		if isPlainInteger(s) {
			if n, err := strconv.ParseInt(s, 10, 32); err != nil || strconv.FormatInt(n, 10) != s {
				t.Errorf("%q: got a whole number, want %d, %v", s, n, err)
			}
		}
	})
}

func TestPlainSpellingsAreRecognised(t *testing.T) {
	for _, s := range []string{"2026-11-21T10:00:00", "2026-11-21T23:59:59Z"} {
		if !isPlainTimestamp(s) || !isPlainDate(s[:10]) {
			t.Errorf("%s: got no, want yes", s)
		}
	}
	for _, s := range []string{"0", "7", "-7", "123456789"} {
		if !isPlainInteger(s) {
			t.Errorf("%s: got no, want yes", s)
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
		got, reject := from.read(&subject{record: &Record{}, value: &v})
		if text := string(got.AppendJSON(nil)); reject != nil || text != tc.want {
			t.Errorf("%s: got %s, %v, want %s", tc.value, text, reject, tc.want)
		}
	}
}
