package connector

import (
	"testing"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/schemas"
)

// Of a lane that a mapping does not use, ledgers keep that its pause has ended, for the ledgers of that
// lane may still show it. They keep no pause that goes on: to the other lane it would be a partition
// that is paused here.
func TestPauseOfALaneThatIsNotUsedIsKeptOnceItHasEnded(t *testing.T) {
	s := newDesk(t).now()
	m := s.router.Mapping("orders") // immediate alone
	of := pauseOf(m, schemas.Batch)
	for _, ended := range []bool{false, true} {
		s.pauses.known.Say(ack.Pause{Mapping: of.Mapping, Batch: of.Batch, Resumed: ended})
		for _, l := range s.lanes {
			if !m.Uses(l.which) {
				continue
			}
			kept := l.pausesFor(m.Config.Topics[0])
			if ended != (len(kept) == 1) {
				t.Errorf("ended %v: got %+v in the ledgers of the %v lane, want it once it has ended", ended, kept, l.which)
			}
		}
	}
}
