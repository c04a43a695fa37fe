package retry_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/connector/retry"
)

var errDown = errors.New("down")

func low() float64  { return 0 }
func high() float64 { return math.Nextafter(1, 0) }

func always(error) (bool, time.Duration) { return true, 0 }

func TestNextDoublesUpToTheCap(t *testing.T) {
	b := retry.Backoff{Initial: 200 * time.Millisecond, Max: time.Second}
	var got []time.Duration
	for attempt := 1; attempt <= 6; attempt++ {
		got = append(got, b.Next(attempt, 0, low))
	}
	ms := time.Millisecond
	want := []time.Duration{100 * ms, 200 * ms, 400 * ms, 500 * ms, 500 * ms, 500 * ms}
	if !slices.Equal(got, want) {
		t.Errorf("least waits: got %v, want %v", got, want)
	}
}

func TestNextStaysWithinItsBounds(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		b := retry.Backoff{
			Initial: time.Duration(rnd.Int64N(int64(2 * time.Second))),
			Max:     time.Duration(rnd.Int64N(int64(time.Minute))),
		}
		after := time.Duration(rnd.Int64N(int64(2 * time.Minute)))
		if rnd.IntN(2) == 0 {
			after = 0
		}
		attempt := rnd.IntN(100)
		got := b.Next(attempt, after, rnd.Float64)
		if got < after || got > max(b.Max/2, after)+b.Max/2 {
			t.Fatalf("%+v.Next(%d, %v): got %v, want between Retry-After and the cap", b, attempt, after, got)
		}
	}
}

func TestNextDoesNotOverflow(t *testing.T) {
	b := retry.Backoff{Initial: 1, Max: math.MaxInt64}
	got := b.Next(math.MaxInt32, 0, low)
	if want := time.Duration(math.MaxInt64) / 2; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNextSpreadsBeyondRetryAfter(t *testing.T) {
	b := retry.Backoff{Initial: time.Second, Max: time.Second}
	least, most := b.Next(1, time.Minute, low), b.Next(1, time.Minute, high)
	if least != time.Minute || most <= least {
		t.Errorf("got %v to %v, want from 1m0s upwards", least, most)
	}
}

func TestNextOfTheZeroBackoffIsRetryAfter(t *testing.T) {
	if got := (retry.Backoff{}).Next(3, time.Second, high); got != time.Second {
		t.Errorf("got %v, want 1s", got)
	}
}

func TestDoTriesUntilSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		tries := 0
		err := retry.Do(t.Context(), retry.Backoff{Initial: time.Second, Max: 4 * time.Second}, low,
			func(context.Context) error {
				if tries++; tries < 5 {
					return errDown
				}
				return nil
			}, always)
		if err != nil || tries != 5 {
			t.Fatalf("got %v after %d tries, want success at the fifth", err, tries)
		}
		// Half of 1 s, 2 s, 4 s and 4 s.
		if got, want := time.Since(start), 5500*time.Millisecond; got != want {
			t.Errorf("waited %v, want %v", got, want)
		}
	})
}

func TestDoStopsAtAPermanentError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		permanent := fmt.Errorf("refused: %w", errDown)
		err := retry.Do(t.Context(), retry.Backoff{Initial: time.Second, Max: time.Second}, low,
			func(context.Context) error { return permanent },
			func(error) (bool, time.Duration) { return false, time.Hour })
		if !errors.Is(err, permanent) || time.Since(start) != 0 {
			t.Errorf("got %v after %v, want the error at once", err, time.Since(start))
		}
	})
}

func TestDoHonoursRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		tries := 0
		err := retry.Do(t.Context(), retry.Backoff{Initial: time.Millisecond, Max: time.Second}, low,
			func(context.Context) error {
				if tries++; tries == 1 {
					return errDown
				}
				return nil
			}, func(error) (bool, time.Duration) { return true, 42 * time.Second })
		if err != nil || time.Since(start) != 42*time.Second {
			t.Errorf("got %v after %v, want success after 42s", err, time.Since(start))
		}
	})
}

func TestDoEndsItsWaitWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		err := retry.Do(ctx, retry.Backoff{Initial: time.Hour, Max: time.Hour}, low,
			func(context.Context) error { return errDown }, always)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errDown) {
			t.Errorf("got %v, want the context's end and the last error", err)
		}
		if got := time.Since(start); got != 3*time.Second {
			t.Errorf("returned after %v, want 3s", got)
		}
	})
}

func TestDoDoesNotTryAgainOnceTheContextEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		tries := 0
		err := retry.Do(ctx, retry.Backoff{}, low, func(context.Context) error {
			tries++
			cancel()
			return errDown
		}, always)
		if !errors.Is(err, context.Canceled) || tries != 1 {
			t.Errorf("got %v after %d tries, want the cancellation after one", err, tries)
		}
	})
}

func ExampleBackoff() {
	b := retry.Backoff{Initial: 200 * time.Millisecond, Max: 30 * time.Second}
	middle := func() float64 { return 0.5 }
	for attempt := 1; attempt <= 4; attempt++ {
		fmt.Println(b.Next(attempt, 0, middle))
	}
	fmt.Println("the service asks for 10s:", b.Next(1, 10*time.Second, middle))
	// Output:
	// 150ms
	// 300ms
	// 600ms
	// 1.2s
	// the service asks for 10s: 10.05s
}
