package connector

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestAWaitForAcknowledgementsIsTold: a process that stops with dead letters that no topic
// takes says what it waits for. One that is acknowledged at once is no line.
func TestAWaitForAcknowledgementsIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		want  []string
	}{
		"never":        {time.Hour, []string{`at_most=34s why="dead-letter topic dlq does not exist"`, "may be sent twice"}},
		"in time":      {20 * time.Second, []string{"waiting_for=2 at_most=34s"}},
		"at once":      {10 * time.Millisecond, nil},
		"nothing sent": {0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				l := laneBase{log: slog.New(slog.NewTextHandler(&out, nil)), whyNot: func() string { return "dead-letter topic dlq does not exist" }}
				if c.after > 0 {
					l.unacknowledged.Add(2)
					defer time.AfterFunc(c.after, func() { l.unacknowledged.Done(2) }).Stop()
				}
				ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
				defer cancel()
				l.awaitAcknowledged(ctx)
				got := strings.Split(strings.TrimSpace(out.String()), "\n")
				if out.Len() == 0 {
					got = nil
				}
				if len(got) != len(c.want) {
					t.Fatalf("got %q, want %d lines", got, len(c.want))
				}
				for i, words := range c.want {
					if !strings.Contains(got[i], words) {
						t.Errorf("got %q, want it to say %q", got[i], words)
					}
				}
			})
		})
	}
}
