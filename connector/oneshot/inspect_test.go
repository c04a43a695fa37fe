package oneshot

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/text/encoding/charmap"

	"github.com/feedsink/feedsink/connector/service"
)

var usual = service.CSVFormat{Separator: ",", Enclosing: `"`, Encoding: "UTF-8"}

func inspected(t *testing.T, name string, data []byte, format service.CSVFormat) (Content, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return Inspect(t.Context(), path, format)
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

func zipped(t *testing.T, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i, text := range files {
		w, err := z.Create(string(rune('a'+i)) + ".csv")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestInspectReadsEveryFormatOfTheInterface(t *testing.T) {
	latin, err := charmap.ISO8859_1.NewEncoder().String("clé;nom\n1;\"a;b\"\n2;é\n")
	if err != nil {
		t.Fatal(err)
	}
	const plain = "key,name\n1,\"a,\nb\"\n2,\"say \"\"x\"\"\"\n"
	for name, c := range map[string]struct {
		data    []byte
		format  service.CSVFormat
		headers []string
		packed  service.Compression
	}{
		"plain":            {[]byte(plain), usual, []string{"key", "name"}, service.Plain},
		"begins as a ZIP":  {[]byte("PK_CUSTOMER,name\n1,a\n2,b\n"), usual, []string{"PK_CUSTOMER", "name"}, service.Plain},
		"gzip":             {gzipped(t, plain), usual, []string{"key", "name"}, service.Gzip},
		"zip":              {zipped(t, plain), usual, []string{"key", "name"}, service.Zip},
		"latin, semicolon": {[]byte(latin), service.CSVFormat{Separator: ";", Enclosing: `"`, Encoding: "ISO-8859-1"}, []string{"clé", "nom"}, service.Plain},
		"apostrophe":       {[]byte("key,\"n\n1,'a,b'\n2,\"\n"), service.CSVFormat{Separator: ",", Enclosing: "'"}, []string{"key", `"n`}, service.Plain},
		"quote separates":  {[]byte("key\"name\n1\"'a\"b'\n2\"c\n"), service.CSVFormat{Separator: `"`, Enclosing: "'"}, []string{"key", "name"}, service.Plain},
	} {
		got, err := inspected(t, "f", c.data, c.format)
		if err != nil || !reflect.DeepEqual(got.Headers, c.headers) || got.Rows != 2 || got.Compression != c.packed || got.Bytes != int64(len(c.data)) {
			t.Errorf("%s: got %+v, %v, want headers %q and 2 rows, %s", name, got, err, c.headers, c.packed)
		}
	}
}

func TestInspectFindsWhatWouldFailTheWholeFile(t *testing.T) {
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":             {nil, "is empty"},
		"a column too many":   {[]byte("a,b\n1,2\n1,secret,3\n"), "line 3: wrong number of fields"},
		"a column too few":    {[]byte("a,b\nsecret\n"), "line 2: wrong number of fields"},
		"duplicate headers":   {[]byte("a,b,a\n"), `the header "a" stands there twice`},
		"an empty header":     {[]byte("a,\n"), "the header of column 2 is empty"},
		"a byte order mark":   {[]byte("\ufeffa,b\n"), "byte order mark"},
		"two files in a ZIP":  {zipped(t, "a\n1\n", "a\n2\n"), "holds one CSV file, this one has 2"},
		"a ZIP that is none":  {[]byte("PK\x03\x04"), "zip"},
		"a GZIP cut in half":  {gzipped(t, "a\n1\n")[:14], "unexpected EOF"},
		"a quote never ended": {[]byte("a,b\n\"1,2\n3,4\n"), "line 2"},
		"a last value open":   {[]byte("a,b\n1,2\n3,\"secret\n5,6\n"), "line 3: the value of column 2 is enclosed and never closed"},
		"a last line open":    {[]byte("a,b\n1,2\n3,\"secret"), "line 3: the value of column 2 is enclosed and never closed"},
		"an open header":      {[]byte("a,\"b\n1,2\n"), "line 1: the value of column 2 is enclosed and never closed"},
		"headers alone":       {[]byte("a,b\n"), "has no row below its headers"},
	} {
		_, err := inspected(t, "f", c.data, usual)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want %q and no value", name, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("a\n1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Inspect(ctx, path, usual); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: got %v, want %v", err, context.Canceled)
	}
}

func FuzzInspect(f *testing.F) {
	f.Add([]byte("a,b\n1,2\n"), ",", `"`)
	f.Add([]byte("a;'b'\n1;2\n"), ";", "'")
	f.Add([]byte{0x1f, 0x8b, 8}, ",", `"`)
	f.Add([]byte("PK\x03\x04"), ",", `"`)
	f.Fuzz(func(t *testing.T, data []byte, separator, enclosing string) {
		if len(separator) != 1 || len(enclosing) != 1 || separator == enclosing || strings.ContainsAny(separator+enclosing, "\r\n\x00") || separator[0] > 127 || enclosing[0] > 127 {
			return // the configuration refuses them
		}
		c, err := inspected(t, "f", data, service.CSVFormat{Separator: separator, Enclosing: enclosing})
		if err == nil && len(c.Headers) == 0 {
			t.Errorf("got neither headers nor an error")
		}
	})
}
