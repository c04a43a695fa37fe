package rowerror

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// One record is bounded in bytes and in cells: a file that is no CSV, or whose
// enclosing is never closed, must not end in memory.
const (
	maxRecord = 1 << 20
	maxCells  = 10_000
)

// headLength is how far the first line is looked at to find the separator.
const headLength = 64 << 10

var errTooLong = errors.New("a record is longer than any row")

// reader reads CSV of which it is not known how strict it is: an enclosing
// character counts at the start of a cell alone, and what follows the closing
// one belongs to the cell.
type reader struct {
	in                   *bufio.Reader
	separator, enclosing byte
	size                 int // bytes of the present record
	keep                 bool
	raw                  []byte // the present record as it was read, its line break included, if keep says so
}

// newReader decodes in; a byte order mark overrules the encoding.
func newReader(in io.Reader, f Format) *reader {
	enc := f.Encoding
	if enc == nil {
		enc = encoding.Nop
	}
	decoded := transform.NewReader(in, unicode.BOMOverride(enc.NewDecoder()))
	return &reader{in: bufio.NewReaderSize(decoded, headLength), separator: f.Separator, enclosing: f.Enclosing}
}

// isUTF8 reports whether the beginning of a file is UTF-8 for certain, whatever the
// definition says of the import's own: it has characters of several bytes, and all are right.
func isUTF8(first []byte) (several bool) {
	for len(first) > 0 {
		c, n := utf8.DecodeRune(first)
		switch {
		case c == utf8.RuneError && n == 1:
			return several && !utf8.FullRune(first) // cut off amid a character
		case c == 0: // in UTF-16
			return false
		}
		several, first = several || n > 1, first[n:]
	}
	return several
}

// separators are what a service may write where it does not keep to the
// definition's, which is tried first.
const separators = ",;\t|"

// header reads the first record with the separator that shows the key's column.
func (r *reader) header(key string) ([]string, error) {
	first, err := r.in.Peek(headLength)
	if len(first) == 0 {
		return nil, err
	}
	if end := bytes.IndexByte(first, '\n'); end >= 0 {
		first = first[:end]
	}
	definition := r.separator
	for _, separator := range append([]byte{definition}, separators...) {
		look := reader{in: bufio.NewReader(bytes.NewReader(first)), separator: separator, enclosing: r.enclosing}
		if cells, err := look.next(); err == nil && column(cells, key) >= 0 {
			r.separator = separator
			break
		}
	}
	return r.next()
}

// column is the place of a header, however it is spelled; -1: it is not there.
func column(header []string, name string) int {
	for i, h := range header {
		if strings.EqualFold(strings.TrimSpace(h), name) {
			return i
		}
	}
	return -1
}

// next returns the cells of the next record that is not an empty line, or io.EOF.
func (r *reader) next() ([]string, error) {
	for {
		if _, err := r.in.Peek(1); err != nil {
			return nil, err
		}
		r.size, r.raw = 0, r.raw[:0]
		var cells []string
		for more := true; more; {
			var cell string
			var err error
			if cell, more, err = r.cell(); err != nil {
				return nil, err
			}
			if len(cells) == maxCells {
				return nil, errTooLong
			}
			cells = append(cells, cell)
		}
		if len(cells) > 1 || cells[0] != "" {
			return cells, nil
		}
	}
}

// cell reads one cell; more tells whether another one follows.
func (r *reader) cell() (cell string, more bool, err error) {
	var text []byte
	enclosed, opened := false, false
	for first := true; ; first = false {
		b, err := r.readByte()
		if errors.Is(err, io.EOF) {
			return string(text), false, nil
		}
		if err != nil {
			return "", false, err
		}
		if r.size++; r.size > maxRecord {
			return "", false, errTooLong
		}
		switch {
		case first && b == r.enclosing:
			enclosed, opened = true, true
		case enclosed && b == r.enclosing:
			next, _ := r.in.Peek(1)
			if len(next) > 0 && next[0] == r.enclosing {
				_, _ = r.readByte() // it was just seen
				text = append(text, b)
			} else {
				enclosed = false
			}
		case enclosed:
			text = append(text, b)
		case b == r.separator:
			return string(text), true, nil
		case b == '\n':
			if !opened || len(text) == 0 || text[len(text)-1] == '\r' {
				text = bytes.TrimSuffix(text, []byte{'\r'})
			}
			return string(text), false, nil
		default:
			text = append(text, b)
		}
	}
}

func (r *reader) readByte() (byte, error) {
	b, err := r.in.ReadByte()
	if err == nil && r.keep {
		r.raw = append(r.raw, b)
	}
	return b, err
}
