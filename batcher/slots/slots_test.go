package slots_test

import (
	"testing"
	"time"

	"github.com/feedsink/feedsink/batcher/slots"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// simulate uses slots as soon as they may be used, from one moment to another.
func simulate(s slots.Plan, from, to time.Time) (used []time.Time) {
	for now := from; now.Before(to); {
		wait := s.Wait(now, used[max(0, len(used)-50):], false) // older ones are of other days
		if wait == 0 {
			used = append(used, now)
			wait = time.Second
		}
		now = now.Add(wait)
	}
	return used
}

// expectations are what a day may bring: unknown, all in office hours, all at half past two.
func expectations() []*slots.Expected {
	var office, dump [slots.Quarters]int64
	for i := 9 * 4; i < 17*4; i++ {
		office[i] = 1000
	}
	office[3], dump[10] = 1, 1000
	return []*slots.Expected{nil, slots.Expect([][slots.Quarters]int64{office}), slots.Expect([][slots.Quarters]int64{dump, dump, {}})}
}

func TestNoDaySeesMoreImportsThanItsSlots(t *testing.T) {
	// A year holds both changes of the clock, and these weeks hold one.
	for _, name := range []string{"UTC", "Europe/Brussels", "America/Santiago", "Asia/Kathmandu"} {
		noDaySeesMore(t, name, nil, "2026-01-01", 365)
	}
	noDaySeesMore(t, "Europe/Brussels", expectations()[1], "2026-03-22", 14)
	noDaySeesMore(t, "America/Santiago", expectations()[2], "2026-08-30", 14)
}

func noDaySeesMore(t *testing.T, name string, expected *slots.Expected, first string, want int) {
	t.Helper()
	z := zone(t, name)
	begin, err := time.ParseInLocation(time.DateOnly, first, z)
	if err != nil {
		t.Fatal(err)
	}
	s := slots.Plan{PerDay: 12, Reserve: 2, Zone: z, Every: 2 * time.Hour, Expected: expected}
	used := simulate(s, begin.Add(7*time.Hour), begin.AddDate(0, 0, want))
	days := map[string]int{}
	for _, u := range used {
		days[u.In(z).Format(time.DateOnly)]++
	}
	if len(days) != want {
		t.Errorf("%s: days with imports: got %d, want %d", name, len(days), want)
	}
	for day, n := range days {
		if n > 10 {
			t.Errorf("%s: %s: got %d imports, want at most 10 of 12 with 2 in reserve", name, day, n)
		}
		if n < 9 && day != first {
			t.Errorf("%s: %s: got %d imports, want the day's slots used", name, day, n)
		}
	}
}

func TestScarceSlotsAreSpreadOverTheDay(t *testing.T) {
	z := time.UTC
	s := slots.Plan{PerDay: 4, Reserve: 0, Zone: z, Every: time.Hour}
	start := time.Date(2026, 5, 5, 0, 0, 0, 0, z)
	used := simulate(s, start, start.Add(24*time.Hour))
	if len(used) != 4 || !used[0].Equal(start) {
		t.Fatalf("imports: got %v, want 4, the first at once", used)
	}
	for i := 1; i < len(used); i++ {
		if gap := used[i].Sub(used[i-1]); gap < 5*time.Hour {
			t.Errorf("gap before import %d: got %v, want at least 5h", i+1, gap)
		}
	}
}

func TestSlotsNobodyCanWantAreNotHeldBack(t *testing.T) {
	s := slots.Plan{PerDay: 1000, Reserve: 2, Zone: time.UTC, Every: time.Second}
	now := time.Date(2026, 5, 5, 12, 0, 0, 0, time.UTC)
	if got := s.Wait(now, []time.Time{now.Add(-time.Second)}, false); got != 0 {
		t.Errorf("wait with 999 slots left: got %v, want 0", got)
	}
}

func TestReserveIsForFurtherTries(t *testing.T) {
	s := slots.Plan{PerDay: 3, Reserve: 1, Zone: time.UTC, Every: time.Hour}
	now := time.Date(2026, 5, 5, 20, 0, 0, 0, time.UTC)
	used := []time.Time{now.Add(-3 * time.Hour), now.Add(-2 * time.Hour)}
	if got := s.Wait(now, used, false); got != 4*time.Hour {
		t.Errorf("a new file with only the reserve left: got %v, want 4h, the next day", got)
	}
	if got := s.Wait(now, used, true); got != 0 {
		t.Errorf("a further try: got %v, want 0", got)
	}
	used = append(used, now)
	if got := s.Wait(now, used, true); got != 4*time.Hour {
		t.Errorf("a further try with no slot left: got %v, want 4h", got)
	}
	if got := s.Remaining(now, used); got != 0 {
		t.Errorf("remaining: got %d, want 0", got)
	}
}

func TestDaysFollowTheClockOfTheZone(t *testing.T) {
	z := zone(t, "Europe/Brussels")
	s := slots.Plan{PerDay: 1, Zone: z, Every: time.Hour}
	for day, want := range map[string]time.Duration{"2026-03-29": 23 * time.Hour, "2026-10-25": 25 * time.Hour, "2026-06-01": 24 * time.Hour} {
		start, err := time.ParseInLocation(time.DateOnly, day, z)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Wait(start, []time.Time{start}, false); got != want {
			t.Errorf("%s: the next day begins after %v, want %v", day, got, want)
		}
	}
}

const halfPastSix, halfPastTwo = 6*time.Hour + 30*time.Minute, 2*time.Hour + 30*time.Minute

// TestTimesOfDayAreMetOnceADay: where the clock leaves a time out, the first instant
// behind the gap stands for it; where it shows a time twice, the first.
func TestTimesOfDayAreMetOnceADay(t *testing.T) {
	for _, c := range []struct {
		zone, after, want string
		at                time.Duration
	}{
		{"Europe/Paris", "2026-03-27T12:00:00+01:00", "2026-03-28T02:30:00+01:00", halfPastTwo},
		{"Europe/Paris", "2026-03-28T12:00:00+01:00", "2026-03-29T03:00:00+02:00", halfPastTwo}, // it does not exist
		{"Europe/Paris", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00", halfPastTwo}, // and was met
		{"Europe/Paris", "2026-10-25T00:00:00+02:00", "2026-10-25T02:30:00+02:00", halfPastTwo}, // it comes twice
		{"Europe/Paris", "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00", halfPastTwo}, // and was met
		{"Europe/Paris", "2026-10-25T02:29:00+01:00", "2026-10-26T02:30:00+01:00", halfPastTwo}, // also before its second
		{"America/Santiago", "2026-09-05T12:00:00-04:00", "2026-09-06T01:00:00-03:00", 0},       // midnight does not exist
		{"Pacific/Apia", "2011-12-29T12:00:00-10:00", "2011-12-31T00:00:00+14:00", halfPastSix}, // nor the day
		{"Asia/Kathmandu", "2026-05-05T06:29:59+05:45", "2026-05-05T06:30:00+05:45", halfPastSix},
	} {
		after, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		got := slots.Next([]time.Duration{c.at}, zone(t, c.zone), after)
		if got := got.In(zone(t, c.zone)).Format(time.RFC3339); got != c.want {
			t.Errorf("%s: next %v after %s: got %s, want %s", c.zone, c.at, c.after, got, c.want)
		}
	}
	if got := slots.Next(nil, time.UTC, time.Now()); !got.IsZero() {
		t.Errorf("without times: got %v, want none", got)
	}
}

// TestSlotsAreKeptForTimesOfDay: whatever wants them before, each time of day finds a
// slot, and uses it at once.
func TestSlotsAreKeptForTimesOfDay(t *testing.T) {
	for _, expected := range expectations() {
		slotsAreKept(t, expected)
	}
}

func slotsAreKept(t *testing.T, expected *slots.Expected) {
	t.Helper()
	z := zone(t, "Europe/Paris")
	s := slots.Plan{PerDay: 5, Reserve: 1, Zone: z, Every: time.Hour, At: []time.Duration{18 * time.Hour, halfPastTwo}, Expected: expected}
	begin, end := time.Date(2026, 1, 1, 0, 0, 0, 0, z), time.Date(2027, 1, 1, 0, 0, 0, 0, z)
	if expected != nil {
		begin, end = time.Date(2026, 3, 22, 0, 0, 0, 0, z), time.Date(2026, 4, 5, 0, 0, 0, 0, z)
	}
	used := simulate(s, begin, end)
	begun := map[int64]bool{}
	days := map[string]int{}
	for _, u := range used {
		begun[u.Unix()] = true
		days[u.In(z).Format(time.DateOnly)]++
	}
	for day, n := range days {
		if n != 4 {
			t.Errorf("%s: got %d imports, want 4: those of 5 slots that are not in reserve", day, n)
		}
	}
	for at := begin; ; {
		if at = slots.Next(s.At, z, at); !at.Before(end) {
			break
		}
		if !begun[at.Unix()] {
			t.Errorf("%v: got no import, want one at once", at)
		}
	}
	now := time.Date(2026, 5, 5, 1, 0, 0, 0, z)
	three := []time.Time{now.Add(-3 * time.Minute), now.Add(-2 * time.Minute), now.Add(-time.Minute)}
	if got, want := s.Wait(now, three, true), 90*time.Minute; got != want {
		t.Errorf("a further try with two slots left, both kept: got a wait of %v, want %v, until the first of them", got, want)
	}
}
