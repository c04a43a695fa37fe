package calls

import (
	"bytes"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
	"weak"

	"github.com/feedsink/feedsink/schemas"
)

// keeper is an origin that is told when its write waits.
type keeper struct {
	origin
	waits int
}

func (k *keeper) Wait() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.waits++
}

func (k *keeper) told() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.waits
}

// Whatever waits for another try, its own or that of an older write of its key, may
// wait for hours. It is told once: to hold less memory has its price.
func TestOriginsAreToldThatTheirWriteWaitsForAnotherTry(t *testing.T) {
	var failing atomic.Bool
	failing.Store(true)
	service := &script{answer: func(c sent) error {
		if failing.Load() && c.Key == "bad" {
			return errUnavailable
		}
		return nil
	}}
	run(t, config(), service, func(t *testing.T, s *stage) {
		put := func(key string) *keeper {
			k := &keeper{}
			s.Submit(Item{Mapping: "customers", Write: write(schemas.Upsert, key, "1"), Origin: k})
			return k
		}
		first, merged, good := put("bad"), put("bad"), put("good")
		synctest.Wait()
		inFlight := put("bad") // behind the first try, of which nothing is known yet
		pass(15 * time.Millisecond)
		behind := put("bad")
		pass(time.Second)
		again := put("bad")
		for what, c := range map[string]struct{ got, want int }{
			"the first": {first.told(), 1}, "merged into it": {merged.told(), 1}, "behind it": {behind.told(), 1},
			"behind a later try": {again.told(), 1}, "behind the first try": {inFlight.told(), 0}, "another key": {good.told(), 0},
		} {
			if c.got != c.want {
				t.Errorf("%s: told %d times, want %d", what, c.got, c.want)
			}
		}
		failing.Store(false)
		pass(time.Minute)
		s.wantPending(0)
	})
}

// A write's texts are parts of its record, and that of all that was fetched with it.
func TestWriteThatWaitsForAnotherTryHoldsNothingOfItsRecord(t *testing.T) {
	service := &script{answer: func(sent) error { return errUnavailable }}
	run(t, config(), service, func(t *testing.T, s *stage) {
		submit := func(key string) weak.Pointer[byte] {
			fetched := bytes.Repeat([]byte(key), 1000)
			text := unsafe.String(&fetched[0], len(fetched))
			s.Submit(Item{Mapping: "customers", Write: write(schemas.Upsert, text[:1], text[1:2]), Origin: &origin{}})
			return weak.Make(&fetched[0])
		}
		first := submit("k")
		pass(15 * time.Millisecond)
		behind := submit("k")
		service.mu.Lock()
		service.sent, service.inFlight = nil, nil // the first is the service's, too
		service.mu.Unlock()
		runtime.GC()
		if first.Value() != nil || behind.Value() != nil {
			t.Errorf("held: the first's %v, the one's behind it %v; want neither", first.Value() != nil, behind.Value() != nil)
		}
		s.drop(func(Origin) bool { return true })
	})
}
