package spool

import (
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/dev/sandbox/csvfile"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/schemas"
)

// scripts are what files are written in, and a text that each encoding can say.
var scripts = map[string]string{
	"UTF-8":        "Ελληνικά, العربية, עברית, हिन्दी, 日本語; 한국어 | 🧦 Æ",
	"UTF-16":       "Ελληνικά, العربية, עברית, हिन्दी, 日本語; 한국어 | 🧦 Æ",
	"UTF-16LE":     "Ελληνικά, العربية, עברית, हिन्दी, 日本語; 한국어 | 🧦 Æ",
	"US-ASCII":     "plain, old; text | only",
	"ISO-8859-1":   "Crème brûlée, 5 £; ÿ | þ",
	"ISO-8859-2":   "Žluťoučký kůň, úpěl; ďábelské | ódy",
	"ISO-8859-7":   "Ελληνικά, κείμενο; και | λοιπά",
	"ISO-8859-15":  "Œuvre à 5 €, Š; ž | Ÿ",
	"windows-1252": "„naïve“ – 5 €, œ; ž | ™",
	"windows-1251": "Съешь ещё, этих; мягких | булок",
	"KOI8-R":       "Съешь ещё, этих; мягких | булок",
	"IBM850":       "ça, där; år | ½",
	"Shift_JIS":    "表示, ソート; 日本語 | ポ十",
	"EUC-JP":       "表示, ソート; 日本語 | ポ十",
	"EUC-KR":       "한국어, 글자; 시험 | 끝",
	"Big5":         "中文, 測試; 許功蓋 | 完",
	"GBK":          "中文, 测试; 编码 | 完",
	"GB18030":      "中文, 测试; 编码 | 🧦",
}

// texts are the values that a file must not change, in one encoding.
func texts(script string) []string {
	long := []rune(strings.Repeat(script+"\"';,|\t", 255))[:255]
	return []string{
		script, string(long), `"`, `""`, `a "quoted" word`, `'single'`, "line\nbreak", "line\r\nbreak", "\r", "\n", " around ",
		",", ";", "\t", "|", `,"`, `";"`, `\`, `\"`, "=1+1", "true", "0012", "-", "#", "null", "a\u0001b",
	}
}

// TestValuesSurviveEveryFormat has the service read files in each compression,
// separator, enclosing and encoding.
func TestValuesSurviveEveryFormat(t *testing.T) {
	var formats []CSV
	var etls []sandbox.ETL
	for encoding := range scripts {
		for _, separator := range []string{",", ";", "\t", "|"} {
			for _, enclosing := range []string{`"`, "'"} {
				for _, compression := range []string{"GZIP", "ZIP", "NONE"} {
					etls = append(etls, sandbox.ETL{ID: fmt.Sprint(len(formats)), Loads: []sandbox.Load{{
						Table: "customers", Mode: sandbox.CreateOrUpdate, GenerateErrorFiles: true,
						CSV: csvfile.Format{Encoding: encoding, Separator: separator, Enclosing: enclosing},
					}}})
					formats = append(formats, CSV{Separator: separator, Enclosing: enclosing, Encoding: encoding, Compression: compression})
				}
			}
		}
	}
	s, err := sandbox.New(sandbox.Config{
		Entity: "acme", APIKeys: []string{"key"}, Dir: t.TempDir(), SlotsPerDay: len(etls) + 1, ETLs: etls,
		Tables: []sandbox.Table{{
			Name: "customers", Keys: []string{"k"}, Fields: []sandbox.Field{{Name: "k"}, {Name: "a"}, {Name: "list", Multi: true}},
			Subscriptions: []string{"news"}, Segments: []sandbox.Segment{{Name: "tier", Values: []string{"gold"}}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	client, err := service.New(service.Config{
		BaseURL: server.URL, AuthURL: server.URL, Entity: "acme", Timeout: 10 * time.Second, Concurrency: 1,
		APIKey: func() (service.Secret, error) { return service.NewSecret("key"), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		server.Close()
		check(t, s.Close())
	})
	s.Hold()
	for i, format := range formats {
		survive(t, s, client, fmt.Sprint(i), format)
	}
}

// survive sends one file and compares the table with what was written.
func survive(t *testing.T, s *sandbox.Sandbox, client *service.Client, etl string, format CSV) {
	t.Helper()
	m := testLayout()
	m.CSV = format
	m.Columns = []Column{
		{Header: "k", Section: schemas.Attributes, Name: "k"},
		{Header: "a", Section: schemas.Attributes, Name: "a"},
		{Header: "list", Section: schemas.Attributes, Name: "list"},
		{Header: "subscriptions#news", Section: schemas.Subscriptions, Name: "news"},
		{Header: "S_tier", Section: schemas.Segments, Name: "tier"},
	}
	all := texts(scripts[format.Encoding])
	var writes []schemas.Write
	for i, text := range all {
		value := schemas.StringValue(text)
		writes = append(writes, schemas.Write{Op: schemas.Upsert, Key: fmt.Sprint(etl, "-", i), Cells: []schemas.Cell{
			{Place: &schemas.Place{Section: schemas.Attributes, Name: "a"}, Value: value},
			{Place: &schemas.Place{Section: schemas.Attributes, Name: "list"}, Value: schemas.ListValue([]schemas.Field{{Value: value}, {Value: schemas.StringValue("x")}})},
			{Place: &schemas.Place{Section: schemas.Subscriptions, Name: "news"}, Value: schemas.BoolValue(true)},
			{Place: &schemas.Place{Section: schemas.Segments, Name: "tier"}, Value: schemas.StringValue("gold")},
		}})
	}
	dir, files := sealed(t, m, SegmentSize, writes)
	file := service.File{Name: files[0].Name, Open: func() (io.ReadCloser, int64, error) {
		f, err := os.Open(dir.Path(files[0].Name))
		return f, files[0].Bytes, err
	}}
	execution, err := client.Trigger(t.Context(), etl, file, nil)
	if err == nil {
		err = s.Finish(execution.ID)
	}
	if err != nil {
		t.Fatalf("%+v: %v", format, err)
	}
	results, err := client.Results(t.Context(), execution.ID)
	if err != nil || results.Status != service.Finished || results.Counters.Inserted != int64(len(all)) {
		t.Errorf("%+v: got %+v, %v, want %d rows", format, results, err, len(all))
		return
	}
	for i, text := range all {
		row, _ := s.Row("customers", fmt.Sprint(etl, "-", i))
		list, _ := row.Values["list"].([]any)
		if row.Text("a") != text || len(list) != 2 || list[0] != text || list[1] != "x" ||
			row.Text("subscriptions#news") != "true" || row.Text("S_tier") != "gold" {
			t.Errorf("%+v: got %q, want %q, in a list too, subscribed and gold", format, row.Values, text)
		}
	}
}

func TestWhatAnEncodingCannotSayIsNotSent(t *testing.T) {
	for encoding, text := range map[string]string{
		"ISO-8859-1": "5 €", "US-ASCII": "é", "windows-1252": "日本語", "Shift_JIS": "¥", "KOI8-R": "é", "GBK": "🧦", "UTF-8": "\xff",
	} {
		m := testLayout()
		m.CSV.Encoding = encoding
		w := write(schemas.Upsert, "1", "a", text)
		if entry, err := mustRows(t, m).AppendEntry(nil, &w); err == nil || len(entry) > 0 {
			t.Errorf("%s: %q: got %q, %v, want a value error", encoding, text, entry, err)
		}
	}
}
