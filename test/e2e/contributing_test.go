//go:build !image

package e2e_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	folderRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| \\S")
	codeLink  = regexp.MustCompile("\\[`(\\w+)`\\]\\(([^)]+\\.go)\\)")
)

// CONTRIBUTING.md has every package of the module in its table, and nothing else.
func TestContributingNamesEveryPackage(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(contributing(t), "## The packages\n")
	table, _, _ = strings.Cut(table, "\n## ")
	named := map[string]bool{}
	for _, m := range folderRow.FindAllStringSubmatch(table, -1) {
		named[m[1]] = true
		if st, err := os.Stat(filepath.Join("../..", m[1])); err != nil || !st.IsDir() {
			t.Errorf("%s: CONTRIBUTING.md names it, and there is no such folder", m[1])
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(packagesOfTheModule(t))) {
		if !named[folder] {
			t.Errorf("%s: CONTRIBUTING.md does not name this package", folder)
		}
	}
}

// What CONTRIBUTING.md links as code is in the file that it links to.
func TestContributingLinksToWhatIsThere(t *testing.T) {
	t.Parallel()
	links := codeLink.FindAllStringSubmatch(contributing(t), -1)
	if len(links) < 30 {
		t.Errorf("got %d links, want those of the path of a record", len(links))
	}
	for _, m := range links {
		source, err := os.ReadFile(filepath.Join("../..", m[2]))
		if err != nil {
			t.Error(err)
		} else if !regexp.MustCompile(`(?m)^func (\([^)]+\) )?` + m[1] + `\(`).Match(source) {
			t.Errorf("%s: has no function %s", m[2], m[1])
		}
	}
}

func contributing(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// packagesOfTheModule are the folders with code that is not a test's.
func packagesOfTheModule(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			_, none := os.Stat(filepath.Join(path, "go.mod"))
			hidden := strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules"
			if path != root && (hidden || none == nil) {
				return filepath.SkipDir
			}
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			folder, err := filepath.Rel(root, filepath.Dir(path))
			found[filepath.ToSlash(folder)] = true
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
