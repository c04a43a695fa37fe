package ack

import (
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	"github.com/feedsink/feedsink/batcher/slots"
)

// maxSlots bounds what a damaged ledger could make of a few bytes.
const maxSlots = 1 << 20

// Slots is when a table's imports of one calendar day were triggered.
type Slots struct {
	Table string
	Used  []int64 // Unix seconds, ascending
}

// quarter is what the times of earlier uses are rounded to, in seconds: calendar
// days begin on a quarter of an hour in every zone, so that a use stays on its
// day, and any number of uses takes a bounded room in the ledger.
const quarter = 15 * 60

// slotMemory is for how long the use of a slot is remembered: longer than any
// calendar day, wherever it begins.
const slotMemory = 50 * time.Hour

// UseSlots notes uses at these times, of the table's time zone, those of one time
// together. What is further from them than any calendar day is forgotten: it was long
// ago, or a clock that was wrong has said it.
func (l *Ledger) UseSlots(table string, at []time.Time) {
	if len(at) == 0 {
		return
	}
	of := l.slotsOf(table)
	used := within(of.Used, at)
	for i, u := range used {
		used[i] = u - u%quarter
	}
	joinDaysBefore(used, slices.MinFunc(at, time.Time.Compare))
	for _, t := range at {
		used = append(used, t.Unix())
	}
	slices.Sort(used) // a clock may have been moved back
	of.Used = used
}

// Attempts are, by table, the last attempt to send a file and when it took slots.
type Attempts map[string]attempt

type attempt struct {
	file   string
	number int
	took   []time.Time
	named  bool // the service has named its execution
}

// of is what the import's attempt took of the table's slots, as far as it is the last one.
func (a Attempts) of(table string, im Import) attempt {
	if last := a[table]; last.file == im.File && last.number == im.Attempt {
		return last
	}
	return attempt{file: im.File, number: im.Attempt}
}

// Lacks returns the times on whose days the import's attempt has taken no slot of the table. One
// that was refused on a day is sent on the next. A day is there twice where the attempt before it
// has none there but one of the day before, and whether it was accepted is not known: it may have
// been after midnight. used are the table's uses, which tell of an attempt of a former owner.
func (a Attempts) Lacks(table string, im Import, at, used []time.Time) []time.Time {
	lacked := daysWithout(a.of(table, im).took, at)
	switch before := a[table]; {
	case before.number == 0 && im.Attempt > 1:
		lacked = append(lacked, daysAfter(used, at)...)
	case before.file == im.File && before.number < im.Attempt && !before.named:
		lacked = append(lacked, daysAfter(before.took, at)...)
	}
	return lacked
}

// daysWithout are the times on whose days none was taken.
func daysWithout(took, at []time.Time) []time.Time {
	return slices.DeleteFunc(slices.Clone(at), func(day time.Time) bool { return onDay(took, day) })
}

// daysAfter are those of them that follow a day on which one was taken.
func daysAfter(took, at []time.Time) []time.Time {
	return slices.DeleteFunc(daysWithout(took, at), func(day time.Time) bool {
		begins, _ := slots.Day(day, day.Location())
		return !onDay(took, begins.Add(-time.Second))
	})
}

func onDay(took []time.Time, day time.Time) bool {
	return slices.ContainsFunc(took, func(t time.Time) bool { return slots.SameDay(t, day, day.Location()) })
}

// Take is Lacks, and notes that the attempt has slots of the table on these days from now on.
func (a Attempts) Take(table string, im Import, at, used []time.Time) (lacked []time.Time) {
	lacked = a.Lacks(table, im, at, used)
	now := a.of(table, im)
	now.took, now.named = append(now.took, lacked...), now.named || im.State == Running
	a[table] = now
	return lacked
}

// slotsOf is the account of a table's uses, which may be of none.
func (l *Ledger) slotsOf(table string) *Slots {
	i := slices.IndexFunc(l.Slots, func(sl Slots) bool { return sl.Table == table })
	if i < 0 {
		i = len(l.Slots)
		l.Slots = append(l.Slots, Slots{Table: table})
	}
	return &l.Slots[i]
}

