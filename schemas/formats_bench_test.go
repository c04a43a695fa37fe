package schemas

import (
	"testing"

	"github.com/twmb/avro"
)

const benchAvro = `{"type":"record","name":"Customer","fields":[
	{"name":"customerNumber","type":"string"},{"name":"emailAddress","type":["null","string"]},{"name":"lastName","type":"string"},
	{"name":"languages","type":{"type":"array","items":"string"}},{"name":"newsletter","type":"boolean"},{"name":"vip","type":"boolean"},
	{"name":"tier","type":{"type":"enum","name":"Tier","symbols":["basic","gold"]}},{"name":"points","type":"long"},
	{"name":"balance","type":"double"},{"name":"born","type":["null","int"]},{"name":"city","type":"string"},{"name":"updated","type":"long"}]}`

// customer is what a program that knows the schema decodes into: the floor.
type customer struct {
	CustomerNumber string   `avro:"customerNumber"`
	EmailAddress   *string  `avro:"emailAddress"`
	LastName       string   `avro:"lastName"`
	Languages      []string `avro:"languages"`
	Newsletter     bool     `avro:"newsletter"`
	VIP            bool     `avro:"vip"`
	Tier           string   `avro:"tier"`
	Points         int64    `avro:"points"`
	Balance        float64  `avro:"balance"`
	Born           *int     `avro:"born"`
	City           string   `avro:"city"`
	Updated        int64    `avro:"updated"`
}

func benchCustomer() customer {
	email, born := "a.long.enough.name@mail.example.com", 12345
	return customer{
		CustomerNumber: "C000123", EmailAddress: &email, LastName: "O'Neill-Smith", Languages: []string{"fr", "en"}, Newsletter: true,
		Tier: "gold", Points: 1234, Balance: 99.5, Born: &born, City: "Aix-en-Provence", Updated: 1795255200000,
	}
}

func BenchmarkAvro(b *testing.B) {
	schema := avro.MustParse(benchAvro)
	data, err := schema.Encode(benchCustomer())
	if err != nil {
		b.Fatal(err)
	}
	b.Run("value", func(b *testing.B) {
		b.ReportAllocs()
		typ, r := parsed(b, benchAvro), new(avroReader)
		for b.Loop() {
			if _, err := r.decode(typ, data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("struct-twmb", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var c customer
			if _, err := schema.Decode(data, &c); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("any-twmb", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var c any
			if _, err := schema.Decode(data, &c); err != nil {
				b.Fatal(err)
			}
		}
	})
}
