package router_test

import (
	"testing"

	"github.com/feedsink/feedsink/router"
)

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
