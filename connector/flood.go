package connector

import (
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/flood"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// A flood of dead letters is a mistake, not data: a wrong entity, table or ETL, or a
// service that refuses everything. Of each mapping in each lane the last results of
// each stage are looked at. Once dlq.flood.share of the last dlq.flood.records were
// refused alike, the mapping halts: the record at hand and all that follow wait,
// unconfirmed and in order, until a person releases it. The halt is kept in the
// ledgers of the partitions that the mapping reads.

// gate decides for one mapping in one lane whether a refused record becomes a dead
// letter.
type gate struct {
	floods  *floods
	mapping *router.Compiled

	read     int64        // records that became writes, or were refused before: the poll loop's own
	answered atomic.Int64 // writes that the service has answered
	isHalted atomic.Bool  // halted, for those who only ask

	mu       sync.Mutex
	refused  flood.Refusals
	halt     ack.Halt // while halted
	reason   string   // why; "": it is not halted
	released int      // how often
}

// floods are the gates of one lane.
type floods struct {
	lane *lane
	flood.Limits
	gates  []*gate                 // by mapping
	topics map[string]*topicWindow // what could be decoded: nobody can tell whose it is
	calls  halter                  // nil: the lane makes none
}

// halter starts no calls of a mapping.
type halter interface {
	Halt(mapping string)
	Resume(mapping string)
	Halted() int
}

// topicWindow is what of a topic's records could be decoded. It is the poll loop's
// own.
type topicWindow struct {
	gate    *gate // of the first mapping that reads the topic in this lane: it halts
	seen    int64
	refused flood.Refusals
	release int // of the gate, when refused was begun
}

func newFloods(l *lane, cfg config.DLQ, mappings []*router.Compiled) *floods {
	f := &floods{lane: l, Limits: flood.NewLimits(cfg), topics: map[string]*topicWindow{}}
	for _, m := range mappings {
		g := &gate{floods: f, mapping: m, refused: flood.Refusals{}}
		f.gates = append(f.gates, g)
		for _, topic := range m.Config.Topics {
			if f.topics[topic] == nil && usesLane(m, l) {
				f.topics[topic] = &topicWindow{gate: g, refused: flood.Refusals{}}
			}
		}
	}
	return f
}

// off reports whether no mapping ever halts.
func (f *floods) off() bool { return f.Alike == 0 }

// halted reports whether records of the mapping have to wait.
func (f *floods) halted(m *router.Compiled) bool { return f.gates[m.Index].isHalted.Load() }

// waiting is how many records wait for a mapping to be released, of those that were
// handed to the calls. They must not take the room of others.
func (f *floods) waiting() int64 {
	if f.calls == nil || !slices.ContainsFunc(f.gates, func(g *gate) bool { return g.isHalted.Load() }) {
		return 0
	}
	return int64(f.calls.Halted())
}

// holds reports whether a record has to wait, as some mapping of it is halted, or
// halts for what is refused of it. It is called by the poll loop.
func (f *floods) holds(writes, rejects []router.Routed) bool {
	if f.off() {
		return false
	}
	for _, some := range [][]router.Routed{writes, rejects} {
		for i := range some {
			if f.halted(some[i].Mapping) {
				return true
			}
		}
	}
	for i := range writes {
		f.gates[writes[i].Mapping.Index].read++
	}
	for i := range rejects {
		f.gates[rejects[i].Mapping.Index].read++
		if f.rejects(rejects[i].Mapping, rejects[i].Err) {
			return true
		}
	}
	return false
}

// rejects notes that a record that was read could not become a write of the mapping,
// and reports whether it has to wait.
func (f *floods) rejects(m *router.Compiled, err error) bool {
	g := f.gates[m.Index]
	return g.refuse(flood.RefusalOf(writes.RejectReason(err)), g.read)
}

// decoded notes that a record of the topic could be decoded.
func (f *floods) decoded(topic string) {
	if w := f.topics[topic]; w != nil {
		w.seen++
	}
}

// undecodable notes that a record could not be decoded, and reports whether it has
// to wait.
func (f *floods) undecodable(topic string) bool {
	w := f.topics[topic]
	if f.off() || w == nil {
		return false
	}
	w.seen++
	return w.gate.refuseIn(w, flood.Refusal{Stage: deadletter.Decoding, Code: "decode"})
}

// confirmed notes that the service has answered with yes.
func (g *gate) confirmed() { g.answered.Add(1) }

// answer notes that the service has refused a write, and reports whether it has to
// wait. A conflict says that entity and table are right, and is the data's: it counts
// as any other answer.
func (g *gate) answer(err error) (wait bool) {
	l := writes.RefusalReason(err)
	seen := g.answered.Add(1)
	if l.Code == writes.CodeConflict {
		return false
	}
	return g.refuse(flood.RefusalOf(l), seen)
}

// refuse notes what was refused as the seen-th result of its stage, halts the mapping
// if there were too many alike, and reports whether it is halted.
func (g *gate) refuse(what flood.Refusal, seen int64) (halted bool) {
	if g.floods.off() {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reason != "" {
		return true
	}
	return g.judge(what, seen, g.refused.Add(what, seen, g.floods.Limits))
}

// refuseIn is refuse for a window of its own.
func (g *gate) refuseIn(w *topicWindow, what flood.Refusal) (halted bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reason != "" {
		return true
	}
	if w.release != g.released {
		w.refused, w.release = flood.Refusals{}, g.released
	}
	return g.judge(what, w.seen, w.refused.Add(what, w.seen, g.floods.Limits))
}

// judge halts the mapping if so many alike are too many, with g.mu held.
func (g *gate) judge(what flood.Refusal, seen, alike int64) (halted bool) {
	how := g.floods.Flood(what, seen, alike)
	if how != "" {
		g.stop(what, how)
	}
	return how != ""
}

// stop halts the mapping, with g.mu held.
func (g *gate) stop(what flood.Refusal, how string) {
	f, name := g.floods, g.mapping.Name
	g.halt = ack.Halt{Mapping: hashOf(name), Stage: string(what.Stage), Code: what.Code, Status: what.Status}
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
		"mapping", name, "stage", what.Stage, "code", what.Code, "status", what.Status, "how", how,
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
	g.reason, g.refused, g.released = "", flood.Refusals{}, g.released+1
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
		what := flood.Refusal{Stage: deadletter.Stage(h.Stage), Code: h.Code, Status: h.Status}
		g.stop(what, fmt.Sprintf("nearly all of its records were refused alike (%s) and it was not released since", what))
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

// rowsRefused is what all rows in error have in common.
var rowsRefused = flood.Refusal{Stage: deadletter.Delivering, Code: codeImportRow}

var _ batcher.Floods = (*floods)(nil)

// Suspects implements batcher.Floods.
func (f *floods) Suspects(mapping string, rows, inError int64) bool {
	g := f.gateNamed(mapping)
	if f.off() || g == nil || inError == 0 {
		return false
	}
	rows, inError = f.scaled(rows, inError)
	g.mu.Lock()
	defer g.mu.Unlock()
	first := g.answered.Load() + rows - f.Window // what came up to it does not count any more
	older := 0
	for _, at := range g.refused[rowsRefused] {
		if at > first {
			older++
		}
	}
	return g.reason != "" || int64(older)+inError >= f.Alike
}

// Ended implements batcher.Floods. A file of more rows than the window stands in it
// with its share of rows in error; one of fewer counts together with those before.
func (f *floods) Ended(mapping string, rows, inError int64) (reason string) {
	g := f.gateNamed(mapping)
	if f.off() || g == nil {
		return ""
	}
	rows, inError = f.scaled(rows, inError)
	g.mu.Lock()
	defer g.mu.Unlock()
	seen := g.answered.Add(rows)
	if g.reason != "" || inError == 0 {
		return g.reason
	}
	var alike int64
	for i := range inError {
		alike = g.refused.Add(rowsRefused, seen-rows+1+i, f.Limits)
	}
	g.judge(rowsRefused, seen, alike)
	return g.reason
}

// scaled are a file's rows as a window can hold them.
func (f *floods) scaled(rows, inError int64) (scaledRows, scaledInError int64) {
	if inError = min(inError, rows); rows > f.Window {
		return f.Window, int64(float64(inError) / float64(rows) * float64(f.Window))
	}
	return rows, inError
}

func (f *floods) gateNamed(mapping string) *gate {
	if i := slices.IndexFunc(f.gates, func(g *gate) bool { return g.mapping.Name == mapping }); i >= 0 {
		return f.gates[i]
	}
	return nil
}
