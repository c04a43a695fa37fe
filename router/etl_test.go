package router_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

func TestFileColumnsAreThoseOfTheOp(t *testing.T) {
	m := customers()
	m.Imports.Create = &router.Import{ETL: "104", Mode: "CREATE_ONLY"}
	m.Imports.Columns = []router.Column{{Name: "customerNumber"}, {Name: "age", Null: "immediate"}, {Name: "lastDevice"}}
	c := compile(t, m).Mappings()[0]
	for op, want := range map[schemas.Op][]router.FileColumn{
		schemas.Upsert: {{"customerNumber", false}, {"age", true}},
		schemas.Create: {{"customerNumber", false}, {"age", true}, {"lastDevice", false}},
		schemas.Delete: {{"customerNumber", false}},
	} {
		if got := c.FileColumns(op); !reflect.DeepEqual(got, want) {
			t.Errorf("%v: got %v, want %v", op, got, want)
		}
	}
}

func TestAnETLThatNoLongerFitsIsRefused(t *testing.T) {
	m := customers()
	mark := compile(t, m).Mappings()[0].ETLFingerprint(schemas.Upsert)
	upsert := *m.Imports.Upsert
	upsert.Fingerprint = mark
	m.Imports.Upsert = &upsert
	fits := map[string]func(*router.Mapping){
		"as it was":                 func(*router.Mapping) {},
		"another pace":              func(m *router.Mapping) { m.Imports.Roll.Rows, m.Imports.SlotsPerDay = 7, 3 },
		"a default that is spelled": func(m *router.Mapping) { m.Imports.CSV.Separator = "," },
		"another ETL":               func(*router.Mapping) { upsert.ETL = "999" },
	}
	for name, change := range fits {
		changed := m
		change(&changed)
		if _, problems := router.Compile([]router.Mapping{changed}); len(problems) > 0 {
			t.Errorf("%s: got %v, want no problem", name, problems)
		}
	}
	for name, change := range map[string]func(*router.Mapping){
		"a column more": func(m *router.Mapping) {
			m.Imports.Columns = append(slices.Clip(m.Imports.Columns), router.Column{Name: "shoeSize"})
		},
		"another separator":   func(m *router.Mapping) { m.Imports.CSV.Separator = ";" },
		"another compression": func(m *router.Mapping) { m.Imports.CSV.Compression = "ZIP" },
		"another table":       func(m *router.Mapping) { m.ProfileTable = "clients" },
	} {
		changed := m
		change(&changed)
		_, problems := router.Compile([]router.Mapping{changed})
		if len(problems) != 1 || problems[0].Path != "mappings[0].imports.upsert.fingerprint" || !strings.Contains(problems[0].Hint, "feedsink etl create --mapping customers --op upsert") {
			t.Errorf("%s: got %v, want one problem at imports.upsert.fingerprint with a hint", name, problems)
		}
	}
}
