// Package security holds what the process trusts and shows: TLS from PEM files that
// are read again when they change, and short-lived credentials for brokers (access
// tokens of an OAuth server, keys of AWS) that are kept while they are valid.
//
// It knows files, handshakes, token endpoints and AWS. It knows nothing about Kafka,
// the service or configuration.
package security

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// maxFile bounds what is read of a file of certificates or keys, or of an answer: the
// authorities of a whole system are a quarter of it.
const maxFile = 1 << 20

// ReadFile reads a regular file of at most so many bytes: a path to something else, a
// log or a core dump, is refused.
func ReadFile(path string, most int64) (data []byte, err error) {
	// Stat before Open: opening a pipe would block until someone writes.
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err = io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s: larger than %d KiB", path, most>>10)
	}
	return data, err
}

const requestTimeout = 10 * time.Second // of a request for a token or for keys

// kept is a credential that ends. It is got anew by one caller, for whose answer the
// others wait.
type kept[T any] struct {
	lock      chan struct{} // a mutex that is waited for no longer than a context lasts
	value     T
	got, ends time.Time // ends is zero for a value that is not kept
}

func newKept[T any]() kept[T] { return kept[T]{lock: make(chan struct{}, 1)} }

// get keeps the value until a fifth of its life is left, so that a session that begins
// with it lasts a while, and to its end if no other can be had.
func (k *kept[T]) get(ctx context.Context, fetch func(context.Context) (value T, ends time.Time, err error)) (T, error) {
	var none T
	select {
	case k.lock <- struct{}{}:
		defer func() { <-k.lock }()
	case <-ctx.Done():
		return none, ctx.Err()
	}
	now := time.Now()
	if !past(k.ends.Add(-k.ends.Sub(k.got)/5), now) {
		return k.value, nil
	}
	value, ends, err := fetch(ctx)
	switch {
	case err == nil:
		if !ends.IsZero() { // told as a time of the day: from here on both clocks know it
			ends = now.Add(ends.Sub(now))
		}
		k.value, k.got, k.ends = value, now, ends
	case past(k.ends, now):
		return none, err
	}
	return k.value, nil
}

// past reports whether a time is over by one of the clocks that both were read off:
// the monotonic one does not run while a machine is suspended, the machine's own may
// be moved back.
func past(t, now time.Time) bool {
	return !now.Before(t) || !now.Round(0).Before(t.Round(0))
}
