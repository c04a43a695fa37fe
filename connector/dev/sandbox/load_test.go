package sandbox_test

import (
	"bytes"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/dev/sandbox/csvfile"
)

func TestCellsBecomeValuesOfTheirFields(t *testing.T) {
	v := newService(t, config())
	e := v.load("up", strings.Join([]string{
		"customerNumber,age,score,adult,birthDate,languages,subscriptions#newsletter,S_vip,S_tier,note",
		`C1,-4,1.50,true,2000-01-31,fr|en,true,false,gold,"a ""b"",` + "\r\n" + `c"`,
		`C2,,,,,"[""de"",""nl""]",false,,,`,
	}, "\n"))
	if e.Results.InError != 0 || e.Results.Inserted != 2 {
		t.Fatalf("got %+v %s", e.Results, e.Error)
	}
	v.wantRow("customers", "C1", map[string]string{
		"customerNumber": "C1", "age": "-4", "score": "1.50", "adult": "true", "birthDate": "2000-01-31",
		"languages": `["fr","en"]`, "subscriptions#newsletter": "true", "S_vip": "false", "S_tier": "gold",
		"note": "a \"b\",\r\nc",
	})
	v.wantRow("customers", "C2", map[string]string{
		"customerNumber": "C2", "languages": `["de","nl"]`, "subscriptions#newsletter": "false",
	})
	byCall := v.profile(`{"attributes":{"customerNumber":"C3","age":-4,"score":1.50,"adult":true,"languages":["fr","en"]}}`)
	called, _ := v.Row("customers", "C3")
	loaded, _ := v.Row("customers", "C1")
	for _, name := range []string{"age", "score", "adult", "languages"} {
		if !reflect.DeepEqual(called.Values[name], loaded.Values[name]) {
			t.Errorf("%s: %#v from a call (%s), %#v from a file", name, called.Values[name], byCall, loaded.Values[name])
		}
	}
}

func TestRowsInErrorAreCountedAndReported(t *testing.T) {
	v := newService(t, config())
	v.profile(`{"attributes":{"customerNumber":"C1"}}`)
	v.profile(`{"attributes":{"customerNumber":"C2","emailAddress":"b@example.com"}}`)
	e := v.load("up", strings.Join([]string{
		"customerNumber,emailAddress,age,note",
		"C3,c@example.com,30,fine",
		"C4,nobody,30,mail",
		",,30,nobody",
		"C5,e@example.com,old,\"quoted, \"\"age\"\"\"",
		"C1,b@example.com,1,two profiles",
		"C6,f@example.com,31,fine",
	}, "\n"))
	if want := (sandbox.Results{Read: 6, InError: 4, Inserted: 2}); e.Results != want {
		t.Errorf("got %+v, want %+v", e.Results, want)
	}
	got := v.must(200, http.MethodGet, massBase+"/etl-executions/"+e.ID+"/output-files", "")
	want := strings.Join([]string{
		"customerNumber,emailAddress,age,note,error",
		"C4,nobody,30,mail,emailAddress: not a valid e-mail address",
		`,,30,nobody,"no unique key: one of customerNumber, emailAddress is needed"`,
		`C5,e@example.com,old,"quoted, ""age""",age: not a whole number from -2147483648 to 2147483647`,
		"C1,b@example.com,1,two profiles,unique keys match different profiles",
	}, "\n")
	if got != want {
		t.Errorf("error file:\n got %s\nwant %s", got, want)
	}
}

func TestMappingFlagsGovernUpdates(t *testing.T) {
	c := config()
	c.ETLs = []sandbox.ETL{{ID: "up", Loads: []sandbox.Load{{
		Table: "customers", Mode: sandbox.CreateOrUpdate,
		CSV: csvfile.Format{Separator: ";", Enclosing: "'", Encoding: "ISO-8859-1"},
		Columns: []sandbox.Column{
			{Header: "no", Attribute: "customerNumber"},
			{Header: "first", Attribute: "firstName"},
			{Header: "note", Attribute: "note", Flags: sandbox.Flags{IgnoreEmptyValues: true}},
			{Header: "age", Attribute: "age", Flags: sandbox.Flags{IgnoreInvalidValues: true}},
			{Header: "sex", Attribute: "sex", Flags: sandbox.Flags{IgnoreValuesWhenKnown: true}},
			{Header: "lang", Attribute: "languages", Flags: sandbox.Flags{MergeValuesWhenMultivalued: true}},
			{Header: "born", Attribute: "birthDate", DateFormat: "dd/MM/yyyy"},
		},
	}}}}
	v := newService(t, c)
	v.profile(`{"attributes":{"customerNumber":"C1","firstName":"Ann","note":"n","age":1,"sex":"F","languages":["fr"]}}`)
	e := v.load("up", "no;first;note;age;sex;lang;born\nC1;;;old;M;en;31/12/1999\nC2;'Zo\xeb; \"ok\"';x;2;M;de;\n")
	if want := (sandbox.Results{Read: 2, Inserted: 1, Updated: 1}); e.Results != want {
		t.Fatalf("got %+v %s, want %+v", e.Results, e.Error, want)
	}
	v.wantRow("customers", "C1", map[string]string{
		"customerNumber": "C1", "note": "n", "age": "1", "sex": "F", "languages": `["fr","en"]`, "birthDate": "1999-12-31",
	})
	v.wantRow("customers", "C2", map[string]string{
		"customerNumber": "C2", "firstName": `Zoë; "ok"`, "note": "x", "age": "2", "sex": "M", "languages": `["de"]`,
	})
	if e := v.load("up", "no;other\nC1;x\n"); !strings.Contains(e.Error, `header "other" is not in the attribute mapping`) {
		t.Errorf("unmapped header: got %s %s", e.Status, e.Error)
	}
}

