// Package csvfile reads and writes the CSV files of imports: their encodings,
// separators and enclosing characters, and the ZIP and GZIP files that they come
// and go in. It knows nothing of tables.
package csvfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/ianaindex"
)

// Format is how a file is written. Its zero value is UTF-8 with commas and double
// quotes.
type Format struct {
	Encoding  string `json:"encoding"`  // an IANA name such as ISO-8859-1
	Separator string `json:"separator"` // one ASCII character
	Enclosing string `json:"enclosing"` // one ASCII character
}

// Validate reports what is wrong with a format.
func (f Format) Validate() error {
	_, err := f.compile()
	return err
}

// dialect is a compiled Format.
type dialect struct {
	separator byte
	enclosing byte
	encoding  encoding.Encoding // nil: UTF-8
}

// compile checks a Format and fills in its defaults.
func (f Format) compile() (dialect, error) {
	d := dialect{separator: ',', enclosing: '"'}
	for _, part := range []struct {
		name, text string
		into       *byte
	}{{"separator", f.Separator, &d.separator}, {"enclosing", f.Enclosing, &d.enclosing}} {
		if part.text == "" {
			continue
		}
		if len(part.text) != 1 || part.text[0] >= 0x80 || strings.ContainsAny(part.text, "\r\n") {
			return d, fmt.Errorf("csvFormat.%s: one ASCII character is needed", part.name)
		}
		*part.into = part.text[0]
	}
	if d.separator == d.enclosing {
		return d, errors.New("csvFormat: separator and enclosing are the same")
	}
	if f.Encoding == "" || strings.EqualFold(f.Encoding, "UTF-8") || strings.EqualFold(f.Encoding, "UTF8") {
		return d, nil
	}
	enc, err := ianaindex.IANA.Encoding(f.Encoding)
	if err != nil || enc == nil {
		return d, fmt.Errorf("csvFormat.encoding: %q is not known", f.Encoding)
	}
	d.encoding = enc
	return d, nil
}

// Errors of a file that is not CSV. They end the whole execution.
var (
	errUnclosed = errors.New("an enclosed value is never closed")
	errStray    = errors.New("a value goes on behind its enclosing")
	errOpened   = errors.New("an enclosing character inside a value that is not enclosed")
)

// Reader reads records one by one. It is strict, where encoding/csv drops
// blank lines and rewrites line breaks inside values: what a file says must
// reach the table byte for byte.
type Reader struct {
	in    *bufio.Reader
	d     dialect
	line  int
	text  []byte
	ends  []int
	cells []string
}

// NewReader reads a file of the format.
func (f Format) NewReader(in io.Reader) (*Reader, error) {
	d, err := f.compile()
	if err != nil {
		return nil, err
	}
	if d.encoding != nil {
		in = d.encoding.NewDecoder().Reader(in)
	}
	r := &Reader{in: bufio.NewReaderSize(in, 64<<10), d: d}
	if mark, err := r.in.Peek(3); err == nil && string(mark) == "\xef\xbb\xbf" {
		_, _ = r.in.Discard(3) // it was just seen
	}
	return r, nil
}

// Read returns the cells of the next record, valid until the next call, or
// io.EOF behind the last one. An empty line is a record of one empty cell.
func (r *Reader) Read() ([]string, error) {
	r.text, r.ends, r.cells = r.text[:0], r.ends[:0], r.cells[:0]
	if _, err := r.in.Peek(1); err != nil {
		return nil, err
	}
	r.line++
	for more := true; more; {
		var err error
		if more, err = r.cell(); err != nil {
			return nil, fmt.Errorf("line %d: %w", r.line, err)
		}
		r.ends = append(r.ends, len(r.text))
	}
	all, start := string(r.text), 0
	for _, end := range r.ends {
		r.cells = append(r.cells, all[start:end])
		start = end
	}
	return r.cells, nil
}

// cell appends one cell to the text; more tells whether another one follows.
func (r *Reader) cell() (more bool, err error) {
	b, err := r.in.ReadByte()
	if err == nil && b == r.d.enclosing {
		return r.enclosed()
	}
	start := len(r.text)
	for ; ; b, err = r.in.ReadByte() {
		switch {
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			return false, err
		case b == r.d.separator:
			return true, nil
		case b == '\n':
			if n := len(r.text); n > start && r.text[n-1] == '\r' {
				r.text = r.text[:n-1]
			}
			return false, nil
		case b == r.d.enclosing:
			return false, errOpened
		}
		r.text = append(r.text, b)
	}
}

// enclosed appends a cell whose opening character has been read.
func (r *Reader) enclosed() (more bool, err error) {
	for {
		b, err := r.in.ReadByte()
		if err != nil {
			return false, atEnd(err, errUnclosed)
		}
		if b == '\n' {
			r.line++
		}
		if b != r.d.enclosing {
			r.text = append(r.text, b)
			continue
		}
		b, err = r.in.ReadByte()
		if err == nil && b == r.d.enclosing { // doubled: the character itself
			r.text = append(r.text, b)
			continue
		}
		if err == nil && b == '\r' {
			b, err = r.in.ReadByte()
			if err == nil && b != '\n' {
				return false, errStray
			}
		}
		switch {
		case err != nil:
			return false, atEnd(err, nil)
		case b == r.d.separator:
			return true, nil
		case b == '\n':
			return false, nil
		}
		return false, errStray
	}
}

// atEnd replaces io.EOF by what it means here.
func atEnd(err, meaning error) error {
	if errors.Is(err, io.EOF) {
		return meaning
	}
	return err
}

// Line is the line of the file that was read last, counted from 1.
func (r *Reader) Line() int { return r.line }

// Writer writes records.
type Writer struct {
	out io.Writer
	d   dialect
	buf []byte
}

// NewWriter writes a file of the format. What its encoding cannot say is written
// as ?: an output file is read by people too.
func (f Format) NewWriter(out io.Writer) (*Writer, error) {
	d, err := f.compile()
	if err != nil {
		return nil, err
	}
	if d.encoding != nil {
		out = encoding.ReplaceUnsupported(d.encoding.NewEncoder()).Writer(out)
	}
	return &Writer{out: out, d: d}, nil
}

// Write writes one record: all cells of all groups.
func (w *Writer) Write(groups ...[]string) error {
	w.buf = w.buf[:0]
	for _, cells := range groups {
		for _, cell := range cells {
			w.buf = append(w.cell(w.buf, cell), w.d.separator)
		}
	}
	w.buf[len(w.buf)-1] = '\n'
	_, err := w.out.Write(w.buf)
	return err
}

func (w *Writer) cell(b []byte, cell string) []byte {
	marked := strings.HasPrefix(cell, "\ufeff") // at the begin of a file it would be read as the byte order mark
	if !marked && !strings.ContainsAny(cell, string([]byte{w.d.separator, w.d.enclosing, '\r', '\n'})) {
		return append(b, cell...)
	}
	b = append(b, w.d.enclosing)
	for i := range len(cell) {
		if cell[i] == w.d.enclosing {
			b = append(b, cell[i])
		}
		b = append(b, cell[i])
	}
	return append(b, w.d.enclosing)
}
