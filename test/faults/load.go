package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// name is one row of one table.
type name struct{ table, key string }

// row is what a row holds, by column.
type row map[string]string

// table is one table and the topic of its name.
type table struct {
	name    string
	custom  bool
	keys    int // few keys meet each other often
	percent int // of all events
	calls   bool
	files   bool
}

// tables are by which lanes they are written. The files of invoices wait for what
// was read for customers, those of prospects and visits are one bundle.
var tables = []table{
	{"customers", false, 300, 28, true, true},
	{"prospects", false, 300, 10, false, true},
	{"partners", false, 60, 10, false, true},
	{"orders", true, 300, 14, true, false},
	{tickets, true, 25, 12, true, false},
	{baskets, true, 40, 10, true, true},
	{"invoices", true, 300, 10, false, true},
	{"visits", true, 100, 6, false, true},
}

// tickets are events that mostly say what the last one of their row has said: such calls are
// not made.
const (
	tickets       = "tickets"
	repeatPercent = 60
)

// baskets are upserted, patched and deleted at random by both lanes: a patch may find nothing.
const baskets = "baskets"

// creates reports whether a row comes by op create.
func (t table) creates(n int) bool {
	return t.name == "invoices" || t.calls && t.custom && t.name != baskets && n%4 == 1
}

// deletable reports whether a row may be deleted. Patches are for others only.
func (t table) deletable(n int) bool {
	if t.custom {
		return t.calls && n%2 == 0
	}
	return t.name != "customers" || !gold(n)
}

// gold says whether a customer is one whose tier is gold, turncoat whether it is
// one whose tier changes: by their routes to begin with, gold ones go out as calls.
func gold(n int) bool { return n%3 == 0 }

func (g *generator) turncoat(t table, n int) bool {
	return g.bothLanes && t.name == "customers" && n%3 == 1
}

// lane is the header that a basket's event goes by: each row's are in both lanes, or in one.
func (g *generator) lane(n int) kgo.RecordHeader {
	if g.bothLanes {
		n = g.rnd.IntN(2)
	}
	return kgo.RecordHeader{Key: "lane", Value: []byte([]string{"now", "later"}[n%2])}
}

// both says whether rows of the table are written through both lanes. The batch
// lane's owner may send calls for any of them: a key can be taken for another of
// the same hash, and routes change.
func (g *generator) both(table string) bool {
	return g.bothLanes && (table == "customers" || table == baskets)
}

// brokenPerMille is how many of a thousand events can never be applied.
const brokenPerMille = 2

// generator makes events and remembers what they lead to.
type generator struct {
	rnd       *rand.Rand
	bothLanes bool // some rows are written through both lanes

	number  int             // of the last event
	rows    map[name]row    // what the tables must hold
	seq     map[name]int    // of the last event of a row
	deletes map[name]int    // seq of the one delete of a row
	broken  map[string]bool // numbers of events that must end as dead letters
	void    map[string]bool // numbers of patches that find nothing: they may
	again   map[name][]byte // what the last event of a ticket has said, if it may be said again
}

func newGenerator(seed uint64, bothLanes bool) *generator {
	return &generator{
		rnd: rand.New(rand.NewPCG(seed, seed)), bothLanes: bothLanes,
		rows: map[name]row{}, seq: map[name]int{}, deletes: map[name]int{}, broken: map[string]bool{}, void: map[string]bool{}, again: map[name][]byte{},
	}
}

// eventsOfAnAge is after how many events all come for other rows: so that there
// are always some that were never deleted.
const eventsOfAnAge = 10_000

// numberHeader carries an event's number: what a dead letter is known by.
const numberHeader = "number"

// next makes an event of any row.
func (g *generator) next() *kgo.Record {
	t, dice := tables[0], g.rnd.IntN(100)
	for _, t = range tables {
		if dice -= t.percent; dice < 0 {
			break
		}
	}
	return g.event(t, g.rnd.IntN(t.keys))
}

