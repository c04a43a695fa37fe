//go:build !image

package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	codeBlock   = regexp.MustCompile("(?s)```(yaml|json)\n(.*?)```")
	exampleLink = regexp.MustCompile(`\(deploy/examples/([\w-]+\.yaml)\)`)
)

// What the README shows stands in the example that it names last before, line
// by line; it may leave lines out. Its events are those of the samples.
func TestTheReadmeShowsTheExamplesAsTheyAre(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(examplesDir + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	var events []any
	for _, file := range files {
		name := filepath.Base(file)
		if !strings.Contains(string(text), "(deploy/examples/"+name+")") {
			t.Errorf("README.md does not name deploy/examples/%s", name)
		}
		for _, e := range readSample(t, filepath.Join(examplesDir, "samples", name)).Events {
			events = append(events, plainJSON(t, jsonOf(t, e.Value)))
		}
	}
	shown := 0
	for _, at := range codeBlock.FindAllSubmatchIndex(text, -1) {
		kind, content := string(text[at[2]:at[3]]), text[at[4]:at[5]]
		shown++
		if kind == "json" {
			if event := plainJSON(t, content); !slices.ContainsFunc(events, func(e any) bool { return reflect.DeepEqual(e, event) }) {
				t.Errorf("README.md: no sample has the event\n%s", content)
			}
			continue
		}
		named := exampleLink.FindAllSubmatch(text[:at[0]], -1)
		if len(named) == 0 {
			t.Errorf("README.md: no example is named before\n%s", content)
			continue
		}
		name := string(named[len(named)-1][1])
		whole, err := os.ReadFile(filepath.Join(examplesDir, name))
		if err != nil {
			t.Fatal(err)
		}
		rest := strings.Split(string(whole), "\n")
		for line := range strings.Lines(string(content)) {
			line = strings.TrimRight(line, "\n")
			i := slices.Index(rest, line)
			if i < 0 {
				t.Errorf("README.md: deploy/examples/%s does not have, or not at this place: %s", name, line)
				continue
			}
			rest = rest[i+1:]
		}
	}
	if shown < 6 {
		t.Errorf("got %d blocks in README.md, want those of all formats", shown)
	}
}

func plainJSON(t *testing.T, text []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return v
}
