package schemas

import (
	"encoding/json"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
)

// profileJSON is the profile event of the documentation, about 280 bytes.
const profileJSON = `{"op":"upsert","key":{"customerNumber":"C000123"},"profileId":null,` +
	`"attributes":{"customerNumber":"C000123","emailAddress":"a@example.com","languages":["fr","en"]},` +
	`"subscriptions":{"newsletter":true},"segments":{"vip":true,"tier":"gold"},` +
	`"dataCollection":{"date":"2026-11-21T10:00:00Z","source":"shop","way":"checkout"}}`

const recordJSON = `{"op":"upsert","businessKey":"4c1f0c1e","properties":{"orderTotal":12.5,"status":"PAID"}}`

// profileStruct is what a program with a fixed event would decode into: the
// floor that the schemaless decoder is compared with.
type profileStruct struct {
	Op  string `json:"op"`
	Key struct {
		CustomerNumber string `json:"customerNumber"`
	} `json:"key"`
	ProfileID  *string `json:"profileId"`
	Attributes struct {
		CustomerNumber string   `json:"customerNumber"`
		EmailAddress   string   `json:"emailAddress"`
		Languages      []string `json:"languages"`
	} `json:"attributes"`
	Subscriptions struct {
		Newsletter bool `json:"newsletter"`
	} `json:"subscriptions"`
	Segments struct {
		VIP  bool   `json:"vip"`
		Tier string `json:"tier"`
	} `json:"segments"`
	DataCollection struct {
		Date   string `json:"date"`
		Source string `json:"source"`
		Way    string `json:"way"`
	} `json:"dataCollection"`
}

func BenchmarkDecode(b *testing.B) {
	data := []byte(profileJSON)
	b.Run("value", func(b *testing.B) {
		b.ReportAllocs()
		d := NewJSON()
		for b.Loop() {
			if _, err := d.Decode(data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("event", func(b *testing.B) {
		b.ReportAllocs()
		d := NewJSON()
		for b.Loop() {
			v, err := d.Decode(data)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := ProfileEvent(v); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("struct-json-experiment", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var s profileStruct
			if err := jsonv2.Unmarshal(data, &s); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("struct-encoding-json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var s profileStruct
			if err := json.Unmarshal(data, &s); err != nil {
				b.Fatal(err)
			}
		}
	})
}
