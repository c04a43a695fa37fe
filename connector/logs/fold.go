package logs

import (
	"context"
	"log/slog"
	"regexp"
	"sync"
	"time"
)

// maxKinds bounds the kinds of lines that are remembered at once. Beyond it lines
// are written as they come.
const maxKinds = 1000

// folder tells a line that was said a moment ago from a new one. The first of a
// kind is written at once. Those of the kind that follow within the window are
// counted; when it ends, the last of them is written with repeated=N, N lines
// having been held back for it, and the next window begins. A window without
// lines ends it.
type folder struct {
	window time.Duration
	wake   chan struct{} // there is a first window to wait for, or the end has come
	ended  chan struct{} // closed once nothing waits any more

	mu     sync.Mutex
	kinds  map[string]*kind
	order  []*kind // by the end of their windows: all are of one length
	closed bool
}

// kind is lines that say the same of the same thing.
type kind struct {
	key      string
	until    time.Time
	repeated int
	last     slog.Record  // of those counted
	to       slog.Handler // where it would have gone
}

func newFolder(window time.Duration) *folder {
	f := &folder{window: window, wake: make(chan struct{}, 1), ended: make(chan struct{}), kinds: map[string]*kind{}}
	go f.run()
	return f
}

// counts reports whether the line was one of those that are only counted.
func (f *folder) counts(to slog.Handler, within string, r slog.Record) bool {
	key := append(make([]byte, 0, 256), within...)
	key = append(append(append(key, r.Level.String()...), 0), r.Message...)
	r.Attrs(func(a slog.Attr) bool {
		key = appendKind(key, a)
		return true
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if k, ok := f.kinds[string(key)]; ok {
		k.repeated++
		k.last, k.to = r.Clone(), to
		return true
	}
	if f.closed || len(f.kinds) == maxKinds {
		return false
	}
	k := &kind{key: string(key), until: time.Now().Add(f.window)}
	f.kinds[k.key] = k
	f.order = append(f.order, k)
	if len(f.order) == 1 {
		f.rouse()
	}
	return false
}

// run ends windows when their time has come.
func (f *folder) run() {
	defer close(f.ended)
	timer := time.NewTimer(f.window)
	defer timer.Stop()
	for {
		next, closed := f.tell(time.Now())
		if closed {
			return
		}
		timer.Stop()
		if !next.IsZero() {
			timer.Reset(time.Until(next))
		}
		select {
		case <-timer.C:
		case <-f.wake:
		}
	}
}

// tell writes what was counted in windows that have ended and returns when the
// next one does, zero if none is open.
func (f *folder) tell(now time.Time) (next time.Time, closed bool) {
	f.mu.Lock()
	var due []kind
	for len(f.order) > 0 && (f.closed || !f.order[0].until.After(now)) {
		k := f.order[0]
		f.order = f.order[1:]
		if k.repeated == 0 || f.closed {
			delete(f.kinds, k.key)
		}
		if k.repeated == 0 {
			continue
		}
		due = append(due, *k)
		if !f.closed {
			k.repeated, k.last, k.until = 0, slog.Record{}, now.Add(f.window)
			f.order = append(f.order, k)
		}
	}
	if len(f.order) > 0 {
		next = f.order[0].until
	}
	closed = f.closed
	f.mu.Unlock()
	for i := range due {
		due[i].last.AddAttrs(slog.Int("repeated", due[i].repeated))
		_ = due[i].to.Handle(context.Background(), due[i].last) // a log that cannot be written has nobody to tell
	}
	return next, closed
}

func (f *folder) rouse() {
	select {
	case f.wake <- struct{}{}:
	default: // it has been told and has not looked yet
	}
}

func (f *folder) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.rouse()
	<-f.ended
}

// elsewhere are the attributes that say where or how often the same thing
// happened. Lines that differ in nothing else are of one kind.
var elsewhere = map[string]bool{
	"partition": true, "partitions": true, "offset": true, "generation": true,
	"wait": true, "attempt": true, "try": true, "tries": true,
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
