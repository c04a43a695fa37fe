package sandbox

import (
	"slices"
	"strings"
	"time"
)

// read turns a cell into a value of the column's field.
func (c column) read(cell string) (any, error) {
	if c.layout != "" && cell != "" {
		moment, err := time.Parse(c.layout, cell)
		if err != nil {
			return nil, c.rule.mismatch()
		}
		if c.rule.Type == Timestamp {
			cell = moment.Format("2006-01-02T15:04:05")
		} else {
			cell = moment.Format(time.DateOnly)
		}
	}
	return c.rule.fromCell(cell)
}

// dateLayout turns a format such as dd/MM/yyyy HH:mm:ss into Go's.
func dateLayout(format string) string {
	return strings.NewReplacer(
		"yyyy", "2006", "yy", "06", "MM", "01", "dd", "02", "HH", "15", "hh", "15", "mm", "04", "ss", "05",
	).Replace(format)
}

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
