// Package setup writes a starting configuration for topics from a sample of the records
// of each: it recognises canonical events, Debezium's and CloudEvents, and guesses tables,
// fields, types, keys and ops of everything else. Its guesses are written down as such,
// for a person to decide.
//
// It knows decoded values and the configuration's words. It knows nothing about
// Kafka, registries or the service.
package setup

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// ErrNothing says that a sample has no record to guess from.
var ErrNothing = errors.New("no record has a value with a field that could be the key; there is nothing to guess from")

// Write is a commented configuration for the topics, one sample of each. The error is
// ErrNothing, with the topic.
func Write(at Place, samples ...*Sample) (string, error) {
	w := &writer{place: at, samples: samples}
	for _, s := range samples {
		tables, err := tablesOf(s, at)
		if err != nil {
			return "", fmt.Errorf("topic %s: %w (%d without a value, %d unreadable)", s.Topic, err, s.Tombstones, s.Unreadable)
		}
		w.tables = append(w.tables, tables...)
	}
	w.uniqueNames()
	w.parents()
	w.head()
	w.line("mappings:")
	for _, t := range w.tables {
		w.mapping(t)
	}
	return w.b.String(), nil
}

type writer struct {
	place   Place
	samples []*Sample
	tables  []*table
	b       strings.Builder
}

func (w *writer) line(format string, args ...any) { fmt.Fprintf(&w.b, format+"\n", args...) }

// uniqueNames: one mapping feeds a table. Tables of two topics that would have one name
// are named after the whole of their topics.
func (w *writer) uniqueNames() {
	taken := map[string]bool{}
	for _, t := range w.tables {
		name := t.name
		if taken[mappingName(name)] {
			t.twin = mappingName(name)
			name = strings.ReplaceAll(t.Topic, ".", "-")
			if t.stem != "" {
				name += "-" + t.stem
			}
		}
		for n := 2; taken[mappingName(name)]; n++ {
			first := t.name
			if cut := mappingName(first); len(cut) > longestName-len("-999") { // the number must not be cut off
				first = cut[:longestName-len("-999")]
			}
			name = fmt.Sprintf("%s-%d", first, n)
		}
		t.name, taken[mappingName(name)] = name, true
	}
}

var shapes = map[shape]string{
	plain: "records that know nothing of feedsink", profileEvents: "canonical profile events",
	recordEvents: "canonical record events", debezium: "Debezium's change events",
}

// yamlWords are no text for YAML unless they are quoted.
var yamlWords = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}

// quoted is a text as YAML takes it inside of braces, and as the configuration
// takes it unchanged. Names come from records: they may hold anything.
func quoted(name string) string {
	switch {
	case plainName.MatchString(strings.ReplaceAll(name, ".", "_")) && !slices.Contains(yamlWords, strings.ToLower(name)):
		return name
	case strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }):
		return text(name)
	}
	return "'" + strings.NewReplacer("'", "''", "${", "$${").Replace(name) + "'"
}

// longestName is how many characters the name of a mapping may have.
const longestName = 100

// mappingName is a name that mappings may have.
func mappingName(name string) string {
	name = strings.Map(func(c rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789.-_", c) {
			return c
		}
		return '-'
	}, strings.ToLower(name))
	if rest, dot := strings.CutPrefix(name, "."); dot { // of which no mapping's name is the first
		name = "-" + rest
	}
	return name[:min(len(name), longestName)]
}

var plainMapping = regexp.MustCompile(`^[a-z_][a-z0-9._-]*$`)

// quotedMapping is the name of a mapping as YAML takes it.
func quotedMapping(name string) string {
	if name = mappingName(name); plainMapping.MatchString(name) && !slices.Contains(yamlWords, name) {
		return name
	}
	return "'" + name + "'"
}
