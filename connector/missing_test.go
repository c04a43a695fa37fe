package connector

import (
	"testing"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// A patch of nothing is made void by the first newer write that leaves nothing of it: for
// the others its record is a dead letter.
func TestPatchOfNothingIsVoidOnceANewerWriteLeavesNothingOfIt(t *testing.T) {
	m := &router.Compiled{}
	cells := func(names ...string) (all []schemas.Cell) {
		for _, name := range names {
			all = append(all, schemas.Cell{Place: &schemas.Place{Section: schemas.Properties, Name: name}, Value: schemas.StringValue("x")})
		}
		return all
	}
	for _, c := range []struct {
		name   string
		custom bool
		op     schemas.Op
		names  []string
		void   bool
	}{
		{"a delete", true, schemas.Delete, nil, true},
		{"an upsert that says all that it does", true, schemas.Upsert, []string{"total", "status"}, true},
		{"an upsert that leaves some of it", true, schemas.Upsert, []string{"total"}, false},
		{"a patch of the same", true, schemas.Patch, []string{"status"}, false},
		{"an upsert of the whole profile", false, schemas.Upsert, []string{"total"}, true},
	} {
		table := schemas.Table{Name: "orders", Custom: c.custom}
		patch := &missed{part: &part{mapping: m}, offset: 1}
		follows := newBehind()
		for offset, w := range []schemas.Write{
			{Op: schemas.Upsert, Table: table, Key: "1", Cells: cells("status")}, // older
			{Op: schemas.Patch, Table: table, Key: "1", Cells: cells("status")},
			{Op: schemas.Delete, Table: table, Key: "2"},
			{Op: c.op, Table: table, Key: "1", Cells: cells(c.names...)},
			{Op: schemas.Delete, Table: table, Key: "1"},
		} {
			var at []*missed
			if offset == 1 {
				at = []*missed{patch}
			}
			follows.take(&router.Routed{Mapping: m, Lane: schemas.Immediate, Write: w}, int64(offset), at)
		}
		want := int64(4)
		if c.void {
			want = 3
		}
		if got := follows.found[patch]; got == nil || got.offset != want {
			t.Errorf("%s: the patch is void by %+v, want by offset %d", c.name, got, want)
		}
	}
}
