package connector

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/deadletter"
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

// refusal is what makes records refused alike.
type refusal struct {
	stage  deadletter.Stage
	code   string
	status int // the service's answer; 0: none
}

func (r refusal) String() string {
	if r.status == 0 {
		return fmt.Sprintf("%s, %s", r.stage, r.code)
	}
	return fmt.Sprintf("%s, %s, status %d", r.stage, r.code, r.status)
}

func refusalOf(l deadletter.Reason) refusal { return refusal{l.Stage, l.Code, l.Status} }

// limits are dlq.flood as numbers of results.
type limits struct{ window, alike int64 }

// newLimits gives zeros where no mapping halts: a flood has nowhere to go without a
// dead-letter topic, and each refusal halts its partition then.
func newLimits(cfg config.DLQ) limits {
	if cfg.Topic == "" || cfg.Flood.Records <= 0 {
		return limits{}
	}
	n := int64(cfg.Flood.Records)
	return limits{n, min(max(int64(math.Ceil(float64(n)*cfg.Flood.Share-1e-9)), 1), n)}
}

// refusals are when a mapping's records were refused, counted in results: the last
// of each kind, the oldest first.
type refusals map[refusal][]int64

// add notes one that was the seen-th result and returns how many alike there were
// among the last.
func (r refusals) add(what refusal, seen int64, l limits) (alike int64) {
	list := append(r[what], seen)
	for len(list) > 0 && list[0] <= seen-l.window || int64(len(list)) > l.alike {
		list = list[1:]
	}
	r[what] = list
	return int64(len(list))
}

// gate decides for one mapping in one lane whether a refused record becomes a dead
// letter.
type gate struct {
	floods  *floods
	mapping *router.Compiled

	read     int64        // records that became writes, or were refused before: the poll loop's own
	answered atomic.Int64 // writes that the service has answered
	isHalted atomic.Bool  // halted, for those who only ask

	mu       sync.Mutex
	refused  refusals
	halt     ack.Halt // while halted
	reason   string   // why; "": it is not halted
	released int      // how often
}

// floods are the gates of one lane.
type floods struct {
	lane *lane
	limits
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
	refused refusals
	release int // of the gate, when refused was begun
}

func newFloods(l *lane, cfg config.DLQ, mappings []*router.Compiled) *floods {
	f := &floods{lane: l, limits: newLimits(cfg), topics: map[string]*topicWindow{}}
	for _, m := range mappings {
		g := &gate{floods: f, mapping: m, refused: refusals{}}
		f.gates = append(f.gates, g)
		for _, topic := range m.Config.Topics {
			if f.topics[topic] == nil && usesLane(m, l) {
				f.topics[topic] = &topicWindow{gate: g, refused: refusals{}}
			}
		}
	}
	return f
}

// off reports whether no mapping ever halts.
func (f *floods) off() bool { return f.alike == 0 }

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
	return g.refuse(refusalOf(writes.RejectReason(err)), g.read)
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
	return w.gate.refuseIn(w, refusal{stage: deadletter.Decoding, code: "decode"})
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
	return g.refuse(refusalOf(l), seen)
}

// refuse notes what was refused as the seen-th result of its stage, halts the mapping
// if there were too many alike, and reports whether it is halted.
func (g *gate) refuse(what refusal, seen int64) (halted bool) {
	if g.floods.off() {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reason != "" {
		return true
	}
	return g.judge(what, seen, g.refused.add(what, seen, g.floods.limits))
}

// refuseIn is refuse for a window of its own.
func (g *gate) refuseIn(w *topicWindow, what refusal) (halted bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reason != "" {
		return true
	}
	if w.release != g.released {
		w.refused, w.release = refusals{}, g.released
	}
	return g.judge(what, w.seen, w.refused.add(what, w.seen, g.floods.limits))
}

// judge halts the mapping if so many alike are too many, with g.mu held.
func (g *gate) judge(what refusal, seen, alike int64) (halted bool) {
	if alike < g.floods.alike {
		return false
	}
	g.stop(what, fmt.Sprintf("%d of its last %d records were refused alike (%s)", alike, min(seen, g.floods.window), what))
	return true
}

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

// rowsRefused is what all rows in error have in common.
var rowsRefused = refusal{stage: deadletter.Delivering, code: codeImportRow}

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
	first := g.answered.Load() + rows - f.window // what came up to it does not count any more
	older := 0
	for _, at := range g.refused[rowsRefused] {
		if at > first {
			older++
		}
	}
	return g.reason != "" || int64(older)+inError >= f.alike
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
		alike = g.refused.add(rowsRefused, seen-rows+1+i, f.limits)
	}
	g.judge(rowsRefused, seen, alike)
	return g.reason
}

// scaled are a file's rows as a window can hold them.
func (f *floods) scaled(rows, inError int64) (scaledRows, scaledInError int64) {
	if inError = min(inError, rows); rows > f.window {
		return f.window, int64(float64(inError) / float64(rows) * float64(f.window))
	}
	return rows, inError
}

func (f *floods) gateNamed(mapping string) *gate {
	if i := slices.IndexFunc(f.gates, func(g *gate) bool { return g.mapping.Name == mapping }); i >= 0 {
		return f.gates[i]
	}
	return nil
}
