package waits_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/connector/waits"
)

func TestFileThatContinuesAnotherOneWaitsAsLongAsANewOne(t *testing.T) {
	synctest.Test(t, fileWaitsForASlot)
}

func fileWaitsForASlot(t *testing.T) {
	on := func(step contract.Step) *contract.ImportStatus { return &contract.ImportStatus{Step: step} }
	for name, c := range map[string]struct {
		st           contract.MappingStatus
		further, new time.Duration
		want         time.Duration
	}{
		"only the reserve is left":        {contract.MappingStatus{Import: on(contract.Waiting)}, 0, 7 * time.Hour, 7 * time.Hour},
		"the day's imports are used up":   {contract.MappingStatus{Import: on(contract.Waiting)}, 7 * time.Hour, 7 * time.Hour, 7 * time.Hour},
		"it goes at once":                 {contract.MappingStatus{Import: on(contract.Waiting)}, 0, 0, time.Second},
		"the service's day ends later":    {contract.MappingStatus{Import: &contract.ImportStatus{Step: contract.Waiting, Again: time.Now().Add(20 * time.Hour)}}, 0, 0, 20 * time.Hour},
		"its import runs":                 {contract.MappingStatus{Import: on(contract.Importing), Due: true}, time.Hour, 7 * time.Hour, 0},
		"an open file that is complete":   {contract.MappingStatus{Due: true}, 0, 7 * time.Hour, 7 * time.Hour},
		"one that is not":                 {contract.MappingStatus{}, 0, 7 * time.Hour, 0},
		"one of a mapping that is halted": {contract.MappingStatus{Halted: "FAILED", Import: on(contract.Waiting)}, time.Hour, 7 * time.Hour, 0},
	} {
		got := waits.ForSlot(c.st, func(_ string, _ *contract.Import, further bool) time.Duration {
			if further {
				return c.further
			}
			return c.new
		})
		if got != c.want {
			t.Errorf("%s: got a wait of %v, want %v", name, got, c.want)
		}
	}
}
