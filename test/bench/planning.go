package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// planning is what tests in virtual time measure: of days of a sink, in seconds of a machine.
// Each such line of theirs begins with "measured:"; the test judges the goal.
func planning(ctx context.Context, _ *bench, _ options) (found []finding) {
	for _, of := range []struct{ test, directory string }{
		{"TestSlotsGoWhereRowsAreExpected", "./batcher/slots"},
		{"TestASnapshotGoesByFileAndTheChangesByCalls", "./connector/plan"},
	} {
		output, err := exec.CommandContext(ctx, "go", "test", "-count=1", "-v", "-run", "^"+of.test+"$", of.directory).CombinedOutput() //nolint:gosec // the tests above
		if len(output) == 0 {
			try(err)
		}
		n := len(found)
		for lines := bufio.NewScanner(bytes.NewReader(output)); lines.Scan(); {
			_, measured, is := strings.Cut(lines.Text(), "measured: ")
			if !is {
				continue
			}
			cells := strings.Split(measured, " | ")
			found = append(found, check(err == nil, cells[0], strings.TrimSpace(cells[2]), "%s", cells[1]))
		}
		if len(found) == n {
			try(fmt.Errorf("%s measured nothing: %w: %s", of.test, err, output))
		}
	}
	return found
}
