// Package flood counts refusals that are alike among the last results: the window that
// tells a flood of dead letters, which is a mistake, from single records.
package flood

import (
	"fmt"
	"math"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/deadletter"
)

// Refusal is what makes records refused alike.
type Refusal struct {
	Stage  deadletter.Stage
	Code   string
	Status int // the service's answer; 0: none
}

func (r Refusal) String() string {
	if r.Status == 0 {
		return fmt.Sprintf("%s, %s", r.Stage, r.Code)
	}
	return fmt.Sprintf("%s, %s, status %d", r.Stage, r.Code, r.Status)
}

// RefusalOf is what a dead letter was refused for.
func RefusalOf(l deadletter.Reason) Refusal { return Refusal{l.Stage, l.Code, l.Status} }

// Limits are dlq.flood as numbers of results.
type Limits struct{ Window, Alike int64 }

// NewLimits gives zeros where no mapping halts: a flood has nowhere to go without a
// dead-letter topic, and each refusal halts its partition then.
func NewLimits(cfg config.DLQ) Limits {
	if cfg.Topic == "" || cfg.Flood.Records <= 0 {
		return Limits{}
	}
	n := int64(cfg.Flood.Records)
	return Limits{n, min(max(int64(math.Ceil(float64(n)*cfg.Flood.Share-1e-9)), 1), n)}
}

// Flood says how many were refused alike if those are too many, else "".
func (l Limits) Flood(what Refusal, seen, alike int64) (how string) {
	if alike < l.Alike {
		return ""
	}
	return fmt.Sprintf("%d of its last %d records were refused alike (%s)", alike, min(seen, l.Window), what)
}

// Refusals are when a mapping's records were refused, counted in results: the last
// of each kind, the oldest first.
type Refusals map[Refusal][]int64

// Add notes one that was the seen-th result and returns how many alike there were
// among the last.
func (r Refusals) Add(what Refusal, seen int64, l Limits) (alike int64) {
	list := append(r[what], seen)
	for len(list) > 0 && list[0] <= seen-l.Window || int64(len(list)) > l.Alike {
		list = list[1:]
	}
	r[what] = list
	return int64(len(list))
}
