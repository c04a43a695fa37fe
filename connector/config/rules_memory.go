package config

import (
	"fmt"
	"math"
	"runtime/debug"

	"github.com/feedsink/feedsink/router"
)

// What memory a record can pass with, and more than a member ever needs.
const (
	leastMemory router.Bytes = 1 << 20
	mostMemory  router.Bytes = 1 << 40
)

// memory checks the bounds against each other and against Go's own, where the
// environment sets that.
func (r *rules) memory(m Memory) {
	sound := true
	for path, size := range map[string]router.Bytes{"memory.pending": m.Pending, "memory.fetched": m.Fetched} {
		if size < leastMemory || size > mostMemory {
			r.breaks(path, "must be between 1MiB and 1TiB, is "+r.written(path, size), "the default is enough for thousands of records of some kilobytes")
			sound = false
		}
	}
	if limit := debug.SetMemoryLimit(-1); sound && limit < math.MaxInt64 && int64(m.Pending+m.Fetched) > limit {
		r.breaks("memory", fmt.Sprintf("pending and fetched together are %d MiB, above GOMEMLIMIT, which is %d MiB",
			(m.Pending+m.Fetched)>>20, limit>>20), "lower them, or raise GOMEMLIMIT and the container's memory limit")
	}
}
