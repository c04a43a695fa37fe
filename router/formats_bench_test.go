package router_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

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
	writers, err := schemas.NewRegistry(schemas.RegistryConfig{URL: registry.URL(), Log: slog.New(slog.DiscardHandler), Backoff: func(int) time.Duration { return 0 }})
	if err != nil {
		b.Fatal(err)
	}
	defer writers.Close()
	framed := append(binary.BigEndian.AppendUint32([]byte{0}, 7), asAvro...)
	over := func(r *router.Router, dst []router.Routed, rec *router.Record) []router.Routed {
		return r.Topic(rec.Topic).RouteOver(dst, rec)
	}
	var slab router.Slab
	kept := func(r *router.Router, dst []router.Routed, rec *router.Record) []router.Routed {
		return r.RouteFrom(dst[:0], rec, &slab)
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
