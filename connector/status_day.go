package connector

import "time"

// DayStatus is a table's calendar day: its slots and what became of them.
type DayStatus struct {
	Zone    string    `json:"zone"` // whose calendar the day follows
	Begins  time.Time `json:"begins"`
	Ends    time.Time `json:"ends"`
	PerDay  int       `json:"perDay"`
	Reserve int       `json:"reserve"` // of these, kept back for further tries
	// Owned says that this process has the table; otherwise another member knows
	// what follows, or nobody yet.
	Owned   bool          `json:"owned"`
	Left    int           `json:"left"`          // the reserve included
	Used    []UsedSlots   `json:"used"`          // in the order of time
	Next    time.Time     `json:"next,omitzero"` // before then no new import begins; zero: one may at once
	Imports []EndedImport `json:"imports"`       // results that this process has seen today, the oldest first
}

// UsedSlots are imports that began in the same second, or long ago, in the same
// quarter of an hour: the ledger rounds.
type UsedSlots struct {
	At    time.Time `json:"at"`
	Count int       `json:"count"`
}

// RollStatus is when an open file is complete: at the first of these.
type RollStatus struct {
	Rows    int64   `json:"rows"`
	Bytes   int64   `json:"bytes"`   // uncompressed
	Seconds float64 `json:"seconds"` // since its first row
}

// day is the calendar day of now: its beginning, and that of the next.
func day(now time.Time, zone *time.Location) (begins, ends time.Time) {
	y, m, d := now.In(zone).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, zone), time.Date(y, m, d+1, 0, 0, 0, 0, zone)
}

// day is how far the mapping's table is with the day's slots.
func (s *Sink) day(mapping string) *DayStatus {
	t, now := s.pacing.tables[mapping], time.Now()
	st := &DayStatus{Zone: t.Zone.String(), PerDay: t.PerDay, Reserve: t.Reserve, Used: []UsedSlots{}}
	st.Begins, st.Ends = day(now, t.Zone)
	st.Imports = s.recent.importsSince(mapping, st.Begins)
	used, ok := s.pacing.used(mapping, now)
	if !ok {
		return st
	}
	st.Owned = true
	st.Left, _ = s.pacing.remaining(mapping)
	for _, at := range used {
		if n := len(st.Used); n > 0 && st.Used[n-1].At.Equal(at) {
			st.Used[n-1].Count++
			continue
		}
		st.Used = append(st.Used, UsedSlots{At: at, Count: 1})
	}
	if wait := s.pacing.Wait(mapping, false); wait > 0 {
		st.Next = now.Add(wait)
	}
	return st
}
