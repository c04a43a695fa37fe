//go:build simulation

package simulation

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/schemas"
)

// table is one of the service's tables, how it is fed, and what it must hold.
type table struct {
	name   string
	topic  string
	lanes  string // immediate, batch, both or auto
	format string
	// bundled says that the files of both tables go as one.
	bundled bool
	routes  routes
	keys    map[string]*key
	names   []string // of the keys, in the order of their first events
	last    string   // the key of its last event
	// repeated says that its records were read again from the first: a create may find
	// what it has created.
	repeated bool
	letters  []int // how many dead letters there were when its topic was created again
	paused   bool  // by a person, and nobody has resumed it
	again    int   // per cent of the events that say what one of the last two of their key has said
	skips    bool  // calls that say nothing new
	clears   bool  // patches and merges may clear the note, which calls alone do
}

func (t *table) custom() bool { return t.name == "orders" }
func (t *table) byCall() bool { return t.lanes == "immediate" }
func (t *table) byFile() bool { return t.lanes == "batch" || t.auto() }
func (t *table) auto() bool   { return t.lanes == "auto" }

// uses reports whether records of the table take the lane. Those of auto routes are the
// batch lane's.
func (t *table) uses(lane schemas.Lane) bool {
	return t.lanes == "both" || t.byCall() == (lane == schemas.Immediate)
}

// forgotten reports whether the slots that were on record are gone: with the group's offsets,
// or with the topic, where another process has it now.
func (t *table) forgotten() bool { return t.repeated || len(t.letters) > 0 }

// group is the consumer group of a table with one lane.
func (t *table) group() string {
	if t.byCall() {
		return group + "-immediate"
	}
	return group + "-batch"
}

// key is one profile or table record. All of its events are in one partition.
type key struct {
	kind      string
	partition int32
	events    []*event
}

// The kinds of keys, by the events that they get. A patched one is never deleted: a
// patch that is sent once more after a crash would find nothing, as a mistake does.
const (
	upserted = "upserted" // upserts
	deleted  = "deleted"  // upserts and deletes
	patched  = "patched"  // an upsert, then patches and upserts
	created  = "created"  // a create, then patches and upserts
	merged   = "merged"   // merges, upserts and deletes
	mixed    = "mixed"    // an upsert, then patches, merges and upserts
	orphan   = "orphan"   // a patch of nothing
	broken   = "broken"   // values that no table takes, and upserts
)

func (t *table) kinds() []string {
	switch {
	case t.bundled:
		return []string{upserted, upserted, deleted, broken}
	case t.format == debezium && (t.custom() || t.byFile()):
		return []string{upserted, upserted, deleted, patched, broken}
	case t.custom() && t.lanes != "both":
		return []string{upserted, upserted, deleted, patched, created, merged, orphan, broken}
	case t.clears:
		return []string{upserted, upserted, deleted, patched, merged, mixed, broken}
	case t.custom():
		return []string{upserted, upserted, deleted, patched, merged, broken}
	case t.byFile():
		return []string{upserted, upserted, deleted, patched, created, merged, orphan, broken}
	}
	return []string{upserted, upserted, broken}
}

// event is one record, as the model knows it.
type event struct {
	op     string
	values map[string]string // columns that it names
	broken bool
	// refused: only the service finds that.
	refused bool
	lane    string // the header that routes ask
	at      place
}

// generator makes events. It alone knows their order.
type generator struct {
	rnd    *rand.Rand
	number int
	events int // that the topics have
}

// recent is how many of a table's keys are written again, besides the hot ones: what went
// wrong with a former one shows in the end, as nothing is written over it.
const recent = 12

