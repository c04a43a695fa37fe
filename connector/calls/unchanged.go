package calls

import (
	"hash/maphash"
	"math"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// A write that says what its key's last call has said changes nothing, and needs no call.
// So what was applied is remembered for a while, as a hash of the whole write (Item.Unchanged),
// and a write that says the same is confirmed at once. It is remembered only while it is sure to be the newest
// that this lane has sent of the key and that no call still on its way lands on top of it:
//
//   - Each write that is submitted forgets its key. What is remembered is a call that was
//     applied, behind which no other write of the key waits, and of which every attempt
//     is known to have ended (repeat.go); never a create, nor a delete of what was not there.
//   - A partition that is dropped, and a mapping that is halted, are forgotten: others may
//     write meanwhile. A partition's former owner may have calls on their way, so that the first
//     calls for it are not remembered.
//   - What becomes a dead letter before it is a write forgets its key, or its
//     partition if it names none (Forget): it may be replayed later.
//
// Whatever is not remembered is sent.

// Remember bounds what is remembered of writes that were applied.
type Remember struct {
	// Bytes is what it may take of memory, at most 30 for each key; 0: nothing is
	// remembered, whatever items say.
	Bytes int64
	// Settled is how long after a partition's first write its former owner's calls may land.
	Settled time.Duration
}

// scope is whose keys are forgotten together: one mapping's of one partition.
type scope struct {
	of      Origin // Lasting
	mapping string
}

// source is a scope from its first write until it is forgotten.
type source struct {
	scope
	number  uint16 // 0: it is forgotten
	settled time.Time
	keep    time.Duration
}

// fingerprint stands for a write, and for its key.
type fingerprint struct{ key, write uint64 }

// said is what is known of writes that were applied. It is guarded by the lane's
// lock, but for seed.
type said struct {
	settles time.Duration
	seed    maphash.Seed
	began   time.Time
	sources map[scope]*source
	number  uint16          // the last one given
	live    map[uint16]bool // of sources
	from    time.Time       // calls that began before are not remembered
	keys    slots
}

func newSaid(cfg Remember) *said {
	if cfg.Bytes <= 0 {
		return nil
	}
	r := &said{settles: cfg.Settled, seed: maphash.MakeSeed(), began: time.Now(), sources: map[scope]*source{}, live: map[uint16]bool{}}
	r.keys.most = int(cfg.Bytes / slotSize / shards)
	return r
}

// print is the fingerprint of a write. It may be called without the lock.
func (r *said) print(w *schemas.Write) (f fingerprint) {
	var h maphash.Hash
	h.SetSeed(r.seed)
	w.HashKey(&h)
	f.key = h.Sum64()
	h.Reset()
	w.Hash(&h)
	f.write = h.Sum64()
	return f
}

// lasting is what an origin's write is a part of; nil: of nothing that lasts, and
// nothing of it is remembered.
func lasting(o Origin) Origin {
	if l, ok := o.(Lasting); ok {
		return l.Lasting()
	}
	return nil
}

// source is the item's.
func (r *said) source(it *Item) *source {
	of := lasting(it.Origin)
	if of == nil {
		return nil
	}
	in := scope{of, it.Mapping}
	s := r.sources[in]
	if s == nil {
		if r.number == math.MaxUint16 {
			r.forgetAll()
		}
		r.number++
		s = &source{in, r.number, time.Now().Add(r.settles), it.Unchanged}
		r.sources[in], r.live[s.number] = s, true
	}
	return s
}

// forget lets go of a scope, with all of its keys.
func (r *said) forget(s *source) {
	delete(r.sources, s.scope)
	delete(r.live, s.number)
	s.number = 0
}

func (r *said) forgetAll() {
	for _, s := range r.sources {
		r.forget(s)
	}
	r.number, r.keys = 0, slots{most: r.keys.most}
}

// forgetWhere lets go of the scopes that are meant.
func (r *said) forgetWhere(meant func(scope) bool) {
	if r == nil {
		return
	}
	for in, s := range r.sources {
		if meant(in) {
			r.forget(s)
		}
	}
}

// pause says that a call of a key that is not on record may land until then: what is called before is not remembered.
func (r *said) pause(until time.Time) {
	if r != nil && until.After(r.from) {
		r.from = until
	}
}

func (r *said) seconds(at time.Time) uint32 {
	return uint32(min(at.Sub(r.began)/time.Second, math.MaxUint32))
}

// says reports whether a write of the source says what is remembered of its key.
func (r *said) says(f fingerprint, s *source, now time.Time) bool {
	known := r.keys.get(f.key)
	return known != nil && s != nil && known.source == s.number && known.write() == f.write && r.seconds(now) < known.until
}

// keep remembers what a call that has begun at started has said.
func (r *said) keep(f fingerprint, s *source, started, now time.Time) {
	if s == nil || s.number == 0 || started.Before(s.settled) || started.Before(r.from) {
		return
	}
	until := r.seconds(now.Add(s.keep))
	r.keys.put(slot{tag: tagOf(f.key), low: uint32(f.write), high: uint32(f.write >> 32), until: until, source: s.number}, f.key, func(old *slot) bool {
		return r.live[old.source] && r.seconds(now) < old.until
	})
}

// unchanged reports whether the item's write has nothing to do: its key is idle, and it says
// what the key's last call has said. f is its fingerprint. If not, the key is forgotten, and
// s is what has to be remembered once the write is applied; nil: nothing.
func (l *Lane) unchanged(it *Item, f fingerprint, idle bool) (yes bool, s *source) {
	s = l.said.source(it)
	if it.Write.Op == schemas.Create {
		s = nil
	}
	if idle && l.said.says(f, s, time.Now()) {
		return true, nil
	}
	l.said.keys.remove(f.key)
	return false, s
}

// applied remembers the key's call, which was applied, if nothing else of the key is
// on its way.
func (l *Lane) applied(e *entry, f fingerprint, started, ended time.Time) {
	if c := e.head; c.next == nil && e.repeat == nil && !c.unsure && c.repeats == nil {
		l.said.keep(f, c.source, started, ended)
	}
}

// Forget says that a write that is never submitted may change its key all the same, by other means
// than this lane: what is remembered of the key is forgotten. A write without a key
// stands for all keys that were written for what of is a part of.
func (l *Lane) Forget(w *schemas.Write, of Origin) {
	if l.said == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.Key == "" {
		whole := lasting(of)
		l.said.forgetWhere(func(in scope) bool { return in.of == whole })
		return
	}
	l.said.keys.remove(l.said.print(w).key)
	if e := l.keys[keyID{table: l.known(w.Table), name: w.Key}]; e != nil {
		for c := e.head; c != nil; c = c.next {
			c.source = nil
		}
	}
}
