package plan

import (
	"hash/maphash"
	"time"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// A mapping's calls are counted twice: as if each were made, and with `unchanged: skip`. The
// difference is what that saves. What a sink forgets for other reasons than records (a restart, a
// partition that moves) is not foreseen.

// called is what is known of a key that calls are made for.
type called struct {
	at time.Time // of its last call, were all made
	// With unchanged: skip:
	began time.Time // of its last call
	print uint64    // of what that call said; 0: of nothing that is remembered
	place uint32    // whose records it was made for
}

// bytesPerKey is what a key takes of memory.unchanged, at most.
const bytesPerKey = 30

// skipping reports whether the write is a call of its own with unchanged: skip.
func (k *called) skipping(w *schemas.Write, at time.Time, in place, keep time.Duration) bool {
	says := in.print(w)
	if says != 0 && says == k.print && in.number == k.place && at.Sub(k.began) < keep {
		return false
	}
	merged := !k.began.IsZero() && at.Sub(k.began).Abs() < together
	if merged && w.Op.Partial() {
		says = 0 // what both say together is not known here
	}
	k.print, k.place = says, in.number
	if !merged {
		k.began = at
	}
	return !merged
}

// spared counts a write that is a call of its own, or not, without unchanged: skip and with it,
// and reports whether it is one as the mapping is configured.
func (m *mapping) spared(call, skipping bool, at time.Time) bool {
	n := int64(0)
	switch {
	case call && !skipping:
		n = 1
	case skipping && !call: // it would be merged into one that is skipped
		n = -1
	}
	if m.config.Unchanged() == 0 {
		m.Calls.CouldSkip += n
		return call
	}
	m.Calls.Unchanged += n
	m.arrived.minutes[at.Unix()/60].spared += n
	return skipping
}

// places number partitions, anew where all that was called for them is forgotten.
type places struct {
	seed    maphash.Seed
	numbers map[source]uint32
	last    uint32
}

type source struct {
	topic     string
	partition int32
}

type place struct {
	seed   maphash.Seed
	number uint32
}

func newPlaces() places { return places{seed: maphash.MakeSeed(), numbers: map[source]uint32{}} }

func (p *places) of(r *router.Record) place {
	from := source{r.Topic, r.Partition}
	if p.numbers[from] == 0 {
		p.last++
		p.numbers[from] = p.last
	}
	return place{p.seed, p.numbers[from]}
}

func (p *places) forget(r *router.Record) { delete(p.numbers, source{r.Topic, r.Partition}) }

// print stands for what the write says; 0: it is never skipped.
func (p place) print(w *schemas.Write) uint64 {
	if w.Key == "" || w.Op == schemas.Create {
		return 0
	}
	var h maphash.Hash
	h.SetSeed(p.seed)
	w.Hash(&h)
	return h.Sum64()
}

// forget notes a dead letter, which may be replayed later: of its key, if it names one, or of
// its partition.
func (p *Plan) forget(m *mapping, r *router.Record, key string) {
	switch k := m.called[key]; {
	case !m.mayRepeat:
	case key == "":
		p.places.forget(r)
	case k != nil:
		k.print = 0
	}
}
