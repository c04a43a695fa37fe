package reconcile

import (
	"iter"
	"slices"
	"strings"

	"github.com/feedsink/feedsink/schemas"
)

// At is the place of a record: an assignment of a partition, compared as it is,
// and the offset.
type At struct {
	Partition any
	Offset    int64
}

// Fate names rows of one file that were dropped in favour of newer writes of the
// other lane, which they share the fate of.
type Fate struct{ _ byte } // not empty: it is known by its address

// Where is where a row went.
type Where uint8

// The places of a row.
const (
	Open   Where = iota // into the open file, which is the last of those that are not sent
	Flying              // into a file that a former owner sent
	Landed              // confirmed before a restart
)

// Effect is what a write of the other lane met.
type Effect struct {
	// Confirmed: the other lane's ledger shows it.
	Confirmed bool
	// Doubtful: it may have landed after a file of a former owner.
	Doubtful bool
	// Dropped are the fates of the rows, of files that are not sent, that the write made
	// void.
	Dropped []*Fate
	// Overtaken is the place of the last file, among those that are not sent, which holds
	// a row that is older than the write, and keeps it: 1 is the one that is sent first.
	// 0: none does.
	Overtaken int
	// Flying: a file on its way may hold a row of the key.
	Flying bool
	// Former: that file is a former owner's, who may have dropped rows of the key in
	// favour of a write that has not landed.
	Former bool
	// Drops: rows of the key that are older are dropped in its favour.
	Drops bool
	// Late: the write came to the log after all of the mapping's files, and all
	// that Next gave out, had landed.
	Late bool
}

// Keys are the keys that are followed: those with a write of the other lane that
// is not known to be confirmed, and those that are conflicting.
type Keys struct {
	// Refused reports whether the service may have refused a write of the other lane that is
	// confirmed; nil: it has refused none.
	Refused func(At) bool

	byKey map[string]*state
	bytes int64
	out   map[any]bool // partitions whose keys are left out
	// Files are numbered in their order, from 1 on: up to sent they are on their way, or
	// have landed, and those that closed counts wait behind them. The next one is open.
	sent, closed int
}

// open is the number of the open file.
func (k *Keys) open() int { return k.sent + k.closed + 1 }

// Close says that the open file takes no more rows and waits; another one is open.
func (k *Keys) Close() { k.closed++ }

// Bytes is what the keys that are followed take.
func (k *Keys) Bytes() int64 { return k.bytes }

// Len is the number of keys that are followed.
func (k *Keys) Len() int { return len(k.byKey) }

// follow is what is known of a key, from now on if nothing was.
func (k *Keys) follow(key string) *state {
	s := k.byKey[key]
	if s == nil {
		if k.byKey == nil {
			k.byKey = map[string]*state{}
		}
		s = &state{bytes: stateBytes}
		k.byKey[strings.Clone(key)] = s
		k.bytes += stateBytes
	}
	return s
}

// Other takes a write of the other lane.
func (k *Keys) Other(w *schemas.Write, at At, e Effect) {
	known := k.byKey[w.Key] != nil
	shares := len(e.Dropped) > 0 && (!e.Confirmed || k.refused(at))
	if !known && e.Confirmed && !shares && !e.Doubtful && !e.Flying && e.Overtaken == 0 {
		return // it landed before any file that could hold a row of the key
	}
	s := k.follow(w.Key)
	defer k.count(s, s.bytes)
	s.version++
	unanswered := !e.Confirmed || len(s.others) > 0
	if unanswered {
		s.awaits(at)
	}
	if !known || len(s.others) > 0 { // under former routes it may be confirmed before an older one
		s.last = at
	}
	if len(e.Dropped) > 0 {
		s.drop()
	}
	for _, fate := range e.Dropped {
		if shares {
			s.shares = append(s.shares, share{fate, at})
		}
	}
	if e.Former && e.Drops && (!e.Confirmed || k.refused(at)) {
		s.leave(at)
	}
	overtaken := 0
	if e.Overtaken > 0 {
		overtaken = k.sent + e.Overtaken
	}
	one := ownEntry(w, at)
	one.other, one.behind, one.newer, one.unanswered = &at, e.Flying || overtaken > 0, overtaken, unanswered
	s.add(one, k.refused)
	s.overtaken = max(s.overtaken, overtaken)
	switch {
	case e.Late && !s.sending && !s.owed && whole(w):
		s.conflicting, s.dropped = false, nil // it lands last whatever came before
	case e.Flying:
		s.conflicting = true
		s.owed = s.owed || e.Former && s.sent == 0
	}
}

