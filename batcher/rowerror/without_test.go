package rowerror

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"golang.org/x/text/encoding/charmap"
)

// unpacked is what a file says, with the names of a ZIP's files.
func unpacked(t *testing.T, content []byte) (text string) {
	t.Helper()
	all := func(in io.Reader, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	switch {
	case bytes.HasPrefix(content, []byte("PK")):
		archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.File {
			in, err := f.Open()
			text += f.Name + ":" + all(in, err)
		}
		return text
	case bytes.HasPrefix(content, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(bytes.NewReader(content))
		return all(z, err)
	}
	return string(content)
}

// Of each way in which files are packed, the rows of the key go and every other byte stays.
func TestWithoutLeavesEveryOtherRowAsItWas(t *testing.T) {
	const text = "customerNumber,name,status\nA,\"Doe, \"\"J\"\"\",x\r\nB,\"two\nlines\",\nA,,\"\"\nC, spaced ,A"
	const want = "customerNumber,name,status\nB,\"two\nlines\",\nC, spaced ,A"
	for name, content := range map[string][]byte{"plain": []byte(text), "GZIP": gzipped(t, text), "ZIP": zipped(t, "1.csv", text, "2.csv", text)} {
		var out bytes.Buffer
		drop := func(r Row) bool { return r.Key == "A" }
		n, err := Without(bytes.NewReader(content), []Format{customers}, drop, &out)
		wanted, rows := want, int64(2)
		if name == "ZIP" {
			wanted, rows = "1.csv:"+want+"2.csv:"+want, 4
		}
		if got := unpacked(t, out.Bytes()); got != wanted || n != rows || err != nil {
			t.Errorf("%s: got %d rows left out, %v and\n%q\nwant %d and\n%q", name, n, err, got, rows, wanted)
		}
		if n, err := Without(bytes.NewReader(content), []Format{customers}, drop, nil); n != rows || err != nil {
			t.Errorf("%s, counted only: got %d, %v, want %d", name, n, err, rows)
		}
		lines := 0
		if err := Lines(bytes.NewReader(content), func([]byte) { lines++ }); err != nil || lines != 3*int(rows) {
			t.Errorf("%s, as lines: got %d, %v, want 6 of each file", name, lines, err)
		}
	}
}

func TestWithoutKeepsTheEncoding(t *testing.T) {
	f := customers
	f.Encoding = charmap.ISO8859_1
	text, err := charmap.ISO8859_1.NewEncoder().String("customerNumber,name\nÄ,Crème\nB,brûlée\n")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	n, err := Without(strings.NewReader(text), []Format{f}, func(r Row) bool { return r.Key == "Ä" }, &out)
	if want := "customerNumber,name\nbr\xfbl\xe9e\n"; n != 1 || err != nil || out.String() != strings.Replace(want, "\nb", "\nB,b", 1) {
		t.Errorf("got %d, %v and %q, want 1 row less and %q", n, err, out.String(), want)
	}
}
