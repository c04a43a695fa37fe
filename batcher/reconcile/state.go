package reconcile

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

	last At // newest write of the other lane
	// others are the other lane's writes, from the oldest on that is not known to be
	// confirmed. A newer one may be confirmed before it: of a record with several writes
	// each may land alone, and those of a key land in order, but only the record is
	// confirmed. After a restart the older one is sent again, and the newer one once more
	// behind it, so that neither has landed for good.
	others []At
	await  *At // newest write of the other lane that is older than row: only once it has landed the key can be sent

	doubt       bool // its file was sealed while await was not known to have landed
	overtaken   int  // the last file that is not sent and holds a row older than a write of the other lane; 0: none
	taken       bool // a write that was taken is to be sent once its file has landed, which is not sent
	conflicting bool
	owed        bool   // rows are confirmed for the sake of a write that may not have landed: it must be sent
	version     uint64 // counts what is to be sent
	sent        uint64 // version last sent; 0: none
	sending     bool
	held        bool // a row of it was in error, and it is not decided what becomes of that
	calling     bool // a call of an older row may land, which is then to be written over
	shares      []share
	dropped     []At // the writes in favour of which rows were dropped of the file that is sent
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

// add takes a write. A key that is written again and again keeps a few: as long as there are not
// many, rows, which may be in error, stay apart from writes of the other lane, and of these stay apart
// those that the service may have refused, or may still refuse, and the newest. Of many the oldest are made one.
func (s *state) add(e entry, refused func(At) bool) {
	const many, most = 4, 12
	s.writes, s.bytes = append(s.writes, e), s.bytes+e.bytes
	if len(s.writes) < many {
		return
	}
	oldest := 0 // of those that are kept apart
	if n := len(s.writes); n >= most {
		oldest = n - most/2
	}
	var kept []entry
	together := func(from, to int) bool {
		one, other := &s.writes[from], &s.writes[to]
		apart := func(e *entry) bool { return !e.ours() && (e.unanswered || refused(e.at)) }
		if to >= oldest && (apart(one) || apart(other) || one.ours() != other.ours() || !other.ours() && to == len(s.writes)-1) {
			return false
		}
		// A patch that may wait for a row stays apart from what brings that back, and from what follows.
		return one.mayWait(s.others) == other.mayWait(s.others) && one.file == other.file && (one.file == 0 || one.row == other.row)
	}
	for from, to := 0, 1; from < len(s.writes); from, to = to, to+1 {
		for to < len(s.writes) && together(from, to) {
			to++
		}
		kept = append(kept, condensed(s.writes[from:to])...)
	}
	for i := range kept {
		if len(kept) < len(s.writes) {
			kept[i].own() // not the texts of all that it was made of
		}
	}
	s.set(kept)
}

// condensed is fewer writes that do the same behind whatever came before them: patches that
// they begin with may find nothing there, and what follows is not made one with these.
func condensed(writes []entry) []entry {
	n := slices.IndexFunc(writes, func(e entry) bool { return e.Op != schemas.Patch })
	if n < 0 {
		n = len(writes)
	}
	return append(reduce(writes[:n]), reduce(writes[n:])...)
}

// What a key, and a write of it, take beside the write's bytes.
const (
	stateBytes = 256
	entryBytes = 256
	atBytes    = 24
)

func (s *state) set(writes []entry) {
	s.writes, s.bytes = writes, stateBytes+atBytes*int64(len(s.others))
	for i := range writes {
		s.bytes += writes[i].bytes
	}
}

// trim forgets, of the file that is about to be sent, what has landed before it, and
// then the rows that it begins with for the key: whatever is sent for the key builds
// on them. The former are not known to who adopts the file, so that a key's newest
// state must not be made of them: were only some of its calls carried out, the next
// owner would send another state, which lacks what those had deleted.
func (s *state) trim(confirmed func(At) bool) {
	n := 0
	for n < len(s.writes) && s.writes[n].file == 0 && (s.writes[n].landed || !s.writes[n].ours() && !s.writes[n].behind) && s.safe(&s.writes[n], confirmed) {
		n++
	}
	for n < len(s.writes) && s.writes[n].file == 0 && s.writes[n].row && s.writes[n].other == nil && len(s.writes[n].taken) == 0 {
		n++
	}
	if n > 0 {
		s.set(slices.Clone(s.writes[n:]))
	}
}

