package connector

import (
	"errors"
	"testing"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// TestLateRejectsLeaveTheMemoryOfWritesAlone: a write that cannot be a row joins
// the rejects. In the memory behind what was routed it would lend its cells to a
// write of the next record.
func TestLateRejectsLeaveTheMemoryOfWritesAlone(t *testing.T) {
	for _, rejected := range []error{nil, errors.New("rejected")} {
		l := &lane{which: schemas.Batch, routed: make([]router.Routed, 2, 4)}
		l.routed[0] = router.Routed{Lane: schemas.Batch, Write: schemas.Write{Cells: make([]schemas.Cell, 1)}}
		l.routed[1] = router.Routed{Lane: schemas.Batch, Err: rejected}
		writes, rejects := l.mine()
		rejects = append(rejects, writes[0])
		if behind := l.routed[:3][2]; behind.Write.Cells != nil {
			t.Errorf("%d writes, %d rejects: got %v behind what was routed, want nothing", len(writes), len(rejects), behind)
		}
	}
}
