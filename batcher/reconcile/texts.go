package reconcile

import (
	"fmt"
	"sync"
)

// AtOnce calls send with each key, with so many at a time, and returns once all have returned.
func AtOnce(all []Newest, most int, send func(Newest)) {
	var calls sync.WaitGroup
	room := make(chan struct{}, most)
	for _, n := range all {
		room <- struct{}{}
		calls.Go(func() {
			send(n)
			<-room
		})
	}
	calls.Wait()
}

// SomeKeys counts keys in words.
func SomeKeys(n int) string {
	if n == 1 {
		return "a key"
	}
	return fmt.Sprintf("%d keys", n)
}

// Unconfirmed says which of the other lane's writes have to be confirmed first.
func Unconfirmed(keys int, at At) string {
	if keys == 0 {
		return ""
	}
	text := "the immediate lane has not confirmed writes of " + SomeKeys(keys)
	if at.Partition != nil {
		text += fmt.Sprintf(", one of them at %v offset %d", at.Partition, at.Offset)
	}
	return text + "; if its partition is halted there, or the mapping paused, /status of that lane says why"
}
