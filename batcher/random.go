package batcher

import (
	"math/rand/v2"
	"sync"
	"time"
)

// random is the source of randomness, shared by all goroutines.
type random struct {
	mu  sync.Mutex
	rnd *rand.Rand
}

// late is a number in (1/2, 1]: with it, waits are between three quarters and the
// whole of their ceiling, enough that members do not move in step.
func (c *random) late() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return 1 - c.rnd.Float64()/2
}

// name is unique among the files of a mapping.
func (c *random) name(mapping string) string {
	const deadLetters = "abcdefghijklmnopqrstuvwxyz234567"
	c.mu.Lock()
	defer c.mu.Unlock()
	suffix := make([]byte, 6)
	for i := range suffix {
		suffix[i] = deadLetters[c.rnd.IntN(len(deadLetters))]
	}
	return mapping + "-" + time.Now().UTC().Format("20060102T150405Z") + "-" + string(suffix)
}