func TestRowsCanBeRefusedByRulesThatNoClientKnows(t *testing.T) {
	c := config()
	c.Shapes.Reasons = "codes"
	v := newService(t, c)
	if err := v.RejectRows(
		sandbox.Rejection{Table: "orders", Column: "customerNumber", Match: "."},
		sandbox.Rejection{Table: "customers", Column: "customerNumber", Match: "7$", Code: "SEVEN", Reason: "ends with seven"},
		sandbox.Rejection{Column: "age", Match: "^1[0-9]$"},
	); err != nil {
		t.Fatal(err)
	}
	var file strings.Builder
	file.WriteString("customerNumber,age\n")
	for i := 5; i < 12; i++ {
		fmt.Fprintf(&file, "C%d,%d\n", i, i)
	}
	e := v.load("up", file.String())
	if want := (sandbox.Results{Read: 7, InError: 3, Inserted: 4}); e.Results != want {
		t.Errorf("got %+v, want %+v", e.Results, want)
	}
	got := v.must(200, http.MethodGet, massBase+"/etl-executions/"+e.ID+"/output-files", "")
	want := "customerNumber,age,ERROR_CODE,ERROR_MESSAGE\nC7,7,SEVEN,ends with seven\n" +
		"C10,10,REFUSED,refused by a rule of the table\nC11,11,REFUSED,refused by a rule of the table"
	if got != want {
		t.Errorf("error file:\n got %s\nwant %s", got, want)
	}
	v.ClearRejections()
	if e := v.load("up", file.String()); e.Results.InError != 0 {
		t.Errorf("cleared: got %+v, want no row in error", e.Results)
	}
	for _, bad := range []sandbox.Rejection{{Column: "age", Match: "("}, {Match: "x"}} {
		if err := v.RejectRows(bad); err == nil {
			t.Errorf("%+v: got no error", bad)
		}
	}
}

// TestRowErrorsHaveTheirReasons has one row for each reason for which a row
// may be in error.
func TestRowErrorsHaveTheirReasons(t *testing.T) {
	for _, c := range []struct {
		etl, header, row, code string
	}{
		{"up", "note", strings.Repeat("x", 256), "TOO_LONG"},
		{"up", "age", "2147483648", "NOT_INTEGER"},
		{"up", "score", "+1", "NOT_NUMBER"},
		{"up", "adult", "yes", "NOT_BOOLEAN"},
		{"up", "birthDate", "31/12/1999", "NOT_DATE"},
		{"up", "lastLogin", "2026-11-21 10:00:00", "NOT_TIMESTAMP"},
		{"up", "emailAddress", "nobody", "NOT_EMAIL"},
		{"up", "phone", "012", "NOT_PHONE"},
		{"up", "languages", "fr|xx", "NOT_LANGUAGE"},
		{"up", "languages", "[1", "NOT_LIST"},
		{"up", "country", "QQ", "NOT_COUNTRY"},
		{"up", "sex", "X", "NOT_SEX"},
		{"up", "title", "Dr", "NOT_TITLE"},
		{"up", "home", "1;2", "NOT_COORDINATES"},
		{"up", "subscriptions#newsletter", "1", "NOT_BOOLEAN"},
		{"up", "S_vip", "gold", "NOT_BOOLEAN"},
		{"up", "S_tier", "bronze", "NOT_SEGMENT"},
		{"new", "lastMailActivityStatus", "SOLD", "NOT_STATUS"},
		{"new", "blacklistMoment", "yesterday", "NOT_TIMESTAMP"},
		{"new", "note", "exists", "ALREADY_THERE"},
		{"change", "note", "misses", "NOT_THERE"},
		{"up", "emailAddress", "b@example.com", "KEYS_CONFLICT"},
	} {
		cfg := config()
		cfg.Shapes.Reasons = "codes"
		v := newService(t, cfg)
		v.profile(`{"attributes":{"customerNumber":"C1"}}`)
		v.profile(`{"attributes":{"customerNumber":"C2","emailAddress":"b@example.com"}}`)
		key := "C1"
		if c.code == "NOT_THERE" {
			key = "C9"
		}
		e := v.load(c.etl, "customerNumber,"+c.header+"\n"+key+","+c.row+"\n")
		if e.Results.InError != 1 {
			t.Errorf("%s %s: got %s %s %+v, want one row in error", c.header, c.row, e.Status, e.Error, e.Results)
			continue
		}
		got := v.must(200, http.MethodGet, massBase+"/etl-executions/"+e.ID+"/output-files", "")
		if !strings.Contains(got, ","+c.code+",") {
			t.Errorf("%s %s: got %s, want the code %s", c.header, c.row, got, c.code)
		}
	}
}

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
				format := csvfile.Format{Encoding: name, Separator: separator, Enclosing: enclosing}
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
func written(values []string, f csvfile.Format) string {
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
