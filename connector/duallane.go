package connector

import (
	"errors"
	"math"
	"time"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/imports"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/tables"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

func (f *fileDelivery) follows(topic string) bool { return f.shared[topic] }

// observe shows the files what is not theirs to write: writes of the other lane,
// and rows that were confirmed before a restart.
func (f *fileDelivery) observe(p *kafka.Partition, r *kafka.Record, routed []router.Routed, done bool) error {
	for i := range routed {
		w := &routed[i]
		switch {
		case w.Err != nil || !w.Mapping.DualLane():
		case w.Lane == schemas.Immediate:
			if err := f.files.Other(w.Mapping.Name, w.Write, imports.PartitionOf(p), r.Offset, w.Taken); errors.Is(err, batcher.ErrBusy) {
				return err // soon it is not
			} else if err != nil {
				return f.noRoom(w.Mapping.Name, r, err)
			}
		case done:
			f.files.Landed(w.Mapping.Name, w.Write, imports.PartitionOf(p), r.Offset)
		}
	}
	return nil
}

// Premature reports whether the answer that there is nothing to patch, or a record already where one is
// to be created, may be due to a row that is still on its way in a file: the write is tried again until
// the batch lane has confirmed what came before it, or has loaded it, and then a few times more.
func (p *part) Premature() bool {
	switch {
	case p.op != schemas.Patch && p.op != schemas.Create || !p.mapping.DualLane():
		return false
	case p.passed < lastTries:
	case p.awaitsReconciling():
		p.passed = 1 // a few times behind that, too
	default:
		return false
	}
	if p.Arrived() {
		p.passed++
	}
	return true
}

// Arrived reports whether the batch lane has brought what came before the write.
func (p *part) Arrived() bool {
	return p.passed > 0 || p.partition.OtherPassed(tables.LedgerTable(p.mapping), p.entry.Offset())
}

// lastTries are the tries of a write that the batch lane has passed. One alone could fall
// between the two calls by which that lane deletes and writes a row to bring its newest
// state.
const lastTries = 3

// longestReconciling bounds how long a patch waits for the batch lane's reconciling.
const longestReconciling = time.Minute

// awaitsReconciling reports whether the batch lane reconciles keys of an import that covers
// the patch, and the log has a row for it: an older delete of this lane has landed behind the
// file, and that lane brings the row back, even where it waits for the patch.
func (p *part) awaitsReconciling() bool {
	if p.op != schemas.Patch || !p.partition.OtherReconciles(tables.LedgerTable(p.mapping), p.entry.Offset(), math.MaxInt64) {
		return false
	}
	if p.asked == nil {
		if p.asked = p.lane.missing.ask(p); p.asked == nil {
			return false
		}
	}
	return p.lane.missing.mayFind(p.asked) && time.Since(p.asked.since) < longestReconciling
}

var _ calls.Premature = (*part)(nil)
