package reload

import (
	"bytes"
	"context"
	"os"
	"time"
)

// watchEvery is how often the file is looked at. Its content counts, so that a link that
// leads to another file is noticed, as a ConfigMap has it.
const watchEvery = 2 * time.Second

// Watch is a file that may change. What it is compared with first is what it held when
// Watch was made.
type Watch struct {
	path string
	seen []byte // what was told of last
}

// NewWatch looks at the file for the first time. To miss no change, that is to be done
// before it is read.
func NewWatch(path string) *Watch {
	seen, _ := os.ReadFile(path) // who reads it is told what is wrong with it
	return &Watch{path: path, seen: seen}
}

// Run calls changed each time the file holds something else, until ctx ends. One that is
// being written is waited for: it has to hold the same twice.
func (w *Watch) Run(ctx context.Context, changed func(ctx context.Context)) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	before := w.seen
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, err := os.ReadFile(w.path)
		if err != nil {
			continue // on its way from one content to the next; a file that is gone has changed nothing
		}
		if settled := bytes.Equal(now, before); settled && !bytes.Equal(now, w.seen) {
			w.seen = now
			changed(ctx)
		}
		before = now
	}
}