func (k *Keys) refused(at At) bool { return k.Refused != nil && k.Refused(at) }

// applied tells of writes of the other lane whether the service is known to have applied them.
func (k *Keys) applied(confirmed func(At) bool) func(At) bool {
	return func(at At) bool { return confirmed(at) && !k.refused(at) }
}

// count notes that what is known of a key takes more, or less, than before.
func (k *Keys) count(s *state, before int64) { k.bytes += s.bytes - before }

// whole reports whether nothing of what was there before is left by w.
func whole(w *schemas.Write) bool {
	return w.Op == schemas.Delete || w.Op == schemas.Upsert && !w.Table.Custom
}

// Row takes a row.
func (k *Keys) Row(w *schemas.Write, at At, where Where) {
	s := k.byKey[w.Key]
	if s == nil {
		return
	}
	defer k.count(s, s.bytes)
	e := ownEntry(w, at)
	e.row, e.after, e.rows = true, new(s.last), Spans{{opsOf(w.Op), at.Partition, at.Offset, at.Offset}}
	if where == Open {
		e.file = k.open()
	}
	e.landed = where == Landed
	s.add(e, k.refused)
	if where == Flying {
		s.row, s.await = &at, e.after
		s.contend()
		s.owed = true // a former owner may have dropped it
	}
}

// Take takes a write of the other lane that may not have landed and that this lane
// sends, though no row can say it. It belongs to a file all the same: once that has
// landed it is part of what is sent for the key.
func (k *Keys) Take(w *schemas.Write, at At, where Where) {
	known := k.byKey[w.Key] != nil
	s := k.follow(w.Key)
	defer k.count(s, s.bytes)
	e := ownEntry(w, at)
	e.taken = []At{at}
	if where == Open {
		e.file = k.open()
	}
	if known {
		e.after = new(s.last)
	}
	if !known {
		s.last = at
	}
	s.add(e, k.refused)
	if s.taken = s.taken || e.file > 0; e.file == 0 {
		s.wait(&e)
		s.owed = true
		s.contend()
	}
}

// Seal says that the first of the files that are not sent takes no more rows and is on
// its way.
func (k *Keys) Seal() {
	k.sent++
	k.closed = max(k.closed-1, 0)
	for _, s := range k.byKey {
		rows, taken := s.seal(k.sent)
		s.doubt = rows
		// An overtaken row may be older than what is known of the key.
		if s.overtaken > 0 || taken {
			s.contend()
		}
		s.owed = s.owed || taken
		if s.overtaken <= k.sent {
			s.overtaken = 0
		}
	}
}

// Send says that the file is about to be sent: keys whose older writes have
// landed by now are not conflicting.
func (k *Keys) Send(confirmed func(At) bool) {
	for _, s := range k.byKey {
		if s.doubt && s.waits(confirmed) {
			s.contend()
		}
		s.doubt = false
	}
}

// Trim says that all of the file is about to be sent, no part of it having been
// loaded before: what cannot land in another order any more is not sent again.
func (k *Keys) Trim(confirmed func(At) bool) {
	for _, s := range k.byKey {
		if s.calling {
			continue
		}
		before := s.bytes
		if s.release(k.applied(confirmed)); len(s.shares)+len(s.dropped) > 0 {
			s.trim(k.applied(confirmed)) // a refused one is sent again: what was dropped for it depends on the answer
		} else {
			s.trim(confirmed)
		}
		k.count(s, before)
	}
}

