package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/feedsink/feedsink/router/problem"
)

// Problem is one mistake in the file and where it is. It holds no secret.
type Problem struct {
	Line   int `json:"line"`   // from 1, as is Column: of the value, or of the closest thing the file has
	Column int `json:"column"` // in characters
	problem.Problem
}

// Problems is every mistake of one file, by position. It is what Parse and
// Load return for a file that was read and cannot work.
//
//nolint:errname // what it is matters more than that it is an error
type Problems struct {
	Name string // of the file
	List []Problem
}

// Error is the count and then one line per problem:
// `feedsink.yaml:12:5: kafka.brokers: …; hint: …`.
func (p *Problems) Error() string {
	var b strings.Builder
	noun := "problems"
	if len(p.List) == 1 {
		noun = "problem"
	}
	fmt.Fprintf(&b, "%s: %d %s", p.Name, len(p.List), noun)
	for _, one := range p.List {
		b.WriteString("\n" + one.In(p.Name))
	}
	return b.String()
}

// In is the problem on one line, of the file of that name.
func (p Problem) In(file string) string {
	return fmt.Sprintf("%s:%d:%d: %s", file, p.Line, p.Column, p.Problem)
}

// place is where a path of the configuration stands in the file.
type place struct {
	line, column int
	written      string // a scalar as the file has it, before environment variables
}

// filled is what an environment variable put into the scalar at a path.
type filled struct{ path, name, content string }

// findings gathers problems and knows where each path of the file stands.
type findings struct {
	problems []Problem
	places   map[string]place
	filled   []filled
	unread   map[string]bool // paths whose value could not be read: rules about them say nothing new
}

func newFindings() *findings {
	return &findings{places: map[string]place{}, unread: map[string]bool{}}
}

func (f *findings) add(p place, path, message, hint string) {
	f.problems = append(f.problems, Problem{p.line, p.column, problem.Problem{Path: path, Message: message, Hint: hint}})
}

// unreadable reports a value that has no meaning under its key.
func (f *findings) unreadable(p place, path, message, hint string) {
	f.unread[path] = true
	f.add(p, path, message, hint)
}

// breaks reports a value that was read and breaks a rule, at the place of its path or
// of the closest parent that the file has. It says nothing where the value, or what
// contains it, could not be read: one mistake is reported once.
func (f *findings) breaks(path, message, hint string) {
	p, placed := place{line: 1, column: 1}, false
	for near := path; ; near = parent(near) {
		if f.unread[near] {
			return
		}
		if found, ok := f.places[near]; ok && !placed {
			p, placed = found, true
		}
		if near == "" {
			break
		}
	}
	f.add(p, path, message, hint)
}

// written is the scalar at path as the file has it, quoted for a message, or
// the default it stands for. An environment variable shows as its name: what
// is in it may be secret.
func (f *findings) written(path string, otherwise any) string {
	text := fmt.Sprint(otherwise)
	if p, ok := f.places[path]; ok && p.written != "" {
		text = p.written
	}
	return quote(withoutLogin(text))
}

// withoutLogin is text without what stands before an @, which may be a password.
func withoutLogin(text string) string {
	if at := strings.LastIndex(text, "@"); at >= 0 {
		return "…" + text[at:]
	}
	return text
}

// compiled reports what is wrong with a mapping. Its rules know no variables, so what
// those put into it shows as their names.
func (f *findings) compiled(p problem.Problem) {
	const least = 4 // characters; what is shorter is no secret, and is part of other words
	mapping, _, _ := strings.Cut(p.Path, "]")
	longestFirst := func(a, b filled) int { return cmp.Compare(len(b.content), len(a.content)) }
	for _, v := range slices.SortedStableFunc(slices.Values(f.filled), longestFirst) {
		if len(v.content) < least || !strings.HasPrefix(v.path, mapping+"]") {
			continue
		}
		quoted := strconv.Quote(v.content)
		names := strings.NewReplacer(v.content, "${"+v.name+"}", quoted[1:len(quoted)-1], "${"+v.name+"}")
		p.Message, p.Hint = names.Replace(p.Message), names.Replace(p.Hint)
		if v.path != p.Path {
			continue
		}
		for _, word := range strings.FieldsFunc(v.content, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) }) {
			if len(word) >= least { // a part of an expression, or the text with escapes
				p.Message = strings.ReplaceAll(p.Message, word, "…")
			}
		}
	}
	f.breaks(p.Path, p.Message, p.Hint)
}

// result is every finding by position, or nil.
func (f *findings) result(name string) error {
	if len(f.problems) == 0 {
		return nil
	}
	sortByPlace(f.problems)
	return &Problems{Name: name, List: slices.Compact(f.problems)}
}

func sortByPlace(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Path, b.Path))
	})
}

// parent is the path without its last key or index, "" at the top.
func parent(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

// quote is text as a message shows it: short, on one line.
func quote(text string) string {
	const most = 60
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return fmt.Sprintf("%q", text)
}
