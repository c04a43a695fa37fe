// Package clock moves the clock of programs under test: of one or several
// processes, while they run, as a clock that is set does. Timers and durations
// go on as they are, the time of day jumps.
//
// The programs are what `go build -overlay` makes of their unchanged source:
// Overlay has package time add to the time of day what stands in a file that
// the processes share. It knows the standard library's source and nothing of
// feedsink.
package clock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Variable names the environment variable that tells a program built with an
// overlay which file holds its clock. Without it the clock is the machine's.
const Variable = "TEST_CLOCK"

// Clock is how far the time of day of some processes is ahead of the machine's.
// Its methods may be called concurrently.
type Clock struct {
	file *os.File

	mu     sync.Mutex
	ahead  time.Duration
	before time.Duration // what it was ahead of the machine's until it was moved last
}

// Open makes a clock that shows the machine's time, in a file of its own.
func Open(path string) (*Clock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("clock: %w", err)
	}
	c := &Clock{file: file}
	if err := c.write(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close ends the clock. Programs that follow it stay where it was last.
func (c *Clock) Close() error { return c.file.Close() }

// Env is the environment entry that lets a program follow the clock.
func (c *Clock) Env() string { return Variable + "=" + c.file.Name() }

// Now is what the programs see.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

// Advance moves the clock ahead by whole seconds; fractions are cut off.
func (c *Clock) Advance(d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before, c.ahead = c.ahead, c.ahead+d.Truncate(time.Second)
	return c.write()
}

// Machine is what the machine's clock showed at a moment that a program has
// told, if it was told lately: since the move before the last.
func (c *Clock) Machine(told time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, until := time.Since(told.Add(-c.ahead)).Abs(), time.Since(told.Add(-c.before)).Abs()
	if until < now {
		return told.Add(-c.before)
	}
	return told.Add(-c.ahead)
}

// write changes the eight bytes at once: whoever has mapped the file never sees
// half of them.
func (c *Clock) write() error {
	var seconds [8]byte
	binary.NativeEndian.PutUint64(seconds[:], uint64(c.ahead/time.Second))
	if _, err := c.file.WriteAt(seconds[:], 0); err != nil {
		return fmt.Errorf("clock: %w", err)
	}
	return nil
}
