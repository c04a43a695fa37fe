package tlsfiles

import (
	"crypto/sha256"
	"log/slog"
	"sync"
	"time"
)

// followed is what some files mean, as they are when it is asked for. While they
// cannot be used, perhaps because only one of two has been replaced yet, it is
// what they meant before.
//
// The files are read each time, which happens once for a connection, and only
// understood anew when they hold something else: there is no clock of a file
// system that could be too coarse to show a change.
type followed[T any] struct {
	read  func() ([][]byte, error)
	parse func([][]byte) (T, error)
	log   *slog.Logger // nil: nobody is told

	mu    sync.Mutex
	seen  [sha256.Size]byte // of what value was made of
	value T
	ok    bool // there is a value
	// before is what value replaced at replaced, which is zero if it replaced nothing.
	before   T
	replaced time.Time
	bad      bool // the files could not be used when last looked at
}

// get is the value of now. Its error is that there has never been one.
func (f *followed[T]) get() (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	data, err := f.read()
	if err == nil {
		sum := sumOf(data)
		if f.ok && sum == f.seen {
			f.bad = false
			return f.value, nil
		}
		var value T
		if value, err = f.parse(data); err == nil {
			if f.ok {
				f.before, f.replaced = f.value, time.Now()
			}
			f.value, f.seen, f.ok, f.bad = value, sum, true, false
			return value, nil
		}
	}
	if !f.ok {
		return f.value, err
	}
	f.complain(err)
	return f.value, nil
}

// within are the value of now and, for a time after it took its place, the one
// before. Like get it fails only if there has never been one.
func (f *followed[T]) within(grace time.Duration) ([]T, error) {
	value, err := f.get()
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.replaced.IsZero() || time.Since(f.replaced) > grace {
		return []T{value}, nil
	}
	return []T{value, f.before}, nil
}

// complain tells once of files that have become unusable. mu is held.
func (f *followed[T]) complain(err error) {
	if !f.bad && f.log != nil {
		f.log.Warn("changed TLS files cannot be used; what they held before stays in use until they can", "error", err)
	}
	f.bad = true
}

// sumOf tells contents apart without keeping a private key's text.
func sumOf(data [][]byte) [sha256.Size]byte {
	all := sha256.New()
	for _, d := range data {
		one := sha256.Sum256(d)
		all.Write(one[:])
	}
	return [sha256.Size]byte(all.Sum(nil))
}
