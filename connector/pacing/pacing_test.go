package pacing

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/slots"
	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/clock"
)

// account is a record of slots in memory.
type account struct {
	used []time.Time
	ack.Attempts
}

func (a *account) HasSlot(_, table, file string, attempt int, at time.Time) bool {
	return len(a.Lacks(table, ack.Import{File: file, Attempt: attempt}, []time.Time{at}, nil)) == 0
}

func (a *account) Slots(string, string) ([]time.Time, bool) { return a.used, true }

func (a *account) FillSlots(_, _ string, at []time.Time) { a.used = append(a.used, at...) }

func threeADay(a *account) *Pacer {
	a.Attempts = ack.Attempts{}
	return New(a, clock.New(nil, nil), map[string]*Table{
		"customers": {Plan: slots.Plan{PerDay: 3, Zone: time.UTC, Every: time.Hour}, Name: "customers", Topic: "crm"},
	})
}

func TestAnImportByHandTakesASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := threeADay(&account{})
		p.Took("customers")
		if left, _ := p.Remaining("customers"); left != 2 {
			t.Errorf("slots left: got %d, want 2", left)
		}
	})
}

// slowly is a record of slots that is read so slowly that requests overlap.
type slowly struct {
	*ledger
	mu sync.Mutex
}

func (s *slowly) Slots(home, table string) ([]time.Time, bool) {
	s.mu.Lock()
	used, ok := s.ledger.Slots(home, table)
	s.mu.Unlock()
	time.Sleep(50 * time.Millisecond)
	return used, ok
}

func (s *slowly) FillSlots(home, table string, at []time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.FillSlots(home, table, at)
}

func TestImportsByHandAtOnceDoNotShareTheLastSlot(t *testing.T) {
	l := &slowly{ledger: &ledger{}}
	p := New(l, clock.New(nil, nil), map[string]*Table{
		"customers": {Plan: slots.Plan{PerDay: 1, Zone: time.FixedZone("far from midnight", (12-time.Now().UTC().Hour())*60*60), Every: time.Hour}, Name: "customers", Topic: "crm"},
	})
	var took atomic.Int32
	var requests sync.WaitGroup
	for range 3 {
		requests.Go(func() {
			if p.Took("customers") {
				took.Add(1)
			}
		})
	}
	requests.Wait()
	if took.Load() != 1 {
		t.Errorf("got %d imports, want the one that was left", took.Load())
	}
}

// The service had no time for a file that has the day's last slot.
func TestAttemptThatHasASlotWaitsForNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it begins at midnight
		a := &account{}
		p := threeADay(a)
		first, second := &contract.Import{File: "a.csv.gz", Attempt: 1}, &contract.Import{File: "a.csv.gz", Attempt: 2}
		a.used = slices.Repeat([]time.Time{time.Now()}, 3)
		a.Take("customers", ack.Import{File: "a.csv.gz", Attempt: 1}, []time.Time{time.Now()}, nil)
		want := func(when string, imp *contract.Import, want time.Duration) {
			t.Helper()
			if got := p.Wait("customers", imp, true); got != want {
				t.Errorf("%s: got a wait of %v, want %v", when, got, want)
			}
		}
		want("the attempt that took the last slot", first, 0)
		want("the next one", second, 24*time.Hour)
		want("another file", nil, 24*time.Hour)
		time.Sleep(24 * time.Hour)
		a.used = append(a.used, slices.Repeat([]time.Time{time.Now()}, 3)...)
		want("the same attempt on the next day, which is used up", first, 24*time.Hour)
		time.Sleep(24 * time.Hour)
		a.Take("customers", ack.Import{File: "a.csv.gz", Attempt: 1}, []time.Time{time.Now()}, nil)
		p.Refused("customers", time.Time{})
		want("after the service's word that the day is used up", first, 24*time.Hour)
	})
}

