package rowerror

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"github.com/feedsink/feedsink/schemas"
)

var customers = Format{
	Separator: ',', Enclosing: '"', Key: "customerNumber",
	Columns: []string{"customerNumber", "name", "status"}, File: "errors-1.upsert.csv.gz",
}

// read gives the rows in error as `key: reason`.
func read(t *testing.T, f Format, content []byte) (rows []string, err error) {
	t.Helper()
	err = Read(bytes.NewReader(content), []Format{f}, func(r Row) error {
		rows = append(rows, r.Key+": "+r.Reason)
		return nil
	})
	return rows, err
}

func gzipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zipped(t *testing.T, namesAndTexts ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(namesAndTexts); i += 2 {
		w, err := z.Create(namesAndTexts[i])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(namesAndTexts[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRowsInErrorAreToldInEveryShape(t *testing.T) {
	const plain = "customerNumber,name,status,error\nC1,Ada,OK,name: too long\nC2,\"a,\"\"b\"\"\nc\",x,\n"
	want := []string{"C1: name: too long", "C2: "}
	semicolons, err := charmap.ISO8859_1.NewEncoder().String("customerNumber;name;reason\r\nC1;Zoë;trop long: é\r\n")
	if err != nil {
		t.Fatal(err)
	}
	latin := customers
	latin.Separator, latin.Encoding = ';', charmap.ISO8859_1
	wide := customers
	wide.Encoding = unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	utf16, err := wide.Encoding.NewEncoder().String(plain)
	if err != nil {
		t.Fatal(err)
	}
	named := func(key string) Format {
		f := customers
		f.Key = key
		return f
	}
	for _, tc := range []struct {
		name    string
		format  Format
		content []byte
		want    []string
	}{
		{"CSV", customers, []byte(plain), want},
		{"GZIP", customers, gzipped(t, plain), want},
		{"ZIP", customers, zipped(t, "out/x-error.csv", plain), want},
		{"GZIP in a ZIP", customers, zipped(t, "x.csv.gz", string(gzipped(t, plain))), want},
		{"byte order mark", latin, []byte("\ufeff" + plain), want},
		{"UTF-16", wide, []byte(utf16), want},
		{"the definition's separator and encoding", latin, []byte(semicolons), []string{"C1: trop long: é"}},
		{"UTF-8, whatever the definition's encoding", latin, []byte("customerNumber;name;reason\nZoë;x;trop long\n"), []string{"Zoë: trop long"}},
		{
			"what is no file of rows beside one", customers,
			zipped(t, "./out/err.csv", "customerNumber,error\nC1,bad\n", "__MACOSX/out/._err.csv", "\x00\x05\njunk\n", "out/.hidden.csv", "a\nb\n", "README.txt", "see err.csv\nsecond line\n"),
			[]string{"C1: bad"},
		},
		{
			"a document beside a file of rows", customers,
			zipped(t, "summary.json", "{\n\"inError\": 1\n}\n", "err.csv", "customerNumber,error\nC1,bad\n", "page.html", " \n<html>\n<p>bad</p>\n"),
			[]string{"C1: bad"},
		},
		{"a header that begins as a ZIP does", named("PK_CUSTOMER"), []byte("PK_CUSTOMER,error\nC1,bad\n"), []string{"C1: bad"}},
		{"a key column in brackets", named("[id]"), []byte("[id],error\nC1,bad\n"), []string{"C1: bad"}},
		{"another separator", customers, []byte("customerNumber;name;error\nC1;a,b;bad\n"), []string{"C1: bad"}},
		{"reason first", customers, []byte("lineNumber,reason,customerNumber,name\n2,bad,C1,Ada\n"), []string{"C1: bad"}},
		{"code and message", customers, []byte("customerNumber,ERROR_CODE,ERROR_MESSAGE\nC1,TOO_LONG,longer\n"), []string{"C1: TOO_LONG: longer"}},
		{"no reason", customers, []byte("customerNumber,name\nC1,Ada\n"), []string{"C1: "}},
		{"no key column", customers, []byte("line,error\n2,bad\n"), []string{": bad"}},
		{"short row", customers, []byte("name,customerNumber,error\nAda\n"), []string{": "}},
		{"a column of the table that is named like an outcome", customers, []byte("customerNumber,status\nC1,INSERTED\n"), []string{"C1: "}},
		{"accepted rows", customers, []byte("customerNumber,name,result\nC1,Ada,INSERTED\n"), nil},
		{"both in one file", customers, []byte("customerNumber,result,message\nC1,INSERTED,\nC2,REJECTED,bad\nC3,KO,worse\nC4,UPDATED,fine\n"), []string{"C2: bad", "C3: worse"}},
		{
			"no error", customers,
			[]byte("customerNumber,outcome\nA,KO\nB,NO_ERROR\nC,INSERTED\nD,noErrors\nE,without errors\nF,0 errors\nG,No change\nH,NOT_FOUND\nI,\n"),
			[]string{"A: "},
		},
		{
			"not good", customers,
			[]byte("customerNumber,outcome,reason\nA,NOK,bad tier\nB,OK,\nC,NOT OK,\nD,NOT CREATED,no\nE,DISCARDED,\nF,NOT_UPDATED,\nG,notInserted,\nH,SKIPPED,\nI,QUARANTINED,\nJ,,late\nK,created,fine\n"),
			[]string{"A: bad tier", "C: ", "D: no", "E: ", "F: ", "G: ", "H: ", "I: ", "J: late"},
		},
		{
			"several entries", customers,
			zipped(t, "errors-1.upsert-result.csv", "customerNumber,result\nC8,INSERTED\n", "errors-1.upsert-error.csv", plain), want,
		},
		{"nothing", customers, nil, nil},
		{"an empty ZIP", customers, zipped(t), nil},
		{"header alone", customers, []byte("customerNumber,error\n"), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := read(t, tc.format, tc.content)
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

// TestNamesOfFilesTellWhatTheirRowsAre: those of accepted rows have none in error, and where
// neither the name nor a column tells, the rows are not marked.
func TestNamesOfFilesTellWhatTheirRowsAre(t *testing.T) {
	for name, want := range map[string]string{
		"inserted.csv": "none", "rows-created.csv": "none", "customersUpdated.csv": "none", "updated_1001.csv": "none", "loaded.csv": "none",
		"ok.csv": "none", "1001_OK.csv": "none", "accepted.csv": "none", "errors-1.upsert-ok.csv": "none",
		"errors.csv": "marked", "rejected.csv": "marked", "ko.csv": "marked", "1001-KO.csv": "marked", "failed.csv": "marked", "not_inserted.csv": "marked",
		"notLoaded.csv": "marked", "unaccepted.csv": "marked", "errors_updated.csv": "marked", "updated-errors.csv": "marked",
		"customers.csv": "not marked", "1001.csv": "not marked", "tokens.csv": "not marked", "update_only.csv": "not marked", "errors-1.upsert.csv": "not marked",
	} {
		got := "none"
		if err := Read(bytes.NewReader(zipped(t, name, "customerNumber,name\nC1,Ada\n")), []Format{customers}, func(r Row) error {
			if got = "not marked"; r.Marked {
				got = "marked"
			}
			return nil
		}); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", name, got, err, want)
		}
	}
}

// TestOnlyTheRowItselfIsNothingToDelete: a row that is in error for want of something else may be in
// the table still.
func TestOnlyTheRowItselfIsNothingToDelete(t *testing.T) {
	for reason, want := range map[string]bool{
		"NOT_FOUND":                            true,
		"not found":                            true,
		"Not found.":                           true,
		"PROFILE_NOT_FOUND":                    true,
		"does not exist":                       true,
		"profile not found":                    true,
		"the profile to delete was not found":  true,
		"record C1 doesn't exist":              true,
		"No such record":                       true,
		"no matching row":                      true,
		"no profile has this id":               true,
		"no record with this key in the table": true,
		"no profile":                           true,
		"NOT_FOUND: there is no customer C1":   true,
		"404: no record has this business key": true,
		"":                                     false,
		"attribute custNo does not exist in the destination table": false,
		"NOT_FOUND: attribute custNo":                              false,
		"ATTRIBUTE_NOT_FOUND":                                      false,
		"linked table not found":                                   false,
		"profile: linked table not found":                          false,
		"no such attribute: custNo":                                false,
		"no profile deletion right":                                false,
		"no record was deleted: profile is locked":                 false,
		"no row deleted: it is in use":                             false,
		"key column not found":                                     false,
	} {
		r := Row{Reason: reason}
		if got := r.NothingToDelete(schemas.Delete); got != want {
			t.Errorf("%q: got %v, want %v", reason, got, want)
		}
		if r.NothingToDelete(schemas.Upsert) {
			t.Errorf("%q of an upsert: nothing was to be deleted", reason)
		}
	}
}

func TestWhatIsNoFileOfRowsIsUnreadable(t *testing.T) {
	cut := gzipped(t, strings.Repeat("customerNumber,error\nC1,bad\n", 1000))
	for name, content := range map[string][]byte{
		"cut GZIP":          cut[:len(cut)/2],
		"cut ZIP":           zipped(t, "x.csv", "a,b\n")[:20],
		"too many cells":    []byte("customerNumber,error\nC1,bad\n" + strings.Repeat(",", maxCells) + "\n"),
		"JSON":              []byte("{\n  \"error\": \"late\",\n  \"code\": 7\n}\n"),
		"a list in JSON":    []byte("\ufeff\n [\n1,\n2\n]\n"),
		"HTML":              []byte("<html>\n<p>Sorry</p>\n</html>\n"),
		"XML in GZIP":       gzipped(t, "<?xml version=\"1.0\"?>\n<error>\n</error>\n"),
		"JSON in a ZIP":     zipped(t, "x.csv", "", "summary.json", "{\n\"inError\": 1\n}\n"),
		"no end of a value": []byte("customerNumber,error\n\"" + strings.Repeat("x", maxRecord+1)),
	} {
		if _, err := read(t, customers, content); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%s: got %v, want %v", name, err, ErrUnreadable)
		}
	}
}

// TestARowCountsAllThatItKeepsInMemory: an empty cell takes as much as a text's head does.
func TestARowCountsAllThatItKeepsInMemory(t *testing.T) {
	const rows = 100
	content := "customerNumber,error\n" + strings.Repeat("C1,bad"+strings.Repeat(",", maxCells-2)+"\n", rows)
	var kept []Row
	counted, before := 0, new(runtime.MemStats)
	runtime.GC()
	runtime.ReadMemStats(before)
	if err := Read(strings.NewReader(content), []Format{customers}, func(r Row) error {
		kept = append(kept, r)
		counted += r.Len()
		return nil
	}); err != nil || len(kept) != rows {
		t.Fatalf("got %d rows, %v, want %d", len(kept), err, rows)
	}
	after := new(runtime.MemStats)
	runtime.GC()
	runtime.ReadMemStats(after)
	if taken := int(after.HeapAlloc - before.HeapAlloc); counted < taken*3/4 {
		t.Errorf("got %d bytes counted for rows that take %d", counted, taken)
	}
	runtime.KeepAlive(kept)
}

func TestReadEndsWithTheErrorOfItsReader(t *testing.T) {
	full := errors.New("disk full")
	err := Read(strings.NewReader("customerNumber,error\nC1,bad\n"), []Format{customers}, func(Row) error { return full })
	if !errors.Is(err, full) || errors.Is(err, ErrUnreadable) {
		t.Errorf("got %v, want %v", err, full)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("customerNumber,error\nC1,bad\n"), byte(','), byte('"'))
	f.Add([]byte("customerNumber;error\r\n\"C;\"\"1\";bad\r\n\r\n"), byte(';'), byte('"'))
	f.Add([]byte("PK\x03\x04"), byte(','), byte('"'))
	f.Add([]byte{0x1f, 0x8b, 8}, byte(','), byte('\''))
	f.Add([]byte("\xff\xfea\x00"), byte('|'), byte('"'))
	f.Fuzz(func(t *testing.T, content []byte, separator, enclosing byte) {
		formats := []Format{customers, orders}
		formats[0].Separator, formats[0].Enclosing = separator, enclosing
		formats = formats[:1+int(separator)%2]
		rows := 0
		err := Read(bytes.NewReader(content), formats, func(r Row) error {
			rows++
			if len([]rune(r.Reason)) > maxReason || len(r.Cells) == 0 || len(r.Of) == 0 {
				return fmt.Errorf("row %d: %d cells, a reason of %d bytes, formats %v", rows, len(r.Cells), len(r.Reason), r.Of)
			}
			return nil
		})
		if err != nil && !errors.Is(err, ErrUnreadable) {
			t.Error(err)
		}
	})
}
