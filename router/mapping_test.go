package router_test

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/feedsink/feedsink/router"
)

func TestBytesReadsSizes(t *testing.T) {
	for text, want := range map[string]router.Bytes{
		"256MiB": 256 << 20, "20GiB": 20 << 30, "1000": 1000, "0": 0, "5 kB": 5000, "2TB": 2e12, "7B": 7, "3KiB": 3 << 10,
	} {
		var got router.Bytes
		if err := yaml.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: got %d (%v), want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"MiB", "1.5GiB", "-1", "many", "9223372036854775808", "9007199254740992KiB", "1PB", `""`} {
		var got router.Bytes
		if err := yaml.Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%s: got %d, want an error", text, got)
		}
	}
}

func TestBytesStringReadsBack(t *testing.T) {
	for b, want := range map[router.Bytes]string{0: "0", 1000: "1000", 1024: "1KiB", 256 << 20: "256MiB", 3 << 40: "3TiB", 1<<30 + 1: "1073741825"} {
		if got := b.String(); got != want {
			t.Errorf("%d: got %s, want %s", int64(b), got, want)
		}
	}
}

func TestColumnIsANameOrAMapping(t *testing.T) {
	var got []router.Column
	text := `[customerNumber, "subscriptions#newsletter", {name: age, absent: immediate, null: "0.50"}, {name: 17, absent: ""}]`
	if err := yaml.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	want := []router.Column{{Name: "customerNumber"}, {Name: "subscriptions#newsletter"}, {Name: "age", Absent: "immediate", Null: "0.50"}, {Name: "17"}}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("column %d: got %+v, want %+v", i, got[i], want[i])
		}
	}
	var column router.Column
	for _, text := range []string{"[a]", "{name: [a]}", "{named: a}"} {
		if err := yaml.Unmarshal([]byte(text), &column); err == nil {
			t.Errorf("%s: got %+v, want an error", text, column)
		}
	}
}

func TestMappingReadsFromYAML(t *testing.T) {
	var m router.Mapping
	text := `
name: customers
topics: [crm.customers]
profileTable: customers
key: customerNumber
routes: [{lane: batch}]
imports:
  upsert: {etl: "101", mode: CREATE_OR_UPDATE}
  columns: [customerNumber]
  roll: {rows: 500000, bytes: 256MiB, age: 2h}
  slotsPerDay: 12
`
	if err := yaml.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	r, problems := router.Compile([]router.Mapping{m})
	if len(problems) > 0 {
		t.Fatalf("problems: got %v, want none", problems)
	}
	if got, want := r.Mappings()[0].Config.Imports.Roll.Bytes, router.Bytes(256<<20); got != want {
		t.Errorf("roll.bytes: got %d, want %d", got, want)
	}
}

func FuzzParseBytes(f *testing.F) {
	for _, seed := range []string{"256MiB", "20 GiB", "1000", "1.5kB", "-1", "B", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := router.ParseBytes(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "size ") {
				t.Fatalf("error: got %v, want one that names the size", err)
			}
			return
		}
		if again, err := router.ParseBytes(b.String()); err != nil || again != b || b < 0 {
			t.Fatalf("%q: got %d, written as %s and read as %d (%v)", text, b, b, again, err)
		}
	})
}

func FuzzColumnYAML(f *testing.F) {
	for _, seed := range []string{"a", "{name: a, absent: immediate}", "[a]", "{name: {a: b}}", "17", "~"} {
		f.Add(seed)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		var c router.Column
		_ = yaml.Unmarshal([]byte(text), &c) // an error or a column, never a panic
	})
}
