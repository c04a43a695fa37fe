package plan

import (
	"maps"
	"slices"
	"time"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/batcher/slots"
	"github.com/feedsink/feedsink/schemas"
)

// rows came in one minute.
type rows struct {
	minute   int64 // since 1970
	callable int64
	fileOnly int64 // that no auto route would call
	spared   int64 // of callable, that the mapping's unchanged: skip spares
	ops      [schemas.OpsEnd]bool
}

// waiting are rows that wait, oldest first.
type waiting struct {
	parts []rows
	n     int64
}

// push adds n rows, but no more than most: what is beyond has merged into those that wait.
func (w *waiting) push(r rows, n, most int64) {
	if n = min(n, most); n > 0 {
		r.callable, r.fileOnly = n, 0
		w.parts, w.n = append(w.parts, r), w.n+n
	}
}

// take takes out the n oldest rows.
func (w *waiting) take(n int64) (taken []rows) {
	for n = min(n, w.n); n > 0; {
		part := w.parts[0]
		part.callable = min(part.callable, n)
		taken, n, w.n = append(taken, part), n-part.callable, w.n-part.callable
		if w.parts[0].callable -= part.callable; w.parts[0].callable == 0 {
			w.parts = w.parts[1:]
		}
	}
	return taken
}

// first is when the oldest came; now if there is none.
func (w *waiting) first(now int64) int64 {
	if len(w.parts) == 0 {
		return now
	}
	return w.parts[0].minute
}

// simulation plays what one lane makes of rows, minute by minute of the time in which they
// came. What it takes for granted stands at Lanes.
type simulation struct {
	lane           string
	callsAMinute   float64 // 0: no limit
	keys           int64   // that there are
	age, within    time.Duration
	at             []time.Duration
	most, mostFile int64 // rows of an open file, and of one that is sent; 0: any number
	slots          slots.Plan

	calling, open waiting // for a call, and in the open file
	credit        float64 // calls that the rate allows
	running       []rows
	ends          int64 // of the import that runs
	opsLeft       int   // of its file, for which imports follow
	noSlot        int64 // before this minute
	used          []time.Time

	minutes int64            // from the first row that came to the last
	behind  int64            // minutes that the oldest row was old that had not landed, summed over all minutes
	ages    map[int64]int64  // rows by the minutes that they were old when they had landed
	byFile  map[string]int64 // rows by the day on which they came
	calls   map[string]int64 // by the day on which they were made
	imports map[string]int64
}

// mostMinutes is how long is waited for rows to land after the last one came.
const mostMinutes = 366 * 24 * 60

// run plays all of it and reports how many rows have not landed after mostMinutes.
func (s *simulation) run(came []rows) (left int64) {
	s.ages, s.byFile, s.calls, s.imports = map[int64]int64{}, map[string]int64{}, map[string]int64{}, map[string]int64{}
	last := came[len(came)-1].minute
	s.minutes = last - came[0].minute + 1
	s.slots.Expected = s.expected(came)
	for now := came[0].minute; len(came) > 0 || s.busy(); now++ {
		if !s.busy() {
			now = came[0].minute
		}
		if now > last+mostMinutes {
			left = s.calling.n + s.open.n
			s.landed(now, s.running)
			s.landed(now, s.calling.take(s.calling.n))
			s.landed(now, s.open.take(s.open.n))
			return left
		}
		if len(came) > 0 && came[0].minute == now {
			s.arrive(came[0])
			came = came[1:]
		}
		s.call(now)
		s.file(now)
		if s.busy() {
			s.behind += now - s.oldest(now)
		}
	}
	return 0
}

// expected is what the whole days tell that rows came on: a sink learns it from the week before.
func (s *simulation) expected(came []rows) *slots.Expected {
	first, last := s.day(came[0].minute), s.day(came[len(came)-1].minute)
	days := map[string]*[slots.Quarters]int64{}
	for _, r := range came {
		on := s.day(r.minute)
		if on == first || on == last {
			continue
		}
		if days[on] == nil {
			days[on] = new([slots.Quarters]int64)
		}
		days[on][slots.Quarter(time.Unix(r.minute*60, 0).In(s.slots.Zone))] += r.callable + r.fileOnly
	}
	var whole [][slots.Quarters]int64
	for _, day := range days {
		whole = append(whole, *day)
	}
	return slots.Expect(whole)
}

func (s *simulation) busy() bool { return s.calling.n+s.open.n > 0 || len(s.running) > 0 }

// oldest is when the oldest row came that has not landed, at most now.
func (s *simulation) oldest(now int64) int64 {
	running := waiting{parts: s.running}
	return min(s.calling.first(now), s.open.first(now), running.first(now))
}

