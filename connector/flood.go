package connector

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/router"
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

// flood says how many were refused alike if those are too many, else "".
func (l limits) flood(what refusal, seen, alike int64) (how string) {
	if alike < l.alike {
		return ""
	}
	return fmt.Sprintf("%d of its last %d records were refused alike (%s)", alike, min(seen, l.window), what)
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
	return g.refuse(refusalOf(rejectReason(err)), g.read)
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
	l := refusalReason(err)
	seen := g.answered.Add(1)
	if l.Code == codeConflict {
		return false
	}
	return g.refuse(refusalOf(l), seen)
}

// codeConflict is the reason code of unique keys that match different profiles, and
// of a record that exists already.
const codeConflict = "conflict"

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
	how := g.floods.flood(what, seen, alike)
	if how != "" {
		g.stop(what, how)
	}
	return how != ""
}
