package router_test

import (
	"testing"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

func TestEmptyCellsMeanWhatTheColumnChose(t *testing.T) {
	m := customers()
	m.Imports.Patch = &router.Import{ETL: "103", Mode: "UPDATE_ONLY"}
	m.Imports.Create = &router.Import{ETL: "104", Mode: "CREATE_ONLY"}
	for _, tc := range []struct {
		absent, null                  string
		upsert, patch, create, delete bool
	}{
		{"", "", false, true, false, false},
		{"empty", "empty", false, true, false, false},
		{"empty", "immediate", true, true, true, false},
		{"empty", "NULL", true, true, true, false},
		{"immediate", "empty", false, false, false, false},
		{"-", "empty", false, true, false, false},
		{"immediate", "immediate", false, false, false, false},
	} {
		m.Imports.Columns = []router.Column{{Name: "customerNumber"}, {Name: "age", Absent: tc.absent, Null: tc.null}}
		r, problems := router.CompileUnfinished([]router.Mapping{m})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		c := r.Mappings()[0]
		for op, want := range map[schemas.Op]bool{schemas.Upsert: tc.upsert, schemas.Patch: tc.patch, schemas.Create: tc.create, schemas.Delete: tc.delete} {
			if got := c.IgnoresEmpty(op, 1); got != want {
				t.Errorf("absent %q, null %q: %v ignores empty cells: got %v, want %v", tc.absent, tc.null, op, got, want)
			}
			if c.IgnoresEmpty(op, 0) {
				t.Errorf("the key's column: %v ignores empty cells", op)
			}
		}
	}
}

// What a row cannot say takes a call or is refused: nothing is lost quietly.
func TestRowsSayAbsentNullAndEmptyOrAreNone(t *testing.T) {
	const (
		nullLost  = `reject value: age: null is written as an empty cell, which the import of patch takes for nothing said: the column's null must be immediate or a text`
		emptyLost = `: an empty text is an empty cell, which the import of `
		taken     = ` takes for nothing said: the column's null must be immediate`
	)
	for _, tc := range []struct {
		name, absent, null, event, want string
	}{
		{"upsert clears", "", "", `{"attributes":{"age":null}}`, `batch: upsert customers C1 a.customerNumber="C1" a.age=null`},
		{"upsert, empty text", "", "", `{"attributes":{"age":""}}`, `batch: upsert customers C1 a.customerNumber="C1" a.age=""`},
		{"patch leaves alone", "", "", `{"op":"patch","attributes":{}}`, `batch: patch customers C1`},
		{"patch with a value", "", "", `{"op":"patch","attributes":{"age":3}}`, `batch: patch customers C1 a.age=3`},
		{"patch cannot clear", "", "", `{"op":"patch","attributes":{"age":null}}`, `batch: ` + nullLost},
		{"patch cannot empty", "", "", `{"op":"patch","attributes":{"age":""}}`, `batch: reject value: age` + emptyLost + "patch" + taken},
		{"patch clears by a literal", "", "NULL", `{"op":"patch","attributes":{"age":null}}`, `batch: patch customers C1 a.age="NULL"`},
		{"patch clears by a call", "", "immediate", `{"op":"patch","profileId":"p1","attributes":{"age":null}}`, `immediate: patch customers C1 (p1) a.age=null`},
		{"patch empties by a call", "", "immediate", `{"op":"patch","profileId":"p1","attributes":{"age":""}}`, `immediate: patch customers C1 (p1) a.age=""`},
		{
			"patch needs an id for that", "", "immediate", `{"op":"patch","attributes":{"age":null}}`,
			`batch: reject no_id: profileId: a column sends this patch to the immediate lane, where it cannot be written without one`,
		},
		{"upsert with a literal for null", "", "NULL", `{"attributes":{"age":null}}`, `batch: upsert customers C1 a.customerNumber="C1" a.age="NULL"`},
		{"upsert cannot empty beside it", "", "NULL", `{"attributes":{"age":""}}`, `batch: reject value: age` + emptyLost + "upsert" + taken},
		{"upsert empties by a call", "", "immediate", `{"attributes":{"age":""}}`, `immediate: upsert customers C1 a.customerNumber="C1" a.age=""`},
		{"literal for absent", "0", "", `{"attributes":{}}`, `batch: upsert customers C1 a.customerNumber="C1" a.age="0"`},
		{"a patch names nothing by a literal", "0", "", `{"op":"patch","attributes":{}}`, `batch: patch customers C1`},
		{"nor does it clear beside one", "0", "", `{"op":"patch","attributes":{"age":null}}`, `batch: ` + nullLost},
		{"call for absent", "immediate", "", `{"attributes":{}}`, `immediate: upsert customers C1 a.customerNumber="C1"`},
		{
			"a profile's create has no call", "immediate", "", `{"op":"create"}`,
			`batch: reject value: op: a column sends this create to the immediate lane, where a profile cannot be created`,
		},
		{"deletes have the key alone", "immediate", "immediate", `{"op":"delete"}`, `batch: delete customers C1`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := customers()
			m.Routes = []router.Route{{Lane: "batch"}}
			m.Imports.Patch = &router.Import{ETL: "103", Mode: "UPDATE_ONLY", IgnoresEmpty: true}
			m.Imports.Create = &router.Import{ETL: "104", Mode: "CREATE_ONLY"}
			m.Imports.Columns = []router.Column{{Name: "customerNumber"}, {Name: "age", Absent: tc.absent, Null: tc.null}}
			rec := &router.Record{Topic: "crm.customers", Value: value(t, `{"key":{"customerNumber":"C1"},`+tc.event[1:])}
			if got := story(routeOne(t, compile(t, m), rec)); got != tc.want {
				t.Errorf("routed:\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestTechnicalColumnsAreForCreatingImports(t *testing.T) {
	m := customers()
	m.Imports.Create = &router.Import{ETL: "104", Mode: "CREATE_ONLY"}
	m.Imports.Columns = []router.Column{{Name: "customerNumber"}, {Name: "lastDevice", Absent: "immediate"}}
	m.Routes = []router.Route{{Lane: "batch"}}
	r := compile(t, m)
	for i, want := range []bool{false, true} {
		if got := r.Mappings()[0].Columns[i].CreateOnly; got != want {
			t.Errorf("column %d for creating imports alone: got %v, want %v", i, got, want)
		}
	}
	rec := &router.Record{Topic: "crm.customers", Value: value(t, `{"key":{"customerNumber":"C1"}}`)}
	if got, want := story(routeOne(t, r, rec)), `batch: upsert customers C1 a.customerNumber="C1"`; got != want {
		t.Errorf("an upsert without it: got %s, want %s", got, want)
	}
}
