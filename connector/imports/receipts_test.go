package imports

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/receipt"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// TestRowInErrorIsNeverLoadedHoweverOftenReceiptsAreTried: reading an import's records
// again may fail half-way, and begins anew.
func TestRowInErrorIsNeverLoadedHoweverOftenReceiptsAreTried(t *testing.T) {
	p, row := new(kafka.Partition), Row{At: At{Offset: 7}}
	n := &Receipts{told: map[*kafka.Partition]map[At]bool{p: {row.At: true}}} // without a lane nothing can be sent
	for range 2 {
		var sent sending
		if err := n.send(t.Context(), p, []Row{row}, ended{}, &sent); err != nil {
			t.Fatal(err)
		}
		if got := sent.inError[p]; len(got) != 1 || got[0] != row.At {
			t.Errorf("rows in error: got %v, want %v", got, row.At)
		}
	}
}

// TestNotesSayWhatWasNoted: notes hold differences, across files, rows that are withdrawn and a
// secret that changes.
func TestNotesSayWhatWasNoted(t *testing.T) {
	dir, err := spool.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	names := rand.New(rand.NewPCG(1, 2))
	customers := &router.Compiled{Index: 0}
	n := &Receipts{
		mappings: []*router.Compiled{customers}, tables: []string{"customers"}, notes: map[*kafka.Partition]map[string]*rowNotes{},
		newNotes: func(string) *spool.Notes {
			return spool.NewNotes(dir, func() string { return spool.NewName("customers", names) })
		},
	}
	p, random := new(kafka.Partition), rand.New(rand.NewPCG(3, 4))
	var want []Row
	offset := int64(0)
	for i := range 5000 {
		row := Row{At: At{offset, i / 7 % 3}, Parts: 3, Mapping: customers, Op: schemas.Patch, Written: random.Int64N(1e12)}
		if random.IntN(3) > 0 {
			row.Key = receipt.Key{ID: fmt.Sprintf("%08x", random.IntN(2)), Hash: [receipt.HashSize]byte{byte(i), 1}}
		}
		if err := n.Note(p, &row); err != nil {
			t.Fatal(err)
		}
		if random.IntN(4) == 0 {
			n.Withdraw(p, customers)
		} else {
			want = append(want, row)
		}
		offset += 1 + random.Int64N(1000)
	}
	var got []Row
	for room := make([]Row, 0, rowsAtOnce); ; {
		rows, err := n.take(p, "customers", offset, room)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) == 0 {
			break
		}
		got = append(got, rows...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %d rows that differ from the %d noted", len(got), len(want))
	}
}
