package main

import (
	"bytes"
	"context"
	_ "embed" // the schemas
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/bufbuild/protocompile"
	"github.com/go-json-experiment/json"
	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/feedsink/feedsink/schemas"
)

// events are what is produced to a topic.
type events struct {
	n         int
	next      func(i int) (key, value []byte)
	perSecond int // evenly; 0: as fast as it goes
}

// variants is how many different contents events have, beside their key. Bodies
// of one variant are of one length whatever the key, so that as many calls carry
// as many bytes, if they are a multiple of variants.
const variants = 1000

// noKey stands for the key in a template, and is as long as any.
const noKey = "C#########"

// customer is the key of a customer.
func customer(number int) []byte { return fmt.Appendf(nil, "C%09d", number) }

// filled is a template with a key in it.
func filled(templates [][]byte, number, variant int) (key, value []byte) {
	key = customer(number)
	return key, bytes.ReplaceAll(templates[variant%variants], []byte(noKey), key)
}

// profile is an event as the floor decodes it, and a body of operation 1: a struct
// that fits exactly.
type profile struct {
	Attributes struct {
		CustomerNumber string   `json:"customerNumber"`
		EmailAddress   string   `json:"emailAddress"`
		FirstName      string   `json:"firstName"`
		LastName       string   `json:"lastName"`
		Languages      []string `json:"languages"`
		Points         int64    `json:"points"`
		LastVisit      string   `json:"lastVisit"`
	} `json:"attributes"`
	Subscriptions struct {
		Newsletter bool `json:"newsletter"`
	} `json:"subscriptions"`
	Segments struct {
		VIP  bool   `json:"vip"`
		Tier string `json:"tier"`
	} `json:"segments"`
}

// row are the columns of the sink's file.
func (p *profile) row(dst []string) []string {
	a := &p.Attributes
	return append(dst, a.CustomerNumber, a.EmailAddress, a.FirstName, a.LastName, `["`+a.Languages[0]+`","`+a.Languages[1]+`"]`,
		strconv.FormatInt(a.Points, 10), a.LastVisit,
		strconv.FormatBool(p.Subscriptions.Newsletter), strconv.FormatBool(p.Segments.VIP), p.Segments.Tier)
}

// profiles are the variants, the same in every process.
func profiles() *[variants]profile {
	rnd := rand.New(rand.NewPCG(1, 1))
	pick := func(of string) string {
		words := strings.Fields(of)
		return words[rnd.IntN(len(words))]
	}
	var all [variants]profile
	for i := range all {
		p := &all[i]
		a := &p.Attributes
		a.CustomerNumber = noKey
		a.FirstName = pick("Ada Berthe Carla Dimitri Elif Fatima Grace Hana Ivo Jorge Kenji Lucja Ming Nadia Oskar Priya")
		a.LastName = pick("Angstrom Bernard Celik Dvorak Evans Ferrari Garcia Hansen Ivanova Jansen Kowalski Lopez Moreau Nguyen")
		a.EmailAddress = strings.ToLower(a.FirstName+"."+a.LastName+".") + noKey + "@example.com"
		a.Languages = []string{pick("fr en de"), pick("nl it es")}
		a.Points = rnd.Int64N(100_000)
		a.LastVisit = fmt.Sprintf("2026-%02d-%02dT%02d:%02d:00Z", 1+rnd.IntN(12), 1+rnd.IntN(28), rnd.IntN(24), rnd.IntN(60))
		p.Subscriptions.Newsletter, p.Segments.VIP, p.Segments.Tier = rnd.IntN(2) == 0, rnd.IntN(10) == 0, pick("gold silver basic")
	}
	return &all
}

// bodies are templates of the bodies of operation 1.
func bodies() [][]byte {
	all := make([][]byte, variants)
	for i, p := range profiles() {
		all[i] = must(json.Marshal(p))
	}
	return all
}

// canonical are templates of the events that lead to these bodies.
func canonical() [][]byte {
	all := bodies()
	for i, body := range all {
		all[i] = append([]byte(`{"op":"upsert","key":{"customerNumber":"`+noKey+`"},`), body[1:]...)
	}
	return all
}

// distinct makes events with a key each.
func distinct(n int) events {
	templates := canonical()
	return events{n: n, next: func(i int) (key, value []byte) { return filled(templates, i, i) }}
}

// recurring makes events of so many keys in random order.
func recurring(n, keys int, templates [][]byte) events {
	rnd := rand.New(rand.NewPCG(2, 2))
	return events{n: n, next: func(i int) (key, value []byte) { return filled(templates, rnd.IntN(keys), i) }}
}

