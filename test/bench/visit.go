package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/go-json-experiment/json"
	"github.com/twmb/avro"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

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

const visitFields = 10

// row are the columns of the sink's file.
func (v *visit) row(dst []string) []string {
	return append(dst, v.Customer, v.Email, v.FirstName, v.LastName, `["`+v.Languages[0]+`","`+v.Languages[1]+`"]`,
		strconv.FormatInt(v.Points, 10), v.LastVisit, strconv.FormatBool(v.Newsletter), strconv.FormatBool(v.VIP), v.Tier)
}

const visitAvro = `{"type":"record","name":"Visit","fields":[
  {"name":"customer","type":"string"},{"name":"email","type":"string"},
  {"name":"first_name","type":"string"},{"name":"last_name","type":"string"},
  {"name":"languages","type":{"type":"array","items":"string"}},{"name":"points","type":"long"},
  {"name":"last_visit","type":"string"},{"name":"newsletter","type":"boolean"},{"name":"vip","type":"boolean"},
  {"name":"tier","type":{"type":"enum","name":"Tier","symbols":["gold","silver","basic"]}}]}`

const visitProto = `syntax = "proto3";
message Visit {
  string customer = 1; string email = 2; string first_name = 3; string last_name = 4; repeated string languages = 5;
  int64 points = 6; string last_visit = 7; bool newsletter = 8; bool vip = 9; string tier = 10;
}`

// visitOf is the event of one variant, with the content that canonical events
// have.
func visitOf(variant int) visit {
	var p profile
	if err := json.Unmarshal(appendBody(nil, customer(variant), variant), &p); err != nil {
		panic(err) // it is written a few lines away
	}
	a := p.Attributes
	return visit{
		a.CustomerNumber, a.EmailAddress, a.FirstName, a.LastName, a.Languages, a.Points, a.LastVisit,
		p.Subscriptions.Newsletter, p.Segments.VIP, p.Segments.Tier,
	}
}

// avroVisits makes events in Avro, behind the header that names their schema.
func avroVisits() func(key string, variant int) []byte {
	schema := avro.MustParse(visitAvro)
	all := make([]visit, variants)
	for i := range all {
		all[i] = visitOf(i)
	}
	return func(key string, variant int) []byte {
		v := all[variant%variants]
		v.Email = strings.Replace(v.Email, v.Customer, key, 1)
		v.Customer = key
		data, err := schema.AppendEncode(framed(), &v)
		if err != nil {
			panic(err) // a schema and a struct of this file
		}
		return data
	}
}

// visitID is the id of the visits' schema.
const visitID = 7

// framed is the beginning of a record in the registry's wire format.
func framed() []byte { return binary.BigEndian.AppendUint32([]byte{0}, visitID) }

// visitFieldsText is the mapping's fields as the configuration file has them.
func visitFieldsText() string {
	var b strings.Builder
	b.WriteString("    fields:\n")
	for _, f := range visitMapping(schemas.FormatAvro).Fields {
		fmt.Fprintf(&b, "      - {from: %s, to: %q, as: %q}\n", f.From, f.To, f.As)
	}
	return b.String()
}

func visitMapping(f schemas.Format) router.Mapping {
	return router.Mapping{
		Name: "visits", Topics: []string{"visits"}, Format: string(f), ProfileTable: table, Key: "customerNumber",
		Fields: []router.Field{
			{From: "customer", To: "customerNumber"},
			{From: "email", To: "emailAddress", As: "email"},
			{From: "first_name", To: "firstName"},
			{From: "last_name", To: "lastName"},
			{From: "languages", To: "languages", As: "list"},
			{From: "points", To: "points", As: "integer"},
			{From: "last_visit", To: "lastVisit", As: "timestamp"},
			{From: "newsletter", To: "subscriptions#newsletter"},
			{From: "vip", To: "S_vip"},
			{From: "tier", To: "S_tier"},
		},
		Routes: []router.Route{{Lane: "immediate"}},
	}
}

// visitDescriptor is the message as the Protobuf library knows it.
func visitDescriptor(ctx context.Context) (protoreflect.MessageDescriptor, error) {
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(map[string]string{"visit.proto": visitProto}),
	}}
	files, err := compiler.Compile(ctx, "visit.proto")
	if err != nil {
		return nil, err
	}
	file, err := protodesc.NewFile(protodesc.ToFileDescriptorProto(files[0]), protoregistry.GlobalFiles)
	if err != nil {
		return nil, err
	}
	return file.Messages().Get(0), nil
}
