package schemas

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/ianaindex"
	"golang.org/x/text/encoding/unicode"
)

var (
	errNoEncoding = errors.New("is not the name of an encoding")
	errUnwritable = errors.New("is an encoding that files cannot be written in")
)

// Encoding is the encoding of CSV files that a definition names, nil for UTF-8 and
// for no name. Names are IANA's, as the interface's definitions have them;
// those of web pages are understood where IANA has no such name. They must not
// come first: to a web page ISO-8859-1 is windows-1252.
//
// Cells are encoded one by one and joined, so that an encoding with a shift state
// or a mark at its start is refused. UTF-16 is written without a mark, and so in
// big endian.
func Encoding(name string) (encoding.Encoding, error) {
	switch strings.ToUpper(name) {
	case "", "UTF-8", "UTF8":
		return nil, nil
	case "UTF-16", "UTF-16BE":
		return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM), nil
	case "UTF-16LE":
		return unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), nil
	}
	e, err := ianaindex.IANA.Encoding(name)
	canonical := ""
	switch {
	case err != nil:
		if e, err = htmlindex.Get(name); err != nil {
			return nil, fmt.Errorf("%q %w", name, errNoEncoding)
		}
		canonical, _ = htmlindex.Name(e)
	case e != nil:
		canonical, _ = ianaindex.IANA.Name(e)
	}
	switch strings.ToLower(canonical) {
	case "", "iso-2022-jp", "iso-2022-kr", "hz-gb-2312", "utf-7", "replacement", "x-user-defined":
		return nil, fmt.Errorf("%q %w", name, errUnwritable)
	case "utf-8":
		return nil, nil
	}
	return e, nil
}

// An Encoder writes texts in the encoding of CSV files. Nil is that of UTF-8, in which they are.
type Encoder struct {
	label   string
	encoder *encoding.Encoder
	decoder *encoding.Decoder
}

// NewEncoder is that of an encoding, by the name that a definition has for it.
func NewEncoder(name string, e encoding.Encoding) *Encoder {
	if e == nil {
		return nil
	}
	return &Encoder{name, e.NewEncoder(), e.NewDecoder()}
}

// Encode is the text in the encoding. The error says that it has a character that would not be
// read back: some encodings write one character for two.
func (e *Encoder) Encode(text []byte) ([]byte, error) {
	if e == nil {
		return text, nil
	}
	encoded, err := e.encoder.Bytes(text)
	if err == nil && slices.ContainsFunc(text, func(b byte) bool { return b >= utf8.RuneSelf }) {
		if back, _ := e.decoder.Bytes(encoded); !bytes.Equal(back, text) {
			err = errUnwritable
		}
	}
	if err != nil {
		return nil, errors.New("has a character that the file's encoding " + e.label + " cannot write")
	}
	return encoded, nil
}

// CSVMarks are the separator and the enclosing character of the CSV files of a definition that
// names them: a comma and a quotation mark where it names none. The error is a *ValueError whose
// field is one of the two.
func CSVMarks(separator, enclosing string) (separates, encloses byte, err error) {
	const otherwise = `"`
	if separates, err = csvMark("separator", separator, ","); err != nil {
		return 0, 0, err
	}
	if encloses, err = csvMark("enclosing", enclosing, otherwise); err != nil {
		return 0, 0, err
	}
	switch {
	case separates != encloses:
		return separates, encloses, nil
	case encloses == otherwise[0]: // the separator is the one that somebody chose
		return 0, 0, Invalid("separator", fmt.Sprintf("%q is the enclosing character too", separator))
	}
	return 0, 0, Invalid("enclosing", fmt.Sprintf("%q is the separator too", enclosing))
}

func csvMark(field, text, otherwise string) (byte, error) {
	if text = cmp.Or(text, otherwise); len(text) != 1 || text[0] >= utf8.RuneSelf || strings.ContainsAny(text, "\r\n\x00") {
		return 0, Invalid(field, fmt.Sprintf("%q: one ASCII character, not a line break", text))
	}
	return text[0], nil
}
