package spool

import (
	"cmp"
	"encoding/csv"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/encoding/htmlindex"

	"github.com/feedsink/feedsink/schemas"
)

func TestCellsAreEnclosedOnlyWhereTheyMust(t *testing.T) {
	for _, tc := range []struct {
		name, text, want string
		csv              CSV
	}{
		{"plain", "abc", "abc", CSV{}},
		{"empty text", "", `""`, CSV{}},
		{"separator", "a,b", `"a,b"`, CSV{}},
		{"enclosing", `a"b`, `"a""b"`, CSV{}},
		{"line breaks", "a\r\nb", "\"a\r\nb\"", CSV{}},
		{"outer space", " a", `" a"`, CSV{}},
		{"inner space", "a b", "a b", CSV{}},
		{"other scripts", "Ελλάδα 日本", "Ελλάδα 日本", CSV{}},
		{"semicolon is the separator", "a;b,c", `"a;b,c"`, CSV{Separator: ";"}},
		{"apostrophe encloses", `it's "x"`, `'it''s "x"'`, CSV{Enclosing: "'"}},
		{"tab", "a\tb", "\"a\tb\"", CSV{Separator: "\t"}},
		{"windows-1252", "né €", "n\xe9 \x80", CSV{Encoding: "windows-1252"}},
		{"utf-16", "a", "a\x00", CSV{Encoding: "utf-16le"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, err := newFormat(tc.csv)
			if err != nil {
				t.Fatal(err)
			}
			got, err := appendCell(f, []byte("before"), "field", tc.text)
			if err != nil || string(got) != "before"+tc.want {
				t.Errorf("cell of %q: got %q, %v, want %q", tc.text, got, err, "before"+tc.want)
			}
		})
	}
}

func TestValuesThatCannotBeACellAreNamedNotShown(t *testing.T) {
	object := schemas.ObjectValue([]schemas.Field{{Name: "x", Value: schemas.StringValue("secret")}})
	for _, tc := range []struct {
		name, encoding string
		value          schemas.Value
	}{
		{"unmappable character", "iso-8859-2", schemas.StringValue("secret 日本")},
		{"broken UTF-8", "", schemas.StringValue("secret \xff")},
		{"object", "", object},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := testLayout()
			m.CSV.Encoding = tc.encoding
			w := write(schemas.Upsert, "1")
			w.Cells = []schemas.Cell{{Place: &schemas.Place{Section: schemas.Attributes, Name: "a"}, Value: tc.value}}
			got, err := mustRows(t, m).AppendEntry([]byte("before"), &w)
			var invalid *schemas.ValueError
			if !errors.As(err, &invalid) || invalid.Field != "a" || strings.Contains(err.Error(), "secret") {
				t.Errorf("error: got %v, want a ValueError of field a without its value", err)
			}
			if string(got) != "before" {
				t.Errorf("entries after the error: got %q, want them as before", got)
			}
		})
	}
}

func TestAbsentAndNullAreNothingBetweenSeparatorsAndEmptyIsEnclosed(t *testing.T) {
	r := mustRows(t, testLayout())
	null := func(names ...string) schemas.Write {
		w := write(schemas.Upsert, "1")
		for _, n := range names {
			w.Cells = append(w.Cells, schemas.Cell{Place: &schemas.Place{Section: schemas.Attributes, Name: n}, Value: schemas.NullValue()})
		}
		return w
	}
	for _, tc := range []struct {
		name string
		w    schemas.Write
		want string
	}{
		{"absent", write(schemas.Upsert, "1"), "1:upsert 1,,"},
		{"null", null("a", "b"), `1:upsert 1,,`},
		{"empty", write(schemas.Upsert, "1", "a", "", "b", ""), `1:upsert 1,"",""`},
	} {
		if got := folded(t, r, []schemas.Write{tc.w}, 0); got[0] != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got[0], tc.want)
		}
	}
}

func TestCreateOnlyColumnsAreInFilesOfCreatesAlone(t *testing.T) {
	m := testLayout()
	m.Columns[1].CreateOnly = true
	r := mustRows(t, m)
	if m.Columns[0].Name != m.Key.Name || len(m.Columns) != 3 {
		t.Fatalf("columns: got %v, want the key and two more", m.Columns)
	}
	for op, want := range map[schemas.Op]string{
		schemas.Create: m.Columns[0].Header + "," + m.Columns[1].Header + "," + m.Columns[2].Header + "\n1,x,\n",
		schemas.Upsert: m.Columns[0].Header + "," + m.Columns[2].Header + "\n1,\n",
		schemas.Patch:  m.Columns[0].Header + "," + m.Columns[2].Header + "\n1,\n",
	} {
		w := write(op, "1")
		w.Cells = []schemas.Cell{{Place: &schemas.Place{Section: m.Columns[1].Section, Name: m.Columns[1].Name}, Value: schemas.StringValue("x")}}
		entry, err := r.AppendEntry(nil, &w)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(r.appendLine(r.appendHeader(nil, op), entry)); got != want {
			t.Errorf("%v: got %q, want %q", op, got, want)
		}
	}
}

