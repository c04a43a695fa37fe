package calls

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// row is the naive model of a row: name to value, nil if there is none.
type row map[string]string

// apply is what a write does to a row. Whether an upsert of a table record keeps
// what it does not name is open in the document, so the model has both.
func apply(r row, w *schemas.Write, keeps bool) row {
	if w.Op == schemas.Delete {
		return nil
	}
	next := row{}
	if w.Op.Partial() || keeps {
		maps.Copy(next, r)
	}
	for _, c := range w.Cells {
		next[c.Name] = c.Value.Text()
	}
	return next
}

// erratic is a service with rows that fails at random: before or after it
// applied the call. A value "bad" is refused for good.
type erratic struct {
	keeps bool

	mu       sync.Mutex
	rnd      *rand.Rand
	rows     map[string]row
	busy     map[string]bool
	overlaps int
	calls    int
}

func (e *erratic) Call(_ context.Context, w *schemas.Write, try Try) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls++
	if e.busy[w.Key] {
		e.overlaps++
	}
	e.busy[w.Key] = true
	latency := time.Duration(1+e.rnd.IntN(50)) * time.Millisecond
	e.mu.Unlock()
	time.Sleep(latency) // virtual
	e.mu.Lock()
	e.busy[w.Key] = false
	luck := e.rnd.IntN(10)
	if luck == 0 {
		return []error{errUnavailable, fault{status: 429, overload: true, after: time.Second}, errors.New("reset")}[e.rnd.IntN(3)]
	}
	if err := e.write(w, try.Retried); err != nil {
		return err
	}
	if luck == 1 {
		return errUnavailable // applied, but the answer got lost
	}
	return nil
}

func (e *erratic) write(w *schemas.Write, retried bool) error {
	for _, c := range w.Cells {
		if c.Value.Text() == "bad" {
			return errConflict
		}
	}
	there := e.rows[w.Key] != nil
	switch {
	case !there && (w.Op == schemas.Patch || w.Op == schemas.Delete):
		return errNotFound
	case there && w.Op == schemas.Create && !retried:
		return errConflict
	}
	e.rows[w.Key] = apply(e.rows[w.Key], w, e.keeps && w.Op == schemas.Upsert)
	return nil
}

func (e *erratic) random(n int) schemas.Write {
	ops := []schemas.Op{schemas.Upsert, schemas.Upsert, schemas.Patch, schemas.Patch, schemas.Merge, schemas.Merge, schemas.Create, schemas.Delete}
	w := schemas.Write{Table: schemas.Table{Name: "t", Custom: true}}
	w.Op = ops[e.rnd.IntN(len(ops))]
	w.Key = fmt.Sprintf("k%d", e.rnd.IntN(8))
	if w.Op == schemas.Delete {
		return w
	}
	for _, name := range []string{"a", "b", "c"} {
		value := fmt.Sprint(n)
		if e.rnd.IntN(60) == 0 {
			value = "bad"
		}
		if e.rnd.IntN(2) == 0 {
			w.Cells = append(w.Cells, schemas.Cell{Place: &schemas.Place{Section: schemas.Properties, Name: name}, Value: schemas.StringValue(value)})
		}
	}
	return w
}

// TestRowsEndAsTheConfirmedWritesInOrderSay is the promise of the lane against
// the naive model: whatever fails, is retried, merged or refused, the rows are
// those that the confirmed writes leave when applied one by one in the order of
// Submit, and every write ends exactly once.
func TestRowsEndAsTheConfirmedWritesInOrderSay(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			service := &erratic{keeps: seed%2 == 0, rnd: rnd, rows: map[string]row{}, busy: map[string]bool{}}
			lane := New(config(), service, &audience{}, rand.New(rand.NewPCG(seed, 2)))
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- lane.Run(ctx) }()

			const writes = 400
			var made []schemas.Write
			var origins []*origin
			for n := range writes {
				service.mu.Lock()
				w, pause := service.random(n), rnd.IntN(3) == 0
				service.mu.Unlock()
				made, origins = append(made, copied(w)), append(origins, &origin{})
				lane.Submit(Item{Route: n % 3, Weight: float64(1 + 4*(n%3)), Write: w, Origin: origins[n]})
				if pause {
					pass(10 * time.Millisecond)
				}
			}
			pass(time.Hour)

			want := map[string]row{}
			for n, o := range origins {
				switch o.String() {
				case "applied", "absent":
					// A delete of nothing and an upsert that keeps are as they were sent.
					want[made[n].Key] = apply(want[made[n].Key], &made[n], service.keeps && made[n].Op == schemas.Upsert)
				case "rejected: 409", "rejected: 404":
				default:
					t.Errorf("seed %d: write %d ended %q, want exactly one end", seed, n, o)
				}
			}
			for key := range want {
				if got := service.rows[key]; !maps.Equal(got, want[key]) || (got == nil) != (want[key] == nil) {
					t.Errorf("seed %d, key %s: got %v, want %v", seed, key, got, want[key])
				}
			}
			if service.overlaps > 0 || service.calls < writes/4 {
				t.Errorf("seed %d: got %d overlapping of %d calls, want none of many", seed, service.overlaps, service.calls)
			}
			if got := lane.Pending(); got != 0 {
				t.Errorf("seed %d: pending: got %d, want 0", seed, got)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("seed %d: Run: got %v, want nil", seed, err)
			}
		})
	}
}

func copied(w schemas.Write) schemas.Write {
	w.Cells = append([]schemas.Cell(nil), w.Cells...)
	return w
}