// next makes one event of the table: of a new key, of the one before, of a hot one or of a recent one.
func (g *generator) next(t *table, partitions int32) (*key, *event, *kgo.Record) {
	var name string
	switch dice := g.rnd.IntN(100); {
	case len(t.names) == 0 || dice < 25:
		name = t.add(&key{kind: t.kinds()[g.rnd.IntN(len(t.kinds()))], partition: g.rnd.Int32N(partitions)})
	case dice < 40 && t.last != "":
		name = t.last
	case dice < 55:
		name = t.names[g.rnd.IntN(min(5, len(t.names)))]
	default:
		name = t.names[len(t.names)-1-g.rnd.IntN(min(recent, len(t.names)))]
	}
	k := t.keys[name]
	if k.kind == orphan && len(k.events) > 0 {
		return g.next(t, partitions)
	}
	t.last = name
	e, r := g.event(t, name)
	return k, e, r
}

// add gives the table one more key, and the key its name.
func (t *table) add(k *key) (name string) {
	name = fmt.Sprintf("%s-key-%d", t.name, len(t.names))
	t.keys[name], t.names = k, append(t.names, name)
	return name
}

// event is the key's next one.
func (g *generator) event(t *table, name string) (*event, *kgo.Record) {
	k := t.keys[name]
	if e := g.again(t, k); e != nil {
		return e, g.record(t, name, k, e)
	}
	g.number++
	e := &event{op: g.op(k), broken: k.kind == broken && g.rnd.IntN(2) == 0}
	e.values = map[string]string{"seq": strconv.Itoa(g.number)}
	if !partial(e.op) || t.format != debezium && g.rnd.IntN(2) == 0 {
		e.values["note"] = fmt.Sprintf("note %d", g.number)
	}
	if t.clears && partial(e.op) && g.rnd.IntN(3) == 0 {
		e.values["note"] = ""
	}
	if n := len(k.events); n > 0 && k.events[n-1].op == "delete" && e.op == "upsert" {
		delete(e.values, "note") // what was before must not come back
	}
	if e.broken {
		e.values["note"] = strings.Repeat("x", 256) // one more than fits
		if e.refused = g.number%2 == 0; e.refused {
			e.values["note"] = fmt.Sprintf("refused %d", g.number)
		}
	}
	if e.op == "delete" {
		e.values = nil
	}
	return e, g.record(t, name, k, e)
}

// again is the key's last event but one, or its last, once more; nil: its next one is new.
func (g *generator) again(t *table, k *key) *event {
	if len(k.events) == 0 || g.rnd.IntN(100) >= t.again {
		return nil
	}
	e := *k.events[max(0, len(k.events)-1-g.rnd.IntN(2))]
	if _, noted := e.values["note"]; e.op == "create" || e.op == "upsert" && !noted { // what it leaves of a note depends on the lane
		return nil
	}
	return &e
}

// op is what the key's next event does.
func (g *generator) op(k *key) string {
	first := len(k.events) == 0
	switch dice := g.rnd.IntN(100); {
	case k.kind == orphan:
		return "patch"
	case k.kind == created && first:
		return "create"
	case (k.kind == deleted || k.kind == merged) && !first && dice < 30:
		return "delete"
	case k.kind == merged && dice < 80:
		return "merge"
	case k.kind == mixed && !first && dice >= 60 && dice < 90:
		return "merge"
	case (k.kind == patched || k.kind == created || k.kind == mixed) && !first && dice < 60:
		return "patch"
	}
	return "upsert"
}

func (g *generator) record(t *table, name string, k *key, e *event) *kgo.Record {
	value := t.value(g.rnd, name, e)
	e.lane = []string{"a", "b", "c"}[g.rnd.IntN(3)]
	return &kgo.Record{
		Topic: t.topic, Partition: k.partition, Key: t.kafkaKey(name), Value: value,
		Headers: []kgo.RecordHeader{{Key: "lane", Value: []byte(e.lane)}},
	}
}

// apply is what the event makes of a row, nil being none, where it is applied alone.
// refused says that a service that is well does not take it.
func (e *event) apply(row map[string]string) (after map[string]string, refused bool) {
	switch {
	case e.broken, e.op == "patch" && row == nil, e.op == "create" && row != nil:
		return row, true
	case e.op == "delete":
		return nil, false
	}
	after = map[string]string{}
	maps.Copy(after, row)
	maps.Copy(after, e.values)
	return after, false
}