func TestCellsWithoutAColumnAreNotLoadedAndListsAreJSON(t *testing.T) {
	w := write(schemas.Upsert, "1", "elsewhere", "x")
	w.Cells = append(w.Cells,
		schemas.Cell{Place: &schemas.Place{Section: schemas.Subscriptions, Name: "a"}, Value: schemas.BoolValue(true)},
		schemas.Cell{Place: &schemas.Place{Section: schemas.Attributes, Name: "b"}, Value: schemas.ListValue([]schemas.Field{
			{Value: schemas.StringValue("fr")}, {Value: schemas.NumberValue("2")},
		})})
	want := `1:upsert 1,,"[""fr"",2]"`
	if got := folded(t, mustRows(t, testLayout()), []schemas.Write{w}, 0); got[0] != want {
		t.Errorf("row: got %q, want %q", got[0], want)
	}
}

func TestFormatRefusesWhatCannotWork(t *testing.T) {
	for _, c := range []CSV{
		{Separator: "||"},
		{Separator: "\n"},
		{Separator: "§"},
		{Enclosing: "\r"},
		{Separator: "'", Enclosing: "'"},
		{Encoding: "klingon"},
		{Encoding: "iso-2022-jp"},
	} {
		if _, err := newFormat(c); err == nil {
			t.Errorf("format %+v: got no error, want one", c)
		}
	}
}

// FuzzRowsReadBack holds our writer against a reader that knows only the rules of
// CSV: what a row says is what is found, whatever separates, encloses and encodes.
func FuzzRowsReadBack(f *testing.F) {
	f.Add("1", "x", `quo"ted`, "", "", uint8(0))
	f.Add("k,1", " a\r\n", "\n", ";", "'", uint8(1))
	f.Add("ключ", "日本", "\x00\t", "\t", "|", uint8(2))
	f.Add("é'", "''", "a;b", ";", "'", uint8(3))
	f.Add("1", "\r", "\"", "\"", "", uint8(4))
	encodings := []string{"", "iso-8859-15", "utf-16le", "windows-1252", "gb18030"}
	f.Fuzz(func(t *testing.T, key, a, b, separator, enclosing string, encoding uint8) {
		m := testLayout()
		m.CSV = CSV{Separator: separator, Enclosing: enclosing, Encoding: encodings[int(encoding)%len(encodings)]}
		r, err := NewRows(m.Key, m.Columns, m.CSV)
		if err != nil || key == "" {
			return
		}
		w := write(schemas.Upsert, key, "b", b, "a", a)
		entry, err := r.AppendEntry(nil, &w)
		if !utf8.ValidString(key + "|" + a + "|" + b) {
			if err == nil {
				t.Fatal("invalid UTF-8 was written")
			}
			return
		}
		if err != nil && m.CSV.Encoding == "" {
			t.Fatal(err)
		}
		if err != nil {
			return // the encoding has not all of the characters
		}
		file := r.appendLine(r.appendHeader(nil, w.Op), entry)
		if m.CSV.Encoding != "" {
			e, _ := htmlindex.Get(m.CSV.Encoding)
			if file, err = e.NewDecoder().Bytes(file); err != nil {
				t.Fatal(err)
			}
		}
		records := split(string(file), cmp.Or(separator, ",")[0], cmp.Or(enclosing, `"`)[0])
		if want := []string{key, a, b}; len(records) != 2 || !slices.Equal(records[1], want) {
			t.Errorf("got %q, want %q in the second of two", records, want)
		}
	})
}

// split reads CSV: a value that begins with the enclosing character ends with
// one that is not doubled, any other at the next separator or line break.
func split(text string, separator, enclosing byte) (records [][]string) {
	var record []string
	var value strings.Builder
	begun, enclosed := false, false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case enclosed && c == enclosing && i+1 < len(text) && text[i+1] == enclosing:
			value.WriteByte(c)
			i++
		case enclosed && c == enclosing:
			enclosed = false
		case !enclosed && !begun && c == enclosing:
			begun, enclosed = true, true
		case !enclosed && (c == separator || c == '\n'):
			record, begun = append(record, value.String()), false
			value.Reset()
			if c == '\n' {
				records, record = append(records, record), nil
			}
		default:
			begun = true
			value.WriteByte(c)
		}
	}
	return records
}

func TestEncodedCellsDecodeToWhatWasWritten(t *testing.T) {
	const text = "Žluťoučký kůň, \"úpěl\""
	for _, label := range []string{"windows-1250", "iso-8859-2", "utf-16be", "gb18030"} {
		m := testLayout()
		m.CSV.Encoding = label
		r := mustRows(t, m)
		w := write(schemas.Upsert, "1", "a", text)
		entry, err := r.AppendEntry(nil, &w)
		if err != nil {
			t.Fatal(err)
		}
		e, _ := htmlindex.Get(label)
		line, err := e.NewDecoder().Bytes(r.appendLine(nil, entry))
		if err != nil {
			t.Fatal(err)
		}
		records, err := csv.NewReader(strings.NewReader(string(line))).ReadAll()
		if err != nil || records[0][1] != text {
			t.Errorf("%s: read back %q, %v, want %q", label, records, err, text)
		}
	}
}
