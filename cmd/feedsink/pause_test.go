package main

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestUntilIsATimeToComeHoweverItIsSaid(t *testing.T) {
	zone := time.FixedZone("+02", 7200)
	now := time.Date(2026, 11, 21, 17, 30, 0, 1, zone)
	for text, want := range map[string]string{
		"":                     "0001-01-01T00:00:00Z",
		"2h":                   "2026-11-21T19:30:01+02:00", // not before, in whole seconds
		"17:31":                "2026-11-21T17:31:00+02:00",
		"17:30":                "2026-11-22T17:30:00+02:00",
		"2026-11-21T16:00:00Z": "2026-11-21T16:00:00Z",
		"2026-11-21T15:30:00Z": "must be in the future",
		"0s":                   "must be in the future",
		"-1ms":                 "must be in the future",
		"-2h":                  "must be in the future",
		"tomorrow":             `must be a time such as 17:30 or 2026-11-21T10:00:00Z, or a duration such as 2h, is "tomorrow"`,
	} {
		until, err := untilTime(text, now)
		got := until.Format(time.RFC3339)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

// TestReasonOfAPauseIsJudgedBeforeTheSinkIsAsked, which says the same of it.
func TestReasonOfAPauseIsJudgedBeforeTheSinkIsAsked(t *testing.T) {
	for reason, want := range map[string]string{
		strings.Repeat("é", 6000): "--reason: may have 100 characters at most",
		"two\nlines":              "--reason: must be one line of text",
	} {
		root := newRoot()
		root.SetArgs([]string{"pause", "--mapping", "orders", "--reason", reason, "--server", "http://127.0.0.1:1"})
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		if err := root.ExecuteContext(t.Context()); err == nil || err.Error() != want {
			t.Errorf("%.10q: got %v, want %s", reason, err, want)
		}
	}
}
