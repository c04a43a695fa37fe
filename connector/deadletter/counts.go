package deadletter

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/feedsink/feedsink/connector/words"
)

// countColumn is something that dead letters can be counted by.
type countColumn struct {
	name string
	of   func(*Entry) string
}

var countColumns = []countColumn{
	{"mapping", func(l *Entry) string { return l.Mapping }},
	{"reason", (*Entry).reason},
	{"message", func(l *Entry) string { return l.Message }},
	{"topic", func(l *Entry) string { return l.Topic }},
	{"partition", (*Entry).partition},
	{"table", func(l *Entry) string { return l.Table }},
	{"lane", func(l *Entry) string { return l.Lane }},
	{"stage", func(l *Entry) string { return string(l.Stage) }},
	{"status", func(l *Entry) string { return words.Number(l.Status) }},
	{"execution", func(l *Entry) string { return l.Execution }},
	{"attempts", func(l *Entry) string { return strconv.Itoa(l.Attempts) }},
	{"state", func(l *Entry) string { return string(l.State) }},
	{"day", func(l *Entry) string { return l.Time.Format(time.DateOnly) }},
	{"hour", func(l *Entry) string { return l.Time.Format("2006-01-02T15") }},
}

// CountNames are what dead letters can be counted by.
func CountNames() (names []string) {
	for _, w := range countColumns {
		names = append(names, w.name)
	}
	return names
}

// Counts counts dead letters that have the same words.
type Counts struct {
	columns []countColumn
	leftOut bool // some message is without the service's own words
	found   map[string]*Group
}

// Group is how many dead letters have the same words.
type Group struct {
	By      map[string]string `json:"by"`
	Letters int               `json:"letters"`
	First   time.Time         `json:"first"` // of the records
	Last    time.Time         `json:"last"`
	cells   []string
}

// NewCounts is nil where nothing is to be counted.
func NewCounts(by []string) (*Counts, error) {
	if len(by) == 0 {
		return nil, nil
	}
	c := &Counts{found: map[string]*Group{}}
	for _, name := range by {
		i := slices.IndexFunc(countColumns, func(w countColumn) bool { return w.name == name })
		if i < 0 {
			return nil, fmt.Errorf("--by: must be some of %s, is %q", strings.Join(CountNames(), ", "), name)
		}
		c.columns = append(c.columns, countColumns[i])
	}
	return c, nil
}

// Add counts a dead letter.
func (c *Counts) Add(l Entry) {
	cells := make([]string, len(c.columns))
	for i, w := range c.columns {
		cells[i] = w.of(&l)
		c.leftOut = c.leftOut || l.leftOut && w.name == "message"
	}
	key := strings.Join(cells, "\x00")
	g := c.found[key]
	if g == nil {
		g = &Group{By: map[string]string{}, First: l.Time, Last: l.Time, cells: cells}
		for i, w := range c.columns {
			g.By[w.name] = cells[i]
		}
		c.found[key] = g
	}
	g.Letters++
	if l.Time.Before(g.First) {
		g.First = l.Time
	}
	if l.Time.After(g.Last) {
		g.Last = l.Time
	}
}

// Groups has the largest first.
func (c *Counts) Groups() []*Group {
	groups := slices.AppendSeq([]*Group{}, maps.Values(c.found)) // in JSON no groups are a list, too
	slices.SortFunc(groups, func(a, b *Group) int {
		return cmp.Or(cmp.Compare(b.Letters, a.Letters), slices.Compare(a.cells, b.cells))
	})
	return groups
}

// Text is the groups for a terminal.
func (c *Counts) Text(groups []*Group) string {
	if len(groups) == 0 {
		return none
	}
	header := []string{"LETTERS"}
	for _, w := range c.columns {
		header = append(header, strings.ToUpper(w.name))
	}
	table := words.Table{append(header, "FIRST", "LAST")}
	for _, g := range groups {
		line := []string{strconv.Itoa(g.Letters)}
		for _, cell := range g.cells {
			line = append(line, words.OneLine(cell))
		}
		table.Add(append(line, g.First.Format(time.RFC3339), g.Last.Format(time.RFC3339))...)
	}
	if c.leftOut {
		return table.String() + "\n" + wordsLeftOut
	}
	return table.String()
}
