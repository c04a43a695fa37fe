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

// letterWord is something that letters can be counted by.
type letterWord struct {
	name string
	of   func(*letterEntry) string
}

var letterWordList = []letterWord{
	{"mapping", func(l *letterEntry) string { return l.Mapping }},
	{"reason", (*letterEntry).reason},
	{"message", func(l *letterEntry) string { return l.Message }},
	{"topic", func(l *letterEntry) string { return l.Topic }},
	{"partition", (*letterEntry).partition},
	{"table", func(l *letterEntry) string { return l.Table }},
	{"lane", func(l *letterEntry) string { return l.Lane }},
	{"stage", func(l *letterEntry) string { return l.Stage }},
	{"status", func(l *letterEntry) string { return number(l.Status) }},
	{"execution", func(l *letterEntry) string { return l.Execution }},
	{"attempts", func(l *letterEntry) string { return strconv.Itoa(l.Attempts) }},
	{"state", func(l *letterEntry) string { return string(l.State) }},
	{"day", func(l *letterEntry) string { return l.Time.Format(time.DateOnly) }},
	{"hour", func(l *letterEntry) string { return l.Time.Format("2006-01-02T15") }},
}

func letterWords() string {
	names := make([]string, len(letterWordList))
	for i, w := range letterWordList {
		names[i] = w.name
	}
	return strings.Join(names, ", ")
}

// letterCounts counts letters that have the same words.
type letterCounts struct {
	words []letterWord
	found map[string]*letterGroup
}

// letterGroup is letters that have the same words.
type letterGroup struct {
	By      map[string]string `json:"by"`
	Letters int               `json:"letters"`
	First   time.Time         `json:"first"` // of the records
	Last    time.Time         `json:"last"`
	cells   []string
}

// newLetterCounts is nil where nothing is to be counted.
func newLetterCounts(by []string) (*letterCounts, error) {
	if len(by) == 0 {
		return nil, nil
	}
	c := &letterCounts{found: map[string]*letterGroup{}}
	for _, name := range by {
		i := slices.IndexFunc(letterWordList, func(w letterWord) bool { return w.name == name })
		if i < 0 {
			return nil, &usageError{fmt.Errorf("--by: must be some of %s, is %q", letterWords(), name)}
		}
		c.words = append(c.words, letterWordList[i])
	}
	return c, nil
}

func (c *letterCounts) add(l letterEntry) {
	cells := make([]string, len(c.words))
	for i, w := range c.words {
		cells[i] = w.of(&l)
	}
	key := strings.Join(cells, "\x00")
	g := c.found[key]
	if g == nil {
		g = &letterGroup{By: map[string]string{}, First: l.Time, Last: l.Time, cells: cells}
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
func (c *letterCounts) groups() []*letterGroup {
	groups := make([]*letterGroup, 0, len(c.found))
	for _, g := range c.found {
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b *letterGroup) int {
		return cmp.Or(cmp.Compare(b.Letters, a.Letters), slices.Compare(a.cells, b.cells))
	})
	return groups
}

func (c *letterCounts) text(groups []*letterGroup) string {
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