func TestRefusalUsesTheDayUpAndTheNextGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := threeADay(&account{})
		p.Refused("customers", time.Time{})
		if got := p.Wait("customers", nil, true); got != 24*time.Hour {
			t.Errorf("wait on the day of the refusal: got %v, want 24h, for further tries too", got)
		}
		time.Sleep(24 * time.Hour)
		if got := p.Wait("customers", nil, false); got != 0 {
			t.Errorf("wait on the next day: got %v, want 0", got)
		}
	})
}

func TestRefusalIsAboutTheDayOfTheServicesClock(t *testing.T) {
	for name, tc := range map[string]struct {
		now, at    time.Duration // after a midnight by our clock, and by the service's
		wait       time.Duration
		left, next int // slots of our day, and of the next one
	}{
		"its day is ours":                  {12 * time.Hour, 12*time.Hour + time.Minute, 15 * time.Minute, 0, 3},
		"it ends soon":                     {24*time.Hour - time.Minute, 24*time.Hour - time.Minute, time.Minute, 0, 3},
		"a clock behind, amid the day":     {12 * time.Hour, 11 * time.Hour, 15 * time.Minute, 0, 3},
		"a clock behind, over midnight":    {2 * time.Second, -4 * time.Second, 4 * time.Second, 3, 3},
		"a clock days behind":              {12 * time.Hour, -47 * time.Hour, 15 * time.Minute, 0, 3},
		"a clock ahead, over midnight":     {24*time.Hour - time.Minute, 24*time.Hour + time.Minute, 15 * time.Minute, 3, 0},
		"a clock further ahead than a day": {12 * time.Hour, 60 * time.Hour, 15 * time.Minute, 0, 3},
	} {
		synctest.Test(t, func(t *testing.T) { // it begins at midnight
			a, midnight := &account{}, time.Now()
			p := threeADay(a)
			time.Sleep(tc.now)
			imp := ack.Import{File: "a.csv.gz", Attempt: 1}
			a.Take("customers", imp, []time.Time{time.Now()}, nil)
			if wait := p.Refused("customers", midnight.Add(tc.at)); wait != tc.wait {
				t.Errorf("%s: got wait %v, want %v", name, wait, tc.wait)
			}
			if goesOn := p.Wait("customers", &contract.Import{File: imp.File, Attempt: 1}, true) == 0; goesOn != (tc.left > 0) {
				t.Errorf("%s: the attempt that has a slot of today goes on: got %t, want %t", name, goesOn, tc.left > 0)
			}
			left, _ := p.Remaining("customers")
			time.Sleep(24 * time.Hour)
			if next, _ := p.Remaining("customers"); left != tc.left || next != tc.next {
				t.Errorf("%s: got %d slots left and %d of the next day, want %d and %d", name, left, next, tc.left, tc.next)
			}
		})
	}
}

// ledger is a record of slots as members have it.
type ledger struct{ ack.Ledger }

func (l *ledger) Slots(_, table string) ([]time.Time, bool) { return l.UsedSlots(table), true }

func (*ledger) HasSlot(string, string, string, int, time.Time) bool { return false }

func (l *ledger) FillSlots(_, table string, at []time.Time) { l.UseSlots(table, at) }

func TestRefusalLeavesYesterdaysSlotsWhereTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokyo := time.FixedZone("Tokyo", 9*60*60)
		l := &ledger{}
		p := New(l, clock.New(nil, nil), map[string]*Table{
			"customers": {Plan: slots.Plan{PerDay: 12, Zone: tokyo, Every: time.Hour}, Name: "customers", Topic: "crm"},
		})
		time.Sleep(27 * time.Hour) // noon there
		midnight := time.Now().Add(-12 * time.Hour).In(tokyo)
		l.UseSlots("customers", slices.Repeat([]time.Time{midnight.Add(-time.Hour)}, 12))
		l.UseSlots("customers", []time.Time{midnight.Add(time.Hour), midnight.Add(8 * time.Hour)})
		p.Refused("customers", time.Now().UTC())
		today := slices.DeleteFunc(l.UsedSlots("customers"), func(at time.Time) bool { return !slots.SameDay(at, time.Now(), tokyo) })
		if len(today) != 12 || len(l.UsedSlots("customers")) != 24 {
			t.Errorf("got %d slots of today, of %d, want 12 of 24", len(today), len(l.UsedSlots("customers")))
		}
	})
}

