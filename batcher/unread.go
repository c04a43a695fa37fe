package batcher

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"
)

// Reconciling reads each partition to its end: calls that the immediate lane has made
// for records there may have been overwritten by the file. A partition whose next
// record waits for the other lane's routes is not read on before the lanes apply the
// same routes, which may be long. It holds up the import for a while only. Then the
// ledger notes up to where it was not read, and the import is confirmed: once the
// lanes apply the same routes, the batch lane reads that and writes it again, whatever
// has landed before.

// doWithout reports whether reconciling goes on without reading the partition to its
// end.
func (f *settling) doWithout(p Partition, ends map[Partition]int64) bool {
	return f.leaveUnread(p, ends) || f.setApart(p, ends)
}

// leaveUnread reports whether the partition has waited long enough for the other
// lane's routes, and notes that it is not read to its end.
func (f *settling) leaveUnread(p Partition, ends map[Partition]int64) bool {
	f.watch(ends)
	since, waits := f.known.waits[p]
	if !waits || time.Since(since) < cmp.Or(f.batcher.cfg.ApartAfter, apartAfter) || f.unknown(p) {
		return false
	}
	f.unread[p] = ends[p]
	return true
}

// unknown reports whether rows that a former owner sent are not read yet.
func (f *settling) unknown(p Partition) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, suspect := f.known.suspect[p]
	return suspect
}

// noteUnread has the ledger note which partitions were not read to their ends. It
// reports false if one of them goes on by now, and is to be read after all, or if the
// other lane's writes that were read until the note have made a key conflicting.
func (f *settling) noteUnread(ctx, send context.Context) (settled bool, err error) {
	if len(f.unread) == 0 {
		return true, nil
	}
	if err := f.commit(send, "leave unread", f.imp, func(ctx context.Context, imp Import, _ []Claim) error {
		return f.batcher.ledger.Unread(ctx, imp, f.unread)
	}); err != nil {
		return false, err
	}
	for p := range f.unread {
		if !waits(p) {
			delete(f.known.waits, p)
			return false, ctx.Err()
		}
	}
	f.mu.Lock()
	settled = f.known.keys.Reconcile()
	f.mu.Unlock()
	if settled {
		f.log.Warn("import confirmed while records of its table wait for the other lane's routes; calls of that lane which its rows may have overwritten are written again once both lanes apply the same routes: give both the same configuration",
			"file", f.imp.File, "partitions", names(slices.Collect(maps.Keys(f.unread))))
	}
	return settled, ctx.Err()
}

// waits reports whether the partition's next record waits for the other lane's routes.
func waits(p Partition) bool {
	named, ok := p.(Named)
	return ok && named.Waits() != ""
}