// hot makes events of which nine of ten are of one key in a hundred. Of a key's events
// the one with most points is the last.
func hot(n, keys int) events {
	rnd := rand.New(rand.NewPCG(3, 3))
	return events{n: n, next: func(i int) (key, value []byte) {
		number := rnd.IntN(keys / 100)
		if rnd.IntN(10) == 0 {
			number = keys/100 + rnd.IntN(keys-keys/100)
		}
		return numbered(number, i)
	}}
}

// numbered is an event whose points are its number.
func numbered(customerNumber, number int) (key, value []byte) {
	key = customer(customerNumber)
	return key, fmt.Appendf(nil, `{"op":"upsert","key":{"customerNumber":%q},"attributes":{"customerNumber":%[1]q,"points":%d,"firstName":"Ada","lastName":"Lovelace"}}`, key, number)
}

// visit is an event as other systems write it: flat, in names of their own, to
// be mapped. It is also the struct that fits it exactly.
type visit struct {
	Customer   string   `json:"customer" avro:"customer"`
	Email      string   `json:"email" avro:"email"`
	FirstName  string   `json:"first_name" avro:"first_name"`
	LastName   string   `json:"last_name" avro:"last_name"`
	Languages  []string `json:"languages" avro:"languages"`
	Points     int64    `json:"points" avro:"points"`
	LastVisit  string   `json:"last_visit" avro:"last_visit"`
	Newsletter bool     `json:"newsletter" avro:"newsletter"`
	VIP        bool     `json:"vip" avro:"vip"`
	Tier       string   `json:"tier" avro:"tier"`
}

// row are the columns of the sink's file.
func (v *visit) row(dst []string) []string {
	return append(dst, v.Customer, v.Email, v.FirstName, v.LastName, `["`+v.Languages[0]+`","`+v.Languages[1]+`"]`,
		strconv.FormatInt(v.Points, 10), v.LastVisit, strconv.FormatBool(v.Newsletter), strconv.FormatBool(v.VIP), v.Tier)
}

const visitFields = 10

//go:embed visit.avsc
var visitAvro string

//go:embed visit.proto
var visitProto string

// registered are the formats that have a schema in the registry.
var registered = []schemas.Format{schemas.FormatAvro, schemas.FormatProtobuf, schemas.FormatJSONSchema}

// visitID is the id of the visits' schema in a format.
func visitID(f schemas.Format) int { return 7 + slices.Index(registered, f) }

func visitSchema(f schemas.Format) sr.Schema {
	switch f {
	case schemas.FormatAvro:
		return sr.Schema{Schema: visitAvro}
	case schemas.FormatProtobuf:
		return sr.Schema{Schema: visitProto, Type: sr.TypeProtobuf}
	}
	return sr.Schema{Schema: `{"type":"object"}`, Type: sr.TypeJSON}
}

// visitHeader is the beginning of a record in the registry's wire format: the schema's
// id and, of Protobuf, the message's index.
func visitHeader(f schemas.Format) []byte {
	if f == schemas.FormatJSON {
		return nil
	}
	header := binary.BigEndian.AppendUint32([]byte{0}, uint32(visitID(f))) //nolint:gosec // a single digit
	if f == schemas.FormatProtobuf {
		header = append(header, 0)
	}
	return header
}

// visits are templates of the events in a format, with the contents of the profiles.
func visits(f schemas.Format) [][]byte {
	all := make([][]byte, variants)
	for i, p := range profiles() {
		a := p.Attributes
		all[i] = append(visitHeader(f), visit{
			a.CustomerNumber, a.EmailAddress, a.FirstName, a.LastName, a.Languages, a.Points, a.LastVisit,
			p.Subscriptions.Newsletter, p.Segments.VIP, p.Segments.Tier,
		}.encode(f)...)
	}
	return all
}

func (v visit) encode(f schemas.Format) []byte {
	text := must(json.Marshal(v))
	switch f {
	case schemas.FormatAvro:
		return must(avro.MustParse(visitAvro).Encode(v))
	case schemas.FormatProtobuf:
		m := dynamicpb.NewMessage(visitMessage())
		try(protojson.Unmarshal(text, m))
		return must(proto.Marshal(m))
	}
	return text
}

// visitMessage is the message as the Protobuf library knows it.
var visitMessage = sync.OnceValue(func() protoreflect.MessageDescriptor {
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(map[string]string{"visit.proto": visitProto}),
	}}
	files := must(compiler.Compile(context.Background(), "visit.proto"))
	return must(protodesc.NewFile(protodesc.ToFileDescriptorProto(files[0]), protoregistry.GlobalFiles)).Messages().Get(0)
})
