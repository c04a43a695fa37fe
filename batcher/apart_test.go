package batcher

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// halfHalted is another lane that has halted one partition and is idle in the other.
type halfHalted struct {
	noCalls
	halted Partition
	ends   map[Partition]int64
}

func (h *halfHalted) Halted(p Partition) bool { return p == h.halted }

func (h *halfHalted) Ends(context.Context, string) (map[Partition]int64, error) { return h.ends, nil }

// TestPartitionThatTheOtherLaneHasHaltedIsSetApart: a write of the other lane that is
// not confirmed holds up its own partition alone.
func TestPartitionThatTheOtherLaneHasHaltedIsSetApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, second := newWorld(t), &partition{}
		peer := &halfHalted{halted: w.p, ends: map[Partition]int64{w.p: 0, second: 0}}
		w.beside(peer)
		w.other(write(schemas.Upsert, "1"), 99)
		w.append(write(schemas.Upsert, "1", "a", "x"))
		w.add("customers", write(schemas.Upsert, "2", "a", "y"), second, 7)
		time.Sleep(time.Hour)
		w.said(
			`1m0s intend upsert 1/1 attempt 1 "" holds 100-100 7-7`,
			`1m0s trigger 101 with customers-*.upsert.csv.gz: "k,a,b\n1,x,\n2,y,\n", <nil>`,
			`1m0s record upsert 1/1 attempt 1 "e1" holds 100-100 7-7`,
			`1m2s poll e1: FINISHED`,
			`1m2s settle upsert 1/1 attempt 1 "e1" holds 100-100 7-7`,
			`2m2s confirm upsert 1/1 attempt 1 "e1" holds 7-7`,
			`2m2s set apart upsert 1/1 attempt 1 "e1" holds 100-100`,
		)
		lose(w.b, "customers") // as the ledger has the partitions read again
		w.add("customers", write(schemas.Upsert, "2", "a", "z"), &partition{}, 8)
		time.Sleep(time.Hour)
		w.lastSaid(`1h1m2s confirm upsert 1/1 attempt 1 "e2" holds 8-8`)
	})
}

// TestPartitionThatIsHaltedIsSetApart: what it would have told about keys of the import
// is waited for with its own share alone.
func TestPartitionThatIsHaltedIsSetApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, second := newWorld(t), &partition{}
		halted := haltedPartition{w.p}
		peer := &halfHalted{ends: map[Partition]int64{halted: 9, second: 0}}
		w.beside(peer)
		for i, p := range []Partition{halted, second} {
			w.add("customers", write(schemas.Upsert, fmt.Sprint(i), "a", "x"), p, int64(5+i))
		}
		time.Sleep(time.Hour)
		w.said(
			`1m0s intend upsert 1/1 attempt 1 "" holds 5-5 6-6`,
			`1m0s trigger 101 with customers-*.upsert.csv.gz: "k,a,b\n0,x,\n1,x,\n", <nil>`,
			`1m0s record upsert 1/1 attempt 1 "e1" holds 5-5 6-6`,
			`1m2s poll e1: FINISHED`,
			`1m2s settle upsert 1/1 attempt 1 "e1" holds 5-5 6-6`,
			`2m2s confirm upsert 1/1 attempt 1 "e1" holds 6-6`,
			`2m2s set apart upsert 1/1 attempt 1 "e1" holds 5-5`,
		)
	})
}

// TestCallIsSentAgainBehindARepeatedRow: the row was in the table before, perhaps in
// the place of the newer call.
func TestCallIsSentAgainBehindARepeatedRow(t *testing.T) {
	for _, c := range []struct {
		name     string
		repeated bool
		want     int64
	}{{"repeated", true, 1}, {"new", false, 0}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, peer := newWorld(t), &noCalls{}
				peer.confirmed.Store(1000)
				w.beside(peer)
				add := w.b.Append
				if c.repeated {
					add = w.b.Repeat
				}
				for at, err := range []error{
					add("customers", write(schemas.Upsert, "1", "a", "old"), w.p, 100),
					w.b.Other("customers", write(schemas.Upsert, "1", "a", "new"), w.p, 101, false),
				} {
					if err != nil {
						t.Fatal(at, err)
					}
				}
				time.Sleep(time.Hour)
				if got := peer.sent.Load(); got != c.want {
					t.Errorf("calls with the newest state: got %d, want %d", got, c.want)
				}
			})
		})
	}
}
