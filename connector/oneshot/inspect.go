package oneshot

import (
	"archive/zip"
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/transform"

	"github.com/feedsink/feedsink/connector/service"
)

// Content is what a look through a whole file told.
type Content struct {
	Headers     []string // of its first line
	Rows        int64    // below it
	Bytes       int64    // of the file on disk
	Compression service.Compression
}

// Inspect reads a CSV file, plain, GZIP or a ZIP with one file in it, and reports
// what would have the service fail the whole file: no or duplicate headers, a row
// with another number of columns, a value that is not closed; or do nothing. Errors name lines, never what is in them.
func Inspect(ctx context.Context, path string, format service.CSVFormat) (c Content, err error) {
	disk, err := os.Open(path)
	if err != nil {
		return c, err
	}
	defer func() { _ = disk.Close() }() // only read
	info, err := disk.Stat()
	if err != nil {
		return c, err
	}
	if !info.Mode().IsRegular() {
		return c, fmt.Errorf("%s: is not a file", path)
	}
	c.Bytes = info.Size()
	plain, closeAll, err := c.unpack(disk)
	if err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	defer closeAll()
	if err = c.rows(ctx, plain, format); err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// unpack tells by the first bytes how the file is packed.
func (c *Content) unpack(disk *os.File) (io.Reader, func(), error) {
	buffered := bufio.NewReaderSize(disk, 1<<16)
	head, err := buffered.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	switch c.Compression = service.CompressionOf(head); c.Compression {
	case service.Gzip:
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, nil, err
		}
		return z, func() { _ = z.Close() }, nil
	case service.Zip:
		z, err := zip.NewReader(disk, c.Bytes)
		if err != nil {
			return nil, nil, err
		}
		if len(z.File) != 1 || z.File[0].FileInfo().IsDir() {
			return nil, nil, fmt.Errorf("a ZIP for an import by hand holds one CSV file, this one has %d entries", len(z.File))
		}
		f, err := z.File[0].Open()
		if err != nil {
			return nil, nil, err
		}
		return f, func() { _ = f.Close() }, nil
	}
	return buffered, func() {}, nil
}

// lookEvery is how many rows are read between two looks at the context.
const lookEvery = 1 << 12

func (c *Content) rows(ctx context.Context, from io.Reader, format service.CSVFormat) error {
	r, err := newReader(from, format)
	if err != nil {
		return err
	}
	header, err := r.Read()
	switch {
	case isEnd(header):
		return errors.New("is empty; the first line must hold the column headers")
	case err != nil:
		return readable(err)
	case unclosed(header):
		return notClosed(r, header)
	}
	seen := map[string]bool{}
	for i, name := range header {
		name = unswapped(name, format)
		switch {
		case i == 0 && strings.HasPrefix(name, "\ufeff"):
			return errors.New("begins with a byte order mark, which would become part of the first header; save it without one")
		case name == "":
			return fmt.Errorf("line 1: the header of column %d is empty", i+1)
		case seen[name]:
			return fmt.Errorf("line 1: the header %q stands there twice, which fails the whole file", name)
		}
		seen[name] = true
		c.Headers = append(c.Headers, name)
	}
	for {
		if c.Rows%lookEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		row, err := r.Read()
		switch {
		case isEnd(row) && c.Rows == 0:
			return errors.New("has no row below its headers, so that an import of it would be spent on nothing")
		case isEnd(row):
			return nil
		case err != nil:
			return readable(err)
		case unclosed(row):
			return notClosed(r, row)
		}
		c.Rows++
	}
}

// end is read as a line behind the file's last one. A value that is enclosed and never closed
// takes it in, and with it all lines in between, which nothing else tells: the reader takes
// what such a value holds at the end of a file.
const end = "\x00\x00\x00\x00\x00\x00\x00\x00"

func isEnd(row []string) bool { return len(row) == 1 && row[0] == end }

func unclosed(row []string) bool { return strings.HasSuffix(row[len(row)-1], end) }

func notClosed(r *csv.Reader, row []string) error {
	line, _ := r.FieldPos(len(row) - 1)
	return fmt.Errorf("line %d: the value of column %d is enclosed and never closed, so that all lines below are part of it", line, len(row))
}

// readable says what is wrong with a row, and what it would do.
func readable(err error) error {
	if wrong, ok := errors.AsType[*csv.ParseError](err); ok {
		return fmt.Errorf("line %d: %w, which fails the whole file", wrong.StartLine, wrong.Err)
	}
	return err
}

// newReader reads any of the interface's formats with the standard library, which
// knows one enclosing character: the configured one changes places with it. Both
// are ASCII, so no character of several bytes is touched.
func newReader(from io.Reader, format service.CSVFormat) (*csv.Reader, error) {
	if format.Encoding != "" {
		encoding, err := htmlindex.Get(format.Encoding)
		if err != nil {
			return nil, fmt.Errorf("encoding %q: %w", format.Encoding, err)
		}
		if name, _ := htmlindex.Name(encoding); name != "utf-8" {
			from = transform.NewReader(from, encoding.NewDecoder())
		}
	}
	separator, _ := utf8.DecodeRuneInString(format.Separator)
	if format.Enclosing != "" && format.Enclosing != `"` {
		mark := format.Enclosing[0]
		if separator == '"' {
			separator = rune(mark)
		}
		from = &swapped{from, mark}
	}
	r := csv.NewReader(io.MultiReader(from, strings.NewReader("\n"+end)))
	r.Comma, r.LazyQuotes, r.ReuseRecord = separator, true, true
	return r, nil
}

// swapped exchanges a character with the quotation mark.
type swapped struct {
	from io.Reader
	mark byte
}

func (s *swapped) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	swap(p[:n], s.mark)
	return n, err
}

func swap(text []byte, mark byte) {
	for i, b := range text {
		switch b {
		case mark:
			text[i] = '"'
		case '"':
			text[i] = mark
		}
	}
}

// unswapped is a cell as the file has it.
func unswapped(cell string, format service.CSVFormat) string {
	text := []byte(cell)
	if format.Enclosing != "" {
		swap(text, format.Enclosing[0])
	}
	return string(text)
}
