package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/router"
)

// service.rate is one for all mappings: two that each stay below it can be too many together.
func TestTheRateIsThatOfAllMappings(t *testing.T) {
	for name, c := range map[string]struct {
		minute int64 // of the second mapping's calls
		low    bool
		text   string
	}{
		"in one minute":  {0, true, "TOO LOW: 160 calls, with those of other mappings, came in a span for which service.rate allows 100; they would wait"},
		"one by another": {1, false, "suffices: at most 80 calls came in a span for which service.rate allows 100"},
	} {
		p, r := planOf(t, Limits{RateCalls: 100, RatePer: time.Minute}, router.Mapping{Name: "orders"}, router.Mapping{Name: "offers"})
		for i := range int64(80) {
			order(t, p, r, "orders", 0, fmt.Sprint(i), i, time.Unix(midnight*60, 0))
			order(t, p, r, "offers", 0, fmt.Sprint(i), i, time.Unix((midnight+c.minute)*60, 0))
		}
		report := Report{Mappings: reported(t, p)}
		for _, m := range report.Mappings {
			if m.Calls.RateTooLow != c.low || m.Calls.PeakRate != 80 {
				t.Errorf("%s, mapping %s: got %+v, want a rate that is too low: %v", name, m.Name, *m.Calls, c.low)
			}
		}
		if text := report.Text(""); strings.Count(text, c.text+"\n") != 2 {
			t.Errorf("%s: got\n%s\nwant twice %q", name, text, c.text)
		}
	}
}