// Confirm says that the rows are about to be confirmed, those of the fate among
// them: where the write that they were dropped for is not known to have been applied,
// the key is conflicting, and what the service answers decides about them. That write may
// be waiting for them. It reports whether any key is conflicting.
func (k *Keys) Confirm(fate *Fate, confirmed func(At) bool) (conflicting bool) {
	for _, s := range k.byKey {
		if s.release(k.applied(confirmed)); s.bind(fate) {
			s.contend()
			s.owed = true
		}
		conflicting = conflicting || s.conflicting
	}
	return conflicting
}

// Forget lets go of keys whose writes are known to be confirmed.
func (k *Keys) Forget(confirmed func(At) bool) {
	for key, s := range k.byKey {
		s.release(k.applied(confirmed))
		if left := s.landing(confirmed); len(left) < len(s.others) {
			before := s.bytes
			s.others = slices.Clone(left)
			s.set(s.writes)
			k.count(s, before)
		}
		if !s.conflicting && !s.held && !s.calling && !s.doubt && s.overtaken == 0 && !s.taken && len(s.shares)+len(s.dropped) == 0 && s.final(s.last, confirmed) {
			delete(k.byKey, key)
			k.bytes -= s.bytes
		}
	}
}

// Newest is what is to be sent for a conflicting key: the writes, in their order.
type Newest struct {
	Key    string
	Writes []schemas.Write // as calls
	Rows   []schemas.Write // the same as rows of a file
	Shows  []Ops           // for each of them: what the rows did that show in it
	Idle   []Span          // rows that found nothing to do
	Whole  bool            // nothing of what was there before Writes is left by them
	Row    *At             // the newest that this lane wrote; nil: the other lane wrote all of it
	Last   At              // newest write of the other lane
	Taken  []At            // writes that were taken, which no row has brought, and newer ones of it may have replaced
	For    []At            // writes of the other lane for which older rows of the file were dropped
	Short  bool            // a row is left out of it
	to     uint64
	of     []entry // what it was reduced from
}

// Rests are n, which the service refuses, without what it has refused alone: writes of the other
// lane, and rows if all that show in them are in error. Behind that come those without what it may have
// refused, from the newest write on, one more each time. The order of the others is still to be settled.
// There is none where nothing was refused.
func (n *Newest) Rests(refused, may func(At) bool, inError func(schemas.Op) bool) iter.Seq[Newest] {
	return func(yield func(Newest) bool) {
		var without, next []At
		for _, e := range slices.Backward(n.of) {
			switch {
			case e.ours():
			case refused(e.at):
				without = append(without, e.at)
			case may(e.at):
				next = append(next, e.at)
			}
		}
		for ; ; without, next = append(without, next[0]), next[1:] {
			if rest, ok := n.without(without, inError); ok && !yield(rest) || len(next) == 0 {
				return
			}
		}
	}
}

// Refused says that the service has refused n, and all Rests of it: rows in error are replaced only by a newer
// write that leaves nothing of them, and that the service cannot have refused.
func (n *Newest) Refused(may func(At) bool, inError func(schemas.Op) bool) {
	n.Whole = false
	for _, e := range slices.Backward(n.of) {
		if n.Whole || e.isInError(inError) {
			return
		}
		n.Whole = len(e.taken) == 0 && (e.ours() || !may(e.at)) && leavesNothing([]entry{e})
	}
}

// isInError reports whether rows show in it, and all of them are in error.
func (e *entry) isInError(inError func(schemas.Op) bool) bool {
	return len(e.rows) > 0 && !slices.ContainsFunc(e.rows.ops().All(), func(op schemas.Op) bool { return !inError(op) })
}

