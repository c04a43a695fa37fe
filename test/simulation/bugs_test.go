package simulation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlantedBugsApplyToTheSources keeps make simulate-bugs runnable: what a patch takes
// away is in its file, and once only, so that it is taken away at the right place.
func TestPlantedBugsApplyToTheSources(t *testing.T) {
	patches, err := filepath.Glob("bugs/*.patch")
	if err != nil || len(patches) < 24 {
		t.Fatalf("patches: got %d and %v, want at least 24", len(patches), err)
	}
	for _, name := range patches {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		hunks := hunksOf(string(text))
		if len(hunks) == 0 {
			t.Errorf("%s: got no change, want one at least", name)
		}
		for _, h := range hunks {
			source, err := os.ReadFile(filepath.Join("../..", h.file))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if n := strings.Count(string(source), h.before); n != 1 {
				t.Errorf("%s: what it changes is %d times in %s, want once: make the patch anew\n%s", name, n, h.file, h.before)
			}
		}
	}
}

// hunk is one change of a patch.
type hunk struct{ file, before string }

func hunksOf(patch string) (hunks []hunk) {
	file := ""
	for line := range strings.Lines(patch) {
		switch {
		case strings.HasPrefix(line, "--- a/"):
			file = strings.TrimSpace(strings.TrimPrefix(line, "--- a/"))
		case strings.HasPrefix(line, "@@"):
			hunks = append(hunks, hunk{file: file})
		case len(hunks) > 0 && (line[0] == ' ' || line[0] == '-'):
			hunks[len(hunks)-1].before += line[1:]
		}
	}
	return hunks
}
