package spool

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/schemas"
)

// layout is what the rows of a mapping are made from.
type layout struct {
	Key     Key
	Columns []Column
	CSV     CSV
}

// testLayout has a key column k and two more.
func testLayout() layout {
	return layout{Key: Key{schemas.Attributes, "k"}, Columns: []Column{column1("k"), column1("a"), column1("b")}}
}

func column1(name string) Column {
	return Column{Header: name, Section: schemas.Attributes, Name: name}
}

// write builds a write from pairs of name and text.
func write(op schemas.Op, key string, pairs ...string) schemas.Write {
	w := schemas.Write{Op: op, Table: schemas.Table{Name: "customers"}, Key: key}
	for i := 0; i < len(pairs); i += 2 {
		w.Cells = append(w.Cells, schemas.Cell{Place: &schemas.Place{Section: schemas.Attributes, Name: pairs[i]}, Value: schemas.StringValue(pairs[i+1])})
	}
	return w
}

func mustRows(t testing.TB, m layout) *Rows {
	t.Helper()
	r, err := NewRows(m.Key, m.Columns, m.CSV)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// folded returns the rows left of the writes as "rank:op line", and wants them to
// be the same whether the fold has to copy entries or is lent them.
func folded(t testing.TB, r *Rows, writes []schemas.Write, pieces int) []string {
	t.Helper()
	copied, lent := foldedBy(t, r, writes, pieces, false), foldedBy(t, r, writes, pieces, true)
	if !slices.Equal(copied, lent) {
		t.Errorf("rows left\n   of copies %q\nof the lent %q", copied, lent)
	}
	return copied
}

func foldedBy(t testing.TB, r *Rows, writes []schemas.Write, pieces int, lend bool) []string {
	t.Helper()
	f := newFold(r)
	defer f.free()
	add := func(entries []byte) {
		if lend {
			f.add(slices.Clone(entries), true, 0)
			return
		}
		f.add(entries, false, 0)
		clear(entries) // it must not be read again
	}
	var entries []byte
	for i := range writes {
		var err error
		if entries, err = r.AppendEntry(entries, &writes[i]); err != nil {
			t.Fatal(err)
		}
		if pieces > 0 && i%pieces == 0 {
			add(entries)
			entries = entries[:0]
		}
	}
	add(entries)
	var out []string
	if err := f.each(func(rank int, entry []byte, _ int64) error {
		out = append(out, fmt.Sprintf("%d:%s %s", rank, schemas.Op(entry[entryOp]), strings.TrimSuffix(string(r.appendLine(nil, entry)), "\n")))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestFoldKeepsTheLastStateOfAKey(t *testing.T) {
	u := func(pairs ...string) schemas.Write { return write(schemas.Upsert, "1", pairs...) }
	p := func(pairs ...string) schemas.Write { return write(schemas.Patch, "1", pairs...) }
	m := func(pairs ...string) schemas.Write { return write(schemas.Merge, "1", pairs...) }
	c := func(pairs ...string) schemas.Write { return write(schemas.Create, "1", pairs...) }
	d := write(schemas.Delete, "1")
	drop := write(dropRows, "1")
	merge := func(pairs ...string) schemas.Write { return write(mergeRow, "1", pairs...) }
	for _, tc := range []struct {
		name   string
		writes []schemas.Write
		want   []string
	}{
		{"upsert replaces upsert", []schemas.Write{u("a", "x", "b", "y"), u("a", "z")}, []string{"1:upsert 1,z,"}},
		{"upsert replaces patch", []schemas.Write{p("b", "y"), u("a", "z")}, []string{"1:upsert 1,z,"}},
		{"upsert replaces create", []schemas.Write{c("b", "y"), u("a", "z")}, []string{"1:upsert 1,z,"}},
		{"patch merges into upsert", []schemas.Write{u("a", "x", "b", "y"), p("b", "z")}, []string{"1:upsert 1,x,z"}},
		{"patch merges into patch", []schemas.Write{p("b", "y"), p("a", "x")}, []string{"3:patch 1,x,y"}},
		{"patch follows create", []schemas.Write{c("a", "x"), p("b", "y")}, []string{"2:create 1,x,", "3:patch 1,,y"}},
		{"delete drops what is pending", []schemas.Write{c("a", "x"), p("b", "y"), d}, []string{"0:delete 1"}},
		{"delete goes before upsert", []schemas.Write{u("a", "x"), d, u("b", "y")}, []string{"0:delete 1", "1:upsert 1,,y"}},
		{"delete stays before a replaced upsert", []schemas.Write{d, u("b", "y"), u("a", "x")}, []string{"0:delete 1", "1:upsert 1,x,"}},
		{"delete goes before patch", []schemas.Write{d, p("a", "x")}, []string{"0:delete 1", "3:patch 1,x,"}},
		{"delete goes before create", []schemas.Write{d, c("a", "x")}, []string{"0:delete 1", "2:create 1,x,"}},
		{"create behind patch waits a round", []schemas.Write{p("a", "x"), c("b", "y")}, []string{"3:patch 1,x,", "7:create 1,,y"}},
		{"create that is repeated shares the first one's fate", []schemas.Write{c("a", "x"), c("a", "x")}, []string{"2:create 1,x,"}},
		{"another create waits a round", []schemas.Write{c("a", "x"), c("a", "z")}, []string{"2:create 1,x,", "7:create 1,z,"}},
		{"creates are two rows of a key at most", []schemas.Write{c("a", "x"), c("a", "z"), c("a", "x"), c("a", "y")}, []string{"2:create 1,x,", "7:create 1,z,"}},
		{"another create behind a patch waits a round", []schemas.Write{c("a", "x"), p("b", "y"), c("a", "z")}, []string{"2:create 1,x,", "3:patch 1,,y", "7:create 1,z,"}},
		{"upsert replaces all creates", []schemas.Write{c("a", "x"), c("a", "z"), u("b", "y")}, []string{"1:upsert 1,,y"}},
		{"merge event goes into upsert", []schemas.Write{u("a", "x"), m("b", "y")}, []string{"1:upsert 1,x,y"}},
		{"merge event goes into merge event", []schemas.Write{m("a", "x"), m("b", "y")}, []string{"4:merge 1,x,y"}},
		{"patch goes into merge event", []schemas.Write{m("a", "x"), p("b", "y")}, []string{"4:merge 1,x,y"}},
		{"upsert replaces merge event", []schemas.Write{m("a", "x"), u("b", "y")}, []string{"1:upsert 1,,y"}},
		{"merge event follows patch, which may find nothing", []schemas.Write{p("a", "x"), m("b", "y"), p("b", "z")}, []string{"3:patch 1,x,", "4:merge 1,,z"}},
		{"merge event follows delete", []schemas.Write{m("a", "x"), d, m("b", "y")}, []string{"0:delete 1", "4:merge 1,,y"}},
		{"merge event follows create", []schemas.Write{c("a", "x"), m("b", "y")}, []string{"2:create 1,x,", "4:merge 1,,y"}},
		{"create behind merge event waits a round", []schemas.Write{m("a", "x"), c("b", "y")}, []string{"4:merge 1,x,", "7:create 1,,y"}},
		{"merge goes into merge event", []schemas.Write{m("a", "x"), merge("a", "y")}, []string{"4:merge 1,y,"}},
		{"drop leaves nothing", []schemas.Write{d, u("a", "x"), p("b", "y"), drop}, nil},
		{"drop meets nothing", []schemas.Write{drop}, nil},
		{"a row behind a drop is a first one", []schemas.Write{u("a", "x"), drop, p("b", "y")}, []string{"3:patch 1,,y"}},
		{"merge goes into upsert", []schemas.Write{u("a", "x"), merge("b", "y")}, []string{"1:upsert 1,x,y"}},
		{"merge goes into patch", []schemas.Write{p("a", "x"), merge("a", "y")}, []string{"3:patch 1,y,"}},
		{"merge leaves delete and create", []schemas.Write{d, c("a", "x"), merge("a", "y")}, []string{"0:delete 1", "2:create 1,x,"}},
		{"merge makes no row", []schemas.Write{merge("a", "y"), u("a", "x"), drop, merge("a", "z")}, nil},
		{"create behind upsert is left to the service", []schemas.Write{u("a", "x"), c("a", "z")}, []string{"1:upsert 1,x,", "2:create 1,z,"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := folded(t, mustRows(t, testLayout()), tc.writes, 0); !slices.Equal(got, tc.want) {
				t.Errorf("rows left\n got %q\nwant %q", got, tc.want)
			}
		})
	}
}

// table is the service as the document describes its import modes.
type table map[string]map[string]string

func (t table) apply(op schemas.Op, key string, cells map[string]string) {
	old, exists := t[key]
	switch {
	case op == schemas.Delete:
		delete(t, key)
	case op == schemas.Upsert, op == schemas.Create && !exists:
		t[key] = cells
	case op == schemas.Patch && exists, op == schemas.Merge:
		merged := map[string]string{}
		maps.Copy(merged, old)
		maps.Copy(merged, cells)
		t[key] = merged
	}
}

// TestFoldedFilesLeaveTheTableAsTheWritesWould loads random writes once one by
// one and once as the files that are left of them.
func TestFoldedFilesLeaveTheTableAsTheWritesWould(t *testing.T) {
	r := mustRows(t, testLayout())
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		one, files := table{}, table{}
		for k := range 3 {
			if rnd.IntN(2) == 0 {
				key := fmt.Sprint(k)
				one.apply(schemas.Upsert, key, map[string]string{"a": "old", "b": "old"})
				files.apply(schemas.Upsert, key, map[string]string{"a": "old", "b": "old"})
			}
		}
		var writes []schemas.Write
		for i := range rnd.IntN(12) {
			op, key := order[rnd.IntN(len(order))], fmt.Sprint(rnd.IntN(3))
			cells := map[string]string{}
			var pairs []string
			for _, c := range []string{"b", "a"} {
				if op != schemas.Delete && rnd.IntN(2) == 0 {
					cells[c] = fmt.Sprint(i)
					pairs = append(pairs, c, cells[c])
				}
			}
			writes = append(writes, write(op, key, pairs...))
			one.apply(op, key, cells)
		}
		rows := folded(t, r, writes, rnd.IntN(4))
		slices.SortStableFunc(rows, func(a, b string) int { return rankOfRow(a) - rankOfRow(b) })
		for _, row := range rows {
			word, line, _ := strings.Cut(row[strings.IndexByte(row, ':')+1:], " ")
			op, _ := schemas.ParseOp(word)
			fields, cells := strings.Split(line, ","), map[string]string{}
			for i, name := range []string{"a", "b"} {
				if op != schemas.Delete && fields[i+1] != "" {
					cells[name] = fields[i+1]
				}
			}
			files.apply(op, fields[0], cells)
		}
		if fmt.Sprint(one) != fmt.Sprint(files) {
			t.Fatalf("seed %d: writes %v\nrows %q\n got %v\nwant %v", seed, writes, rows, files, one)
		}
		seen := map[string]bool{}
		for _, row := range rows {
			key := row[:strings.IndexByte(row, ' ')] + " " + strings.SplitN(row[strings.IndexByte(row, ' ')+1:], ",", 2)[0]
			if seen[key] {
				t.Fatalf("seed %d: two rows of one key in one file: %q", seed, rows)
			}
			seen[key] = true
		}
	}
}

// rankOfRow is the rank of a row that folded has returned.
func rankOfRow(row string) int {
	rank, err := strconv.Atoi(row[:strings.IndexByte(row, ':')])
	if err != nil {
		panic(err)
	}
	return rank
}

func TestFoldOfOneHotKeyStaysSmall(t *testing.T) {
	r := mustRows(t, testLayout())
	w := write(schemas.Patch, "1", "a", strings.Repeat("x", 200), "b", "y")
	cold := write(schemas.Upsert, "2", "a", "keep")
	first, _ := r.AppendEntry(nil, &cold)
	entries, _ := r.AppendEntry(nil, &w)
	for _, lend := range []bool{false, true} {
		f := newFold(r)
		f.add(first, lend, 0)
		for range 20_000 {
			f.add(entries, lend, 0)
		}
		if got, most := room(&f.own), 1<<18; got > most {
			t.Errorf("lent %v: fold holds %d bytes for two keys, want at most %d", lend, got, most)
		}
		var got []string
		_ = f.each(func(_ int, entry []byte, _ int64) error {
			got = append(got, string(r.appendLine(nil, entry)))
			return nil
		})
		want := []string{"2,keep,\n", "1," + strings.Repeat("x", 200) + ",y\n"}
		if !slices.Equal(got, want) {
			t.Errorf("lent %v: rows left\n got %q\nwant %q", lend, got, want)
		}
		f.free()
	}
}

// What an upsert leaves in the table must not make a file of its own of every
// event: each file is one of the day's imports.
func TestKeyThatIsWrittenOftenKeepsFewRows(t *testing.T) {
	m := testLayout()
	m.Columns[1].Kept = true
	m.Columns = append(m.Columns, Column{Header: "t", Section: schemas.Attributes, Name: "t", CreateOnly: true})
	r := mustRows(t, m)
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		var writes []schemas.Write
		for range 300 {
			op := []schemas.Op{schemas.Upsert, schemas.Patch, schemas.Create, schemas.Merge}[rnd.IntN(4)]
			var pairs []string
			for _, name := range []string{"a", "b"} {
				if n := rnd.IntN(3); n > 0 {
					pairs = append(pairs, name, []string{"", "x"}[n-1])
				}
			}
			if op == schemas.Create {
				pairs = append(pairs, "t", "x")
			}
			writes = append(writes, write(op, "1", pairs...))
		}
		if got := folded(t, r, writes, 7); len(got) > 10 {
			t.Errorf("seed %d: got %d rows of one key, want 10 at most: %q", seed, len(got), got)
		}
	}
}
