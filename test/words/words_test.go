// Package words_test keeps words out of the product and its documents that a reader
// would have to ask about.
package words_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// retired are words of former versions, and the field's.
var retired = map[string]string{
	"reins":    "cancelers",
	"kennel":   "pool",
	"forlorn":  "stale",
	"journey":  "state, path",
	"burial":   "rows in error",
	"bury":     "dead letter",
	"buried":   "dead letter",
	"lately":   "recently",
	"filing":   "file delivery",
	"for ever": "without end, indefinitely",
	"nobody":   "not known, none",
	"whoever":  "the caller, what",
	"desk":     "imports API",
	"contest":  "conflicting key",
	"settling": "reconciling",
	"in vain":  "for nothing, without result",
}

// ours are the files that ship or are read by users; CHANGELOG.md tells of former
// versions in their words.
func ours(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(filepath.ToSlash(path), "../../")
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "test" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".."):
			return filepath.SkipDir
		case d.IsDir() || name == "CHANGELOG.md" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		if slices.Contains([]string{".go", ".md", ".yaml", ".tpl"}, filepath.Ext(name)) {
			files = append(files, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 200 {
		t.Fatalf("got %d files, want all of them", len(files))
	}
	return files
}

func TestRetiredWordsStayOut(t *testing.T) {
	patterns := map[string]*regexp.Regexp{}
	for word := range retired {
		// Alone, or as a part of a name in camel case.
		title := strings.ToUpper(word[:1]) + word[1:]
		patterns[word] = regexp.MustCompile(`\b` + word + `(?:\b|[A-Z])|[a-z]` + title + `(?:\b|[A-Z])|\b` + title + `\b`)
	}
	for _, name := range ours(t) {
		text, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			for word, pattern := range patterns {
				if pattern.MatchString(line) {
					t.Errorf("%s:%d: %q; the field's word: %s", name, i+1, word, retired[word])
				}
			}
		}
	}
}
