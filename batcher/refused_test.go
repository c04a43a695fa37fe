package batcher

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// TestRefusedWriteIsADeadLetterOfItsOwnPartition: a record of the key at the same offset
// of another partition is none.
func TestRefusedWriteIsADeadLetterOfItsOwnPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, peer, _ := taking(t)
		w.run()
		peer.confirmed.Store(102)
		peer.answer = func([]schemas.Write) ([]int, error) { return nil, &refusal{words: "no"} }
		gone := write(schemas.Delete, "1")
		w.second = &partition{}
		w.log, w.secondLog = []schemas.Write{gone, gone}, []schemas.Write{gone, gone}
		check(t, w.b.Take("customers", gone, w.second, 101, false))
		time.Sleep(time.Hour)
		if got, want := w.steps(), "letter second[101], confirm 101-101"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