func (n *Newest) without(refused []At, inError func(schemas.Op) bool) (rest Newest, ok bool) {
	rest = Newest{Row: n.Row, Last: n.Last, Key: n.Key, For: n.For, to: n.to}
	for _, e := range n.of {
		switch {
		case !e.ours() && slices.Contains(refused, e.at):
		case e.row && len(e.taken) == 0 && e.isInError(inError):
			rest.Short = true
		default:
			rest.of = append(rest.of, e)
		}
	}
	rest.say()
	return rest, len(rest.of) > 0 && len(rest.of) < len(n.of)
}

// Awaits has the key be given out again once the other lane has confirmed its newest write, if
// that is not known yet: it reports whether that is so.
func (k *Keys) Awaits(n *Newest, confirmed func(At) bool) bool {
	for i := len(n.of) - 1; i >= 0; i-- {
		if e := &n.of[i]; !e.ours() {
			s := k.byKey[n.Key]
			if s == nil || confirmed(e.at) {
				return false
			}
			s.await = &e.at
			return true
		}
	}
	return false
}

// Ours reports whether its newest write is this lane's.
func (n *Newest) Ours() bool { return n.of[len(n.of)-1].ours() }

// Next gives out conflicting keys that can be sent: their file has landed, and so
// have the writes of the other lane that are older than their row in it.
func (k *Keys) Next(confirmed func(At) bool) []Newest {
	var all []Newest
	for key, s := range k.byKey {
		if !s.conflicting || k.out[s.last.Partition] || s.sent == s.version || s.waits(confirmed) {
			continue
		}
		all = append(all, s.give(key, s.inTable()))
	}
	return all
}

// BringBack gives out conflicting keys that Next does not give out yet, since they wait for
// a patch of the other lane. That may find nothing before the row is back: a delete has landed
// behind the file. They are given out as they are with the patch, where that leaves a row, and
// by Next all the same once it has landed.
func (k *Keys) BringBack(confirmed func(At) bool) (given []Newest) {
	for key, s := range k.byKey {
		if !s.conflicting || k.out[s.last.Partition] || !s.waits(confirmed) {
			continue
		}
		until := s.untilPatch(confirmed)
		if all := reduce(until); len(all) > 0 && all[len(all)-1].Op != schemas.Delete && all[len(all)-1].Op != schemas.Patch {
			given = append(given, s.give(key, until))
		}
	}
	return given
}

// give is what is to be sent for the key, to leave it as writes say.
func (s *state) give(key string, writes []entry) Newest {
	s.sending = true
	n := Newest{Row: s.row, Last: s.last, Key: key, For: slices.Clone(s.dropped), to: s.version, of: writes}
	n.say()
	return n
}

func (n *Newest) say() {
	reduced := reduce(n.of)
	for _, e := range n.of {
		n.Taken = append(n.Taken, e.taken...)
	}
	for _, e := range reduced {
		n.Rows, n.Shows = append(n.Rows, e.Write), append(n.Shows, e.rows.ops())
		n.Idle = append(n.Idle, e.idle...)
	}
	n.Writes = asCalls(reduced)
	n.Whole = leavesNothing(reduced)
}

// Unconfirmed is how many conflicting keys Next does not give out yet, and one of the
// other lane's writes that they wait for.
func (k *Keys) Unconfirmed(confirmed func(At) bool) (keys int, at At) {
	for _, s := range k.byKey {
		if s.conflicting && !k.out[s.last.Partition] && s.sent != s.version && s.waits(confirmed) {
			keys, at = keys+1, *s.await
			if left := s.landing(confirmed); len(left) > 0 {
				at = left[0]
			}
		}
	}
	return keys, at
}

// Unlanded adds the other lane's writes that are not known to be confirmed.
func (k *Keys) Unlanded(to map[At]bool) {
	for _, s := range k.byKey {
		for _, at := range s.others {
			to[at] = true
		}
	}
}

// Hold reports whether the key is conflicting; what is known of it stays until Free.
func (k *Keys) Hold(key string) bool {
	s := k.byKey[key]
	if s == nil || !s.conflicting {
		return false
	}
	s.held = true
	return true
}

