package batcher

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// Reconciling needs each partition of the table: the batch lane must have read it to
// its end, the immediate lane must have confirmed writes of it. A partition that is
// halted in either lane gives neither until a person acts. It is set apart: the rest
// of the import is confirmed, and the records of this partition are read again once
// it goes on. Their rows go out once more and are reconciled like any others.

// apartAfter is Config.ApartAfter unless that says otherwise.
const apartAfter = time.Minute

// watch notes which of the mapping's partitions are halted, or wait for the other
// lane's routes, and since when.
func (f *settling) watch(ends map[Partition]int64) {
	if time.Since(f.watched) < reconcileEvery {
		return
	}
	f.watched = time.Now()
	if f.known.halted == nil {
		f.known.halted, f.known.waits = map[Partition]time.Time{}, map[Partition]time.Time{}
	}
	note := func(since map[Partition]time.Time, p Partition, is bool) {
		if _, known := since[p]; !is {
			delete(since, p)
		} else if !known {
			since[p] = f.watched
		}
	}
	for p := range ends {
		named, ok := p.(Named)
		note(f.known.halted, p, f.batcher.cfg.Peer.Halted(p) || ok && named.Halted() != "")
		note(f.known.waits, p, waits(p))
	}
}

// setApart reports whether reconciling goes on without the partition. Where all of
// them are halted nothing would be gained.
func (f *settling) setApart(p Partition, ends map[Partition]int64) bool {
	if f.apart[p] {
		return true
	}
	f.watch(ends)
	since, halted := f.known.halted[p]
	if !halted || time.Since(since) < cmp.Or(f.batcher.cfg.ApartAfter, apartAfter) || len(f.known.halted) == len(ends) {
		return false
	}
	if f.apart == nil {
		f.apart = map[Partition]bool{}
	}
	f.apart[p] = true
	f.leaveOut()
	return true
}

// leaveOut leaves the keys of partitions that are set apart to their next reading.
func (f *settling) leaveOut() {
	left := make(map[any]bool, len(f.apart))
	for p := range f.apart {
		left[p] = true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known.keys.LeaveOut(left)
}

// noteMoved notes that a row of the partition was added to the open file again.
func (f *importRun) noteMoved(p Partition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.moved == nil {
		f.moved = map[Partition]bool{}
	}
	f.moved[p] = true
}

// confirmRest confirms an import but for the partitions that are set apart. If it has
// records of them, the table's partitions are read again.
func (f *importRun) confirmRest(ctx, send context.Context, imp Import) error {
	f.enter(Confirming, imp)
	apart := func(p Partition) bool { return f.apart[p] }
	// Rows of the open file, which is dropped then, say the newest state of their keys.
	moved := func(p Partition) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.moved[p]
	}
	left := false
	if err := f.commit(send, "set apart", imp, func(ctx context.Context, imp Import, claims []Claim) (err error) {
		left, err = f.batcher.ledger.SetApart(ctx, imp, claims, apart, moved)
		return err
	}); err != nil || !left {
		return err
	}
	f.log.Warn("import confirmed without partitions that hold up reconciling; their records of it are read again, and their rows sent again, once the cause of the halt is gone and they go on",
		"file", imp.File, "partitions", names(slices.Collect(maps.Keys(f.apart))))
	<-ctx.Done() // Discard follows
	return ctx.Err()
}

func names(ps []Partition) (all []string) {
	for _, p := range ps {
		if named, ok := p.(Named); ok {
			all = append(all, fmt.Sprint(named))
		}
	}
	slices.Sort(all)
	return all
}

// Repeat is Append for a record of a partition that was set apart: its row may be in
// the table by now, in the place of a newer write of the other lane.
func (b *Batcher) Repeat(mapping string, w schemas.Write, p Partition, offset int64) error {
	m, ok := b.byName[mapping]
	if !ok {
		return unknown(mapping)
	}
	return m.append(&w, p, offset, true)
}
