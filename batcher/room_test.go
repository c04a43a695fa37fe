package batcher

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/schemas"
)

// closedFor is a gate with no slot for one mapping until it is stored otherwise.
type closedFor struct {
	openGate
	mapping atomic.Pointer[string]
}

func (g *closedFor) Wait(mapping string, _ *contract.Import, _ bool) time.Duration {
	if m := g.mapping.Load(); m != nil && (*m == mapping || *m == "all") {
		return time.Hour
	}
	return 0
}

// TestFullSpoolMakesRoom: two mappings' files are due at no age, and no record is read any
// more that would complete them.
func TestFullSpoolMakesRoom(t *testing.T) {
	for _, c := range []struct {
		name, paused, closed string
		first                string // what goes when
		then                 string // once all are let go
	}{
		{name: "the largest file goes, and no other than is needed", first: "1s trigger customers"},
		{name: "not without a slot", closed: "all", then: "1h0m1s trigger customers"},
		{name: "one that has a slot", closed: "customers", first: "1s trigger orders"},
		{name: "one that is not paused", paused: "customers", first: "1s trigger orders"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var paused atomic.Pointer[string]
				gate := new(closedFor)
				paused.Store(&c.paused)
				gate.mapping.Store(&c.closed)
				w := newWorld(t)
				orders, customers := testMapping(), testMapping()
				orders.Name, orders.Table.Name = "orders", "orders"
				for _, m := range []*files.Mapping{&orders, &customers} {
					m.Roll = files.Roll{Rows: 1_000_000, Bytes: 1 << 30}
				}
				w.open(Config{Gate: gate, Paused: func(m string) bool { return m == *paused.Load() }}, orders, customers)
				w.b.segment = 1 // each entry takes room
				for range 2 {
					w.append(write(schemas.Upsert, "o1"), write(schemas.Upsert, "c1"), write(schemas.Upsert, "c2"), write(schemas.Upsert, "c3"))
				}
				w.b.cfg.MaxBytes = w.b.SpoolBytes()
				w.run()
				anHour := func() {
					for range 3600 { // as a source asks whether to read on
						time.Sleep(time.Second)
						w.b.Ready()
					}
				}
				anHour()
				got := went(w.transcript())
				none := ""
				paused.Store(&none)
				gate.mapping.Store(&none)
				anHour()
				if want := c.first; got != want {
					t.Errorf("while the gate is as it is: got %q, want %q", got, want)
				}
				if got, want := went(w.transcript()), c.then; got != want {
					t.Errorf("then: got %q, want %q", got, want)
				}
				if w.b.Full() {
					t.Error("in the end: got full, want room")
				}
			})
		})
	}
}

// went says which mappings' files were triggered when.
func went(lines []string) string {
	var all []string
	for _, line := range lines {
		if at, what, ok := strings.Cut(line, " trigger "); ok {
			_, name, _ := strings.Cut(what, " with ")
			name, _, _ = strings.Cut(name, "-")
			all = append(all, at+" trigger "+name)
		}
	}
	return strings.Join(slices.Compact(all), ", ")
}
