package sandbox

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// readAll reads a whole file.
func readAll(in io.Reader, d dialect) ([][]string, error) {
	r := newCSVReader(in, d)
	var records [][]string
	for {
		cells, err := r.read()
		if errors.Is(err, io.EOF) {
			return records, nil
		}
		if err != nil {
			return records, err
		}
		records = append(records, slices.Clone(cells))
	}
}

func TestCSVKeepsEveryByteOfAValue(t *testing.T) {
	want := [][]string{
		{"a", "", "c c", "last"},
		{"\r\n", "\n", "\r", "x"},
		{`"`, `""`, ",", ";'"},
		{"", "", "", ""},
		{"中文", "ключ", "عربي", "é"},
		{" lead", "trail ", "\t", "x"},
	}
	for _, f := range []CSVFormat{{}, {Separator: ";"}, {Separator: "\t", Enclosing: "'"}, {Encoding: "UTF-16LE"}} {
		d, err := f.compile()
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		w := newCSVWriter(&b, d)
		for _, record := range want {
			if err := w.write(record[:3], record[3:]); err != nil {
				t.Fatal(err)
			}
		}
		got, err := readAll(&b, d)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v:\n got %q %v\nwant %q", f, got, err, want)
		}
	}
}

func TestCSVLinesEndWithOrWithoutCarriageReturn(t *testing.T) {
	d, err := CSVFormat{}.compile()
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string][][]string{
		"":                      nil,
		"a":                     {{"a"}},
		"a,b\r\nc,d\r\n":        {{"a", "b"}, {"c", "d"}},
		"a\n\nb\n":              {{"a"}, {""}, {"b"}},
		"\"a\"\r\n\"b\"":        {{"a"}, {"b"}},
		"a,\n,b":                {{"a", ""}, {"", "b"}},
		"\"\",\"a\r\nb\"\n":     {{"", "a\r\nb"}},
		"a,":                    {{"a", ""}},
		"\xef\xbb\xbf\"a\",b\n": {{"a", "b"}},
	} {
		got, err := readAll(strings.NewReader(in), d)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %q %v, want %q", in, got, err, want)
		}
	}
}

// FuzzCSV compares the reader with encoding/csv wherever the two promise the
// same: no carriage returns and no blank lines, which the library rewrites.
// Whatever is read has to survive being written and read again.
func FuzzCSV(f *testing.F) {
	for _, seed := range []string{"a,b\n1,2\n", "\"a\"\"b\",\"c\nd\"\n", "a\"b", "\"a", "\"a\"b", ",\n,", "\xef\xbb\xbfa", "\"a\"\r\n"} {
		f.Add(seed)
	}
	d, err := CSVFormat{}.compile()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, err := readAll(strings.NewReader(in), d)
		if !strings.Contains(in, "\r") && !strings.Contains("\n"+in, "\n\n") && !strings.HasPrefix(in, "\xef\xbb\xbf") {
			r := csv.NewReader(strings.NewReader(in))
			r.FieldsPerRecord = -1
			want, wantErr := r.ReadAll()
			if (err == nil) != (wantErr == nil) || err == nil && !slices.EqualFunc(got, want, slices.Equal) {
				t.Fatalf("%q:\n got %q %v\nwant %q %v", in, got, err, want, wantErr)
			}
		}
		if err != nil {
			return
		}
		var b bytes.Buffer
		w := newCSVWriter(&b, d)
		for _, record := range got {
			if err := w.write(record, []string{"end"}); err != nil {
				t.Fatal(err)
			}
		}
		again, err := readAll(&b, d)
		for i := range got {
			got[i] = append(got[i], "end")
		}
		if err != nil || !slices.EqualFunc(again, got, slices.Equal) {
			t.Fatalf("%q:\nread %q\nthen %q %v", in, got, again, err)
		}
	})
}

// FuzzLoad feeds whole uploads, packed or not: an execution has to end, and
// the counters have to add up.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{"k,n\na,1\nb,x\n", "k\na\nb\na\n", "k,k\n", "PK\x03\x04", "\x1f\x8b\x08", "k,n\n\"a", ""} {
		f.Add([]byte(seed), uint8(0))
	}
	modes := []Mode{CreateOrUpdate, CreateOnly, UpdateOnly, DeleteRows}
	f.Fuzz(func(t *testing.T, content []byte, mode uint8) {
		l := &loading{
			Load:  Load{Table: "t", Mode: modes[int(mode)%len(modes)]},
			table: newTable(Table{Name: "t", Keys: []string{"k"}, Fields: []Field{{Name: "n", Type: Integer}}}),
			file:  file{open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }},
		}
		if err := l.check(); err != nil {
			return
		}
		if err := l.apply(func() int64 { return 1 }); err != nil {
			t.Fatalf("%q passed the check and then: %v", content, err)
		}
		r := l.loaded.Results
		if r.InError+r.Inserted+r.Updated+r.Deleted > r.Read || int64(len(l.table.rows)) != r.Inserted {
			t.Fatalf("%q: %+v with %d rows", content, r, len(l.table.rows))
		}
	})
}
