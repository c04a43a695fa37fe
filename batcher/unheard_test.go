package batcher

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/schemas"
)

// TestPatchOfWhatTheOtherLaneDeletedIsADeadLetterThoughItIsInNoFile builds a generation
// again whose file of upserts is loaded. The former owner had dropped the upsert of key
// 1 for the other lane's delete, and its patch was a row of the file that follows; built
// again, the patch is merged into the upsert, whose file is left out.
func TestPatchOfWhatTheOtherLaneDeletedIsADeadLetterThoughItIsInNoFile(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer error        // to the call that sends the key's newest state, a delete
		newer  schemas.Op   // of the key once more
		lane   schemas.Lane // which writes that
		want   string       // dead letters
	}{
		{"the delete is sent by a call", nil, 0, 0, "102"},
		{"it is a row of the next file", errNoCall, 0, 0, "102"},
		{"it is refused", &refusal{}, 0, 0, "102"},
		{"a newer patch has come", nil, schemas.Patch, schemas.Batch, "102 103"},
		{"a newer create has come", nil, schemas.Create, schemas.Batch, "102"},
		{"a newer upsert has come", nil, schemas.Upsert, schemas.Batch, "102"},
		{"a newer upsert of the other lane has come", nil, schemas.Upsert, schemas.Immediate, ""},
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
					write(schemas.Patch, "1", "a", "y"), write(c.newer, "1", "a", "z"), write(schemas.Patch, "3", "a", "y"),
				}
				if c.lane != schemas.Batch {
					w.log[3].Key = "4" // none of the key's records that are read again
				}
				parts := 2
				if c.newer == schemas.Create {
					parts = 3 // its file is loaded, too
				}
				a := w.left(105, contract.Import{Part: parts, Parts: parts, Attempt: 1})
				a.Rebuild = true
				w.adopt(a)
				w.run()
				other := func(op schemas.Op, offset int64) {
					w.other(write(op, "1", "a", "z"), offset)
				}
				w.read(w.p, 100, w.log[0])
				other(schemas.Delete, 101)
				w.read(w.p, 102, w.log[2])
				switch c.lane {
				case schemas.Batch:
					w.read(w.p, 103, w.log[3])
				case schemas.Immediate:
					other(c.newer, 103)
				}
				w.read(w.p, 104, w.log[4])
				time.Sleep(10 * time.Minute)
				lines := strings.Join(w.transcript(), "\n")
				if want := `"k,a,b\n3,y,\n"`; !strings.Contains(lines, want) || strings.Contains(lines, `\n1,`) {
					t.Errorf("got %s\nwant the file %s and no row of key 1", lines, want)
				}
				var dead []string
				for line := range strings.Lines(lines) {
					if words := strings.Fields(line); words[1] == "reject" {
						dead = append(dead, words[2])
					}
				}
				if got := strings.Join(dead, " "); got != c.want || !strings.Contains(lines, "confirm patch") {
					t.Errorf("got dead letters %q in %s\nwant %q, and the import confirmed", got, lines, c.want)
				}
			})
		})
	}
}
