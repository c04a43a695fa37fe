package dev

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Generator makes sample events and remembers what they must lead to.
type Generator struct {
	rnd   *rand.Rand
	Model Model
}

// NewGenerator makes the same events for the same seed.
func NewGenerator(seed uint64) *Generator {
	tables := map[string]map[string]row{"customers": {}, "orders": {}}
	return &Generator{rnd: rand.New(rand.NewPCG(seed, seed)), Model: Model{tables: tables}}
}

// Of every hundred events about this many are orders, and of every thousand
// one is broken.
const (
	ordersPercent  = 40
	brokenPerMille = 1
	customersCount = 5000
	ordersCount    = 3000
)

// Next makes one event and applies it to the model.
func (g *Generator) Next() *kgo.Record {
	kind := g.customer
	if g.rnd.IntN(100) < ordersPercent {
		kind = g.order
	}
	r := kind()
	r.Headers = []kgo.RecordHeader{{Key: "source", Value: []byte("playground")}}
	return r
}

type row = map[string]any

// customer changes one customer. A customer's tier, and with it its lane, is
// given by its number.
func (g *Generator) customer() *kgo.Record {
	n := g.rnd.IntN(customersCount)
	number := fmt.Sprintf("C%06d", n)
	tier := [...]string{"gold", "silver", "basic", "basic"}[n%4]
	r := &kgo.Record{Topic: Customers, Key: []byte(number)}
	switch dice := g.rnd.IntN(1000); {
	case dice < brokenPerMille:
		g.Model.Dead++
		r.Value = []byte(`{"op":"upsert","key":{"customerNumber":"` + number + `"},"attributes":{"lastName":"` + strings.Repeat("x", 256) + `"}}`)
		return r
	case dice < 30 && tier != "gold":
		g.Model.delete("customers", number)
		return r // a tombstone: its value is null
	}
	first, last := firstNames[g.rnd.IntN(len(firstNames))], lastNames[g.rnd.IntN(len(lastNames))]
	want := row{
		"customerNumber": number, "firstName": first, "lastName": last,
		"emailAddress": strings.ToLower(fmt.Sprintf("customer.%d@example.com", n)),
		"languages":    languages[g.rnd.IntN(len(languages))],
		"points":       g.rnd.IntN(100_000),
	}
	newsletter, vip := g.rnd.IntN(2) == 0, g.rnd.IntN(10) == 0
	r.Value = encode(row{
		"op": "upsert", "key": row{"customerNumber": number}, "attributes": want,
		"subscriptions": row{"newsletter": newsletter}, "segments": row{"vip": vip, "tier": tier},
	})
	stored := row{"subscriptions#newsletter": newsletter, "S_vip": vip, "S_tier": tier}
	maps.Copy(stored, want)
	g.Model.tables["customers"][number] = stored
	return r
}

// order changes one order: placed, paid step by step, sometimes deleted.
func (g *Generator) order() *kgo.Record {
	key := fmt.Sprintf("4c1f%04x", g.rnd.IntN(ordersCount))
	r := &kgo.Record{Topic: Orders, Key: []byte(key)}
	state := states[g.rnd.IntN(len(states))]
	switch dice := g.rnd.IntN(1000); {
	case dice < brokenPerMille:
		g.Model.Dead++
		r.Value = []byte(`{"op":"upsert","businessKey":"` + key + `","properties":`)
	case dice < 40:
		g.Model.delete("orders", key)
	case dice < 300 && g.Model.tables["orders"][key] != nil:
		r.Value = encode(row{"op": "patch", "businessKey": key, "properties": row{"status": state}})
		g.Model.merge("orders", key, row{"status": state})
	default:
		want := row{
			"customer":   fmt.Sprintf("C%06d", g.rnd.IntN(customersCount)),
			"orderTotal": json.Number(strconv.FormatFloat(float64(g.rnd.IntN(100_000))/100, 'f', 2, 64)),
			"status":     state,
		}
		r.Value = encode(row{"op": "upsert", "businessKey": key, "properties": want})
		g.Model.merge("orders", key, want)
	}
	return r
}

func encode(v row) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of strings, numbers and booleans
	}
	return b
}

// Produce sends records and returns once the broker has them.
func (p *Playground) Produce(ctx context.Context, records ...*kgo.Record) error {
	if err := p.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	return nil
}

var (
	firstNames = []string{"Ada", "Björn", "Chloé", "Dimitri", "Elif", "Fatima", "Grace", "Hana", "Ivo", "Jürgen", "Kenji", "Łucja", "Ming"}
	lastNames  = []string{"Ångström", "Bernard", "Çelik", "Dvořák", "Evans", "Ferrari", "García", "Højgaard", "O'Neill", "Smith, Jr.", "\"Zed\" Zamora", "田中"}
	languages  = [][]string{{"fr"}, {"en"}, {"de", "en"}, {"fr", "nl"}, {"ja", "en"}}
	states     = []string{"PLACED", "PAID", "SHIPPED", "RETURNED"}
)
