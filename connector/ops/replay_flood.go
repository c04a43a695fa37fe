package ops

import (
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/flood"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/connector/writes"
)

// stageResults are the last results of a replay at one stage, of one mapping or topic.
type stageResults struct {
	seen    int64
	refused flood.Refusals
}

// stopFloods has a replay stop where the sink would halt. A round is no more dead letters
// than the window, so that no more are tried before it shows.
func stopFloods(run *replay.Replay, cfg config.DLQ) {
	l := flood.NewLimits(cfg)
	if l.Alike == 0 {
		return
	}
	type results struct {
		of    string
		stage deadletter.Stage
	}
	windows := map[results]*stageResults{}
	run.Round = int(min(int64(run.Round), l.Window))
	run.Flood = func(of string, stage deadletter.Stage, why *deadletter.Reason) string {
		at := results{of, stage}
		w := windows[at]
		if w == nil {
			w = &stageResults{refused: flood.Refusals{}}
			windows[at] = w
		}
		w.seen++
		if why == nil || why.Code == writes.CodeConflict { // as gate.answer has it
			return ""
		}
		what := flood.RefusalOf(*why)
		return l.Flood(what, w.seen, w.refused.Add(what, w.seen, l))
	}
}