func (s *simulation) arrive(r rows) {
	callable, byFile := r.callable, r.fileOnly
	switch s.lane {
	case immediate:
		s.calling.push(r, callable+byFile, s.keys-s.calling.n)
		return
	case batch:
		callable, byFile = 0, callable+byFile
	}
	room := max(batcher.MaxWaiting-s.calling.n, 0)
	s.calling.push(r, callable, min(room, s.keys-s.calling.n-s.open.n))
	s.open.push(r, byFile+max(callable-room, 0), s.keys-s.calling.n-s.open.n)
}

// call makes the minute's calls.
func (s *simulation) call(now int64) {
	n := s.calling.n
	if s.callsAMinute > 0 {
		s.credit = min(s.credit+s.callsAMinute, max(s.callsAMinute, 1))
		n = int64(min(float64(n), s.credit))
		s.credit -= float64(n)
	}
	if n > 0 {
		s.calls[s.day(now)] += n
		s.landed(now, s.calling.take(n))
	}
}

// file ends the import that runs, and begins one as soon as a file is due and has a slot.
func (s *simulation) file(now int64) {
	if len(s.running) > 0 {
		if now < s.ends {
			return
		}
		if s.opsLeft > 0 {
			if s.slot(now, true) {
				s.opsLeft--
			}
			return
		}
		for _, r := range s.running {
			s.byFile[s.day(r.minute)] += r.callable
		}
		s.landed(now, s.running)
		s.running = nil
	}
	if s.lane == immediate || !s.due(now) || !s.slot(now, false) {
		return
	}
	most := s.mostFile
	if most == 0 {
		most = s.calling.n + s.open.n
	}
	s.running = s.open.take(most)
	for _, r := range s.running {
		most -= r.callable
	}
	s.running = append(s.running, s.calling.take(most)...)
	var ops [schemas.OpsEnd]bool
	s.opsLeft = -1
	for _, r := range s.running {
		for op, is := range r.ops {
			if is && !ops[op] {
				ops[op], s.opsLeft = true, s.opsLeft+1
			}
		}
	}
}

// slot begins an import if it may.
func (s *simulation) slot(now int64, further bool) bool {
	if now < s.noSlot {
		return false
	}
	at := time.Unix(now*60, 0)
	if wait := s.slots.Wait(at, s.used, further); wait > 0 {
		s.noSlot = now + max(int64(wait/time.Minute), 1)
		return false
	}
	for len(s.used) > 0 && at.Sub(s.used[0]) > 2*day {
		s.used = s.used[1:]
	}
	s.used = append(s.used, at)
	s.imports[s.day(now)]++
	s.ends, s.noSlot = now+int64(batcher.UsualImport/time.Minute), 0
	return true
}

// due reports whether the open file, and what waits for calls, is complete.
func (s *simulation) due(now int64) bool {
	n := s.calling.n + s.open.n
	if n == 0 {
		return false
	}
	opened, at := time.Unix(min(s.calling.first(now), s.open.first(now))*60, 0), time.Unix(now*60, 0)
	if next := slots.Next(s.at, s.slots.Zone, opened); !next.IsZero() && !next.After(at) {
		return true
	}
	soon := soon(s.within)
	old := at.Sub(opened)
	return s.most > 0 && n >= s.most || s.age > 0 && old >= s.age || s.within > 0 && old >= soon
}

func (s *simulation) landed(now int64, all []rows) {
	for _, r := range all {
		s.ages[now-r.minute] += r.callable
	}
}

func (s *simulation) day(minute int64) string {
	return time.Unix(minute*60, 0).In(s.slots.Zone).Format(time.DateOnly)
}

// choice is what has come of it.
func (s *simulation) choice(left int64) Choice {
	c := Choice{Lane: s.lane, Left: left}
	for _, n := range s.calls {
		c.Calls, c.CallsDay = c.Calls+n, max(c.CallsDay, n)
	}
	for _, n := range s.imports {
		c.Imports, c.SlotsDay = c.Imports+n, max(c.SlotsDay, n)
	}
	for _, n := range s.byFile {
		c.ByFile += n
	}
	total, minutes := int64(0), int64(0)
	for age, n := range s.ages {
		total, minutes = total+n, minutes+age*n
	}
	c.RowHours, c.behind = float64(minutes)/60, float64(s.behind)/float64(s.minutes)
	younger := int64(0)
	for _, age := range slices.Sorted(maps.Keys(s.ages)) {
		if younger*100 < total*99 {
			c.P99 = time.Duration(age) * time.Minute
		}
		c.Oldest, younger = time.Duration(age)*time.Minute, younger+s.ages[age]
	}
	for date, n := range s.byFile {
		if n > c.dayRows || n == c.dayRows && date < c.dayByFile {
			c.dayByFile, c.dayRows = date, n
		}
	}
	return c
}
