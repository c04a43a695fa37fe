package connector

import (
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// stop halts the mapping, with g.mu held.
func (g *gate) stop(what refusal, how string) {
	f, name := g.floods, g.mapping.Name
	g.halt = ack.Halt{Mapping: hashOf(name), Stage: string(what.stage), Code: what.code, Status: what.status}
	g.reason = fmt.Sprintf("mapping %s is halted in the %s lane: %s, which is a mistake and not data (dlq.flood). "+
		"Its records wait unconfirmed. Fix the cause: entity, table, ETL, fields or the events' producer. "+
		"A restart alone does not end this. Once the cause is gone: feedsink imports release --mapping %s",
		name, f.lane.which, how, name)
	g.isHalted.Store(true)
	if f.calls != nil {
		f.calls.Halt(name)
	}
	g.pause(f.lane.source.Partitions())
	f.lane.log.Error("mapping halted: nearly all of its records are refused alike. They wait unconfirmed; fix the cause, then release it: a restart alone does not end this",
		"mapping", name, "stage", what.stage, "code", what.code, "status", what.status, "how", how,
		"with", "feedsink imports release --mapping "+name)
}

// pause halts those partitions that the mapping reads and keeps the halt in their
// ledgers, with g.mu held.
func (g *gate) pause(ps []*kafka.Partition) {
	for _, p := range ps {
		if slices.Contains(g.mapping.Config.Topics, p.Topic) {
			p.Halt(floodCause(g.mapping.Name), g.reason)
			p.KeepHalt(g.halt)
		}
	}
	g.floods.lane.source.CommitSoon()
}

// release lets the mapping go on: what waits is tried again, and counted anew. It
// reports false if it is not halted.
func (g *gate) release() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reason == "" {
		return false
	}
	f, name := g.floods, g.mapping.Name
	for _, p := range f.lane.source.Partitions() {
		p.Resume(floodCause(name))
		p.ForgetHalt(g.halt.Mapping)
	}
	f.lane.source.CommitSoon()
	g.goOn()
	f.lane.log.Warn("mapping released: its records are tried again", "mapping", name)
	return true
}

// releasable reports whether some lane has halted the mapping until it is released.
func (s *Sink) releasable(m *router.Compiled) bool {
	return slices.ContainsFunc(s.lanes, func(l *lane) bool { return l.floods.halted(m) })
}

// assigned takes over the halts that former owners of the partitions left. It is
// called before their first record.
func (f *floods) assigned(ps []*kafka.Partition) {
	for _, p := range ps {
		for _, h := range p.KeptHalts() {
			g := f.gateOf(h.Mapping, p.Topic)
			if g == nil || f.off() { // the configuration has changed
				p.ForgetHalt(h.Mapping)
				continue
			}
			g.inherit(h)
		}
	}
	for _, g := range f.gates {
		g.mu.Lock()
		if g.reason != "" {
			g.pause(ps)
		}
		g.mu.Unlock()
	}
}

// left forgets the halts of mappings of which this member has no partition any more:
// the ledgers have them for the next owners, and only those can be released.
func (f *floods) left(ps []*kafka.Partition) {
	for _, g := range f.gates {
		g.mu.Lock()
		reads := func(p *kafka.Partition) bool {
			return !slices.Contains(ps, p) && slices.Contains(g.mapping.Config.Topics, p.Topic)
		}
		if g.reason != "" && !slices.ContainsFunc(f.lane.source.Partitions(), reads) {
			g.goOn()
		}
		g.mu.Unlock()
	}
}

// goOn begins to count anew, with g.mu held.
func (g *gate) goOn() {
	g.reason, g.refused, g.released = "", refusals{}, g.released+1
	g.isHalted.Store(false)
	if g.floods.calls != nil {
		g.floods.calls.Resume(g.mapping.Name)
	}
}

// inherit halts the mapping as it was before a restart or a move.
func (g *gate) inherit(h ack.Halt) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reason == "" {
		g.stop(refusal{deadletter.Stage(h.Stage), h.Code, h.Status},
			fmt.Sprintf("nearly all of its records were refused alike (%s) and it was not released since", refusal{deadletter.Stage(h.Stage), h.Code, h.Status}))
	}
}

// gateOf is the gate of the mapping of that hash, if it reads the topic in this lane.
func (f *floods) gateOf(mapping uint64, topic string) *gate {
	for _, g := range f.gates {
		if hashOf(g.mapping.Name) == mapping && usesLane(g.mapping, f.lane) && slices.Contains(g.mapping.Config.Topics, topic) {
			return g
		}
	}
	return nil
}

func usesLane(m *router.Compiled, l *lane) bool {
	immediate, batch := m.Lanes()
	return l.which == schemas.Immediate && immediate || l.which == schemas.Batch && batch
}

func floodCause(mapping string) string { return "flood of mapping " + mapping }

// hashOf is a mapping's name as ledgers have it.
func hashOf(mapping string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(mapping)) // never fails
	return h.Sum64()
}
