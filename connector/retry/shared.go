package retry

import (
	"math/rand/v2"
	"sync"
)

// Shared is a source of randomness for all goroutines, of one that is for one.
func Shared(rnd *rand.Rand) *rand.Rand { return rand.New(&sharedSource{rnd: rnd}) }

type sharedSource struct {
	mu  sync.Mutex
	rnd *rand.Rand
}

func (s *sharedSource) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rnd.Uint64()
}
