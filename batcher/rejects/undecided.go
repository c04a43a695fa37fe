package rejects

import (
	"errors"
	"slices"
	"strings"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/batcher/reconcile"
	"github.com/feedsink/feedsink/batcher/rowerror"
	"github.com/feedsink/feedsink/schemas"
)

// A row in error whose key the other lane writes too may be in error for that
// alone: a patch of what an older upsert, still waiting for the service, is to
// create; a row of what a newer delete has taken away. Such a row is no dead
// letter yet. Its key is sent again once the other lane's older writes have
// landed, and that tells: what the service takes then is confirmed, and so is a row
// in whose place a newer write has come.

// Undecided are one mapping's rows in error of conflicting keys. It is not safe for
// concurrent use.
type Undecided struct{ rows map[conflicting]*Held }

// conflicting is a row of a conflicting key.
type conflicting struct {
	key string
	op  schemas.Op
}

// Held is a row in error of which it is not decided yet whether its records are dead letters.
type Held struct {
	contract.Import
	key, reason string
	newest      string // file that has it
	rounds      bool   // rows of several files are meant
	decided     bool
	dead        bool
	idle        []reconcile.Span // of which its records are; nil: all that came to the row
}

// changedNothing is the reason of a row in error for which the service's words went to a
// former owner, if there were any.
const changedNothing = "its row changed nothing: in the order of the log there was nothing to change, or there was a record of its key already"

// Hold takes a row in error. It reports whether it has it for another value that is wrong.
func (u *Undecided) Hold(key, reason string, imp *contract.Import) (before bool) {
	at := conflicting{key, imp.Op}
	w := u.rows[at]
	if w == nil {
		u.add(at, &Held{Import: *imp, key: key, reason: reason, newest: imp.File})
		return false
	}
	before = w.newest == imp.File
	w.newest, w.rounds = imp.File, w.rounds || !before
	if !strings.Contains(w.reason, reason) && len(w.reason) < 2000 {
		w.reason += "; " + reason
	}
	return before
}

func (u *Undecided) add(at conflicting, w *Held) {
	if u.rows == nil {
		u.rows = map[conflicting]*Held{}
	}
	u.rows[at] = w
}

// Decide decides about the key's rows in error, now that the service has answered
// what Next gave out. suspect is what the import's file of an operation would be, if rows of
// parts that a former owner has loaded may be in error, too; nil: they may not. It reports
// whether the service has refused what was given out and their records are dead letters
// for it.
func (u *Undecided) Decide(n reconcile.Newest, nothing []int, err error, suspect func(schemas.Op) contract.Import) (refused bool) {
	var changed, absent, idle reconcile.Ops
	for i, ops := range n.Shows {
		if changed |= ops; slices.Contains(nothing, i) {
			absent |= ops
		}
	}
	for _, span := range n.Idle {
		idle |= span.Ops
	}
	unchanged, alone := absent|idle, idle&^absent
	_, refusedByService := errors.AsType[contract.Failure](err)
	if refusedByService {
		alone &^= changed
	}
	for _, op := range schemas.Ops {
		w := u.rows[conflicting{n.Key, op}]
		shows := (changed | unchanged).Has(op)
		// A key that was reconciled, and is followed again for a newer write of the other
		// lane, does not show what was decided before.
		if w == nil || w.decided && !shows && !n.Whole {
			continue
		}
		// What there is no call for goes as a row once more.
		w.decided, w.dead, w.idle = true, shows && (refusedByService || unchanged.Has(op)) || !shows && !n.Whole, nil
		refused = refused || refusedByService && changed.Has(op)
	}
	suspected, refusal := unchanged, error(nil)
	switch {
	case refusedByService:
		suspected, refusal = unchanged|changed, err
	case err != nil:
		suspected = idle // the others go as rows once more, whose results will tell
	}
	if suspect != nil {
		u.suspect(n.Key, suspected, refusal, suspect)
		refused = refused || refusedByService && changed != 0
	}
	for _, op := range alone.All() {
		if w := u.rows[conflicting{n.Key, op}]; w != nil {
			w.idle = n.Idle
		}
	}
	return refused
}

// suspect takes rows of a key that changed nothing, or whose state the service refuses as a call, for
// rows in error.
// They may be in no file of a generation that is built again: nothing is dropped from
// that, and so a patch may be merged into a row that a former owner had dropped, and
// whose file is loaded.
func (u *Undecided) suspect(key string, ops reconcile.Ops, refusal error, of func(schemas.Op) contract.Import) {
	for _, op := range ops.All() {
		if at := (conflicting{key, op}); u.rows[at] != nil {
			u.rows[at].rounds = true
		} else {
			w := &Held{Import: of(op), key: key, reason: changedNothing, rounds: true, decided: true, dead: true}
			if refusal != nil {
				w.reason, w.MayBeLoaded = ReasonOf(refusal), true
			}
			u.add(at, w)
		}
	}
}

// Has reports whether the key's row of the operation is in error.
func (u *Undecided) Has(key string, op schemas.Op) bool { return u.rows[conflicting{key, op}] != nil }

// Refuse says that the key's rows in error cannot be rows once more.
func (u *Undecided) Refuse(key string) {
	for _, op := range schemas.Ops {
		if w := u.rows[conflicting{key, op}]; w != nil {
			w.decided, w.dead, w.idle = true, true, nil
		}
	}
}

// End ends all rows, nothing being conflicting any more, and returns those whose records are
// dead letters. Those of keys that are left out are read again.
func (u *Undecided) End(keys *reconcile.Keys) (dead []*Held) {
	for at, w := range u.rows {
		if keys.LeftOut(at.key) {
			continue
		}
		if left := keys.Free(at.key, at.op); w.dead || !w.decided && left {
			dead = append(dead, w)
		}
	}
	u.rows = nil
	return dead
}

// AddHeld adds a row of the mapping that is known by its key. An import without a file of the
// mapping has none.
func (rr *Rows) AddHeld(m *files.Mapping, d *Held) {
	i := slices.Index(rr.Of, m)
	if i < 0 {
		return
	}
	one := &rejected{Row: rowerror.Row{Key: d.key, Reason: d.reason}, reason: d.reason}
	row := &errorRow{rejected: one, member: i, rounds: d.rounds, idle: d.idle}
	one.of = []*errorRow{row}
	rr.byKey[rowKey{m.Name, d.key}] = row
	rr.rejected = append(rr.rejected, one)
}
