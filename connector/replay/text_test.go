package replay_test

import (
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/replay"
)

func TestDryRunByFileSaysNothingOfWhatCallsWouldLeave(t *testing.T) {
	report := replay.BackfillReport{DryRun: true, By: replay.ByFile, Files: &replay.BackfillFiles{Unsaid: 1}}
	report.Left = map[string]int64{replay.NeedsImport: 3, replay.BatchOnly: 2}
	report.Notes = []replay.BackfillNote{{Record: "a[0]@1", Why: replay.NeedsImport}, {Record: "a[0]@2", Why: replay.NeedsCall}, {Record: "a[0]@3", Why: replay.BatchOnly}}
	report.OfFiles()
	text := report.Text()
	if len(report.Left) != 0 || len(report.Notes) != 1 || strings.Contains(text, replay.NeedsImport) || strings.Contains(text, replay.BatchOnly) || !strings.Contains(text, "a[0]@2") {
		t.Errorf("got %v, %v and\n%s\nwant what files leave alone", report.Left, report.Notes, text)
	}
}
