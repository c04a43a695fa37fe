package batcher

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
)

// TestBothLanesLeaveTheNewestStateOfRecordsThatConcernTwoTables: a record's call lands,
// but the record is confirmed only once its write to the other table has landed. Newer
// records of its key are confirmed before. After a restart it is called for again, and
// these once more behind it, though the ledger has shown them as confirmed.
func TestBothLanesLeaveTheNewestStateOfRecordsThatConcernTwoTables(t *testing.T) {
	const seeds = 150
	for _, custom := range []bool{false, true} {
		for seed := range uint64(seeds) {
			l := &lanes{t: t, custom: custom, parts: true}
			synctest.Test(t, func(*testing.T) { l.explore(seed) })
			if t.Failed() {
				t.Fatalf("custom %v, seed %d\n%s", custom, seed, strings.Join(l.tale, "\n"))
			}
		}
	}
}

// olderKeys are keys of which a record is sent again after a restart.
type olderKeys map[string]bool

// sends reports whether a record of the immediate lane is sent: it was not confirmed, or
// an older one of its key was not.
func (o olderKeys) sends(t *ack.Tracker, key string, at int64) bool {
	done := t.Done(at)
	if done && !o[key] {
		return false
	}
	if t.Restored(at) {
		t.SendAgain(at)
		o[key] = true
	}
	return true
}

// onceElsewhere is confirm, called with the lock held, which now and then waits for the
// record's write to another table.
func (l *lanes) onceElsewhere(ctx context.Context, others *sync.WaitGroup, confirm func()) func() {
	if !l.parts {
		return confirm
	}
	return func() {
		if l.rnd.IntN(3) > 0 {
			confirm()
			return
		}
		others.Go(func() {
			if l.linger(ctx, 10*time.Minute) == nil {
				l.mu.Lock()
				defer l.mu.Unlock()
				confirm()
			}
		})
	}
}
