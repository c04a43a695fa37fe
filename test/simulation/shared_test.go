//go:build simulation

package simulation

import (
	"math/rand/v2"
	"time"
)

// Some lives are about a table that both lanes write, in small files and without a bound on
// calls: that one lane writes a key amid a step of the other is rare elsewhere. The other table
// has calls that are left out, or nothing but files.

// share has one life of ten be of that kind. Of the others nothing changes with that.
func (p *plan) share(seed uint64) {
	if seed%10 != 6 {
		return
	}
	rnd := rand.New(rand.NewPCG(seed, 4))
	first := rnd.IntN(2)
	t, other := p.tables[first], p.tables[1-first]
	p.shared, p.after, p.curve = t, false, steady
	p.members, p.session = pick(rnd, 2, 2, 3), pick(rnd, 6*time.Second, 30*time.Second)
	if p.apart {
		p.members = 2
	}
	p.life, p.every, p.bunch, p.burst, p.faultEvery = time.Hour, time.Minute, 5, 0, time.Minute
	p.lookEvery, p.commitEvery = 0, pick(rnd, time.Second, 5*time.Second)
	p.rate, p.slots, p.maxFile, p.rollRows, p.rollAge, p.rollAt = 0, 1000, 0, 5, pick(rnd, time.Minute, 5*time.Minute), nil
	p.calls, p.latency, p.callTime = 64, min(p.latency, 10*time.Millisecond), min(p.callTime, 50*time.Millisecond) // calls of the two lanes wait for nothing else
	p.processing = pick(rnd, time.Second, time.Second, 30*time.Second)
	t.bundled, other.bundled = false, false
	t.lanes, t.again, t.skips = "both", 0, false
	t.routes.rows, t.routes.alone, t.routes.spare = pick(rnd, "batch", "auto"), pick(rnd, "batch", "batch", "immediate", ""), true
	if t.custom() && seed/10%2 == 0 {
		t.format = canonical
	}
	t.mayClear()
	other.clears = false
	if other.skips = rnd.IntN(2) == 0; other.skips {
		other.lanes, other.again = "immediate", 60
		return
	}
	if other.lanes = "batch"; other.format == debezium { // whose events patch nothing that is not there
		other.format = canonical
	}
}

// sharedName is the name of the table that such a life is about.
func (p *plan) sharedName() string {
	if p.shared == nil {
		return "none"
	}
	return p.shared.name
}

// sharedFaults are most of what goes wrong in such lives.
var sharedFaults = []fault{
	{3, func(w *world) (string, func(), time.Duration) { return w.takeBack(w.plan.shared) }},
	{3, func(w *world) (string, func(), time.Duration) { return w.slowNetwork() }},
	{3, func(w *world) (string, func(), time.Duration) { return w.sendLate(w.plan.shared) }},
	{2, func(w *world) (string, func(), time.Duration) { return w.thereAndBack(w.skipping()) }},
	{2, func(w *world) (string, func(), time.Duration) { return w.cutOutputs() }},
}

// skipping is a table of whose calls some are left out, if there is one.
func (w *world) skipping() *table {
	t := w.anyTable()
	for _, other := range w.plan.tables {
		if other.skips {
			t = other
		}
	}
	return t
}

// cutOutputs has rows be in error, and for a time the output files name only some of them.
func (w *world) cutOutputs() (string, func(), time.Duration) {
	t := w.plan.tables[0]
	if t == w.plan.shared {
		t = w.plan.tables[1]
	}
	if t.byCall() {
		return "", nil, 0
	}
	names := w.newKeysOf(t, orphan, 10)
	w.witness.incomplete.Store(true)
	whole := func() { w.witness.incomplete.Store(false) }
	if !w.write(t, names, false) || w.importerOf(t) == nil {
		whole()
		return "", nil, 0
	}
	return "output files name some of the rows in error", whole, w.plan.processing + w.between(10*time.Second, mostMissing)
}
