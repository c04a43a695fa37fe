package connector

import (
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/replay"
)

// stageResults are the last results of a replay at one stage, of one mapping or topic.
type stageResults struct {
	seen    int64
	refused refusals
}

// stopFloods has a replay stop where the sink would halt. A round is no more letters
// than the window, so that no more are tried before it shows.
func stopFloods(run *replay.Replay, cfg config.DLQ) {
	l := newLimits(cfg)
	if l.alike == 0 {
		return
	}
	type results struct {
		of    string
		stage deadletter.Stage
	}
	windows := map[results]*stageResults{}
	run.Round = int(min(int64(run.Round), l.window))
	run.Flood = func(of string, stage deadletter.Stage, why *deadletter.Reason) string {
		at := results{of, stage}
		w := windows[at]
		if w == nil {
			w = &stageResults{refused: refusals{}}
			windows[at] = w
		}
		w.seen++
		if why == nil || why.Code == codeConflict { // as gate.answer has it
			return ""
		}
		what := refusalOf(*why)
		return l.flood(what, w.seen, w.refused.add(what, w.seen, l))
	}
}
