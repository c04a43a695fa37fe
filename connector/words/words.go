// Package words writes results for people: tables, numbers with what they count, and text from
// outside as a terminal may show it.
//
// It knows cells and numbers. It knows nothing of what they say.
package words

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// Integer is what can be counted.
type Integer interface{ int | int32 | int64 }

// Counted is a number and what is counted: "1 record", "2 records". more is the plural
// where it is not one with an s.
func Counted[N Integer](n N, one string, more ...string) string {
	return fmt.Sprintf("%d %s", n, Plural(n, one, append(more, one+"s")[0]))
}

// Plural chooses the words for n.
func Plural[N Integer](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Number is a number; "" for 0, of what is not known yet.
func Number[N Integer](n N) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(int64(n), 10)
}

// Sum adds up counts.
func Sum[K comparable, N Integer](counts map[K]N) (n N) {
	for _, count := range counts {
		n += count
	}
	return n
}

// ByWord is the counts by word, in brackets; "" if there are none.
func ByWord[N Integer](counts map[string]N) string {
	var each []string
	for _, word := range slices.Sorted(maps.Keys(counts)) {
		each = append(each, fmt.Sprintf("%s %d", word, counts[word]))
	}
	if len(each) == 0 {
		return ""
	}
	return " (" + strings.Join(each, ", ") + ")"
}

// Ago is how long ago something was, for clocks that may differ by a little.
func Ago(then, now time.Time) string {
	return max(now.Sub(then).Truncate(time.Second), 0).String()
}

// fewNotes is how many of a report's notes are written one by one.
const fewNotes = 20

// Few is the lines of a report's first notes. It says where the others are, if there are any.
func Few[N any](notes []N, of func(N) []string) (lines []string) {
	for i, note := range notes {
		if i == fewNotes {
			return append(lines, "… and more: -o json has up to 1000 of them")
		}
		lines = append(lines, of(note)...)
	}
	return lines
}

// OneLine is text from outside as a terminal may show it.
func OneLine(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// Table is lines of cells.
type Table [][]string

// Add adds a line.
func (t *Table) Add(cells ...string) { *t = append(*t, cells) }

// Count adds a line with a number, and what is said after it.
func (t *Table) Count(name string, n int64, after string) {
	t.Add(name, strconv.FormatInt(n, 10)+after)
}

// CountAny adds the line only if the number is above 0.
func (t *Table) CountAny(name string, n int64, after string) {
	if n > 0 {
		t.Count(name, n, after)
	}
}

// String has the cells in columns, a dash for an empty one.
func (t Table) String() string {
	for _, cells := range t {
		for i, cell := range cells {
			cells[i] = cmp.Or(cell, "-")
		}
	}
	return t.Columns()
}

// Over is the table with lines of text below each of its lines but the first.
func (t Table) Over(below [][]string) string {
	var lines []string
	for i, line := range strings.Split(t.String(), "\n") {
		lines = append(lines, line)
		if i > 0 && i <= len(below) {
			lines = append(lines, below[i-1]...)
		}
	}
	return strings.Join(lines, "\n")
}

// Columns has the cells in columns.
func (t Table) Columns() string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, cells := range t {
		_, _ = fmt.Fprintln(table, strings.Join(cells, "\t")) // a Builder takes everything
	}
	_ = table.Flush()
	return strings.TrimRight(b.String(), "\n")
}

// Lines is text that grows line by line.
type Lines struct{ strings.Builder }

// Add adds a line.
func (l *Lines) Add(format string, args ...any) { fmt.Fprintf(l, format+"\n", args...) }

// Text is the lines without an end of the last one.
func (l *Lines) Text() string { return strings.TrimRight(l.String(), "\n") }
