//go:build movedclock

package main

import (
	"os"
	"time"
)

// Tests of days build the command with this tag: imports count for the day that the
// machine's clock shows and, ahead of it, the duration in the file that
// FEEDSINK_CLOCK_AHEAD names. The test replaces that file as a whole.
func init() {
	wall = func() time.Time {
		text, err := os.ReadFile(os.Getenv("FEEDSINK_CLOCK_AHEAD"))
		if err != nil {
			panic(err)
		}
		ahead, err := time.ParseDuration(string(text))
		if err != nil {
			panic(err)
		}
		return time.Now().Add(ahead)
	}
}
