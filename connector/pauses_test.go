package connector

import (
	"testing"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/schemas"
)

// Routes may lead to a lane again, and its own ledgers may still show a pause that has ended since.
// To the other lane a pause that goes on in a lane's own ledgers is a partition that is paused there.
func TestLedgersKeepPausesOfLanesThatAreNotUsed(t *testing.T) {
	s := newDesk(t).now()
	m := s.router.Mapping("orders") // immediate alone
	of := pauseOf(m, schemas.Batch)
	for _, ended := range []bool{false, true} {
		s.pauses.known.Say(ack.Pause{Mapping: of.Mapping, Batch: of.Batch, Resumed: ended})
		for _, l := range s.lanes {
			kept := len(l.pausesFor(m.Config.Topics[0])) == 1
			if want := ended || l.which == schemas.Immediate; kept != want {
				t.Errorf("ended %v, in the ledgers of the %v lane: got kept %v, want %v", ended, l.which, kept, want)
			}
		}
	}
}
