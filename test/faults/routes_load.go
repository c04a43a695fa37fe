package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// routedEvents makes the events of the sink whose routes change, and remembers
// what they lead to.
type routedEvents struct {
	rnd    *rand.Rand
	number int // of the last event
	rows   map[name]row
	last   map[name]*kgo.Record
	seq    map[name]int
	from   map[name]int // number of the row's last event
	gone   map[name]bool
	broken map[string]string // number to topic
}

func newRoutedEvents(seed uint64) *routedEvents {
	return &routedEvents{
		rnd: rand.New(rand.NewPCG(seed, 3)), rows: map[name]row{}, last: map[name]*kgo.Record{}, seq: map[name]int{},
		from: map[name]int{}, gone: map[name]bool{}, broken: map[string]string{},
	}
}

// routedTopics have the same share of the events each.
var routedTopics = []string{contacts, moreContacts, leads, parcels, stock}

// kinds of rows: by what happens to them after they have come.
const (
	replaced = iota // only ever upserted
	deleted         // once, and then upserted again
	patched         // now and then
	created         // and then as patched
)

// kindsOf are the kinds of rows that a topic has.
var kindsOf = map[string][]int{
	contacts: {replaced, deleted, patched}, moreContacts: {replaced, deleted, patched}, leads: {replaced},
	parcels: {replaced, deleted, patched, created}, stock: {replaced, deleted},
}

// routedAge is after how many events all come for other rows: rows come all the
// while, by creates among others.
const routedAge = 3000

// next makes one event and applies it to the model.
func (g *routedEvents) next() *kgo.Record {
	topic := routedTopics[g.rnd.IntN(len(routedTopics))]
	table := strings.TrimSuffix(topic, ".more")
	n := g.rnd.IntN(200)
	id := name{table, fmt.Sprintf("%s-%d-%d", topic, g.number/routedAge, n)}
	kind := kindsOf[topic][n%len(kindsOf[topic])]
	g.number++
	g.seq[id]++
	number := strconv.Itoa(g.number)
	r := &kgo.Record{Topic: topic, Key: []byte(id.key), Headers: []kgo.RecordHeader{
		{Key: numberHeader, Value: []byte(number)}, {Key: "dice", Value: []byte(strconv.Itoa(g.rnd.IntN(10)))},
	}}
	if g.rnd.IntN(1000) < brokenPerMille && topic != stock {
		g.broken[number] = topic
		r.Value = []byte(`{"op":"upsert","businessKey":`)
		if topic == contacts {
			r.Value = g.write(id, "upsert", strings.Repeat("x", 256))
		}
		return r
	}
	g.last[id], g.from[id] = r, g.number
	there := g.rows[id] != nil
	switch {
	case kind == deleted && there && !g.gone[id] && g.rnd.IntN(100) < deletePercent:
		g.gone[id] = true
		delete(g.rows, id) // the record's value is null
		return r
	case kind >= patched && there && g.rnd.IntN(100) < patchPercent:
		r.Value = g.write(id, "patch", "change "+number)
	case kind == created && !there:
		r.Value = g.write(id, "create", "change "+number)
	default:
		r.Value = g.write(id, "upsert", "change "+number)
	}
	return r
}

// write is an event of the row, applied to the model unless it is broken.
func (g *routedEvents) write(id name, op, change string) []byte {
	seq, whole := g.seq[id], op != "patch"
	want := g.rows[id]
	if want == nil || whole {
		want = row{}
	}
	fields := object{"seq": seq}
	custom := id.table != contacts && id.table != leads
	text, extra := "note", "S_tier"
	if custom {
		text, extra = "status", "total"
	}
	fields[text], want[text], want["seq"] = change, change, strconv.Itoa(seq)
	event := object{"op": op}
	value := strconv.Itoa(g.rnd.IntN(1000))
	if !custom {
		value = []string{"gold", "basic"}[g.rnd.IntN(2)]
		fields["customerNumber"], event["key"], event["attributes"] = id.key, object{"customerNumber": id.key}, fields
	} else {
		event["businessKey"], event["properties"] = id.key, fields
	}
	if whole {
		want[extra] = value
		if custom {
			fields[extra] = value
		} else {
			event["segments"] = object{"tier": value}
		}
	}
	if len(change) < 256 {
		g.rows[id] = want
	}
	return encode(event)
}

// routedTablesOf are the tables and ETLs of the service.
func routedTablesOf() (tables []sandbox.Table, etls []sandbox.ETL) {
	modes := map[string]sandbox.Mode{
		"upsert": sandbox.CreateOrUpdate, "patch": sandbox.UpdateOnly, "delete": sandbox.DeleteRows, "create": sandbox.CreateOnly,
	}
	for _, t := range routedTables {
		st := sandbox.Table{Name: t.name, Custom: t.custom}
		if t.custom {
			st.Fields = []sandbox.Field{{Name: "seq", Type: sandbox.Number}, {Name: "status"}, {Name: "total"}}
		} else {
			st.Keys = []string{"customerNumber"}
			st.Fields = []sandbox.Field{{Name: "customerNumber"}, {Name: "seq", Type: sandbox.Integer}, {Name: "note"}}
			st.Segments = []sandbox.Segment{{Name: "tier", Values: []string{"gold", "basic"}}}
		}
		tables = append(tables, st)
		for n, op := range strings.Fields(t.loads) {
			load := sandbox.Load{Table: t.name, Mode: modes[op], GenerateErrorFiles: true, GenerateResultFiles: true}
			load.IgnoreEmptyValues = op == "patch"
			etls = append(etls, sandbox.ETL{ID: fmt.Sprint(t.etls, "0", n), Loads: []sandbox.Load{load}})
		}
	}
	return tables, etls
}
