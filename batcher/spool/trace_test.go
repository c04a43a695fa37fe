package spool

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/schemas"
)

// TestNoWriteBehindARowInErrorIsInTheTable loads the files that random writes come to. Some rows are
// refused, and the writes that came to them are dead letters: none of these shows in the table,
// and a create that is none of them has been loaded, unless a newer write has replaced it.
func TestNoWriteBehindARowInErrorIsInTheTable(t *testing.T) {
	for seed := range uint64(4000) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		m := testLayout()
		m.Columns[1].Kept = seed%2 == 0
		r := mustRows(t, m)
		var writes []schemas.Write
		ops := order[rnd.IntN(3):] // without those that replace creates, too
		for i := range 1 + rnd.IntN(10) {
			op := ops[rnd.IntN(len(ops))]
			var pairs []string
			for _, name := range []string{"a", "b"} {
				if op != schemas.Delete && rnd.IntN(3) > 0 {
					pairs = append(pairs, name, fmt.Sprint("of", i))
				}
			}
			writes = append(writes, write(op, "1", pairs...))
		}
		rows := folded(t, r, writes, rnd.IntN(4))
		refused, created, has := loaded(rows, rnd, seed%2 == 0)
		trace := NewTrace(r)
		for i := range writes {
			trace.Add(&writes[i], At{Offset: int64(i)})
		}
		for i := range writes {
			c := trace.Came(&writes[i], At{Offset: int64(i)}, func(rank Rank) bool {
				return slices.Contains(refused, rank.Round*len(order)+int(place[rank.Op]))
			})
			if c.Any != (len(refused) > 0) {
				t.Fatalf("seed %d: got rows refused %v, want %v of %q", seed, c.Any, refused, rows)
			}
			of := fmt.Sprint("of", i)
			if shows := has["a"] == of || has["b"] == of; c.To && shows {
				t.Fatalf("seed %d: write %d of %v is a dead letter and in the table, which has %v; rows %q, of which %v are refused",
					seed, i, writes, has, rows, refused)
			}
			replaced := slices.ContainsFunc(writes[i:], func(w schemas.Write) bool { return w.Op == schemas.Delete || w.Op == schemas.Upsert })
			entry, err := r.AppendEntry(nil, &writes[i])
			if err != nil {
				t.Fatal(err)
			}
			line := strings.TrimSuffix(string(r.appendLine(nil, entry)), "\n")
			if writes[i].Op == schemas.Create && !c.To && !replaced && !slices.Contains(created, line) {
				t.Fatalf("seed %d: create %d of %v is no dead letter and was not loaded; rows %q, of which %v are refused", seed, i, writes, rows, refused)
			}
		}
	}
}

// loaded loads rows in their order: refused are the ranks of those that the service refuses,
// created the lines of the creates that it takes, and has is what it has then.
func loaded(rows []string, rnd *rand.Rand, keeps bool) (refused []int, created []string, has map[string]string) {
	if rnd.IntN(2) == 0 {
		has = map[string]string{"a": "old", "b": "old"}
	}
	for _, row := range rows {
		var rank int
		var word, line string
		if _, err := fmt.Sscanf(strings.Replace(row, ":", " ", 1), "%d %s %s", &rank, &word, &line); err != nil {
			panic(err)
		}
		op, _ := schemas.ParseOp(word)
		if rnd.IntN(6) == 0 || op == schemas.Create && has != nil || op == schemas.Patch && has == nil {
			refused = append(refused, rank)
			continue
		}
		switch op {
		case schemas.Delete:
			has = nil
			continue
		case schemas.Create:
			created = append(created, line)
		}
		old, cells := has, strings.Split(line, ",")
		has = map[string]string{"a": cells[1], "b": cells[2]}
		for name, cell := range has {
			if cell == "" && (op.Partial() || keeps && name == "a" && op == schemas.Upsert) {
				has[name] = old[name]
			}
		}
	}
	return refused, created, has
}
