package batcher

import (
	"math/rand/v2"
	"sync"
	"time"
)

// chance is the source of randomness, shared by all goroutines.
type chance struct {
	mu  sync.Mutex
	rnd *rand.Rand
}

// upTo returns a random delay between three quarters of d and d, so that members
// do not move in step.
func (c *chance) upTo(d time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return d - time.Duration(c.rnd.Float64()*float64(d)/4)
}

// name is unique among the files of a mapping.
func (c *chance) name(mapping string) string {
	const letters = "abcdefghijklmnopqrstuvwxyz234567"
	c.mu.Lock()
	defer c.mu.Unlock()
	suffix := make([]byte, 6)
	for i := range suffix {
		suffix[i] = letters[c.rnd.IntN(len(letters))]
	}
	return mapping + "-" + time.Now().UTC().Format("20060102T150405Z") + "-" + string(suffix)
}
