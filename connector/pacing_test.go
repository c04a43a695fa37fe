package connector

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/slots"
	"github.com/feedsink/feedsink/connector/clock"
)

// account is a record of slots in memory.
type account struct{ used []time.Time }

func (a *account) Slots(string, string) ([]time.Time, bool) { return a.used, true }

func (a *account) FillSlots(_, _ string, at []time.Time) { a.used = append(a.used, at...) }

func threeADay(a *account) *pacing {
	return &pacing{clock: clock.New(nil, nil), source: a, tables: map[string]*tableSlots{
		"customers": {Plan: slots.Plan{PerDay: 3, Zone: time.UTC, Every: time.Hour}, table: "customers", slotTopic: "crm"},
	}}
}

func TestImportOverMidnightTakesASlotOfBothDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &account{}
		p := threeADay(a)
		time.Sleep(24*time.Hour - time.Second)       // the bubble begins at midnight
		a.FillSlots("", "", []time.Time{time.Now()}) // the intent
		time.Sleep(2 * time.Second)
		for range 2 { // a commit may be repeated
			p.answered("customers")
			if left, _ := p.remaining("customers"); left != 2 {
				t.Errorf("slots left of the new day: got %d, want 2", left)
			}
		}
		p.answered("customers")
		if got := len(a.used); got != 2 {
			t.Errorf("slots on record: got %d, want 2", got)
		}
	})
}

func TestAnImportByHandTakesASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := threeADay(&account{})
		p.took("customers")
		if left, _ := p.remaining("customers"); left != 2 {
			t.Errorf("slots left: got %d, want 2", left)
		}
	})
}

func TestAnswerOnTheSameDayTakesNoFurtherSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &account{}
		p := threeADay(a)
		a.FillSlots("", "", []time.Time{time.Now()})
		time.Sleep(time.Hour)
		p.answered("customers")
		if left, _ := p.remaining("customers"); left != 2 {
			t.Errorf("slots left: got %d, want 2", left)
		}
	})
}

func TestRefusalUsesTheDayUpAndTheNextGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := threeADay(&account{})
		p.Refused("customers")
		if got := p.Wait("customers", true); got != 24*time.Hour {
			t.Errorf("wait on the day of the refusal: got %v, want 24h, for further tries too", got)
		}
		time.Sleep(24 * time.Hour)
		if got := p.Wait("customers", false); got != 0 {
			t.Errorf("wait on the next day: got %v, want 0", got)
		}
	})
}
