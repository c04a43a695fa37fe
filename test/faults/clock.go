package main

import (
	"os"
	"sync"
	"time"
)

// dayClock is the time of day of the members and of the service: how far it is ahead
// of the machine's stands in a file (cmd/feedsink/movedclock.go).
type dayClock struct {
	file string

	mu    sync.Mutex
	ahead time.Duration
}

// env lets a member follow the clock.
func (c *dayClock) env() string { return "FEEDSINK_CLOCK_AHEAD=" + c.file }

func (c *dayClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *dayClock) advance(d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
	if err := os.WriteFile(c.file+".new", []byte(c.ahead.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(c.file+".new", c.file)
}
