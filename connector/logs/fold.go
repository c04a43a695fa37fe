package logs

import (
	"context"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"
)

// maxKinds bounds the kinds of lines that are remembered at once. Beyond it lines
// are written as they come.
const maxKinds = 1000

// folder tells a line that was written shortly before from a new one. The first of a
// kind is written at once. Those of the kind that follow within the window are held
// back; when it ends, the last of them is written, with the time it was logged at and, if
// N others were left out, suppressed=N, and the next window begins. A window without lines ends it.
type folder struct {
	window time.Duration

	mu     sync.Mutex
	kinds  map[string]*kind
	closed bool
}

// kind is lines that say the same of the same thing.
type kind struct {
	timer *time.Timer // ends its window
	held  int
	last  slog.Record  // of those held back
	to    slog.Handler // where it would have gone
}

// holds reports whether the line is held back.
func (f *folder) holds(to slog.Handler, within string, r slog.Record) bool {
	bytes := append(make([]byte, 0, 256), within...)
	bytes = append(append(append(bytes, r.Level.String()...), 0), r.Message...)
	r.Attrs(func(a slog.Attr) bool {
		bytes = appendKind(bytes, a)
		return true
	})
	key := string(bytes)
	f.mu.Lock()
	defer f.mu.Unlock()
	if k, ok := f.kinds[key]; ok {
		k.held++
		k.last, k.to = r.Clone(), to
		return true
	}
	if !f.closed && len(f.kinds) < maxKinds {
		f.kinds[key] = &kind{timer: time.AfterFunc(f.window, func() { f.end(key) })}
	}
	return false
}

// end ends the window of a kind.
func (f *folder) end(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k, ok := f.kinds[key]
	switch {
	case !ok: // closed meanwhile
	case k.held == 0:
		delete(f.kinds, key)
	default:
		k.write()
		k.timer.Reset(f.window)
	}
}

func (k *kind) write() {
	if k.held > 1 {
		k.last.AddAttrs(slog.Int("suppressed", k.held-1))
	}
	k.last.AddAttrs(slog.Time("latest", k.last.Time))
	k.last.Time = time.Now()                      // lines are in the order of their times
	_ = k.to.Handle(context.Background(), k.last) // a failure to log cannot be logged
	*k = kind{timer: k.timer}
}

func (f *folder) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.flush()
}

// flush ends all windows now. The caller holds mu.
func (f *folder) flush() {
	for _, key := range slices.Sorted(maps.Keys(f.kinds)) {
		k := f.kinds[key]
		k.timer.Stop()
		if k.held > 0 {
			k.write()
		}
	}
	clear(f.kinds)
}

// elsewhere are the attributes that say where or how often the same thing
// happened. Lines that differ in nothing else are of one kind.
var elsewhere = map[string]bool{
	"partition": true, "partitions": true, "offset": true, "generation": true,
	"wait": true, "attempt": true, "try": true, "tries": true,
	"backoff": true, "consecutive_errors": true, // the Kafka client's words
}

// ownPort is our end of a connection in an error of package net, another for each
// try: 10.0.0.5:43122->10.0.0.1:443.
var ownPort = regexp.MustCompile(`[^\s\[]*\]?:\d+->`)

// appendKind adds to a key what an attribute says about the kind of its line.
func appendKind(key []byte, a slog.Attr) []byte {
	if elsewhere[a.Key] {
		return key
	}
	key = append(append(append(key, 0), a.Key...), '=')
	return append(key, ownPort.ReplaceAllString(a.Value.Resolve().String(), "->")...)
}
