package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// outcomeOf is something that dead letters can be counted by.
type outcomeOf struct {
	name string
	of   func(*deadLetterEntry) string
}

var outcomeWordList = []outcomeOf{
	{"mapping", func(l *deadLetterEntry) string { return l.Mapping }},
	{"reason", (*deadLetterEntry).reason},
	{"message", func(l *deadLetterEntry) string { return l.Message }},
	{"topic", func(l *deadLetterEntry) string { return l.Topic }},
	{"partition", (*deadLetterEntry).partition},
	{"table", func(l *deadLetterEntry) string { return l.Table }},
	{"lane", func(l *deadLetterEntry) string { return l.Lane }},
	{"stage", func(l *deadLetterEntry) string { return l.Stage }},
	{"status", func(l *deadLetterEntry) string { return number(l.Status) }},
	{"execution", func(l *deadLetterEntry) string { return l.Execution }},
	{"attempts", func(l *deadLetterEntry) string { return strconv.Itoa(l.Attempts) }},
	{"state", func(l *deadLetterEntry) string { return string(l.State) }},
	{"day", func(l *deadLetterEntry) string { return l.Time.Format(time.DateOnly) }},
	{"hour", func(l *deadLetterEntry) string { return l.Time.Format("2006-01-02T15") }},
}

func outcomeWords() string {
	names := make([]string, len(outcomeWordList))
	for i, w := range outcomeWordList {
		names[i] = w.name
	}
	return strings.Join(names, ", ")
}

// deadLetterCounts counts dead letters that have the same words.
type deadLetterCounts struct {
	words []outcomeOf
	found map[string]*deadLetterGroup
}

// deadLetterGroup is dead letters that have the same words.
type deadLetterGroup struct {
	By      map[string]string `json:"by"`
	Letters int               `json:"letters"`
	First   time.Time         `json:"first"` // of the records
	Last    time.Time         `json:"last"`
	cells   []string
}

// newDeadLetterCounts is nil where nothing is to be counted.
func newDeadLetterCounts(by []string) (*deadLetterCounts, error) {
	if len(by) == 0 {
		return nil, nil
	}
	c := &deadLetterCounts{found: map[string]*deadLetterGroup{}}
	for _, name := range by {
		i := slices.IndexFunc(outcomeWordList, func(w outcomeOf) bool { return w.name == name })
		if i < 0 {
			return nil, &usageError{fmt.Errorf("--by: must be some of %s, is %q", outcomeWords(), name)}
		}
		c.words = append(c.words, outcomeWordList[i])
	}
	return c, nil
}

func (c *deadLetterCounts) add(l deadLetterEntry) {
	cells := make([]string, len(c.words))
	for i, w := range c.words {
		cells[i] = w.of(&l)
	}
	key := strings.Join(cells, "\x00")
	g := c.found[key]
	if g == nil {
		g = &deadLetterGroup{By: map[string]string{}, First: l.Time, Last: l.Time, cells: cells}
		for i, w := range c.words {
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

// groups has the largest first.
func (c *deadLetterCounts) groups() []*deadLetterGroup {
	groups := make([]*deadLetterGroup, 0, len(c.found))
	for _, g := range c.found {
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b *deadLetterGroup) int {
		return cmp.Or(cmp.Compare(b.Letters, a.Letters), slices.Compare(a.cells, b.cells))
	})
	return groups
}

func (c *deadLetterCounts) text(groups []*deadLetterGroup) string {
	if len(groups) == 0 {
		return "No dead letters."
	}
	header := []string{"LETTERS"}
	for _, w := range c.words {
		header = append(header, strings.ToUpper(w.name))
	}
	lines := [][]string{append(header, "FIRST", "LAST")}
	for _, g := range groups {
		line := []string{strconv.Itoa(g.Letters)}
		for _, cell := range g.cells {
			line = append(line, oneLine(cell))
		}
		lines = append(lines, append(line, g.First.Format(time.RFC3339), g.Last.Format(time.RFC3339)))
	}
	return aligned(lines)
}

// oneLine is text from outside as a terminal may show it.
func oneLine(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// shownBytes is a record's bytes as a terminal may show them.
func shownBytes(b []byte) string {
	if b == nil {
		return "null"
	}
	return oneLine(string(b))
}
