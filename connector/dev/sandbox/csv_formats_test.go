package sandbox_test

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// TestValuesSurviveEveryFormat sends one file through each encoding, separator,
// enclosing and compression.
func TestValuesSurviveEveryFormat(t *testing.T) {
	encodings := map[string]encoding.Encoding{
		"": encoding.Nop, "UTF-8": encoding.Nop, "ISO-8859-1": charmap.ISO8859_1, "ISO-8859-15": charmap.ISO8859_15,
		"windows-1252": charmap.Windows1252, "UTF-16": unicode.UTF16(unicode.LittleEndian, unicode.UseBOM),
		"UTF-16LE": unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), "UTF-16BE": unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM),
	}
	compressions := map[string]func(string) []byte{
		"NONE": func(s string) []byte { return []byte(s) },
		"GZIP": func(s string) []byte { return gzipped(t, s) },
		"ZIP":  func(s string) []byte { return zipped(t, map[string]string{"f.csv": s}) },
	}
	for name, enc := range encodings {
		values := []string{"é à ü", ` "quoted" 'twice' `, "a,b;c|d\te", "one\ntwo\r\nthree", strings.Repeat("é", 255)}
		if strings.HasPrefix(name, "UTF") || name == "" {
			values = append(values, "中文 ключ عربي 🙂", strings.Repeat("中", 255))
		}
		for _, separator := range []string{"", ",", ";", "|", "\t"} {
			for _, enclosing := range []string{"", `"`, "'"} {
				format := sandbox.CSVFormat{Encoding: name, Separator: separator, Enclosing: enclosing}
				file, err := enc.NewEncoder().String(written(values, format))
				if err != nil {
					t.Fatal(err)
				}
				c := config()
				c.ETLs = []sandbox.ETL{{ID: "up", Loads: []sandbox.Load{{Table: "customers", Mode: sandbox.CreateOrUpdate, CSV: format}}}}
				v := newService(t, c)
				for kind, pack := range compressions {
					v.Empty()
					if e := v.finish(v.push("up", "f", pack(file))); e.Results.Inserted != int64(len(values)) {
						t.Fatalf("%+v %s: got %s %s %+v, want %d rows", format, kind, e.Status, e.Error, e.Results, len(values))
					}
					for i, want := range values {
						row, _ := v.Row("customers", string(rune('A'+i)))
						if got := row.Text("note"); got != want {
							t.Errorf("%+v %s: got %q, want %q", format, kind, got, want)
						}
					}
				}
			}
		}
	}
}

// written is a file with one row per value, every value enclosed.
func written(values []string, f sandbox.CSVFormat) string {
	separator, enclosing := f.Separator, f.Enclosing
	if separator == "" {
		separator = ","
	}
	if enclosing == "" {
		enclosing = `"`
	}
	var b bytes.Buffer
	b.WriteString("customerNumber" + separator + "note\r\n")
	for i, v := range values {
		b.WriteString(string(rune('A'+i)) + separator + enclosing + strings.ReplaceAll(v, enclosing, enclosing+enclosing) + enclosing + "\r\n")
	}
	return b.String()
}
