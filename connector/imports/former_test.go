package imports

import (
	"bytes"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/rejects"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// formerLane asks for executions of a former batch lane.
func formerLane(t *testing.T) (*Former, *sandbox.Sandbox, *bytes.Buffer) {
	t.Helper()
	s, client := startInBubble(t)
	var log bytes.Buffer
	return &Former{Client: client, Known: &calls.Service{}, Log: slog.New(slog.NewTextHandler(&log, nil))}, s, &log
}

// TestExecutionThatTheServiceHasForgottenHasEnded: a partition that waits for it would
// never go on.
func TestExecutionThatTheServiceHasForgottenHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		former, _, log := formerLane(t)
		begun := time.Now()
		for {
			ended, err := former.Ended(t.Context(), "17")
			waited := time.Since(begun)
			if ended {
				if err != nil || waited < rejects.Patience || !strings.Contains(log.String(), "execution=17") {
					t.Errorf("ended after %v: got %v, log %q; want it after %v, told by the log", waited, err, log, rejects.Patience)
				}
				return
			}
			if err == nil || waited > 2*rejects.Patience {
				t.Fatalf("after %v: got ended %v, %v; want an error, and its end in time", waited, ended, err)
			}
			time.Sleep(time.Minute)
		}
	})
}

// TestExecutionsThatNobodyAsksForAreLetGo, and those that are asked for still are kept.
func TestExecutionsThatNobodyAsksForAreLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f forgotten
		begun := time.Now()
		for i := range 1000 {
			if got := f.refused("waited for"); !got.Equal(begun) {
				t.Fatalf("after %v: got refused since %v, want since the first time", time.Since(begun), got)
			}
			f.refused(strconv.Itoa(i))
			time.Sleep(time.Minute)
		}
		if got, most := len(f.asks), 2+int(rejects.Patience/time.Minute); got > most {
			t.Errorf("got %d executions kept, want at most the %d of the last %v", got, most, rejects.Patience)
		}
	})
}

// TestExecutionIsNotForgottenWhileTheServiceIsAway, nor while something answers in its
// place.
func TestExecutionIsNotForgottenWhileTheServiceIsAway(t *testing.T) {
	for name, answer := range map[string]sandbox.Answer{
		"503": sandbox.Status(503), "403": sandbox.Status(403), "page": sandbox.Page(404), "text": sandbox.Text(404, "no such host here"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				former, s, _ := formerLane(t)
				s.Inject(sandbox.Fault{Match: sandbox.Match{Op: 11}, Answer: answer})
				for range 60 {
					if ended, err := former.Ended(t.Context(), "17"); ended || err == nil {
						t.Fatalf("got ended %v, %v, want an error", ended, err)
					}
					time.Sleep(time.Minute)
				}
			})
		})
	}
}
