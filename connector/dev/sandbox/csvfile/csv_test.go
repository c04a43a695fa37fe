package csvfile

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
func readAll(in io.Reader, f Format) ([][]string, error) {
	r, err := f.NewReader(in)
	if err != nil {
		return nil, err
	}
	var records [][]string
	for {
		cells, err := r.Read()
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
	for _, f := range []Format{{}, {Separator: ";"}, {Separator: "\t", Enclosing: "'"}, {Encoding: "UTF-16LE"}} {
		var b bytes.Buffer
		w, err := f.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		for _, record := range want {
			if err := w.Write(record[:3], record[3:]); err != nil {
				t.Fatal(err)
			}
		}
		got, err := readAll(&b, f)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v:\n got %q %v\nwant %q", f, got, err, want)
		}
	}
}

func TestCSVLinesEndWithOrWithoutCarriageReturn(t *testing.T) {
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
		got, err := readAll(strings.NewReader(in), Format{})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %q %v, want %q", in, got, err, want)
		}
	}
}

// FuzzCSV compares the reader with encoding/csv wherever the two promise the
// same: no carriage returns and no blank lines, which the library rewrites.
// Whatever is read has to survive being written and read again.
func FuzzCSV(f *testing.F) {
	for _, seed := range []string{"a,b\n1,2\n", "\"a\"\"b\",\"c\nd\"\n", "a\"b", "\"a", "\"a\"b", ",\n,", "\xef\xbb\xbfa", "\ufeff\ufeff", "\"a\"\r\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, err := readAll(strings.NewReader(in), Format{})
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
		w, err := Format{}.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		for _, record := range got {
			if err := w.Write(record, []string{"end"}); err != nil {
				t.Fatal(err)
			}
		}
		again, err := readAll(&b, Format{})
		for i := range got {
			got[i] = append(got[i], "end")
		}
		if err != nil || !slices.EqualFunc(again, got, slices.Equal) {
			t.Fatalf("%q:\nread %q\nthen %q %v", in, got, again, err)
		}
	})
}
