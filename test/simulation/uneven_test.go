//go:build simulation

package simulation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/observe"
)

// The faults of this file meet one part of the world and not the other one: some partitions
// of a commit, one member's network, routes for a short time.

// someOf are some of the topic's partitions, neither none nor all; nil: it has one.
func (w *world) someOf(topic string) (some []int32) {
	w.mu.Lock()
	n := int(w.partitions[topic])
	w.mu.Unlock()
	if n < 2 {
		return nil
	}
	for _, p := range w.rnd.Perm(n)[:1+w.rnd.IntN(n-1)] {
		some = append(some, int32(p))
	}
	return some
}

// imports reports whether an import of the table is under way at the member.
func (m *member) imports(t *table) bool {
	return m.on && slices.ContainsFunc(m.sink.Status().(observe.Status).Mappings, func(s observe.MappingStatus) bool {
		return s.Name == t.name && s.Batch != nil && s.Batch.Import != nil
	})
}

// importerOf waits for a member at which an import of the table is under way; nil: there is none.
func (w *world) importerOf(t *table) *member {
	for range 120 {
		for _, m := range w.members {
			if m.imports(t) {
				return m
			}
		}
		time.Sleep(w.between(100*time.Millisecond, 10*time.Second)) // it may be short
	}
	return nil
}

// commitInPart has the broker take commits for some of a topic's partitions only, as it does
// while it does not know the others. A member dies amid an import, and who has taken that
// over dies before its steps are on record in all partitions.
func (w *world) commitInPart() (string, func(), time.Duration) {
	t := pick(w.rnd, w.plan.tables...)
	refused := w.someOf(t.topic)
	if refused == nil {
		return "", nil, 0
	}
	if w.rnd.IntN(3) > 0 {
		w.service.FailImports(t.name, 1, "the file is invalid")
	}
	m := w.importerOf(t)
	if m == nil {
		m = w.some()
	} else {
		time.Sleep(time.Duration(w.rnd.Int64N(int64(w.plan.processing + time.Second))))
	}
	m.kill(w.rnd.IntN(2) == 0)
	refusal := w.broker.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.OffsetCommit}, Topic: t.topic, Partitions: refused, Err: kerr.UnknownTopicOrPartition, Count: -1,
	})
	w.say("commits of %s are refused for the partitions %v", t.topic, refused)
	time.Sleep(w.between(time.Second, 10*time.Second))
	m.start()
	time.Sleep(w.plan.session + w.plan.processing + w.between(15*time.Second, 2*time.Minute))
	for _, m := range w.members {
		if m.imports(t) || w.rnd.IntN(3) == 0 {
			m.kill(w.rnd.IntN(2) == 0)
		}
	}
	w.service.FailImports(t.name, 0, "") // what is built again is loaded
	refusal.Remove()
	return "commits of " + t.topic + " are taken again", func() {
		for _, m := range w.members {
			m.start()
		}
	}, w.between(time.Second, time.Minute)
}

// takeBack gives the members other routes, and those that they had before after a while. Of a
// table with both lanes one may have the table for itself meanwhile.
func (w *world) takeBack(t *table) (string, func(), time.Duration) {
	steps := 1 + w.rnd.IntN(versions-1)
	for n := 1; n < versions; n++ {
		if p := w.plan; p.alone(t) == "" {
			if p.routes += n; p.alone(t) != "" {
				steps = n
			}
		}
	}
	if t == w.plan.shared && !w.twice(t, beforeRoutes/2, 0) || !w.bunch(context.Background(), beforeRoutes, t) {
		return "", nil, 0
	}
	time.Sleep(w.between(100*time.Millisecond, time.Minute))
	w.rollOut(steps)
	return "other routes for a while", func() { w.rollOut(versions - steps) }, w.between(time.Second, 10*time.Minute)
}

// beforeRoutes is how many events come before other routes do: several files of some tables.
const beforeRoutes = 30

// mostDelay is by how much the messages of a member may be late that is killed meanwhile: what
// it has sent is there before its session ends, as nobody could reckon with more.
const mostDelay = 500 * time.Millisecond

// slowNetwork has what a member sends and gets be late, while keys get two records each that
// may be of two lanes. The member may be killed amid that. The service does what it was sent
// all the same.
func (w *world) slowNetwork() (string, func(), time.Duration) {
	m, t := w.some(), w.calledByBoth()
	if !m.on || m.apart() {
		return "", nil, 0
	}
	killed, most, host, name := w.rnd.IntN(2) == 0 && !w.slow, mostDelay, m.host, m.process.name
	if !killed {
		most = w.between(mostDelay, 4*mostDelay)
	}
	host.slow.Store(int64(most))
	w.witness.slows(name, most)
	w.say("messages of %s take up to %v more", name, most)
	if killed {
		w.witness.carryOut(name)
	}
	write := w.pairs
	if t == w.plan.shared {
		write = func(t *table, n int) bool { return w.twice(t, 3*n, most) }
	}
	if !write(t, 5+w.rnd.IntN(10)) {
		return "", nil, 0
	}
	if killed {
		time.Sleep(mostDelay/2 + time.Duration(w.rnd.Int64N(int64(5*mostDelay))))
		m.kill(true)
		return "", m.start, w.between(time.Second, 10*time.Minute)
	}
	return "the network of " + name + " is slow", func() { host.slow.Store(0) }, w.between(time.Second, 5*time.Minute)
}

