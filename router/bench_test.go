package router_test

import (
	"fmt"
	"testing"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

const profileEvent = `{"op":"upsert","key":{"customerNumber":"C000123"},"profileId":null,` +
	`"attributes":{"customerNumber":"C000123","emailAddress":"a@example.com","languages":["fr","en"]},` +
	`"subscriptions":{"newsletter":true},"segments":{"vip":true,"tier":"gold"},` +
	`"dataCollection":{"date":"2026-11-21T10:00:00Z","source":"shop","way":"checkout"}}`

func BenchmarkRoute(b *testing.B) {
	plain := customers()
	plain.Routes = []router.Route{{Lane: "batch"}}
	for name, m := range map[string]router.Mapping{"one-condition": customers(), "no-condition": plain} {
		b.Run(name, func(b *testing.B) {
			r := compile(b, m)
			rec := router.Record{Topic: "crm.customers", Value: value(b, profileEvent)}
			b.ReportAllocs()
			var routed []router.Routed
			for b.Loop() {
				if routed = r.Route(routed[:0], &rec); routed[0].Err != nil {
					b.Fatal(routed[0].Err)
				}
			}
		})
	}
}

func BenchmarkDecodeAndRoute(b *testing.B) {
	r := compile(b, customers())
	decoder := schemas.NewJSON()
	data := []byte(profileEvent)
	b.ReportAllocs()
	var routed []router.Routed
	for b.Loop() {
		v, err := decoder.Decode(data)
		if err != nil {
			b.Fatal(err)
		}
		if routed = r.Route(routed[:0], &router.Record{Topic: "crm.customers", Value: v}); routed[0].Err != nil {
			b.Fatal(routed[0].Err)
		}
	}
}

// BenchmarkMap is a record mapped by fields of every kind.
func BenchmarkMap(b *testing.B) {
	paths := mapped(router.Field{From: "name.first", To: "first"})
	paths.Fields = append(
		paths.Fields,
		router.Field{From: "cents", To: "total", As: "number", Scale: -2},
		router.Field{From: "timestamp", To: "at"},
		router.Field{From: "born", To: "born", As: "date", Format: "epochDays"},
		router.Field{From: "lines[0].sku", To: "sku"},
		router.Field{Value: `"shop"`, To: "origin"},
		router.Field{From: "nothing", To: "status", Default: `"new"`},
	)
	computed := mapped(router.Field{Expr: `name.first + " " + name.last`, To: "name"})
	for name, m := range map[string]router.Mapping{"paths": paths, "one-expression": computed} {
		b.Run(name, func(b *testing.B) {
			r := compile(b, m)
			rec := fieldRecord
			rec.Value = value(b, fieldValue)
			b.ReportAllocs()
			var routed []router.Routed
			for b.Loop() {
				if routed = r.Route(routed[:0], &rec); routed[0].Err != nil {
					b.Fatal(routed[0].Err)
				}
			}
		})
	}
}

// FuzzRoute: no value and no key makes routing fail, and what is accepted keeps
// the bounds that the interface sets.
func FuzzRoute(f *testing.F) {
	f.Add([]byte(profileEvent), []byte(`{"customerNumber":"C1"}`))
	f.Add([]byte(`{"businessKey":1,"properties":{"a":1e3}}`), []byte(`"k"`))
	f.Add([]byte(`{"id":7,"total":{"cents":"1250"},"paid":0}`), []byte(`7`))
	f.Add([]byte(fieldValue), []byte(`{"id":"a","nr":1}`))
	profile, record, fields, computed := customers(), orders(), mappedOrders(), orders()
	computed.Op = `deleted ? "delete" : "upsert"`
	computed.Fields = []router.Field{
		{Expr: `id + "/" + string(nr)`, To: "businessKey"},
		{Expr: `n * 2 + cents`, To: "sum"},
		{From: "lines[*].sku", To: "sku"},
		{From: "born", To: "born", As: "timestamp", Format: "epochMillis", Timezone: "Europe/Paris"},
		{From: "kafkaKey.id", To: "kafka", Absent: router.AsNull},
	}
	all := []*router.Mapping{&profile, &record, &fields, &computed}
	for i, m := range all {
		m.Topics, m.KafkaKey = profile.Topics, "json"
		if m.CustomTable != "" {
			m.Name, m.CustomTable = fmt.Sprint("mapping-", i), fmt.Sprint("table-", i)
		}
	}
	r := compile(f, *all[0], *all[1], *all[2], *all[3])
	f.Fuzz(func(t *testing.T, data, key []byte) {
		v, err := schemas.NewJSON().Decode(data)
		records := []router.Record{{Topic: "crm.customers", Key: key, Tombstone: true}}
		if err == nil {
			records = append(records, router.Record{Topic: "crm.customers", Key: key, Value: v})
		}
		for _, rec := range records {
			for _, routed := range r.Route(nil, &rec) {
				if routed.Lane != schemas.Immediate && routed.Lane != schemas.Batch {
					t.Fatalf("lane: got %v, want one of the two", routed.Lane)
				}
				if n := len([]rune(routed.Write.Key)); routed.Err == nil && (n == 0 || n > 255) {
					t.Fatalf("key: got %d characters, want 1 to 255", n)
				}
			}
		}
	})
}
