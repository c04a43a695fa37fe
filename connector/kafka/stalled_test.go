package kafka

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
)

// readPartition is a partition whose ledger was read, with a committed offset of 10.
func readPartition() *Partition {
	p := newPartition("a", 0, "m", reading)
	p.routes.recorded = 1
	p.tracker, p.committed, p.standing = ack.New(10, nil), commit{offset: 10}, time.Now()
	return p
}

func TestStalledIsForHowLongAPartitionWithRecordsStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := readPartition()
		after := func(d time.Duration, what string, want time.Duration) {
			t.Helper()
			for range d / endsEvery {
				time.Sleep(endsEvery)
				p.noteProgress()
			}
			if got := p.Stalled(); got != want {
				t.Errorf("%s: got %v, want %v", what, got, want)
			}
		}
		after(time.Hour, "nothing to do", 0)
		p.setLogEnd(20)
		after(time.Hour, "ten records behind", time.Hour)
		p.answered(commit{offset: 10, metadata: "ledger"}, nil)
		after(time.Minute, "the ledger alone is committed", time.Hour+time.Minute)
		p.answered(commit{offset: 15, metadata: "ledger"}, nil)
		after(0, "five are committed", 0)
		after(time.Hour, "the others are not", time.Hour)
		pauses := func(ps ...ack.Pause) { p.ChangePauses(func([]ack.Pause) []ack.Pause { return ps }) }
		pauses(ack.Pause{Mapping: 1, Batch: true})
		after(24*time.Hour, "paused, be it in the other lane", 0)
		pauses(ack.Pause{Mapping: 1, Batch: true, Resumed: true})
		after(time.Hour, "resumed", time.Hour)
		p.SetPaused(true)
		after(24*time.Hour, "its bundle is paused", 0)
		p.SetPaused(false)
		after(0, "on its way again", 0)
		after(time.Hour, "in vain", time.Hour)
		p.state = ended
		after(0, "another member's", 0)
	})
}
