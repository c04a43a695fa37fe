//go:build !simulation

package simulation

import (
	"os"
	"os/exec"
	"testing"

	_ "github.com/feedsink/feedsink/connector" // what changes it has this test run again
)

// TestFixedSeedsKeepThePromises runs the tests that need the flags of make simulate.
func TestFixedSeedsKeepThePromises(t *testing.T) {
	if _, err := os.ReadDir("."); err != nil { // likewise
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-tags", "simulation", "-ldflags=-checklinkname=0", "-count=1", "-v", ".")
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %v\n%s", cmd.Args, err, said)
	}
	t.Logf("%s", said)
}
