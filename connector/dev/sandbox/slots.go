package sandbox

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

// slots counts the imports that were accepted, per table and calendar day of
// Config.Location.
type slots struct {
	mu   sync.Mutex
	used map[slotDay]int
}

type slotDay struct {
	table string
	day   string // yyyy-MM-dd
}

// SlotsUsed tells how many imports of a table were accepted on the calendar
// day of a moment.
func (s *Sandbox) SlotsUsed(table string, moment time.Time) int {
	s.slots.mu.Lock()
	defer s.slots.mu.Unlock()
	return s.slots.used[slotDay{table, moment.In(s.conf.Location).Format(time.DateOnly)}]
}

// SlotDays tells how many imports of a table were accepted on each day that
// had any, by yyyy-MM-dd.
func (s *Sandbox) SlotDays(table string) map[string]int {
	s.slots.mu.Lock()
	defer s.slots.mu.Unlock()
	days := map[string]int{}
	for day, n := range s.slots.used {
		if day.table == table {
			days[day.day] = n
		}
	}
	return days
}

// takeSlots uses one slot of each table, or none and a refusal when one of them has
// none left. The document names the limit only; Shapes.NoSlot chooses the answer.
func (s *Sandbox) takeSlots(loads []Load) error {
	now := s.conf.Now().In(s.conf.Location)
	today := now.Format(time.DateOnly)
	var tables []string
	for _, l := range loads {
		if !slices.Contains(tables, l.Table) { // one import, however many of its files
			tables = append(tables, l.Table)
		}
	}
	s.slots.mu.Lock()
	defer s.slots.mu.Unlock()
	for _, name := range tables {
		limit := s.tables[name].conf.SlotsPerDay
		if s.slots.used[slotDay{name, today}] >= limit {
			year, month, day := now.Date()
			tomorrow := time.Date(year, month, day+1, 0, 0, 0, 0, s.conf.Location)
			return s.conf.Shapes.NoSlot.refusal(name, limit, tomorrow.Sub(now))
		}
	}
	for _, name := range tables {
		s.slots.used[slotDay{name, today}]++
	}
	return nil
}

// refusal is the answer to an import beyond the limit.
func (n NoSlotShape) refusal(table string, limit int, wait time.Duration) *refusedError {
	r := refuse(http.StatusTooManyRequests, "no import slot left for table %s today: %d of %d used", table, limit, limit).as("NO_SLOT_LEFT")
	switch n {
	case NoSlotText:
	case NoSlotHeader:
		r.retryAfter, r.bare = wait, true
	case NoSlot403:
		r.status = http.StatusForbidden
	default:
		r.retryAfter = wait
	}
	return r
}
