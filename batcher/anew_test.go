package batcher

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/schemas"
)

// TestProfileThatAFileMadeAnewIsDeletedByItsKey: the id that the newer delete names is
// that of the profile before.
func TestProfileThatAFileMadeAnewIsDeletedByItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, peer, m := newWorld(t), &noCalls{}, testMapping()
		peer.answer = func([]schemas.Write) ([]int, error) { return nil, contract.ErrMadeAnew }
		m.DualLane, m.Roll.Age = true, time.Minute
		w.open(Config{Peer: peer}, m)
		w.run()
		w.results = []contract.Results{{Status: contract.InProgress}}
		w.append(write(schemas.Upsert, "1", "a", "x"))
		time.Sleep(time.Minute + time.Second)
		peer.confirmed.Store(102)
		w.other(write(schemas.Delete, "1"), 101)
		time.Sleep(time.Hour)
		w.said(
			`1m0s intend upsert 1/1 attempt 1 "" holds 100-100`,
			`1m0s trigger 101 with customers-*.upsert.csv.gz: "k,a,b\n1,x,\n", <nil>`,
			`1m0s record upsert 1/1 attempt 1 "e1" holds 100-100`,
			`1m2s poll e1: IN_PROGRESS`,
			`1m5s poll e1: FINISHED`,
			`1m5s settle upsert 1/1 attempt 1 "e1" holds 100-100`,
			`1m5s confirm upsert 1/1 attempt 1 "e1" holds 100-100`,
			`2m5s intend delete 1/1 attempt 1 "" holds 101-101`,
			`2m5s trigger 104 with customers-*.delete.csv.gz: "k\n1\n", <nil>`,
			`2m5s record delete 1/1 attempt 1 "e2" holds 101-101`,
			`2m7s poll e2: FINISHED`,
			`2m7s settle delete 1/1 attempt 1 "e2" holds 101-101`,
			`2m7s confirm delete 1/1 attempt 1 "e2" holds 101-101`,
		)
	})
}

// TestProfileThatMayBeInTheTableIsADeadLetter: no file can delete it, and no call knows
// its id.
func TestProfileThatMayBeInTheTableIsADeadLetter(t *testing.T) {
	for _, place := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w, peer, m := newWorld(t), &noCalls{}, testMapping()
			peer.answer = func([]schemas.Write) ([]int, error) { return nil, contract.ErrMadeAnew }
			m.DualLane, m.Roll.Age = true, time.Minute
			delete(m.Loads, schemas.Delete)
			w.open(Config{Peer: peer}, m)
			w.run()
			w.results = []contract.Results{{Status: contract.InProgress}}
			if !place {
				w.change(func() { w.unposted = contract.ErrNoDeadLetter })
			}
			w.append(write(schemas.Upsert, "1", "a", "x"))
			time.Sleep(time.Minute + time.Second)
			peer.confirmed.Store(102)
			w.other(write(schemas.Delete, "1"), 101)
			time.Sleep(time.Hour)
			if !place {
				if got := w.steps(); got != "landed" {
					t.Errorf("without a place for a dead letter: got %q, want nothing confirmed", got)
				}
				w.change(func() { w.unposted = nil })
				time.Sleep(time.Hour)
			}
			got := strings.Join(w.transcript(), "\n")
			if !strings.Contains(got, `unmatched customers "1": "k\n1\n": a newer record deletes this profile`) || !strings.Contains(got, "confirm upsert") {
				t.Errorf("got\n%s\nwant a dead letter of the key, then the import confirmed", got)
			}
		})
	}
}
