package samples

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Update is the file's text with got as what is expected. Parts that got agrees with keep
// their text; of the others the comments inside are lost. Everything else of the file stays.
func Update(text []byte, got Result) ([]byte, error) {
	s, err := Read(text)
	if err != nil {
		return nil, err
	}
	for _, part := range []struct {
		name      string
		as, write string // what is there, and what is to be there
	}{
		{"rows", s.rows(), got.rows()},
		{"byFile", s.byFile(), got.byFile()},
		{"deadLetters", s.deadLetters(), got.deadLetters()},
	} {
		if part.as != part.write {
			text = replace(text, part.name, part.write)
		}
	}
	if again, err := Read(text); err != nil || len(again.Compare(got)) > 0 {
		return nil, errors.New("cannot be rewritten: write tables, events, rows, byFile and deadLetters at the beginning of lines, as in deploy/examples/samples")
	}
	return text, nil
}

// replace puts the part in place of the one of that name, or at the end. What follows the
// part's last line of content belongs to the next one.
func replace(text []byte, name, part string) []byte {
	if part != "" {
		part = name + ":\n" + part
	}
	lines := strings.SplitAfter(string(text), "\n")
	from := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, name+":") })
	if from < 0 {
		whole := strings.Join(lines, "")
		if part != "" && !strings.HasSuffix(whole, "\n") {
			whole += "\n"
		}
		return []byte(whole + part)
	}
	to := from + 1
content:
	for i := to; i < len(lines); i++ {
		switch (lines[i] + "\n")[0] {
		case ' ', '-':
			to = i + 1
		case '#', '\r', '\n':
		default:
			break content
		}
	}
	return []byte(strings.Join(lines[:from], "") + part + strings.Join(lines[to:], ""))
}

func (r Result) rows() string {
	var b strings.Builder
	for _, table := range slices.Sorted(maps.Keys(r.Rows)) {
		if len(r.Rows[table]) == 0 {
			continue
		}
		fmt.Fprintf(&b, "  %s:\n", scalar(table))
		for _, key := range slices.Sorted(maps.Keys(r.Rows[table])) {
			fmt.Fprintf(&b, "    %s: %s\n", scalar(key), flowMap(r.Rows[table][key]))
		}
	}
	return b.String()
}

func (r Result) byFile() string {
	var b strings.Builder
	for _, table := range slices.Sorted(maps.Keys(r.ByFile)) {
		if keys := list(r.ByFile[table]); keys != "" {
			fmt.Fprintf(&b, "  %s: %s\n", scalar(table), keys)
		}
	}
	return b.String()
}

func (r Result) deadLetters() string {
	var b strings.Builder
	for _, letter := range slices.Sorted(slices.Values(r.DeadLetters)) {
		fmt.Fprintf(&b, "  - %s\n", scalar(letter))
	}
	return b.String()
}

func flowMap(cells map[string]string) string {
	parts := make([]string, 0, len(cells))
	for _, column := range slices.Sorted(maps.Keys(cells)) {
		parts = append(parts, scalar(column)+": "+scalar(cells[column]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func flowList(texts []string) string {
	parts := make([]string, len(texts))
	for i, text := range texts {
		parts[i] = scalar(text)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// plain is text that YAML reads as text without quotes, wherever it stands; words are those
// that it does not.
var (
	plain = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.@/#-]*$`)
	words = regexp.MustCompile(`(?i)^(true|false|null|yes|no|on|off|y|n)$`)
)

// scalar is a text in YAML.
func scalar(text string) string {
	if plain.MatchString(text) && !words.MatchString(text) {
		return text
	}
	var b bytes.Buffer
	quoted := json.NewEncoder(&b)
	quoted.SetEscapeHTML(false)
	_ = quoted.Encode(text) // of a string it cannot fail
	return strings.TrimRight(b.String(), "\n")
}
