package connector

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/batcher/contract"
)

// TestPageShowsEveryStepThatTakesASlot: the page tells the steps before that by their names.
func TestPageShowsEveryStepThatTakesASlot(t *testing.T) {
	page, err := os.ReadFile("admin/page/day.js")
	if err != nil {
		t.Fatal(err)
	}
	var quoted []string
	for _, step := range []contract.Step{contract.Sealing, contract.Waiting, contract.Linking, contract.Intending, contract.Paused, contract.Halting} {
		quoted = append(quoted, fmt.Sprintf("%q", step))
	}
	if want := "const before = [" + strings.Join(quoted, ", ") + "];"; !strings.Contains(string(page), want) {
		t.Errorf("day.js: want the line\n%s", want)
	}
}
