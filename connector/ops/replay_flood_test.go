package ops

import (
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/connector/writes"
)

func TestReplayStopsWhereTheSinkHalts(t *testing.T) {
	cfg := config.DLQ{Topic: "dlq", Flood: config.Flood{Records: 10, Share: 0.5}}
	no, other := &deadletter.Reason{Code: "rejected", Status: 400}, &deadletter.Reason{Code: "rejected", Status: 422}
	conflict := &deadletter.Reason{Code: writes.CodeConflict, Status: 409}
	for name, c := range map[string]struct {
		results []*deadletter.Reason // nil: applied
		stops   int                  // the result that stops it, from 1; 0: none
	}{
		"all refused":      {[]*deadletter.Reason{no, no, no, no, no}, 5},
		"enough of a kind": {[]*deadletter.Reason{nil, no, other, no, no, nil, nil, no, no}, 9},
		"of two kinds":     {[]*deadletter.Reason{no, no, no, no, other, other, other, other}, 0},
		"long ago":         {[]*deadletter.Reason{no, no, no, no, nil, nil, nil, nil, nil, nil, no}, 0},
		"conflicts":        {[]*deadletter.Reason{conflict, conflict, conflict, conflict, conflict, conflict}, 0},
	} {
		run := &replay.Replay{Config: replay.Config{Round: 500}}
		if stopFloods(run, cfg); run.Round != 10 {
			t.Errorf("%s: round: got %d, want no more than the window", name, run.Round)
		}
		for i, why := range c.results {
			run.Flood("mapping other", deadletter.Delivering, no)
			run.Flood("mapping orders", deadletter.Transforming, nil)
			how := run.Flood("mapping orders", deadletter.Delivering, why)
			if want := c.stops == i+1; (how != "") != want || want && !strings.HasPrefix(how, "5 of its last ") {
				t.Errorf("%s: result %d: got %q, want stopped %t", name, i+1, how, want)
			}
		}
	}
	run := &replay.Replay{Config: replay.Config{Round: 500}}
	if stopFloods(run, config.DLQ{Topic: "dlq"}); run.Flood != nil || run.Round != 500 {
		t.Errorf("with records 0: got round %d, want nothing counted", run.Round)
	}
}
