package batcher

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// TestPatchOfWhatTheOtherLaneDeletedIsADeadLetterThoughItIsInNoFile builds a generation
// again whose file of upserts is loaded. The former owner had dropped the upsert of key
// 1 for the other lane's delete, and its patch was a row of the file that follows; built
// again, the patch is merged into the upsert, whose file is left out.
func TestPatchOfWhatTheOtherLaneDeletedIsADeadLetterThoughItIsInNoFile(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer error // to the call that sends the key's newest state, a delete
		dead   bool
		newer  bool // the other lane writes the key once more
	}{
		{"the delete is sent by a call", nil, true, false},
		{"it is a row of the next file", errNoCall, true, false},
		{"it is refused", &refusal{}, true, false},
		{"a newer upsert has come", nil, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, peer := newWorld(t), &noCalls{}
				peer.answer = func([]schemas.Write) ([]int, error) { return nil, c.answer }
				peer.confirmed.Store(1000)
				m := testMapping()
				m.DualLane = true
				w.open(Config{Peer: peer}, m)
				w.log = []schemas.Write{
					write(schemas.Upsert, "1", "a", "x"), write(schemas.Upsert, "2", "a", "x"),
					write(schemas.Patch, "1", "a", "y"), write(schemas.Patch, "3", "a", "y"),
				}
				a := w.left(104, Import{Part: 2, Parts: 2, Attempt: 1})
				a.Rebuild = true
				w.adopt(a)
				w.run()
				other := func(op schemas.Op, offset int64) {
					if err := w.b.Other("customers", write(op, "1"), w.p, offset); err != nil {
						t.Fatal(err)
					}
				}
				w.read(w.p, 100, w.log[0])
				other(schemas.Delete, 101)
				w.read(w.p, 102, w.log[2])
				if c.newer {
					other(schemas.Upsert, 103)
				}
				w.read(w.p, 103, w.log[3])
				time.Sleep(10 * time.Minute)
				lines := strings.Join(w.transcript(), "\n")
				if want := `"k,a,b\n3,y,\n"`; !strings.Contains(lines, want) || strings.Contains(lines, `\n1,`) {
					t.Errorf("got %s\nwant the file %s and no row of key 1", lines, want)
				}
				if got := strings.Contains(lines, "bury 102 of e1: "+noMessage); got != c.dead {
					t.Errorf("patch a dead letter: got %v in %s\nwant %v", got, lines, c.dead)
				}
				if !strings.Contains(lines, "confirm patch 2/2") {
					t.Errorf("got %s\nwant the import confirmed", lines)
				}
			})
		})
	}
}