// awaits takes a write of the other lane that may land, or land once more.
func (s *state) awaits(at At) {
	if n := len(s.others); n > 0 && s.others[n-1] == at { // its record is read again
		return
	}
	s.others, s.bytes = append(s.others, at), s.bytes+atBytes
}

// landing are the others, without those that can land no more.
func (s *state) landing(confirmed func(At) bool) []At {
	n := 0
	for n < len(s.others) && confirmed(s.others[n]) {
		n++
	}
	return s.others[n:]
}

// final reports whether the other lane's write at, and all that are older, can land no
// more.
func (s *state) final(at At, confirmed func(At) bool) bool {
	return !slices.Contains(s.landing(confirmed), at) && confirmed(at)
}

// waits reports whether the key can be sent only later: a write of the other lane that
// is older than its row may still land.
func (s *state) waits(confirmed func(At) bool) bool {
	return s.await != nil && !s.final(*s.await, confirmed)
}

// untilPatch are the writes in the table up to the first patch of the other lane that
// may still land; nil: there is none.
func (s *state) untilPatch(confirmed func(At) bool) []entry {
	all := s.inTable()
	return all[:waitingPatch(all, s.landing(confirmed))+1]
}

// waitingPatch is the place of the first patch of the other lane among the writes that may
// still land, and that may wait for a row; -1: there is none.
func waitingPatch(writes []entry, left []At) int {
	return slices.IndexFunc(writes, func(e entry) bool { return e.mayWait(left) })
}

// mayWait reports whether the write is a patch of the other lane that may still land: one of
// those that are left.
func (e *entry) mayWait(left []At) bool {
	return !e.row && e.file == 0 && e.Op == schemas.Patch && slices.Contains(left, e.at)
}

// safe reports whether nothing of the other lane that shows in the write can land any
// more.
func (s *state) safe(e *entry, confirmed func(At) bool) bool {
	return e.other == nil || s.final(*e.other, confirmed)
}

// inTable are the writes without what belongs to files that are not sent.
func (s *state) inTable() []entry {
	return slices.DeleteFunc(slices.Clone(s.writes), func(e entry) bool { return e.file > 0 })
}

// drop forgets what belongs to files that are not sent.
func (s *state) drop() {
	s.set(slices.DeleteFunc(s.writes, func(e entry) bool { return e.file > 0 }))
	s.overtaken, s.taken = 0, false
}

// seal makes the rows of a file that was the first of those that are not sent rows of one on
// its way, and so what was taken with them. It reports whether there are any, and any that
// was taken.
func (s *state) seal(file int) (rows, taken bool) {
	s.taken = false
	for i := range s.writes {
		e := &s.writes[i]
		if e.newer <= file {
			e.newer = 0
		}
		switch {
		case e.file == 0:
		case e.file <= file:
			e.file, rows, taken = 0, true, taken || len(e.taken) > 0
			s.wait(e)
		default:
			s.taken = s.taken || len(e.taken) > 0
		}
	}
	return rows, taken
}

// wait has the key wait for what is older than a write whose file is on its way.
func (s *state) wait(e *entry) {
	s.row = new(e.at)
	if e.after != nil {
		s.await = e.after
	}
}

// release forgets what is decided by writes that are known to be applied: each stands for
// the older ones, too.
func (s *state) release(applied func(At) bool) {
	n := 0
	for i, sh := range s.shares {
		if applied(sh.at) {
			n = i + 1
		}
	}
	s.shares = slices.Delete(s.shares, 0, n)
}

// bind notes the writes that rows of the fate were dropped for, and reports whether there
// are any.
func (s *state) bind(fate *Fate) bool {
	s.shares = slices.DeleteFunc(s.shares, func(sh share) bool {
		if sh.fate == fate {
			s.leave(sh.at)
		}
		return sh.fate == fate
	})
	return len(s.dropped) > 0
}

// leave notes that older rows were dropped in favour of a write, which stands for those before
// it in its partition.
func (s *state) leave(at At) {
	s.dropped = append(slices.DeleteFunc(s.dropped, func(older At) bool { return older.Partition == at.Partition }), at)
}

// leavesNothing reports whether nothing of what was there before is left by the
// reduced writes.
func leavesNothing(reduced []entry) bool {
	return len(reduced) > 0 && whole(&reduced[0].Write) && (!reduced[0].row || reduced[0].Op == schemas.Delete)
}
