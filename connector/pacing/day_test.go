package pacing

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/slots"
	"github.com/feedsink/feedsink/connector/clock"
	"github.com/feedsink/feedsink/connector/observe"
)

// onRecord is a ledger that shows these uses of slots.
type onRecord struct {
	used []time.Time
	ok   bool
}

func (onRecord) HasSlot(string, string, string, int, time.Time) bool { return false }

func (r onRecord) Slots(string, string) ([]time.Time, bool) { return r.used, r.ok }

func (onRecord) FillSlots(string, string, []time.Time) {}

// dayOf is the day of a table with 12 slots, 2 in reserve.
func dayOf(zone *time.Location, r onRecord) *observe.DayStatus {
	plan := slots.Plan{PerDay: 12, Reserve: 2, Zone: zone, Every: time.Minute}
	return New(r, clock.New(nil, nil), map[string]*Table{"customers": {Plan: plan, Name: "customers"}}).Day("customers")
}

func TestDayShowsTodaysSlotsOfItsZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it begins at midnight of 1 January 2000, UTC
		time.Sleep(10 * time.Hour)
		now := time.Now()
		zone := time.FixedZone("east", 2*60*60)
		quarter := now.Add(-time.Hour)
		st := dayOf(zone, onRecord{ok: true, used: []time.Time{now.Add(-13 * time.Hour), quarter, quarter, now.Add(-time.Minute)}})
		if got := now.Sub(st.Begins); got != 12*time.Hour || st.Ends.Sub(st.Begins) != 24*time.Hour {
			t.Errorf("the day began %v ago and is %v long, want 12h and 24h", got, st.Ends.Sub(st.Begins))
		}
		if !st.Owned || st.Left != 9 || st.PerDay != 12 || st.Reserve != 2 {
			t.Errorf("got %+v, want 9 of 12 left: one was used yesterday", st)
		}
		if len(st.Used) != 2 || st.Used[0].Count != 2 || st.Used[1].Count != 1 || !st.Used[0].At.Equal(quarter) {
			t.Errorf("used: got %+v, want two at one time and one at another", st.Used)
		}
		if !st.Next.After(now) {
			t.Errorf("next: got %v, want a time to come: slots are scarce", st.Next)
		}
	})
}

func TestDayOfAnotherMembersTableSaysSo(t *testing.T) {
	st := dayOf(time.UTC, onRecord{})
	if st.Owned || st.Left != 0 || len(st.Used) != 0 || !st.Next.IsZero() {
		t.Errorf("got %+v, want not owned and nothing known", st)
	}
}

// TestDayBeginsAndEndsWhereMidnightIsLeftOut: in Havana the clocks go from midnight to one.
func TestDayBeginsAndEndsWhereMidnightIsLeftOut(t *testing.T) {
	zone, err := time.LoadLocation("America/Havana")
	if err != nil {
		t.Fatal(err)
	}
	for _, before := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) { // it begins at midnight of 1 January 2000, UTC
			first := time.Date(2000, 4, 2, 5, 0, 0, 0, time.UTC) // one o'clock there
			at := first.Add(2 * time.Hour)
			if before {
				at = first.Add(-2 * time.Hour)
			}
			time.Sleep(time.Until(at))
			st := dayOf(zone, onRecord{})
			if got := map[bool]time.Time{true: st.Ends, false: st.Begins}[before]; !got.Equal(first) {
				t.Errorf("a day that ends there: %v; got %v, want %v", before, got, first.In(zone))
			}
		})
	}
}