// event makes one event of a table's row and applies it to the model.
func (g *generator) event(t table, n int) *kgo.Record {
	id := name{t.name, fmt.Sprintf("%s-%d-%d", t.name, g.number/eventsOfAnAge, n)}
	g.number++
	r := &kgo.Record{Topic: t.name, Key: []byte(id.key)}
	r.Headers = []kgo.RecordHeader{{Key: numberHeader, Value: []byte(strconv.Itoa(g.number))}}
	if said := g.again[id]; said != nil && g.rnd.IntN(100) < repeatPercent {
		r.Value = said
		return r
	}
	g.seq[id]++
	tier := "basic"
	switch {
	case g.turncoat(t, n) && g.rnd.IntN(2) == 0:
		tier = "gold"
	case !g.turncoat(t, n) && gold(n):
		tier = "gold"
	}
	if g.rnd.IntN(1000) < brokenPerMille {
		g.broken[strconv.Itoa(g.number)] = true
		r.Value = g.profile(id, tier, strings.Repeat("x", 256)) // one more than fits
		if t.custom {
			r.Value = []byte(`{"op":"upsert","businessKey":`)
		}
		return r
	}
	_, deleted := g.deletes[id]
	there, dice := g.rows[id] != nil, g.rnd.IntN(100)
	switch {
	case t.name == baskets:
		r.Headers = append(r.Headers, g.lane(n))
		switch {
		case dice < 15:
			delete(g.rows, id) // the record's value is null
		case dice < 45 && !there:
			g.void[strconv.Itoa(g.number)] = true
			r.Value = g.record(id, "patch", row{"status": g.change()})
			delete(g.rows, id)
		case dice < 45:
			r.Value = g.record(id, "patch", row{"status": g.change()})
		default:
			r.Value = g.record(id, "upsert", row{"status": g.change(), "total": strconv.Itoa(g.rnd.IntN(1000))})
		}
	case t.deletable(n) && there && !deleted && dice < deletePercent:
		g.deletes[id] = g.seq[id]
		delete(g.rows, id) // the record's value is null
	case t.custom && t.calls && !t.deletable(n) && there && dice < patchPercent:
		r.Value = g.record(id, "patch", row{"status": g.change()})
	case t.custom:
		op := "upsert"
		if t.creates(n) && !there {
			op = "create"
		}
		r.Value = g.record(id, op, row{"status": g.change(), "total": strconv.Itoa(g.rnd.IntN(1000))})
	default:
		r.Value = g.profile(id, tier, g.change())
		g.rows[id] = row{"customerNumber": id.key, "seq": strconv.Itoa(g.seq[id]), "note": g.change(), "S_tier": tier}
	}
	delete(g.again, id)
	if t.name == tickets && r.Value != nil && (there || !t.creates(n)) { // not a create
		g.again[id] = r.Value
	}
	return r
}

// Of a hundred events of a row that may have one, this many are one.
const (
	deletePercent = 5
	patchPercent  = 40
)

func (g *generator) profile(id name, tier, note string) []byte {
	return encode(object{
		"op": "upsert", "key": object{"customerNumber": id.key},
		"attributes": object{"customerNumber": id.key, "seq": g.seq[id], "note": note},
		"segments":   object{"tier": tier},
	})
}

// record changes a table record and the model. An upsert keeps the properties
// it doesn't name, as a patch does.
func (g *generator) record(id name, op string, properties row) []byte {
	if g.rows[id] == nil {
		g.rows[id] = row{}
	}
	maps.Copy(g.rows[id], properties)
	g.rows[id]["seq"] = strconv.Itoa(g.seq[id])
	body := object{"seq": g.seq[id]}
	for column, v := range properties {
		body[column] = v
	}
	return encode(object{"op": op, "businessKey": id.key, "properties": body})
}

func (g *generator) change() string { return "change " + strconv.Itoa(g.number) }

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of strings and numbers
	}
	return b
}

type object = map[string]any

// load produces the generator's events without pause, unless it is held.
type load struct {
	client *kgo.Client
	rate   int

	running sync.WaitGroup
	ended   context.CancelFunc
	failed  chan error
	held    bool // by whoever strikes, who alone holds and resumes

	mu        sync.Mutex // held while the load is
	next      func() *kgo.Record
	number    int            // of events
	generator *generator     // whose events these are, of the sink that all faults but one are about
	home      map[name]int32 // partition
}

// interval is how often a bunch of events goes out.
const interval = 50 * time.Millisecond

// startLoad begins held.
func startLoad(ctx context.Context, client *kgo.Client, next func() *kgo.Record, rate int) *load {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{client: client, rate: rate, ended: cancel, failed: make(chan error, 1), held: true, next: next, home: map[name]int32{}}
	l.mu.Lock()
	l.running.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := l.produce(ctx); err != nil {
				l.failed <- err
				return
			}
		}
	})
	return l
}

// produce sends a bunch and returns once the broker has it, however long it was
// away.
func (l *load) produce(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil {
		return nil // held until the end
	}
	bunch := make([]*kgo.Record, max(1, l.rate*int(interval)/int(time.Second)))
	for i := range bunch {
		bunch[i] = l.next()
	}
	return l.send(ctx, bunch)
}

// send sends a bunch. No other is on its way.
func (l *load) send(ctx context.Context, bunch []*kgo.Record) error {
	if err := l.client.ProduceSync(ctx, bunch...).FirstErr(); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	l.number += len(bunch)
	for _, r := range bunch {
		l.home[name{r.Topic, string(r.Key)}] = r.Partition
	}
	return nil
}

// resume lets events come again.
func (l *load) resume() {
	l.held = false
	l.mu.Unlock()
}

// hold returns once no event is on its way to the broker and none follows.
func (l *load) hold() error {
	l.mu.Lock()
	l.held = true
	select {
	case err := <-l.failed:
		return err
	default:
		return nil
	}
}

// soFar is how many events there were while the load may go on.
func (l *load) soFar() int {
	if !l.held {
		l.mu.Lock()
		defer l.mu.Unlock()
	}
	return l.number
}

// count is how many events there were. The load is held.
func (l *load) count() int { return l.number }

// end stops the load, held or not.
func (l *load) end() {
	l.ended()
	if l.held {
		l.resume()
	}
	l.running.Wait()
}
