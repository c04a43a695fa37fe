package router_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

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

// One change of eight columns in its envelope, and with a schema around it.
func BenchmarkRouteChange(b *testing.B) {
	const row = `{"id":17,"status":"PAID","note":"x","total":12.5,"a":1,"b":"two","c":null,"d":true}`
	const envelope = `{"before":null,"after":` + row + `,"source":{"table":"orders","ts_ms":1},"op":"u","ts_ms":1}`
	const column = `{"type":"string","optional":true,"field":"`
	const schema = `{"type":"struct","fields":[{"type":"struct","field":"before"},{"type":"struct","field":"after","fields":[` +
		column + `id"},` + column + `status"},` + column + `note"},` + column + `total"},` + column + `a"},` +
		column + `b"},` + column + `c"},` + column + `d"}]}]}`
	for name, text := range map[string]string{"bare": envelope, "schema": `{"schema":` + schema + `,"payload":` + envelope + `}`} {
		b.Run(name, func(b *testing.B) {
			m := rows()
			m.Routes = []router.Route{{Lane: "immediate"}}
			r := compile(b, m)
			rec := &router.Record{Topic: "shop.orders", Value: value(b, text)}
			var routed []router.Routed
			b.ReportAllocs()
			for b.Loop() {
				routed = r.Route(routed[:0], rec)
			}
			if routed[0].Err != nil {
				b.Fatal(routed[0].Err)
			}
		})
	}
}

// visit is an event as a program that knows its schema decodes it: the floor of
// decode, route and map.
type visit struct {
	Customer   string   `json:"customer" avro:"customer"`
	Email      *string  `json:"email" avro:"email"`
	LastName   string   `json:"lastName" avro:"lastName"`
	Languages  []string `json:"languages" avro:"languages"`
	Newsletter bool     `json:"newsletter" avro:"newsletter"`
	Tier       string   `json:"tier" avro:"tier"`
	Points     int64    `json:"points" avro:"points"`
	City       string   `json:"city" avro:"city"`
	Updated    string   `json:"updated" avro:"updated"`
}

const visitAvro = `{"type":"record","name":"Visit","fields":[{"name":"customer","type":"string"},{"name":"email","type":["null","string"]},
	{"name":"lastName","type":"string"},{"name":"languages","type":{"type":"array","items":"string"}},{"name":"newsletter","type":"boolean"},
	{"name":"tier","type":{"type":"enum","name":"Tier","symbols":["basic","gold"]}},{"name":"points","type":"long"},
	{"name":"city","type":"string"},{"name":"updated","type":"string"}]}`

func visits() router.Mapping {
	m := customers()
	m.Fields = []router.Field{
		{From: "customer", To: "customerNumber"},
		{From: "email", To: "emailAddress"},
		{From: "lastName", To: "lastName"},
		{From: "languages", To: "languages", As: "list"},
		{From: "newsletter", To: "subscriptions#newsletter", As: "boolean"},
		{From: "tier", To: "S_tier"},
		{From: "points", To: "points", As: "integer"},
		{From: "city", To: "city"},
		{From: "updated", To: "updated", As: "timestamp"},
	}
	m.Routes = []router.Route{{Lane: "batch"}}
	return m
}

func BenchmarkFormats(b *testing.B) {
	mail := "jane.q.public.1234@mail.example.com"
	sample := visit{
		Customer: "C000123", Email: &mail, LastName: "O'Neill-Smith", Languages: []string{"fr", "en"}, Newsletter: true,
		Tier: "gold", Points: 1234, City: "Aix-en-Provence", Updated: "2026-11-21T10:00:00Z",
	}
	asJSON, err := json.Marshal(sample)
	if err != nil {
		b.Fatal(err)
	}
	schema := avro.MustParse(visitAvro)
	asAvro, err := schema.Encode(sample)
	if err != nil {
		b.Fatal(err)
	}
	registry := srfake.New()
	defer registry.Close()
	registry.SeedSchema("visits-value", 1, 7, sr.Schema{Schema: visitAvro})
	writers, err := schemas.NewRegistry(schemas.RegistryConfig{URL: registry.URL(), HTTP: http.DefaultClient, Log: slog.New(slog.DiscardHandler), Backoff: func(int) time.Duration { return 0 }})
	if err != nil {
		b.Fatal(err)
	}
	defer writers.Close()
	framed := append(binary.BigEndian.AppendUint32([]byte{0}, 7), asAvro...)
	over := func(r *router.Router, dst []router.Routed, rec *router.Record) []router.Routed {
		return r.Topic(rec.Topic).RouteOver(dst, rec)
	}
	var arena router.Arena
	kept := func(r *router.Router, dst []router.Routed, rec *router.Record) []router.Routed {
		return r.RouteFrom(dst[:0], rec, &arena)
	}
	journey := func(b *testing.B, d schemas.Decoder, data []byte, route func(*router.Router, []router.Routed, *router.Record) []router.Routed) {
		b.ReportAllocs()
		r := compile(b, visits())
		for _, err := d.Decode(data); errors.Is(err, schemas.ErrSchemaUnavailable); _, err = d.Decode(data) {
			time.Sleep(time.Millisecond)
		}
		rec := &router.Record{Topic: "crm.customers"}
		var routed []router.Routed
		for b.Loop() {
			var err error
			if rec.Value, err = d.Decode(data); err != nil {
				b.Fatal(err)
			}
			if routed = route(r, routed, rec); routed[0].Err != nil {
				b.Fatal(routed[0].Err)
			}
		}
	}
	b.Run("json", func(b *testing.B) { journey(b, schemas.NewJSON(), asJSON, kept) })
	b.Run("json-row", func(b *testing.B) { journey(b, schemas.NewJSON(), asJSON, over) })
	b.Run("json-struct", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var v visit
			if err := jsonv2.Unmarshal(asJSON, &v); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("avro", func(b *testing.B) { journey(b, writers.Decoder(schemas.FormatAvro), framed, kept) })
	b.Run("avro-row", func(b *testing.B) { journey(b, writers.Decoder(schemas.FormatAvro), framed, over) })
	b.Run("avro-struct", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var v visit
			if _, err := schema.Decode(asAvro, &v); err != nil {
				b.Fatal(err)
			}
		}
	})
}
