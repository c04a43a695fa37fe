package build

import (
	"testing"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

func TestPartsOfTheRateAddUp(t *testing.T) {
	mapping := func(routes ...router.Route) router.Mapping {
		m := router.Mapping{Name: "m", Topics: []string{"t"}, Format: "json", CustomTable: "t", Key: "businessKey", Routes: routes}
		m.Imports.Columns = []router.Column{{Name: "businessKey"}}
		m.Imports.Roll.Rows, m.Imports.SlotsPerDay = 1, 1
		m.Imports.Upsert = &router.Import{ETL: "1", Mode: "CREATE_OR_UPDATE"}
		return m
	}
	for name, c := range map[string]struct {
		mapping                router.Mapping
		immediate, batch, rows float64
	}{
		"one lane":   {mapping(router.Route{Lane: "immediate"}), 1, 0, 0},
		"rows alone": {mapping(router.Route{Lane: "auto"}), 0, 0, 1},
		"both lanes": {mapping(router.Route{When: `op == "patch"`, Lane: "immediate"}, router.Route{Lane: "batch"}), 0.9, 0.1, 0},
	} {
		r, problems := router.Compile([]router.Mapping{c.mapping})
		if len(problems) > 0 {
			t.Fatalf("%s: %v", name, problems)
		}
		if i, b := RateOf(schemas.Immediate, r.Mappings()), RateOf(schemas.Batch, r.Mappings()); i != c.immediate || b != c.batch {
			t.Errorf("%s: got parts %v and %v, want %v and %v", name, i, b, c.immediate, c.batch)
		}
		if got := AutoRate(r.Mappings()); got != c.rows {
			t.Errorf("%s: got part %v for calls in the place of rows, want %v", name, got, c.rows)
		}
	}
	calls, rows := mapping(router.Route{Lane: "immediate", Weight: new(3.0)}), mapping(router.Route{Lane: "auto"})
	rows.Name, rows.CustomTable, rows.Topics = "rows", "u", []string{"u"}
	r, problems := router.Compile([]router.Mapping{calls, rows})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if i, rows := RateOf(schemas.Immediate, r.Mappings()), AutoRate(r.Mappings()); i != 0.75 || rows != 0.25 {
		t.Errorf("beside a route of weight 3: got parts %v and %v, want 0.75 and 0.25", i, rows)
	}
}
