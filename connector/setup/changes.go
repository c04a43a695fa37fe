package setup

import (
	"fmt"
	"slices"

	"github.com/feedsink/feedsink/connector/words"
	"github.com/feedsink/feedsink/schemas"
)

// changed looks for words and marks that say the op, and for records that name little of
// what others name: as upserts they would erase the rest.
func (t *table) changed() {
	t.rest = opUpsert
	if t.shape != plain {
		return // its records say their ops
	}
	t.deletes, t.partial = make([]bool, len(t.records)), make([]bool, len(t.records))
	if t.by != nil {
		t.opsOfKinds()
	}
	if len(t.cases) == 0 {
		t.marked()
	}
	if !t.has(opPatch) {
		t.sparse()
	}
	if t.has(opPatch) {
		t.merged()
	}
}

// merged takes the records that name only some of a row for merges where patches would
// find no row: where nothing tells which records make one, or some come before that one.
func (t *table) merged() {
	switch {
	case t.rest == opPatch:
		t.rest = opMerge
		t.notes = append(t.notes, "no field tells them from the records that name all")
	case t.partialFirst():
		t.notes = append(t.notes, "some of them come before the record that names the rest of their row")
	default:
		return
	}
	for i := range t.cases {
		if t.cases[i].op == opPatch {
			t.cases[i].op = opMerge
		}
	}
}

// partialFirst reports whether a row's first record names only some of it, and a later one
// the rest.
func (t *table) partialFirst() bool {
	if t.key.seen < len(t.records) {
		return false
	}
	begun := map[string]bool{} // rows, by key; true: by a record that names only some
	for row, key := range t.key.values {
		partial, known := begun[key.Text()]
		switch {
		case t.deletes[row]:
			delete(begun, key.Text())
		case !known:
			begun[key.Text()] = t.partial[row]
		case partial && !t.partial[row]:
			return true
		}
	}
	return false
}

// opsOfKinds takes words for ops: those of deletes, and those of events that never
// name what others always do.
func (t *table) opsOfKinds() {
	var patches, deleting, upserts []string
	base := t.baseOf()
	for _, k := range t.by.kinds {
		lacking := 0
		for _, f := range t.fields {
			if t.by.path != f.path && base != nil && f.always(base.rows) && !f.ever(k.rows) {
				lacking++
			}
		}
		switch {
		case slices.Contains(deleteVerbs, k.verb):
			deleting = append(deleting, k.word)
			for _, row := range k.rows {
				t.deletes[row] = true
			}
		case slices.Contains(createVerbs, k.verb), lacking == 0 && !slices.Contains(patchVerbs, k.verb):
			upserts = append(upserts, k.word)
		default:
			patches = append(patches, k.word)
			for _, row := range k.rows {
				t.partial[row] = true
			}
			if lacking > 0 {
				t.notes = append(t.notes, fmt.Sprintf("%s (%s of these records) never names %s that %s has", k.word, percent(len(k.rows), len(t.records)), words.Counted(lacking, "field"), base.word))
			}
		}
	}
	for _, of := range []struct {
		op    string
		words []string
	}{{opPatch, patches}, {opDelete, deleting}} {
		if len(of.words) > 0 {
			t.cases = append(t.cases, opCase{oneOf(t.by.expression, of.words), of.op, true})
		}
	}
	// Where a condition leaves further kinds out, and all that are seen say all of a row, the
	// default is right. Elsewhere a kind that is not seen might erase what it does not name.
	switch known := len(t.cases) > 0 || t.when == "" && t.by.saysWhatHappened(); {
	case known && len(upserts) == 0:
		t.rest = ""
	case known:
		t.known = oneOf(t.by.expression, upserts)
	}
	if len(t.cases) > 0 || t.known != "" || t.by.ofOps() {
		t.opBy = fmt.Sprintf("The op is by %s: %s.", t.by.expression, shares(t.by.kinds, len(t.records)))
		t.said = append(t.said, t.by.path)
	}
}

// baseOf is the kind that says all of a row: one that creates it, else the one that
// names most.
func (t *table) baseOf() (base *kind) {
	most := -1
	for i := range t.by.kinds {
		k := &t.by.kinds[i]
		names := 0
		for _, f := range t.fields {
			if f.always(k.rows) {
				names++
			}
		}
		switch {
		case slices.Contains(deleteVerbs, k.verb), slices.Contains(patchVerbs, k.verb):
			continue
		case slices.Contains(createVerbs, k.verb):
			names += len(t.fields)
		}
		if names > most {
			base, most = k, names
		}
	}
	return base
}

// marked takes a boolean such as deleted, or texts that stand for one, for the mark of a delete.
func (t *table) marked() {
	for _, f := range t.fields {
		if f == t.key || f.as != "boolean" || !slices.Contains([]string{"deleted", "isdeleted", "removed", "isremoved", "erased", "iserased"}, bare(f.last())) {
			continue
		}
		mark, trues := inExpression("value", f.names...), []string{"true"}
		if len(f.trues) > 0 {
			trues = f.trues
			mark = oneOf(mark, trues)
		} else {
			mark += " == true"
		}
		t.cases = append(t.cases, opCase{mark, opDelete, false})
		t.said = append(t.said, f.path)
		values := f.values
		for row, kind := range f.at {
			if kind != schemas.Absent && kind != schemas.Null {
				t.deletes[row] = slices.Contains(trues, values[0].Text())
				values = values[1:]
			}
		}
		return
	}
}

// sparse looks for records that name at most half of the fields that the fullest do.
func (t *table) sparse() {
	names, full, most := make([]int, len(t.records)), 0, 0
	for row := range names {
		for _, f := range t.fields {
			if f.at[row] != schemas.Absent && !slices.Contains(t.said, f.path) {
				names[row]++
			}
		}
		if !t.deletes[row] {
			full = max(full, names[row])
		}
	}
	const few = 4 // fields: half of less says nothing
	var sparse, others []int
	for row, n := range names {
		switch {
		case t.deletes[row]:
		case n <= full/2:
			sparse = append(sparse, row)
			most = max(most, n)
		default:
			others = append(others, row)
		}
	}
	if full < few || len(sparse) == 0 {
		return
	}
	for _, row := range sparse {
		t.partial[row] = true
	}
	t.notes = append(t.notes, fmt.Sprintf("%s of these records name at most %d of %d fields", percent(len(sparse), len(t.records)), most, full))
	for _, f := range t.fields {
		if f != t.key && f.always(others) && !f.ever(sparse) && len(f.names) > 0 {
			t.cases = append(t.cases, opCase{inExpression("value", f.names...) + " == nil", opPatch, false})
			return // behind those of deletes, which may lack the field, too
		}
	}
	t.rest = opPatch
}

// onlyDeleted holds for what nothing but deletes names.
func (t *table) onlyDeleted(f *field) bool {
	for row, deleted := range t.deletes {
		if !deleted && f.at[row] != schemas.Absent {
			return false
		}
	}
	return slices.Contains(t.deletes, true)
}

// always reports whether all of the rows have a value of the field.
func (f *field) always(rows []int) bool {
	return !slices.ContainsFunc(rows, func(row int) bool { return f.at[row] == schemas.Absent || f.at[row] == schemas.Null })
}

// ever reports whether one of the rows names the field with a value.
func (f *field) ever(rows []int) bool {
	return slices.ContainsFunc(rows, func(row int) bool { return f.at[row] != schemas.Absent && f.at[row] != schemas.Null })
}
