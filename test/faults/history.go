package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// history is what has reached the service for each row, so that one that is wrong can be
// explained.
type history map[name][]step

// step is a call, or a row of an import.
type step struct {
	at   time.Time
	what string
}

// remembered is how many steps of a row are kept.
const remembered = 40

func (h history) add(row name, s step) {
	steps := append(h[row], s)
	h[row] = steps[max(0, len(steps)-remembered):]
}

// called notes the calls of rows.
func (h history) called(list []call) {
	for _, c := range list {
		if c.etl == "" {
			h.add(c.row, step{c.at, fmt.Sprintf("%s with seq %d by %s: %d at %s", c.method, c.seq, c.member, c.status, c.answered.Format(millis))})
		}
	}
}

// loaded notes the rows of an import.
func (h history) loaded(e sandbox.Execution, rows []version) {
	for _, v := range rows {
		h.add(v.name, step{e.Ended, fmt.Sprintf("row with seq %d of execution %s, %s", v.seq, e.ID, e.File)})
	}
}

// tell says what reached a row, in order of time.
func (h history) tell(row name, say func(string, ...any)) {
	steps := slices.Clone(h[row])
	slices.SortStableFunc(steps, func(a, b step) int { return a.at.Compare(b.at) })
	for _, s := range steps {
		say("  %s %s: %s", row.key, s.at.Format(millis), s.what)
	}
}