// calledByBoth is a table whose rows either lane may call, if there is one.
func (w *world) calledByBoth() *table {
	t := pick(w.rnd, w.plan.tables...)
	for _, other := range w.plan.tables {
		if t.lanes != "both" || t.routes.rows != "auto" || w.plan.alone(t) != "" {
			t = other
		}
	}
	return cmp.Or(w.plan.shared, t)
}

// pairs has n new keys of the table get two records each.
func (w *world) pairs(t *table, n int) bool {
	for range n {
		time.Sleep(w.between(0, 4*time.Second))
		name := w.newKeys(t, 1)[0]
		if !w.write(t, []string{name, name}, false) {
			return false
		}
	}
	return true
}

// thereAndBack has new rows change and change back, while answers are lost: what is said then
// was said before, but not last.
func (w *world) thereAndBack(t *table) (string, func(), time.Duration) {
	if !t.skips {
		return "", nil, 0
	}
	names := w.newKeys(t, 5+w.rnd.IntN(10))
	if !w.write(t, names, false) {
		return "", nil, 0
	}
	time.Sleep(w.between(time.Second, time.Minute))
	lost := chance(.5, sandbox.Reset())
	lost.Apply = true
	w.service.Inject(lost)
	w.say("rows of %s change, and answers are lost", t.name)
	if !w.write(t, names, false) {
		return "", nil, 0
	}
	time.Sleep(w.between(time.Second, 2*time.Minute))
	w.service.ClearFaults()
	w.write(t, names, true)
	return "rows of " + t.name + " have changed back", nil, 0
}

// twice has n new keys of the table get an event each, and up to so long after that each another one.
func (w *world) twice(t *table, n int, within time.Duration) bool {
	names := w.newKeys(t, n)
	if !w.write(t, names, false) {
		return false
	}
	time.Sleep(time.Duration(w.rnd.Int64N(int64(within) + 1)))
	return w.write(t, names, false)
}

// newKeys gives the table n keys.
func (w *world) newKeys(t *table, n int) []string { return w.newKeysOf(t, upserted, n) }

// newKeysOf gives the table n keys of a kind.
func (w *world) newKeysOf(t *table, kind string, n int) (names []string) {
	w.feeding <- struct{}{}
	defer func() { <-w.feeding }()
	w.mu.Lock()
	partitions := w.partitions[t.topic]
	w.mu.Unlock()
	for range n {
		names = append(names, t.add(&key{kind: kind, partition: w.load.rnd.Int32N(partitions)}))
	}
	return names
}

// write produces one more event of each key: a new one, or what the first one has said.
func (w *world) write(t *table, names []string, first bool) bool {
	w.feeding <- struct{}{}
	defer func() { <-w.feeding }()
	for _, name := range names {
		k := t.keys[name]
		e, r := w.load.event(t, name)
		if first && len(k.events) > 0 {
			again := *k.events[0]
			e, r = &again, w.load.record(t, name, k, &again)
		}
		if !w.produce(context.Background(), t, k, e, r) {
			return false
		}
	}
	return true
}

// triggerImport is the number of that operation in the service's document.
const triggerImport = 10

// sendLate has the service accept an import late, whose sender is killed meanwhile: behind the
// time at which another member has taken over its partitions, and within service.timeout of that.
func (w *world) sendLate(t *table) (string, func(), time.Duration) {
	if t.byCall() || slices.ContainsFunc(w.members, (*member).apart) {
		return "", nil, 0
	}
	var names []string
	if t == w.plan.shared {
		if names = w.newKeys(t, beforeRoutes/2); !w.write(t, names, false) {
			return "", nil, 0
		}
	}
	heartbeat := min(w.plan.session/10, max(3*time.Second, w.plan.lookEvery)) // so long may its session have gone on when it is killed
	w.service.Inject(sandbox.Fault{
		Match: sandbox.Match{Op: triggerImport, Table: t.name}, Count: 1, Late: w.plan.session - heartbeat + w.between(timeout/2, timeout-time.Second),
	})
	defer w.service.ClearFaults()
	for range 1000 {
		time.Sleep(time.Second)
		if !slices.ContainsFunc(w.service.Faults(), func(f sandbox.FaultState) bool { return f.Late > 0 && f.Fired > 0 }) {
			continue
		}
		senders := slices.DeleteFunc(slices.Clone(w.members), func(m *member) bool { return !m.imports(t) })
		if len(senders) == 0 {
			senders = w.members
		}
		for _, m := range senders {
			m.kill(false)
		}
		if len(names) > 0 {
			w.write(t, names, false) // of what may be in that file
		}
		return fmt.Sprintf("the import of %s that was sent is accepted late", t.name), func() {
			for _, m := range senders {
				m.start()
			}
		}, w.between(time.Second, time.Minute)
	}
	return "", nil, 0
}

// apart reports whether the member's session may end sooner than it seems: it does not reach the
// broker, or late.
func (m *member) apart() bool {
	return m.on && (m.host.reachOf(brokerAt) != open || m.host.slow.Load() > 0)
}
