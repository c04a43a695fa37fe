package batcher

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// TestPatchThatARowMayNotSayIsSentBehindTheFile: it is no part of the row, and its call, which
// landed before the file, may have been overwritten by that.
func TestPatchThatARowMayNotSayIsSentBehindTheFile(t *testing.T) {
	for _, c := range []struct {
		name  string
		rows  []schemas.Write
		patch schemas.Write
		sent  int64
	}{
		{"a row that says it", []schemas.Write{write(schemas.Upsert, "1", "a", "old")}, write(schemas.Patch, "1", "a", "new"), 0},
		{"a create's row", []schemas.Write{write(schemas.Delete, "1"), write(schemas.Create, "1", "a", "old")}, write(schemas.Patch, "1", "a", "new"), 1},
		{"a field that rows have no column for", []schemas.Write{write(schemas.Delete, "1"), write(schemas.Upsert, "1", "a", "old")}, write(schemas.Patch, "1", "c", "new"), 1},
		{"a field that an empty cell does not clear", []schemas.Write{write(schemas.Patch, "1", "a", "old"), write(schemas.Upsert, "1", "b", "old")}, write(schemas.Patch, "1", "a", ""), 1},
		{"a field that an empty cell clears", []schemas.Write{write(schemas.Upsert, "1", "a", "old")}, write(schemas.Patch, "1", "a", ""), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := testMapping()
				m.DualLane, m.Roll.Age = true, time.Minute
				w, peer := newWorld(t), &noCalls{}
				peer.answer = func([]schemas.Write) ([]int, error) {
					peer.sent.Add(1)
					return nil, nil
				}
				peer.confirmed.Store(200)
				w.open(Config{Peer: peer}, m)
				w.run()
				w.append(c.rows...)
				w.other(c.patch, 150)
				time.Sleep(time.Hour)
				if got := peer.sent.Load(); got != c.sent {
					t.Errorf("the key's newest state: got it sent %d times behind its file, want %d", got, c.sent)
				}
			})
		})
	}
}
