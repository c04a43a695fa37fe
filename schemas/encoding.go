package schemas

import (
	"errors"
	"fmt"
	"strings"

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
