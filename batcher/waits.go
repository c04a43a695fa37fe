package batcher

import (
	"fmt"
	"time"

	"github.com/feedsink/feedsink/batcher/contest"
)

// Named is a Partition that can be told to a person.
type Named interface {
	Partition
	// String is topic[number].
	String() string
	// Halted is why it is read no further until a person acts; "": it is not halted.
	Halted() string
	// Waits is what of the other lane its records wait for; "": nothing.
	Waits() string
}

// waitLogged is how long reconciling waits for one thing before the log says so, and
// how often it does.
const waitLogged = time.Minute

// waiting tells what reconciling waits for, and says so in the log once in a while.
type waiting struct {
	*importRun
	since time.Time // or when it was logged last
}

func (w *waiting) on(what string) {
	w.mu.Lock()
	known := w.now.WaitsFor
	w.now.WaitsFor = what
	w.mu.Unlock()
	switch now := time.Now(); {
	case what == "":
	case known == "":
		w.since = now
	case now.Sub(w.since) >= waitLogged:
		w.since = now
		w.log.Warn("reconciling keys that both lanes wrote: waiting; the table's next import follows", "for", what)
	}
}

func count(keys int) string {
	if keys == 1 {
		return "a key"
	}
	return fmt.Sprintf("%d keys", keys)
}

// unread says how far a partition is read that has to be read on.
func unread(p Partition, end int64) string {
	named, ok := p.(Named)
	if !ok {
		return fmt.Sprintf("a partition is read up to offset %d of %d", p.Read(), end)
	}
	text := fmt.Sprintf("%s is read up to offset %d of %d by the batch lane", named, p.Read(), end)
	if reason := named.Halted(); reason != "" {
		text += ", where it is halted: " + reason
	}
	if what := named.Waits(); what != "" {
		text += ", where its records wait: " + what
	}
	return text
}

// unconfirmed says which of the other lane's writes have to be confirmed first.
func unconfirmed(keys int, at contest.At) string {
	if keys == 0 {
		return ""
	}
	text := fmt.Sprintf("the immediate lane has not confirmed writes of %s", count(keys))
	if named, ok := at.Partition.(Named); ok {
		text += fmt.Sprintf(", one of them at %s offset %d", named, at.Offset)
	}
	return text + "; if its partition is halted there, /status of that lane says why"
}
