package schemas

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unsafe"
)

func TestQualifiedNamesTellTablesOfOneNameApart(t *testing.T) {
	for want, table := range map[string]Table{
		"profile/contacts": {Name: "contacts"},
		"custom/contacts":  {Name: "contacts", Custom: true},
		"custom/profile/a": {Name: "profile/a", Custom: true},
	} {
		if got := table.Qualified(); got != want {
			t.Errorf("qualified: got %s, want %s", got, want)
		}
		if got, ok := ParseTable(want); !ok || got != table {
			t.Errorf("table of %s: got %+v %v, want %+v", want, got, ok, table)
		}
	}
	if got, ok := ParseTable("contacts"); ok {
		t.Errorf("table of a plain name: got %+v, want none", got)
	}
}

// parse reads "op name=value …": names are attributes, or properties of a custom
// table; dc.x is of the data collection, id= the profile's id.
func parse(t *testing.T, text string, custom bool) Write {
	t.Helper()
	words := strings.Fields(text)
	op, ok := ParseOp(words[0])
	if !ok {
		t.Fatalf("no op in %q", text)
	}
	w := Write{Op: op, Table: Table{Name: "t", Custom: custom}, Key: "k"}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		if name == "id" {
			w.ProfileID = value
			continue
		}
		section := Attributes
		if custom {
			section = Properties
		}
		if rest, found := strings.CutPrefix(name, "dc."); found {
			section, name = DataCollection, rest
		}
		w.Cells = append(w.Cells, Cell{Place: &Place{Section: section, Name: name}, Value: StringValue(value)})
	}
	return w
}

func format(w *Write) string {
	text := w.Op.String()
	if w.ProfileID != "" {
		text += " id=" + w.ProfileID
	}
	for _, c := range w.Cells {
		name := c.Name
		if c.Section == DataCollection {
			name = "dc." + name
		}
		text += fmt.Sprintf(" %s=%s", name, c.Value.Text())
	}
	return text
}

// TestMergeIsWhatBothWouldLeave is the truth table of merging.
func TestMergeIsWhatBothWouldLeave(t *testing.T) {
	const apart = "" // two calls
	for _, c := range []struct {
		custom               bool
		waiting, newer, want string
	}{
		{false, "upsert a=1 b=1", "upsert a=2", "upsert a=2"},
		{false, "patch id=p a=1 b=1", "upsert a=2", "upsert id=p a=2"},
		{false, "upsert a=1 b=1", "patch id=p b=2 c=2", "upsert id=p a=1 b=2 c=2"},
		{false, "patch id=p a=1 b=1", "patch id=p b=2", "patch id=p a=1 b=2"},
		{false, "patch id=p a=1", "patch id=q a=2", apart},
		{false, "upsert a=1", "create a=2", apart},
		{false, "upsert a=1", "delete", apart},
		{false, "create a=1", "upsert a=2", apart},
		{false, "create a=1", "patch a=2", apart},
		{false, "delete", "upsert a=2", apart},
		{false, "delete", "delete", apart},
		{false, "upsert a=1 dc.date=1 dc.way=1", "patch dc.date=2", apart},
		{false, "patch dc.way=1", "patch dc.date=2", apart},
		{false, "upsert a=1 dc.date=1", "patch dc.date=2 dc.way=2", "upsert a=1 dc.date=2 dc.way=2"},
		{false, "upsert a=1 dc.date=1 dc.way=1", "patch a=2", "upsert a=2 dc.date=1 dc.way=1"},
		{false, "upsert date=1", "patch dc.date=2", "upsert date=1 dc.date=2"},

		{true, "upsert a=1 b=1", "upsert a=2 b=2 c=2", "upsert a=2 b=2 c=2"},
		{true, "upsert a=1 b=1", "upsert a=2", apart},
		{true, "patch a=1", "upsert a=2 b=2", "upsert a=2 b=2"},
		{true, "patch a=1 b=1", "upsert a=2", apart},
		{true, "upsert a=1", "patch b=2", "upsert a=1 b=2"},
		{true, "patch a=1", "patch a=2 b=2", "patch a=2 b=2"},
		{true, "create a=1", "upsert a=2", apart},
		{true, "upsert a=1", "delete", apart},

		{true, "upsert a=1", "merge b=2", "upsert a=1 b=2"},
		{true, "merge a=1", "merge b=2", "merge a=1 b=2"},
		{true, "merge a=1", "patch a=2 b=2", "merge a=2 b=2"},
		{true, "merge a=1", "upsert a=2 b=2", "upsert a=2 b=2"},
		{true, "merge a=1 b=1", "upsert a=2", apart},
		{true, "patch a=1", "merge a=2 b=2", "merge a=2 b=2"},
		{true, "patch a=1 b=1", "merge a=2", apart},
		{true, "create a=1", "merge a=2", apart},
		{true, "merge a=1", "create a=2", apart},
		{true, "merge a=1", "delete", apart},
		{true, "delete", "merge a=2", apart},
	} {
		waiting, newer := parse(t, c.waiting, c.custom), parse(t, c.newer, c.custom)
		got := apart
		if MergeInto(&waiting, &newer) {
			got = format(&waiting)
		} else if left := format(&waiting); left != c.waiting {
			t.Errorf("custom %v: %s, then %s: not merged, but left %q", c.custom, c.waiting, c.newer, left)
		}
		if got != c.want {
			t.Errorf("custom %v: %s, then %s: got %q, want %q", c.custom, c.waiting, c.newer, got, c.want)
		}
	}
}

func TestOwnWriteKeepsNothingOfItsRecord(t *testing.T) {
	record := []byte(`KeyPIDtextlist12.5` + string(make([]byte, 60_000)))
	part := func(from, to int) string { return unsafe.String(&record[from], to-from) }
	place := &Place{Section: Properties, Name: "a"}
	w := &Write{Op: Upsert, Table: Table{Name: "t", Custom: true}, Key: part(0, 3), ProfileID: part(3, 6), Cells: []Cell{
		{place, StringValue(part(6, 10))},
		{place, NumberValue(part(14, 18))},
		{place, NullValue()},
		{place, BoolValue(true)},
		{place, StringValue("")},
		{place, ListValue([]Field{{Value: StringValue(part(10, 14))}})},
		{place, ObjectValue([]Field{{Name: part(6, 10), Value: NullValue()}})},
		{place, Value{}},
	}}
	own, size := w.Own()
	copy(record, bytes.Repeat([]byte("#"), len(record)))
	want := []string{`"text"`, `12.5`, `null`, `true`, `""`, `["list"]`, `{"text":null}`}
	for i, text := range want {
		if got := string(own.Cells[i].Value.AppendJSON(nil)); got != text {
			t.Errorf("cell %d: got %s, want %s", i, got, text)
		}
	}
	if own.Key != "Key" || own.ProfileID != "PID" || own.Cells[7].Value.Kind() != Absent || own.Cells[0].Place != place || own.Op != Upsert {
		t.Errorf("got %+v, want all that the write said", own)
	}
	if size < 100 || size > 1000 {
		t.Errorf("size: got %d, want some hundred bytes", size)
	}
}
