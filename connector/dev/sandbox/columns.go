package sandbox

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// read turns a cell into a value of the column's field.
func (c column) read(cell string) (any, error) {
	if c.layout != "" && cell != "" {
		moment, err := time.Parse(c.layout, cell)
		if err != nil {
			return nil, reason{"NOT_IN_FORMAT", "not in the date format of the transformation"}
		}
		switch {
		case c.rule.Type != Timestamp:
			cell = moment.Format(time.DateOnly)
		case strings.Contains(c.layout, "07"):
			cell = moment.Format("2006-01-02T15:04:05Z07:00")
		default:
			cell = moment.Format("2006-01-02T15:04:05")
		}
	}
	return c.rule.fromCell(cell)
}

// errDateFormat says what a format may consist of.
var errDateFormat = errors.New("DATE_FORMAT: yyyy, yy, MM, M, dd, d, HH, H, hh, a, mm, ss, SSS, X, XX, XXX, Z and quoted text are understood")

// datePieces are what a format is made of, the longest first, and what Go
// writes for them.
var datePieces = []struct{ piece, layout string }{
	{"yyyy", "2006"},
	{"yy", "06"},
	{"MM", "01"},
	{"M", "1"},
	{"dd", "02"},
	{"d", "2"},
	{"HH", "15"},
	{"H", "15"},
	{"hh", "03"},
	{"a", "PM"},
	{"mm", "04"},
	{"ss", "05"},
	{".SSS", ".000"},
	{",SSS", ",000"},
	{"XXX", "Z07:00"},
	{"XX", "Z0700"},
	{"X", "Z07"},
	{"Z", "-0700"},
}

// dateLayout turns a format such as dd/MM/yyyy HH:mm:ss into Go's. Which
// letters a format has is not shown; these are the usual ones.
func dateLayout(format string) (string, error) {
	var layout strings.Builder
next:
	for rest := format; rest != ""; {
		for _, p := range datePieces {
			if after, ok := strings.CutPrefix(rest, p.piece); ok {
				layout.WriteString(p.layout)
				rest = after
				continue next
			}
		}
		text, after := rest[:1], rest[1:]
		if text == "'" {
			var closed bool
			if text, after, closed = strings.Cut(after, "'"); !closed {
				return "", errDateFormat
			}
		} else if isLetter(text[0]) {
			return "", errDateFormat
		}
		if strings.ContainsAny(text, "0123456789_") || strings.Contains(text, "PM") {
			return "", errDateFormat // Go would take it for a part of the date
		}
		layout.WriteString(text)
		rest = after
	}
	return layout.String(), nil
}

func isLetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }

// union adds to a list what is not in it.
func union(have, more []any) []any {
	all := slices.Clone(have)
	for _, v := range more {
		if !slices.Contains(all, v) { // elements are scalars
			all = append(all, v)
		}
	}
	return all
}
