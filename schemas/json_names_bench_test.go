package schemas_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/schemas"
)

// customerJSON is a profile event as the benchmark of the sink sends it, about
// 310 bytes, with more members of its attributes in front, each with its comma.
func customerJSON(number int, more string) []byte {
	words := func(of string) string {
		all := strings.Fields(of)
		return all[number%len(all)]
	}
	return fmt.Appendf(nil, `{"op":"upsert","key":{"customerNumber":"C%09d"},"attributes":{%s"customerNumber":"C%09[1]d",`+
		`"emailAddress":"%[3]s.%09[1]d@example.com","firstName":"%[3]s","lastName":"%s","languages":["fr","nl"],"points":%d,"lastVisit":"2026-11-21T10:%02d:00Z"},`+
		`"subscriptions":{"newsletter":%v},"segments":{"vip":%v,"tier":"%s"}}`, number, more, words("Ada Berthe Carla Dimitri Elif"),
		words("Bernard Celik Dvorak"), number*7919%100_000, number%60, number%2 == 0, number%10 == 0, words("gold silver basic"))
}

// BenchmarkJSON decodes records of a topic as the lanes do.
func BenchmarkJSON(b *testing.B) {
	for _, c := range []struct {
		name   string
		record func(i int) []byte
	}{
		{"same names", func(i int) []byte { return customerJSON(i, "") }},
		{"one is missing in every second", func(i int) []byte {
			return customerJSON(i, strings.Repeat(`"title":"Dr",`, i%2))
		}},
		{"two shapes in turn", func(i int) []byte {
			if i%2 == 0 {
				return customerJSON(i, "")
			}
			return fmt.Appendf(nil, `{"op":"upsert","businessKey":"%08x","properties":{"orderTotal":%d.5,"currency":"EUR","status":"PAID","customer":"C%09[1]d","lines":[{"sku":"A%[1]d","count":1},{"sku":"B%[1]d","count":2}]}}`, i, i%1000)
		}},
		{"ever new names", func(i int) []byte {
			return []byte(strings.ReplaceAll(string(customerJSON(i, "")), `":`, fmt.Sprintf(`%04d":`, i)))
		}},
		{"small", func(i int) []byte {
			return fmt.Appendf(nil, `{"op":"upsert","businessKey":"%08x","properties":{"orderTotal":%d.5,"status":"PAID"}}`, i, i%1000)
		}},
	} {
		records := make([][]byte, 2000)
		for i := range records {
			records[i] = c.record(i)
		}
		for kind, d := range map[string]*schemas.JSON{"fleeting": schemas.NewFleetingJSON(), "borrowing": schemas.NewBorrowingJSON()} {
			b.Run(strings.ReplaceAll(c.name, " ", "-")+"/"+kind, func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if _, err := d.Decode(records[i%len(records)]); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
