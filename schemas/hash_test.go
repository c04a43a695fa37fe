package schemas_test

import (
	"hash/maphash"
	"testing"

	"github.com/feedsink/feedsink/schemas"
)

// TestWritesThatDifferHaveOtherHashes: each of these says something else than all others.
func TestWritesThatDifferHaveOtherHashes(t *testing.T) {
	cell := func(section schemas.Section, name string, v schemas.Value) schemas.Cell {
		return schemas.Cell{Place: &schemas.Place{Section: section, Name: name}, Value: v}
	}
	text, list := schemas.StringValue, func(all ...string) schemas.Value {
		var items []schemas.Field
		for _, s := range all {
			items = append(items, schemas.Field{Value: schemas.StringValue(s)})
		}
		return schemas.ListValue(items)
	}
	base := schemas.Write{Op: schemas.Upsert, Table: schemas.Table{Name: "t"}, Key: "k"}
	with := func(change func(*schemas.Write)) schemas.Write {
		w := base
		change(&w)
		return w
	}
	says := func(cells ...schemas.Cell) schemas.Write { return with(func(w *schemas.Write) { w.Cells = cells }) }
	const a, s = schemas.Attributes, schemas.Segments
	all := []schemas.Write{
		base,
		with(func(w *schemas.Write) { w.Op = schemas.Patch }),
		with(func(w *schemas.Write) { w.Table.Custom = true }),
		with(func(w *schemas.Write) { w.Table.Name, w.Key = "tk", "" }),
		with(func(w *schemas.Write) { w.Key, w.ProfileID = "", "k" }),
		with(func(w *schemas.Write) { w.ProfileID = "p" }),
		says(cell(a, "x", text("1"))),
		says(cell(a, "y", text("1"))),
		says(cell(s, "x", text("1"))),
		says(cell(a, "x", text("2"))),
		says(cell(a, "x", text(""))),
		says(cell(a, "x", schemas.NumberValue("1"))),
		says(cell(a, "x", schemas.NumberValue("1.0"))),
		says(cell(a, "x", schemas.BoolValue(true))),
		says(cell(a, "x", text("true"))),
		says(cell(a, "x", schemas.NullValue())),
		says(cell(a, "x", list())),
		says(cell(a, "x", list("1"))),
		says(cell(a, "x", list("1", "2"))),
		says(cell(a, "x", list("12"))),
		says(cell(a, "x", list("2", "1"))),
		says(cell(a, "x", schemas.ObjectValue([]schemas.Field{{Name: "1", Value: text("2")}}))),
		says(cell(a, "x", text("1")), cell(a, "y", text("2"))),
		says(cell(a, "x", text("1y2"))),
	}
	seed := maphash.MakeSeed()
	seen := map[uint64]int{}
	for i := range all {
		var h maphash.Hash
		h.SetSeed(seed)
		all[i].Hash(&h)
		if other, known := seen[h.Sum64()]; known {
			t.Errorf("writes %d and %d have one hash: %+v, %+v", other, i, all[other], all[i])
		}
		seen[h.Sum64()] = i
		own, _ := all[i].Own()
		var again maphash.Hash
		again.SetSeed(seed)
		own.Hash(&again)
		if again.Sum64() != h.Sum64() {
			t.Errorf("write %d: its copy has another hash", i)
		}
	}
}
