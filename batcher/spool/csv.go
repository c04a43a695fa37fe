package spool

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"golang.org/x/text/encoding"

	"github.com/feedsink/feedsink/schemas"
)

// CSV is the file format the ETL's definition expects. Empty members mean ",",
// `"`, UTF-8 and GZIP. Rows end with a line feed.
type CSV struct {
	Separator   string // one ASCII character
	Enclosing   string // one ASCII character; doubled inside an enclosed value
	Encoding    string // see schemas.Encoding
	Compression string // GZIP | ZIP | NONE
}

// What a byte of a text asks for.
const (
	needsEnclosing byte = 1 << iota
	notASCII
)

// format writes the cells of one mapping's files.
type format struct {
	separator, newline []byte // in the file's encoding
	quote              byte
	class              [256]byte         // what a byte of a text asks for
	list               []byte            // the JSON text of a list on its way into a cell
	encoding           encoding.Encoding // nil: UTF-8
	encoder            *schemas.Encoder  // likewise
}

func newFormat(c CSV) (*format, error) {
	separator, quote, err := schemas.CSVMarks(c.Separator, c.Enclosing)
	if err != nil {
		return nil, fmt.Errorf("csv.%w", err)
	}
	f := &format{quote: quote}
	for _, b := range []byte{separator, quote, '\r', '\n'} {
		f.class[b] = needsEnclosing
	}
	for b := utf8.RuneSelf; b < len(f.class); b++ {
		f.class[b] = notASCII
	}
	if f.encoding, err = schemas.Encoding(c.Encoding); err != nil {
		return nil, fmt.Errorf("csv.encoding: %w", err)
	}
	f.encoder = schemas.NewEncoder(c.Encoding, f.encoding)
	if f.separator, err = f.encoder.Encode([]byte{separator}); err != nil {
		return nil, err
	}
	if f.newline, err = f.encoder.Encode([]byte{'\n'}); err != nil {
		return nil, err
	}
	return f, nil
}

// appendCell appends one cell. A text that is there but empty is written as two
// enclosing characters, which tells it from a cell about which nothing was said.
// The error is a *schemas.ValueError for the named field.
func appendCell[T string | []byte](f *format, dst []byte, field string, text T) ([]byte, error) {
	start := len(dst)
	var asks byte
	for i := range len(text) {
		asks |= f.class[text[i]]
	}
	if asks&notASCII != 0 && !utf8.ValidString(string(text)) {
		return dst, schemas.Invalid(field, "must be valid UTF-8")
	}
	if asks&needsEnclosing != 0 || len(text) == 0 || text[0] == ' ' || text[len(text)-1] == ' ' {
		dst = append(dst, f.quote)
		for i := range len(text) {
			if text[i] == f.quote {
				dst = append(dst, f.quote)
			}
			dst = append(dst, text[i])
		}
		dst = append(dst, f.quote)
	} else {
		dst = append(dst, text...)
	}
	if f.encoder == nil {
		return dst, nil
	}
	encoded, err := f.encoder.Encode(bytes.Clone(dst[start:]))
	if err != nil {
		return dst[:start], schemas.Invalid(field, err.Error())
	}
	return append(dst[:start], encoded...), nil
}

// usualList bounds the memory for lists that is kept, in bytes.
const usualList = 1 << 16

// appendValue appends the cell of a value: a list as its JSON text.
func (f *format) appendValue(dst []byte, field string, v schemas.Value) ([]byte, error) {
	switch v.Kind() {
	case schemas.String, schemas.Number, schemas.Bool:
		return appendCell(f, dst, field, v.Text())
	case schemas.List:
		list := v.AppendJSON(f.list[:0])
		if cap(list) <= usualList {
			f.list = list
		}
		return appendCell(f, dst, field, list)
	}
	return dst, schemas.Invalid(field, "must be a text, a number, true, false or a list")
}

// Quote is the character that encloses a cell.
func (f *format) Quote() byte { return f.quote }

// Encoding is the file's, nil for UTF-8.
func (f *format) Encoding() encoding.Encoding { return f.encoding }
