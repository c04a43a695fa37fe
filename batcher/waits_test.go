package batcher

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

func TestReconcilingTellsWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, peer := conflictingKeys(t)
		waits := func() string {
			synctest.Wait()
			if imp := w.b.Status()[0].Import; imp != nil {
				return imp.WaitsFor
			}
			return ""
		}
		if got := waits(); got != "" {
			t.Errorf("while the import runs: got that it waits for %q, want nothing", got)
		}
		time.Sleep(time.Hour)
		if got := waits(); !strings.HasPrefix(got, "the immediate lane has not confirmed writes of a key, one of them at crm[0] offset 99; ") {
			t.Errorf("while the other lane is behind: got %q, want its unconfirmed write", got)
		}
		peer.confirmed.Store(100)
		time.Sleep(time.Minute)
		if got := waits(); got != "" {
			t.Errorf("afterwards: got that it waits for %q, want nothing", got)
		}
	})
}

// haltedPartition is one that is read no further.
type haltedPartition struct{ *partition }

func (haltedPartition) String() string { return "crm[3]" }
func (haltedPartition) Halted() string { return "a record has no other place" }
func (haltedPartition) Waits() string  { return "" }

// waitingPartition waits for the other lane's routes.
type waitingPartition struct{ haltedPartition }

func (waitingPartition) Halted() string { return "" }
func (waitingPartition) Waits() string  { return "the other lane has other routes" }

// endless is another lane whose log goes on behind a partition that is halted.
type endless struct {
	noCalls
	ends map[Partition]int64
}

func (e *endless) Ends(context.Context, string) (map[Partition]int64, error) { return e.ends, nil }

func TestReconcilingTellsWhichPartitionItCannotReadOn(t *testing.T) {
	told(t, func(p *partition) Partition { return haltedPartition{p} }, "where it is halted: a record has no other place")
}

func TestReconcilingTellsThatAPartitionWaitsForTheOtherLane(t *testing.T) {
	told(t, func(p *partition) Partition { return waitingPartition{haltedPartition{p}} }, "where its records wait: the other lane has other routes")
}

// told has an import that needs more of a partition say why it does not come.
func told(t *testing.T, as func(*partition) Partition, why string) {
	t.Helper()
	inWorld(t, func(t *testing.T, w *world) {
		peer := &endless{ends: map[Partition]int64{as(w.p): 9}}
		w.beside(peer)
		w.append(write(schemas.Upsert, "1", "a", "x"))
		time.Sleep(90 * time.Second)
		synctest.Wait()
		want := "crm[3] is read up to offset 0 of 9 by the batch lane, " + why
		if imp := w.b.Status()[0].Import; imp == nil || imp.WaitsFor != want {
			t.Errorf("got %+v, want that it waits for: %s", imp, want)
		}
	})
}