// Free ends Hold. It reports whether anything may be left of the key's row of op, or
// whether a newer write of the other lane, which the service has not refused, has taken its place.
func (k *Keys) Free(key string, op schemas.Op) (left bool) {
	s := k.byKey[key]
	if s == nil {
		return true // it cannot be told
	}
	s.held = false
	all := reduce(slices.DeleteFunc(s.inTable(), func(e entry) bool { return !e.ours() && k.refused(e.at) }))
	left = !leavesNothing(all)
	for _, e := range all {
		left = left || (e.rows.ops() | e.idle.ops()).Has(op)
	}
	return left
}

// Calling says that a call of a row in the open file, which is older than the other lane's
// write of the key, is in flight.
func (k *Keys) Calling(key string) { k.follow(key).calling = true }

// Called says that it has ended: the key's newest state is sent behind it.
func (k *Keys) Called(key string) {
	if s := k.byKey[key]; s != nil && s.calling {
		s.calling = false
		s.contend()
	}
}

// Sent says that the service has answered what Next gave out.
func (k *Keys) Sent(n Newest) {
	if s := k.byKey[n.Key]; s != nil {
		s.sent, s.owed = n.to, false
	}
}

// Newer is a write that stays behind what Next gave out.
type Newer struct {
	schemas.Write
	At
	Row     bool // of a file that is not sent; else of the other lane, newer than such a row
	Earlier bool // that file goes before the open one
}

// Behind are the rows of files that are not sent. They are newer than what Next gave out,
// and stay behind it when that becomes rows of the open file; and what the other lane
// has written since the first of them, which shows in those rows. ok is false if the
// other lane has written the key since Next: that gives it out again.
func (k *Keys) Behind(n Newest) (newer []Newer, ok bool) {
	s := k.byKey[n.Key]
	if s == nil || s.version != n.to {
		return nil, false
	}
	for _, e := range s.writes {
		if e.file > 0 && e.row || e.file == 0 && len(newer) > 0 {
			newer = append(newer, Newer{e.Write, e.at, e.row, e.row && e.file < k.open()})
			if e.idle.ops().Has(schemas.Patch) { // behind a delete, which would leave its row out
				newer = append(newer, Newer{schemas.Write{Op: schemas.Patch, Table: e.Table, Key: e.Key}, e.at, true, e.file < k.open()})
			}
		}
	}
	return newer, true
}

// Overtaken says that the open file holds a row of the key that is older than a write of
// the other lane, and keeps it.
func (k *Keys) Overtaken(key string) {
	if s := k.byKey[key]; s != nil {
		s.overtaken = k.open()
	}
}

// Noted says that the end of the log was noted after all answers: what comes to
// the log behind it is Late.
func (k *Keys) Noted() {
	for _, s := range k.byKey {
		s.sending = false
	}
}

// Reconcile says that the log was read on to the end that was Noted, and reports whether no key is conflicting any more.
func (k *Keys) Reconcile() (reconciled bool) {
	reconciled = true
	for _, s := range k.byKey {
		switch {
		case !s.conflicting || s.calling || k.out[s.last.Partition]:
		case s.sent == s.version:
			s.conflicting, s.await = false, nil
		default:
			reconciled = false
		}
	}
	for _, s := range k.byKey {
		if reconciled {
			s.dropped = nil // until then it may have to be decided again
		}
		for i := range s.writes {
			e := &s.writes[i]
			e.landed = e.landed || reconciled && !s.calling && e.file == 0 && e.newer == 0 && !k.out[s.last.Partition]
		}
	}
	return reconciled
}

// LeaveOut has Next, Unconfirmed and Reconcile leave out the keys of these partitions.
func (k *Keys) LeaveOut(partitions map[any]bool) { k.out = partitions }

// LeftOut reports whether the key is one of those.
func (k *Keys) LeftOut(key string) bool {
	s := k.byKey[key]
	return s != nil && k.out[s.last.Partition]
}
