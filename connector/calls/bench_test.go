package calls

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// instant is a service without latency.
type instant struct{ calls atomic.Int64 }

func (i *instant) Call(context.Context, *schemas.Write, Try) error {
	i.calls.Add(1)
	return nil
}

// tally counts the ends and lets the producer have so many writes pending.
type tally struct {
	room chan struct{}
	done sync.WaitGroup
}

func (t *tally) Confirm(Outcome) { <-t.room; t.done.Done() }
func (t *tally) Reject(error)    { <-t.room; t.done.Done() }

type deaf struct{}

func (deaf) Called(Attempt)                                   {}
func (deaf) BreakerTurned(schemas.Table, BreakerState, error) {}
func (deaf) NotRepeated(string)                               {}

// BenchmarkLane is the lane's own cost per write: distinct keys, no latency.
func BenchmarkLane(b *testing.B) {
	benchmark(b, func(i int) int { return i })
}

// BenchmarkLaneHotKeys sends 90 % of the writes to 1 % of 10,000 keys; calls/op
// is what merging leaves of them.
func BenchmarkLaneHotKeys(b *testing.B) {
	benchmark(b, func(i int) int {
		if i%10 == 0 {
			return i % 10000
		}
		return i % 100
	})
}

func benchmark(b *testing.B, key func(i int) int) {
	cfg := Config{
		Concurrency: Concurrency{Start: 64, Max: 64},
		Breaker:     Breaker{Failures: 10, OpenFor: time.Second},
		Retry:       Retry{Initial: time.Second, Max: time.Second},
	}
	keys := make([]string, 10000)
	for i := range keys {
		keys[i] = strconv.Itoa(i)
	}
	service := &instant{}
	lane := New(cfg, service, deaf{}, rand.New(rand.NewPCG(1, 2)))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- lane.Run(ctx) }()
	origin := &tally{room: make(chan struct{}, 5000)}
	cells := []schemas.Cell{{Place: &schemas.Place{Section: schemas.Attributes, Name: "a"}, Value: schemas.StringValue("1")}}

	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		origin.room <- struct{}{}
		origin.done.Add(1)
		lane.Submit(Item{Write: schemas.Write{Op: schemas.Upsert, Key: keys[key(i)%len(keys)], Cells: cells}, Origin: origin})
	}
	origin.done.Wait()
	b.ReportMetric(float64(service.calls.Load())/float64(b.N), "calls/op")
	cancel()
	if err := <-ended; err != nil {
		b.Error(err)
	}
}
