//go:build !image

package e2e_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testName  = regexp.MustCompile(`\bTest[A-Z]\w+`)
	testFunc  = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	faultName = regexp.MustCompile(`(?m)^\| "([^"]+)" \|`)
	promise   = regexp.MustCompile(`^\*\*[^*]+\*\* `)
)

// A promise of deploy/guarantees.md names the tests that break it, and these exist.
func TestEveryGuaranteeNamesTestsThatExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := os.ReadFile("../faults/plan.go")
	if err != nil {
		t.Fatal(err)
	}
	exist, promises := testsOfTheModule(t), 0
	for paragraph := range strings.SplitSeq(string(text), "\n\n") {
		name := promise.FindString(paragraph)
		if name == "" {
			continue
		}
		promises++
		_, tests, told := strings.Cut(paragraph, "*Test:*")
		named := testName.FindAllString(tests, -1)
		if !told || len(named) == 0 {
			t.Errorf("%s: names no test", name)
		}
		for _, test := range named {
			if !exist[test] {
				t.Errorf("%s: there is no %s", name, test)
			}
		}
	}
	if promises < 30 {
		t.Errorf("got %d promises, want all of them", promises)
	}
	for _, m := range faultName.FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(string(plan), `{"`+m[1]+`", `) {
			t.Errorf("test/faults has no fault %q", m[1])
		}
	}
}

// testsOfTheModule are the names of all tests, whatever build tags they want.
func testsOfTheModule(t *testing.T) map[string]bool {
	t.Helper()
	exist := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range testFunc.FindAllSubmatch(source, -1) {
			exist[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return exist
}
