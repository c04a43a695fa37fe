package kafka_test

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector/kafka"
)

func TestReleaseMayTakeAsLongAsConfigured(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 1)
	l := newLane(t)
	m := b.join(l, func(c *kafka.Config) { c.ReleaseTimeout = 10 * time.Minute })
	m.awaitOffsets("a", 0, 0)
	m.set(func(l *lane) {
		l.release = func(ctx context.Context, _ []*kafka.Partition) {
			if until, ok := ctx.Deadline(); !ok || time.Until(until) < 9*time.Minute {
				t.Errorf("time to release: got until %v, want ten minutes", until)
			}
		}
	})
	m.stop()
}

// TestMemberThatLeavesKeepsItsPartitionsWhileItReleases: else another member would
// have them while calls are under way, and the last commit would be refused.
func TestMemberThatLeavesKeepsItsPartitionsWhileItReleases(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 3)
	l := newLane(t)
	m := b.join(l, func(c *kafka.Config) { c.CommitEvery, c.ReleaseTimeout = time.Hour, patience })
	m.awaitOffsets("a", 0, upTo(0, 3)...)
	heard := make(chan struct{}, 1000)
	b.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		if _, ok := req.(*kmsg.HeartbeatRequest); ok {
			heard <- struct{}{}
		}
		return nil, nil, false
	})
	m.set(func(l *lane) {
		l.release = func(context.Context, []*kafka.Partition) {
			over := time.After(2 * session)
			for beats, waiting := 0, true; waiting; {
				select {
				case <-heard:
					beats++
				case <-over: // nothing shorter tells
					if waiting = false; beats < 6 {
						t.Errorf("heartbeats while releasing for two sessions: got %d, want three in each", beats)
					}
				}
			}
			l.confirm("a", 0, 0, 1, 2)
		}
	})
	m.stop()
	if got := b.committed("a", 0).Offset; got != 3 {
		t.Errorf("last commit after a release longer than the session: got %d, want 3", got)
	}
}
