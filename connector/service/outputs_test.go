package service

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
)

// outputs answers operation 12 with content, which may end early.
func outputs(t *testing.T, content string, cut bool) *Client {
	s := &service{calls: func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, content)
		if cut {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}}
	return s.start(t)
}

func TestOutputFilesAreToldByTheirContent(t *testing.T) {
	for content, want := range map[string]Compression{
		"no,error\n1,bad\n":     Plain,
		"\x1f\x8b\x08 and more": Gzip,
		"PK\x03\x04 and more":   Zip,
		"PK\x05\x06 empty":      Zip,
		"P":                     Plain,
		"":                      Plain,
	} {
		var got bytes.Buffer
		out, err := outputs(t, content, false).OutputFiles(t.Context(), "9", &got)
		if err != nil || out.Compression != want || got.String() != content {
			t.Errorf("%q: got %v, %q, %v; want %v", content, out.Compression, &got, err, want)
		}
	}
}

func TestOutputFilesAppearWholeOrNotAtAll(t *testing.T) {
	const content = "no,error\n1,bad\n"
	for name, tc := range map[string]struct {
		content string
		cut     bool
		kept    bool
		want    error
	}{
		"whole":     {content: content, kept: true},
		"cut short": {content: content, cut: true, want: io.ErrUnexpectedEOF},
		"none":      {},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "9.csv")
		out, err := outputs(t, tc.content, tc.cut).SaveOutputFiles(t.Context(), "9", path)
		if !errors.Is(err, tc.want) || tc.want == nil && out.Bytes != int64(len(tc.content)) {
			t.Errorf("%s: got %+v, %v; want error %v", name, out, err, tc.want)
		}
		got, _ := os.ReadFile(path)
		left, _ := os.ReadDir(dir)
		if kept := len(left) == 1 && string(got) == tc.content; kept != tc.kept || !tc.kept && len(left) > 0 {
			t.Errorf("%s: got %d files, %q; want it kept: %v", name, len(left), got, tc.kept)
		}
	}
}

func TestOutputFilesThatCannotBeSavedAreNotTheServices(t *testing.T) {
	c := outputs(t, "a\n", false)
	_, err := c.SaveOutputFiles(t.Context(), "9", filepath.Join(t.TempDir(), "none", "9.csv"))
	if _, ok := errors.AsType[*Error](err); ok || !errors.Is(err, fs.ErrNotExist) ||
		!strings.HasPrefix(err.Error(), "get output files of execution 9: ") {
		t.Errorf("got %v, want a missing folder and no *Error", err)
	}
	taken := filepath.Join(t.TempDir(), "9.csv")
	if err := os.MkdirAll(filepath.Join(taken, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SaveOutputFiles(t.Context(), "9", taken); err == nil || !strings.Contains(err.Error(), "rename") {
		t.Errorf("a folder of that name: got %v, want an error of the renaming", err)
	}
}

// TestOutputFilesComeWithAnAnswerThatHasThem: what else a 2xx says may be a word about files that are
// not there yet, or a part of them.
func TestOutputFilesComeWithAnAnswerThatHasThem(t *testing.T) {
	for status, want := range map[int]bool{200: true, 201: false, 202: false, 203: false, 204: true, 206: false, 207: false} {
		s := &service{calls: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			if status != http.StatusNoContent {
				_, _ = io.WriteString(w, "The files are\nbeing made.\n")
			}
		}}
		var got bytes.Buffer
		_, err := s.start(t).OutputFiles(t.Context(), "9", &got)
		if (err == nil) != want {
			t.Errorf("%d: got %v, want files: %v", status, err, want)
		}
		if err != nil && (!errorOf(t, err).Transient() || got.Len() > 0 || strings.Contains(err.Error(), "being made")) {
			t.Errorf("%d: got %v and %d bytes, want a passing error without the answer's words, and no file", status, err, got.Len())
		}
	}
}

// TestOutputFilesThatAGatewayHasPackedAreUnpacked: a GZIP of the service stays one.
func TestOutputFilesThatAGatewayHasPackedAreUnpacked(t *testing.T) {
	pack := func(content string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, content)
		_ = z.Close()
		return b.String()
	}
	const csv = "no,error\n1,bad\n"
	long := strings.Repeat(csv, 20_000)
	for name, tc := range map[string]struct {
		coding, content, want string
		as                    Compression
		transient             bool
	}{
		"a CSV":              {coding: "gzip", content: pack(csv), want: csv, as: Plain},
		"a long CSV":         {coding: "GZIP", content: pack(long), want: long, as: Plain},
		"a ZIP":              {coding: "x-gzip", content: pack("PK\x03\x04 and more"), want: "PK\x03\x04 and more", as: Zip},
		"a GZIP":             {coding: "gzip", content: pack(pack(csv)), want: pack(csv), as: Gzip},
		"nothing":            {coding: "gzip", content: pack(""), as: Plain},
		"as it was":          {content: pack(csv), want: pack(csv), as: Gzip},
		"not packed":         {coding: "gzip", content: csv, want: csv, as: Plain},
		"half of it":         {coding: "gzip", content: pack(csv)[:20], transient: true},
		"the beginning only": {coding: "gzip", content: pack(csv)[:5], transient: true},
		"a page":             {coding: "gzip", content: pack("<!doctype html><title>Sign in</title>"), transient: true},
	} {
		s := &service{calls: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/csv")
			if tc.coding != "" {
				w.Header().Set("Content-Encoding", tc.coding)
			}
			_, _ = io.WriteString(w, tc.content)
		}}
		var got bytes.Buffer
		out, err := s.start(t).OutputFiles(t.Context(), "9", &got)
		if tc.transient {
			if e, ok := errors.AsType[*Error](err); !ok || !e.Transient() {
				t.Errorf("%s: got %v, want it transient", name, err)
			}
			continue
		}
		if err != nil || out.Compression != tc.as || got.String() != tc.want || out.Bytes != int64(len(tc.want)) {
			t.Errorf("%s: got %v, %d bytes, %v; want %v, %d bytes", name, out.Compression, got.Len(), err, tc.as, len(tc.want))
		}
	}
}
