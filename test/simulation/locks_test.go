//go:build simulation

package simulation

import (
	"fmt"
	_ "unsafe" // for linkname
)

// idle says for which reasons a goroutine of a bubble may wait while time goes on.
//
//go:linkname idle runtime.isIdleInSynctest
var idle [64]bool

// reasons are the names of these reasons.
//
//go:linkname reasons runtime.waitReasonStrings
var reasons [64]string

// What waits for a mutex counts as idle, too. The Kafka client holds one while it joins
// its group, and a commit that waits for it would stop the time for which the group
// waits. None outside the bubble holds a mutex for long.
func init() {
	found := 0
	for i, reason := range reasons {
		switch reason {
		case "sync.Mutex.Lock", "sync.RWMutex.RLock", "sync.RWMutex.Lock":
			idle[i] = true
			found++
		case "sleep":
			if !idle[i] {
				panic("runtime.isIdleInSynctest is not what it was")
			}
		}
		if reason == "sync.RWMutex.Lock" {
			break
		}
	}
	if found != 3 {
		panic(fmt.Sprintf("got %d reasons to wait for a mutex, want 3", found))
	}
}