// machine is a clock that can be moved: what it shows is the bubble's time and this.
type machine struct{ off time.Duration }

func (m *machine) wall() time.Time { return time.Now().Add(m.off) }

// movable is a table with three imports a day, none in reserve, at noon of 1
// January 2000.
func movable() (*Pacer, *account, *machine) {
	time.Sleep(12 * time.Hour) // the bubble begins at midnight
	a, m := &account{}, &machine{}
	p := threeADay(a)
	p.clock = clock.New(m.wall, nil)
	p.clock.Candidates()
	return p, a, m
}

// use has the table make the imports that it may, a second apart, and counts them
// on the day that it really is.
func use(p *Pacer, days map[int]int) {
	for p.Wait("customers", nil, true) == 0 {
		p.Took("customers")
		days[time.Now().UTC().YearDay()]++
		time.Sleep(time.Second)
	}
}

func TestAMovedClockOpensNoFurtherSlots(t *testing.T) {
	for name, moves := range map[string][]struct{ at, off time.Duration }{
		"an hour back":                    {{time.Hour, -time.Hour}},
		"an hour back, over midnight":     {{12*time.Hour + 10*time.Minute, -time.Hour}},
		"and set right again":             {{12*time.Hour + 10*time.Minute, -time.Hour}, {14 * time.Hour, 0}},
		"a day on":                        {{time.Hour, 24 * time.Hour}},
		"a day on and set right again":    {{time.Hour, 24 * time.Hour}, {3 * time.Hour, 0}},
		"years on and set right again":    {{time.Hour, 40_000 * time.Hour}, {3 * time.Hour, 0}},
		"to and fro, and never right":     {{time.Hour, 24 * time.Hour}, {3 * time.Hour, -48 * time.Hour}, {5 * time.Hour, time.Hour}},
		"a day on, once slots are in use": {{time.Minute, 24 * time.Hour}, {2 * time.Minute, 0}, {3 * time.Minute, 24 * time.Hour}, {4 * time.Minute, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, _, m := movable()
				begun, days := time.Now(), map[int]int{}
				for minute := range 6 * 24 * 60 {
					for _, move := range moves {
						if time.Duration(minute)*time.Minute == move.at {
							m.off = move.off
						}
					}
					if minute != 0 || name != "a day on, once slots are in use" {
						use(p, days)
					}
					time.Sleep(time.Until(begun.Add(time.Duration(minute+1) * time.Minute)))
				}
				for day, n := range days {
					// Once a clock that stays wrong is believed, a day later, its midnight is another.
					if right := moves[len(moves)-1].off == 0; n > 3 && (right || day == 1) {
						t.Errorf("day %d: got %d imports, want at most 3", day, n)
					}
				}
				if days[1] != 3 || days[4]+days[5]+days[6] < 6 {
					t.Errorf("got %v imports by day, want all of the first day's, and no day lost for long", days)
				}
			})
		})
	}
}

func TestAClockThatStaysMovedIsBelievedAfterADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, m := movable()
		m.off = 48 * time.Hour
		if got := len(p.clock.Candidates()); got != 2 {
			t.Errorf("moments right after it was moved: got %d, want 2", got)
		}
		time.Sleep(clock.Trust)
		if got := p.clock.Candidates(); len(got) != 1 || !got[0].Equal(m.wall()) {
			t.Errorf("moments a day later: got %v, want what it shows", got)
		}
		m.off += 30 * time.Second
		if got := p.clock.Candidates(); len(got) != 1 {
			t.Errorf("moments after half a minute's correction: got %v, want one", got)
		}
	})
}
