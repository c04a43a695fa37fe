package flood

import (
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
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

// gate decides for one mapping in one lane whether a refused record becomes a dead
// letter.
type gate struct {
	of      *Gates
	mapping *router.Compiled

	read     int64        // records that became writes, or were refused before: the poll loop's own
	answered atomic.Int64 // writes that the service has answered
	isHalted atomic.Bool  // halted, for those who only ask
	isPaused atomic.Bool  // a person has paused it in this lane: no call of it starts; changed under mu

	mu       sync.Mutex
	refused  Refusals
	halt     ack.Halt // while halted
	reason   string   // why; "": it is not halted
	released int      // how often
}

// Gates are those of one lane. A method whose doc does not say otherwise may be called
// from any goroutine.
type Gates struct {
	lane   Lane
	limits Limits
	gates  []*gate                 // by mapping
	topics map[string]*topicWindow // what could be decoded: it cannot be told whose it is
}

// Lane is the lane whose mappings halt.
type Lane struct {
	Which  schemas.Lane
	Source Source
	Calls  Calls // nil: the lane makes none
	Log    *slog.Logger
}

// Source has the lane's partitions. Halts are kept in their ledgers.
type Source interface {
	Partitions() []*kafka.Partition
	CommitSoon()
}

// Calls starts no calls of a mapping that is halted or paused.
type Calls interface {
	Halt(mapping string)
	Resume(mapping string)
	Halted() int // writes that wait for it
}

// topicWindow is what of a topic's records could be decoded. It is the poll loop's
// own.
type topicWindow struct {
	gate    *gate // of the first mapping that reads the topic in this lane: it halts
	seen    int64
	refused Refusals
	release int // of the gate, when refused was begun
}

// New has a gate for each mapping.
func New(lane Lane, limits Limits, mappings []*router.Compiled) *Gates {
	f := &Gates{lane: lane, limits: limits, topics: map[string]*topicWindow{}}
	for _, m := range mappings {
		g := &gate{of: f, mapping: m, refused: Refusals{}}
		f.gates = append(f.gates, g)
		for _, topic := range m.Config.Topics {
			if f.topics[topic] == nil && m.Uses(f.lane.Which) {
				f.topics[topic] = &topicWindow{gate: g, refused: Refusals{}}
			}
		}
	}
	return f
}

// off reports whether no mapping ever halts.
func (f *Gates) off() bool { return f.limits.Alike == 0 }

// Halted reports whether records of the mapping have to wait.
func (f *Gates) Halted(m *router.Compiled) bool { return f.gates[m.Index].isHalted.Load() }

// Reason is why the mapping of that name is halted, and how it goes on; "": it is not.
func (f *Gates) Reason(mapping string) string {
	g := f.gateNamed(mapping)
	if g == nil {
		return ""
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reason
}

// Waiting is how many records wait for a mapping to be released or resumed, of those that
// were handed to the calls. They must not take the room of others.
func (f *Gates) Waiting() int64 {
	if f.lane.Calls == nil || !slices.ContainsFunc(f.gates, func(g *gate) bool { return g.isHalted.Load() || g.isPaused.Load() }) {
		return 0
	}
	return int64(f.lane.Calls.Halted())
}

// Read notes that a record became a write of the mapping, or was refused before. It is
// called by the poll loop.
func (f *Gates) Read(m *router.Compiled) { f.gates[m.Index].read++ }

// Rejects notes that a record that was read could not become a write of the mapping,
// and reports whether it has to wait. It is called by the poll loop.
func (f *Gates) Rejects(m *router.Compiled, err error) (wait bool) {
	g := f.gates[m.Index]
	return g.refuse(RefusalOf(writes.RejectReason(err)), g.read)
}

// Decoded counts the records of the topic that could be decoded. The count is the poll
// loop's own.
func (f *Gates) Decoded(topic string) (count *int64) {
	if w := f.topics[topic]; w != nil {
		return &w.seen
	}
	return new(int64)
}

// Undecodable notes that a record could not be decoded, and reports whether it has
// to wait. It is called by the poll loop.
func (f *Gates) Undecodable(topic string) bool {
	w := f.topics[topic]
	if f.off() || w == nil {
		return false
	}
	w.seen++
	return w.gate.refuseIn(w, Refusal{Stage: deadletter.Decoding, Code: "decode"})
}

// Confirmed notes that the service has confirmed a write of the mapping. A delete of nothing is
// none: where entity or table are wrong, each may be one.
func (f *Gates) Confirmed(m *router.Compiled) { f.gates[m.Index].answered.Add(1) }

// Refused notes that the service has refused a write, and reports whether it has to
// wait. A conflict says that entity and table are right, and is the data's: it counts
// as any other answer.
func (f *Gates) Refused(m *router.Compiled, err error) (wait bool) {
	g, l := f.gates[m.Index], writes.RefusalReason(err)
	seen := g.answered.Add(1)
	if l.Code == writes.CodeConflict {
		return false
	}
	return g.refuse(RefusalOf(l), seen)
}

// refuse notes what was refused as the seen-th result of its stage, halts the mapping
// if there were too many alike, and reports whether it is halted.
func (g *gate) refuse(what Refusal, seen int64) (halted bool) {
	if g.of.off() {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reason != "" {
		return true
	}
	return g.judge(what, seen, g.refused.Add(what, seen, g.of.limits))
}

// refuseIn is refuse for a window of its own.
func (g *gate) refuseIn(w *topicWindow, what Refusal) (halted bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reason != "" {
		return true
	}
	if w.release != g.released {
		w.refused, w.release = Refusals{}, g.released
	}
	return g.judge(what, w.seen, w.refused.Add(what, w.seen, g.of.limits))
}

// judge halts the mapping if so many alike are too many, with g.mu held.
func (g *gate) judge(what Refusal, seen, alike int64) (halted bool) {
	how := g.of.limits.Flood(what, seen, alike)
	if how != "" {
		g.stop(what, how)
	}
	return how != ""
}

// stop halts the mapping, with g.mu held.
func (g *gate) stop(what Refusal, how string) {
	f, name := g.of, g.mapping.Name
	g.halt = ack.Halt{Mapping: HashOf(name), Stage: string(what.Stage), Code: what.Code, Status: what.Status}
	g.reason = fmt.Sprintf("mapping %s is halted in the %s lane: %s, which is a mistake and not data (dlq.flood). "+
		"Its records wait unconfirmed. Fix the cause: entity, table, ETL, fields or the events' producer. "+
		"A restart alone does not end this. Once the cause is gone: feedsink imports release --mapping %s",
		name, f.lane.Which, how, name)
	g.isHalted.Store(true)
	g.tellCalls()
	g.pause(f.lane.Source.Partitions())
	f.lane.Log.Error("mapping halted: nearly all of its records are refused alike. They wait unconfirmed; fix the cause, then release it: a restart alone does not end this",
		"mapping", name, "stage", what.Stage, "code", what.Code, "status", what.Status, "how", how,
		"with", "feedsink imports release --mapping "+name, "since", time.Now())
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
	g.of.lane.Source.CommitSoon()
}

// Release lets the mapping go on: what waits is tried again, and counted anew. It
// reports false if it is not halted.
func (f *Gates) Release(mapping string) bool {
	g := f.gateNamed(mapping)
	return g != nil && g.release()
}

func (g *gate) release() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reason == "" {
		return false
	}
	f, name := g.of, g.mapping.Name
	for _, p := range f.lane.Source.Partitions() {
		p.Resume(floodCause(name))
		p.ForgetHalt(g.halt.Mapping)
	}
	f.lane.Source.CommitSoon()
	g.goOn()
	f.lane.Log.Warn("mapping released: its records are tried again", "mapping", name, "since", time.Now())
	return true
}

// Assigned takes over the halts that former owners of the partitions left. It is
// called before their first record.
func (f *Gates) Assigned(ps []*kafka.Partition) {
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

// Left forgets the halts of mappings of which this member has no partition any more:
// the ledgers have them for the next owners, and only those can be released.
func (f *Gates) Left(ps []*kafka.Partition) {
	for _, g := range f.gates {
		g.mu.Lock()
		reads := func(p *kafka.Partition) bool {
			return !slices.Contains(ps, p) && slices.Contains(g.mapping.Config.Topics, p.Topic)
		}
		if g.reason != "" && !slices.ContainsFunc(f.lane.Source.Partitions(), reads) {
			g.goOn()
		}
		g.mu.Unlock()
	}
}

// goOn begins to count anew, with g.mu held.
func (g *gate) goOn() {
	g.reason, g.refused, g.released = "", Refusals{}, g.released+1
	g.isHalted.Store(false)
	g.tellCalls()
}

// SetPaused starts no calls of the mapping, or lets them go on, as a person has asked for
// it. Its records may come all the same, and wait for their calls: those of other
// mappings are behind them. It reports whether that is a change.
func (f *Gates) SetPaused(m *router.Compiled, yes bool) (changed bool) {
	g := f.gates[m.Index]
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isPaused.Swap(yes) == yes {
		return false
	}
	g.tellCalls()
	return true
}

// tellCalls starts calls of the mapping unless it is halted or paused, with g.mu held.
func (g *gate) tellCalls() {
	switch calls := g.of.lane.Calls; {
	case calls == nil:
	case g.isHalted.Load() || g.isPaused.Load():
		calls.Halt(g.mapping.Name)
	default:
		calls.Resume(g.mapping.Name)
	}
}

// inherit halts the mapping as it was before a restart or a move.
func (g *gate) inherit(h ack.Halt) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reason == "" {
		what := Refusal{Stage: deadletter.Stage(h.Stage), Code: h.Code, Status: h.Status}
		g.stop(what, fmt.Sprintf("nearly all of its records were refused alike (%s) and it was not released since", what))
	}
}

// gateOf is the gate of the mapping of that hash, if it reads the topic in this lane.
func (f *Gates) gateOf(mapping uint64, topic string) *gate {
	for _, g := range f.gates {
		if HashOf(g.mapping.Name) == mapping && g.mapping.Uses(f.lane.Which) && slices.Contains(g.mapping.Config.Topics, topic) {
			return g
		}
	}
	return nil
}

func floodCause(mapping string) string { return "flood of mapping " + mapping }

// HashOf is a mapping's name as ledgers have it.
func HashOf(mapping string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(mapping)) // never fails
	return h.Sum64()
}

// rowsRefused is what all rows in error have in common.
var rowsRefused = Refusal{Stage: deadletter.Delivering, Code: writes.CodeImportRow}

// Suspects reports whether an import of so many rows, of which so many are in error, may
// be a flood together with what came before.
func (f *Gates) Suspects(mapping string, rows, inError int64) bool {
	g := f.gateNamed(mapping)
	if f.off() || g == nil || inError == 0 {
		return false
	}
	rows, inError = f.scaled(rows, inError)
	g.mu.Lock()
	defer g.mu.Unlock()
	first := g.answered.Load() + rows - f.limits.Window // what came up to it does not count any more
	older := 0
	for _, at := range g.refused[rowsRefused] {
		if at > first {
			older++
		}
	}
	return g.reason != "" || int64(older)+inError >= f.limits.Alike
}

// Ended notes an import, and returns why its mapping is halted, "": it is not. A file of
// more rows than the window counts with its share of rows in error; one of fewer counts
// together with those before.
func (f *Gates) Ended(mapping string, rows, inError int64) (reason string) {
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
		alike = g.refused.Add(rowsRefused, seen-rows+1+i, f.limits)
	}
	g.judge(rowsRefused, seen, alike)
	return g.reason
}

// scaled are a file's rows as a window can hold them.
func (f *Gates) scaled(rows, inError int64) (scaledRows, scaledInError int64) {
	if inError = min(inError, rows); rows > f.limits.Window {
		return f.limits.Window, int64(float64(inError) / float64(rows) * float64(f.limits.Window))
	}
	return rows, inError
}

func (f *Gates) gateNamed(mapping string) *gate {
	if i := slices.IndexFunc(f.gates, func(g *gate) bool { return g.mapping.Name == mapping }); i >= 0 {
		return f.gates[i]
	}
	return nil
}