// joinDaysBefore has the uses of each calendar day before that of now count as of the time of the
// day's last one, which takes little room. Should the zone be changed, no day has fewer by that.
func joinDaysBefore(used []int64, now time.Time) {
	last := int64(0)
	for i := len(used) - 1; i >= 0; i-- {
		at := time.Unix(used[i], 0)
		switch {
		case !at.Before(now) || slots.SameDay(at, now, now.Location()):
		case last > 0 && slots.SameDay(at, time.Unix(last, 0), now.Location()):
			used[i] = last
		default:
			last = used[i]
		}
	}
}

// within are the uses that may be of the calendar day of one of the times, in a slice of their own.
func within(used []int64, at []time.Time) []int64 {
	first := slices.MinFunc(at, time.Time.Compare).Add(-slotMemory).Unix()
	last := slices.MaxFunc(at, time.Time.Compare).Add(slotMemory).Unix()
	return slices.DeleteFunc(slices.Clone(used), func(u int64) bool { return u < first || u > last })
}

// ForgetSlots takes off what no day counts any more, now being one of the times: a table of
// which no import begins forgets nothing by itself.
func (l *Ledger) ForgetSlots(now []time.Time) {
	var kept []Slots
	for _, sl := range l.Slots {
		if used := within(sl.Used, now); len(used) > 0 {
			kept = append(kept, Slots{sl.Table, used})
		}
	}
	l.Slots = kept
}

// UsedSlots are the table's uses, in order.
func (l *Ledger) UsedSlots(table string) (used []time.Time) {
	for _, sl := range l.Slots {
		if sl.Table == table {
			for _, sec := range sl.Used {
				used = append(used, time.Unix(sec, 0))
			}
		}
	}
	return used
}

// JoinSlots adds what other accounts of tables' uses say.
func (l *Ledger) JoinSlots(others []Slots) {
	l.Slots = slices.Clone(l.Slots)
	for _, other := range others {
		of := l.slotsOf(other.Table)
		of.Used = join(of.Used, other.Used)
	}
}

// join is what two accounts of a table's uses say together. One began as a copy of the other,
// so that a use may be in both, its time rounded in one of them.
func join(a, b []int64) (used []int64) {
	byQuarter := func(all []int64) map[int64][]int64 {
		of := map[int64][]int64{}
		for _, u := range all {
			of[u/quarter] = append(of[u/quarter], u)
		}
		return of
	}
	more := byQuarter(a)
	for q, some := range byQuarter(b) {
		if len(some) > len(more[q]) {
			more[q] = some
		}
	}
	for _, some := range more {
		used = append(used, some...)
	}
	slices.Sort(used)
	return used
}

// executionRoom is what the id of an execution may take, in bytes.
const executionRoom = 48

// Least is how many characters the ledger takes once the executions of all imports are
// known, without what Encode leaves out.
func (l *Ledger) Least(watermark int64) int {
	bytes := len(l.body(watermark, nil, false))
	for _, im := range l.Imports {
		if im.State == Intended && im.Execution == "" {
			bytes += executionRoom
		}
	}
	return characters(bytes)
}

// Lasting is how many of the characters do not become fewer by imports that end and records
// that are confirmed.
func (l *Ledger) Lasting(watermark int64) int {
	rest := *l
	rest.Imports = nil
	return rest.Least(watermark)
}

// characters is how many a ledger takes of so many bytes, its checksum beside them.
func characters(bytes int) int { return len(version) + base64.RawURLEncoding.EncodedLen(bytes+4) }

// tooManySlots says that Decode would not read what is to be written.
func (l *Ledger) tooManySlots() error {
	for _, sl := range l.Slots {
		if len(sl.Used) > maxSlots {
			return fmt.Errorf("%w: table %s has used %d slots, and at most %d are read", ErrTooLarge, sl.Table, len(sl.Used), maxSlots)
		}
	}
	return nil
}
