// Package clock tells which calendar day it is while the machine's clock cannot be relied on.
//
// The machine's clock may be moved while the sink runs: by a person, by NTP, or
// because the machine was suspended. Durations do not notice, they are measured
// by a clock that only ever goes on. Which calendar day it is, is read off the one
// that can be moved.
package clock

import (
	"log/slog"
	"sync"
	"time"
)

// Clock tells when it is. While the machine's clock shows something else than it
// should after what it showed before, it is not known which of the two the service's
// clock shows, and both hold.
type Clock struct {
	wall func() time.Time // what the machine's clock shows; nil: time.Now
	log  *slog.Logger     // nil: nothing is logged

	mu    sync.Mutex
	shown time.Time     // when it was last right, without a monotonic reading
	at    time.Time     // the same time, with one; zero: it was never read
	moved time.Duration // how far it is off what it should show; 0: it is right
	since time.Time     // when it was moved, with a monotonic reading
}

// New takes what the machine's clock shows; nil: time.Now. Log is told of moves; nil: nothing is.
func New(wall func() time.Time, log *slog.Logger) *Clock { return &Clock{wall: wall, log: log} }

const (
	// slack is how far the clock may be moved at once without being in doubt.
	slack = time.Minute
	// Trust is for how long a clock that was moved is in doubt. One that
	// was moved by mistake has been noticed by then.
	Trust = 24 * time.Hour
)

// Candidates are when it may be: what the machine's clock shows and, while that is
// in doubt, what it should show.
func (c *Clock) Candidates() []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, shown := time.Now(), c.read()
	if c.at.IsZero() {
		c.shown, c.at = shown, now
		return []time.Time{shown}
	}
	expected := c.shown.Add(now.Sub(c.at))
	off := shown.Sub(expected)
	switch {
	case off.Abs() <= slack:
		if c.moved != 0 {
			c.warn("the machine's clock shows again what it should")
		}
		c.shown, c.at, c.moved = shown, now, 0
		return []time.Time{shown}
	case (off - c.moved).Abs() > slack:
		c.moved, c.since = off, now
		c.warn("the machine's clock was moved; for a day imports count for the day that it shows and for the one that it should show", "by", off.Round(time.Second))
	case now.Sub(c.since) >= Trust:
		c.shown, c.at, c.moved = shown, now, 0
		c.warn("the machine's clock was moved a day ago and is believed from here on", "by", off.Round(time.Second))
		return []time.Time{shown}
	}
	return []time.Time{shown, expected}
}

func (c *Clock) read() time.Time {
	if c.wall == nil {
		return time.Now().Round(0)
	}
	return c.wall().Round(0)
}

func (c *Clock) warn(message string, args ...any) {
	if c.log != nil {
		c.log.Warn(message, args...)
	}
}
