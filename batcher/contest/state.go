package contest

import (
	"slices"

	"github.com/feedsink/feedsink/schemas"
)

// state is one followed key.
type state struct {
	// writes are the key's, in the order of the log, from the first on that may
	// land in another order. Applied in that order they leave the key as it should
	// be, whatever landed before.
	writes []entry
	bytes  int64 // of all that
	row    *At   // newest row of a file on its way, or that has landed

	last  At  // newest write of the other lane
	await *At // newest write of the other lane that is older than row: only once it has landed the key can be sent

	doubt       bool // its file was sealed while await was not known to have landed
	overtaken   bool // the open file holds a row older than a write of the other lane
	taken       bool // a write that was taken is to be sent once the open file has landed
	conflicting bool
	owed        bool   // rows are confirmed for the sake of a write that may not have landed: it must be sent
	version     uint64 // counts what is to be sent
	sent        uint64 // version last sent; 0: none
	sending     bool
	held        bool // a row of it was in error, and it is not decided what becomes of that
	shares      []share
}

// share binds the confirmation of rows that were dropped to that of the write
// they were dropped for.
type share struct {
	fate *Fate
	at   At
}

// contend has the key sent again, whatever was sent before.
func (s *state) contend() {
	s.conflicting = true
	s.version++
}

// add takes a write. A key that is written again and again keeps a few.
func (s *state) add(e entry) {
	const many = 16
	s.writes, s.bytes = append(s.writes, e), s.bytes+e.bytes
	if len(s.writes) < many {
		return
	}
	var kept []entry
	for from, to := 0, 0; from < len(s.writes); from = to {
		first := &s.writes[from]
		for to < len(s.writes) && s.writes[to].open == first.open && (!first.open || s.writes[to].row == first.row) {
			to++
		}
		kept = append(kept, reduce(s.writes[from:to])...)
	}
	for i := range kept {
		if len(kept) < len(s.writes) {
			kept[i].own() // not the texts of all that it was made of
		}
	}
	s.set(kept)
}

// What a key, and a write of it, take beside the write's bytes.
const (
	stateBytes = 256
	entryBytes = 256
)

func (s *state) set(writes []entry) {
	s.writes, s.bytes = writes, stateBytes
	for i := range writes {
		s.bytes += writes[i].bytes
	}
}

// trim forgets, of the file that is about to be sent, what has landed before it, and
// then the rows that it begins with for the key: whatever is sent for the key builds
// on them. The former are known to nobody who adopts the file, so that a key's newest
// state must not be made of them: were only some of its calls carried out, the next
// owner would send another state, which lacks what those had deleted.
func (s *state) trim(confirmed func(At) bool) {
	n := 0
	for n < len(s.writes) && !s.writes[n].open && (s.writes[n].landed || !s.writes[n].ours() && !s.writes[n].behind) && s.writes[n].safe(confirmed) {
		n++
	}
	for n < len(s.writes) && !s.writes[n].open && s.writes[n].row && s.writes[n].other == nil && len(s.writes[n].taken) == 0 {
		n++
	}
	if n > 0 {
		s.set(slices.Clone(s.writes[n:]))
	}
}

// safe reports whether nothing of the other lane that shows in it can land any more.
func (e *entry) safe(confirmed func(At) bool) bool { return e.other == nil || confirmed(*e.other) }

// landed are the writes, reduced, without what belongs to the open file.
func (s *state) landed() []entry {
	return reduce(slices.DeleteFunc(slices.Clone(s.writes), func(e entry) bool { return e.open }))
}

// drop forgets what belongs to the open file.
func (s *state) drop() {
	s.set(slices.DeleteFunc(s.writes, func(e entry) bool { return e.open }))
	s.overtaken, s.taken = false, false
}

// seal makes the rows of the open file rows of one on its way, and so what was taken
// with them. It reports whether there are any.
func (s *state) seal() (rows bool) {
	for i := range s.writes {
		s.writes[i].newer = false
		if e := &s.writes[i]; e.open {
			e.open, rows = false, true
			s.wait(e)
		}
	}
	return rows
}

func (s *state) release(known func(At) bool) {
	s.shares = slices.DeleteFunc(s.shares, func(sh share) bool { return known(sh.at) })
}

func (s *state) shared(fate *Fate) bool {
	return slices.ContainsFunc(s.shares, func(sh share) bool { return sh.fate == fate })
}

// leavesNothing reports whether nothing of what was there before is left by the
// reduced writes.
func leavesNothing(reduced []entry) bool {
	return len(reduced) > 0 && whole(&reduced[0].Write) && (!reduced[0].row || reduced[0].Op == schemas.Delete)
}
