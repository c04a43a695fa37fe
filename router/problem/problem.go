// Package problem is how mistakes in a configuration are reported: where, what rule is
// broken, and what to write instead.
package problem

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is a mistake in a configuration.
type Problem struct {
	Path    string `json:"path"`           // where, in the file's own words: mappings[0].routes[1].when; "" for the whole
	Message string `json:"message"`        // what rule the place breaks
	Hint    string `json:"hint,omitempty"` // what to write instead, "" where there is nothing to add
}

// String reads `mappings[0].key: missing`.
func (p Problem) String() string {
	text := p.Message
	if p.Path != "" {
		text = p.Path + ": " + text
	}
	if p.Hint != "" {
		text += "; hint: " + p.Hint
	}
	return text
}

// Reporter adds to a list what is wrong at a place of the configuration or below it.
type Reporter struct {
	path string
	list *[]Problem
}

// NewReporter returns one that adds to the list.
func NewReporter(path string, list *[]Problem) Reporter { return Reporter{path, list} }

// Below is the reporter of a place below r's.
func (r Reporter) Below(path string) Reporter {
	if path != "" {
		path = "." + path
	}
	return Reporter{r.path + path, r.list}
}

// Report adds a problem at the path, "" for r's own place.
func (r Reporter) Report(path, hint, format string, args ...any) {
	*r.list = append(*r.list, Problem{Path: r.Below(path).path, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// Choice reports a word, which may be missing, that is none of those that there are.
func (r Reporter) Choice(path, word string, words ...string) {
	if word != "" && !slices.Contains(words, word) {
		r.Report(path, Suggest(word, words...), "unknown value %q", word)
	}
}

// Suggest is the hint `did you mean "x"?` for the candidate nearest to word,
// else the list of candidates, "" where there is none.
func Suggest(word string, candidates ...string) string {
	candidates = slices.DeleteFunc(slices.Clone(candidates), func(c string) bool { return c == "" })
	if len(candidates) == 0 {
		return ""
	}
	if hint := Similar(word, candidates...); hint != "" {
		return hint
	}
	return "one of " + strings.Join(candidates, ", ")
}

// Similar is the hint for the candidate nearest to word, "" where none is near.
func Similar(word string, candidates ...string) string {
	if best, distance := nearest(word, candidates); distance < min(3, len(best)) {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return ""
}

// Misspelt is Similar for a word that may be right: of every three letters one differs
// at most.
func Misspelt(word string, candidates ...string) string {
	if _, distance := nearest(word, candidates); 3*distance > len(word) {
		return ""
	}
	return Similar(word, candidates...)
}

// nearest is the first of the candidates that differ least from word.
func nearest(word string, candidates []string) (best string, distance int) {
	distance = len(word) + 1
	for _, c := range candidates {
		if d := Edits(strings.ToLower(word), strings.ToLower(c)); d < distance {
			best, distance = c, d
		}
	}
	return best, distance
}

// Edits is the number of letters to insert, remove, change or swap with their
// neighbour to get from a to b. Words are short: it need not be quick.
func Edits(a, b string) int {
	row := func() []int { return make([]int, len(b)+1) }
	older, last, current := row(), row(), row()
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		current[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			current[j] = slices.Min([]int{change, last[j] + 1, current[j-1] + 1})
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				current[j] = min(current[j], older[j-2]+1)
			}
		}
		older, last, current = last, current, older
	}
	return last[len(b)]
}
