package spool

import (
	"bytes"
	"errors"
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

// errAmbiguous says that a text would be read as another one.
var errAmbiguous = errors.New("the encoding has no character of its own for it")

// What a byte of a text asks for.
const (
	needsEnclosing byte = 1 << iota
	notASCII
)

// format writes the cells of one mapping's files.
type format struct {
	separator, newline []byte // in the file's encoding
	quote              byte
	class              [256]byte // what a byte of a text asks for
	list               []byte    // the JSON text of a list on its way into a cell
	label              string
	encoding           encoding.Encoding // nil: UTF-8
	encoder            *encoding.Encoder // likewise
	decoder            *encoding.Decoder // likewise
}

func newFormat(c CSV) (*format, error) {
	separator, err := oneCharacter("csv.separator", c.Separator, ',')
	if err != nil {
		return nil, err
	}
	quote, err := oneCharacter("csv.enclosing", c.Enclosing, '"')
	if err != nil {
		return nil, err
	}
	if separator == quote {
		return nil, fmt.Errorf("csv.separator and csv.enclosing: must differ, both are %q", quote)
	}
	f := &format{quote: quote, label: c.Encoding}
	for _, b := range []byte{separator, quote, '\r', '\n'} {
		f.class[b] = needsEnclosing
	}
	for b := utf8.RuneSelf; b < len(f.class); b++ {
		f.class[b] = notASCII
	}
	if f.encoding, err = schemas.Encoding(c.Encoding); err != nil {
		return nil, fmt.Errorf("csv.encoding: %w", err)
	}
	if f.encoding != nil {
		f.encoder, f.decoder = f.encoding.NewEncoder(), f.encoding.NewDecoder()
	}
	if f.separator, err = f.encode([]byte{separator}); err != nil {
		return nil, err
	}
	if f.newline, err = f.encode([]byte{'\n'}); err != nil {
		return nil, err
	}
	return f, nil
}

func oneCharacter(key, s string, otherwise byte) (byte, error) {
	switch {
	case s == "":
		return otherwise, nil
	case len(s) != 1 || s[0] >= utf8.RuneSelf || s[0] == '\r' || s[0] == '\n' || s[0] == 0:
		return 0, fmt.Errorf("%s: must be one ASCII character other than a line break, is %q", key, s)
	}
	return s[0], nil
}

func (f *format) encode(text []byte) ([]byte, error) {
	if f.encoder == nil {
		return text, nil
	}
	return f.encoder.Bytes(text)
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
	encoded, err := f.encode(bytes.Clone(dst[start:]))
	if err == nil && asks&notASCII != 0 { // some write one character for two
		if back, _ := f.decoder.Bytes(encoded); !bytes.Equal(back, dst[start:]) {
			err = errAmbiguous
		}
	}
	if err != nil {
		return dst[:start], schemas.Invalid(field, "has a character that the file's encoding "+f.label+" cannot write")
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
