package batcher

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/feedsink/feedsink/batcher/contest"
	"github.com/feedsink/feedsink/schemas"
)

const (
	// reconcileEvery is how soon it is looked again whether keys can be settled.
	reconcileEvery = time.Second
	// readEvery is how soon it is looked again how far the log was read.
	readEvery = 20 * time.Millisecond
	// reconcilers is how many keys are settled at once; how many calls that are is
	// for the one who makes them to say.
	reconcilers = 64
)

// look looks at the other lane's ledger, at the last moment before the generation's
// first intent.
func (f *importRun) look(ctx context.Context) error {
	if !f.anyDualLane() {
		return nil
	}
	return f.patiently(ctx, "look at the other lane's ledger", f.batcher.cfg.Peer.Look)
}

// contend finds the keys whose older writes by the other lane may land after the
// files. The generation's entry is on record by then: what had not landed yet when
// it was written, whoever adopts the files reads again.
func (f *importRun) contend() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, m := range f.members {
		f.known[i].keys.Send(f.confirmed)
		if f.from.Part <= 1 {
			f.known[i].keys.Trim(f.confirmed)
		}
		m.letGo()
	}
}

// anyDualLane reports whether the other lane writes to any of the line's tables.
func (l *tableQueue) anyDualLane() bool {
	return slices.ContainsFunc(l.members, func(m *member) bool { return m.DualLane })
}

// settling is what settles the keys of one of the import run's mappings.
type settling struct {
	*importRun
	member *member
	known  *dualLane // of the member, when the import run began
	imp    Import

	watched time.Time           // when it was looked last which partitions are halted or wait
	unread  map[Partition]int64 // ends of partitions that are not read to them
}

// reconcile ends an import whose files have landed: where the other lane wrote keys
// of them meanwhile, nobody knows what landed last, and so the newest state of
// each is sent again. Until nothing is conflicting any more the import's offsets are
// not committed; its entry in the ledger says that it has ended.
//
// The newest state is known only once the log was read to its end as it stood
// when the service had answered: what came later lands later.
//
// The mappings of a bundle are settled one after the other: what the other lane
// writes meanwhile lands behind the files of all of them.
func (f *importRun) reconcile(ctx, send context.Context, imp Import) error {
	if !f.anyDualLane() {
		return nil
	}
	f.batcher.spool.Remove(imp.File) // the log may have to be read on although the spool is full
	if err := f.recordSettling(send, imp); err != nil {
		return err
	}
	for i, m := range f.members {
		if m.DualLane {
			s := settling{importRun: f, member: m, known: f.known[i]}
			s.imp = imp
			if err := s.run(ctx, send, imp); err != nil {
				return err
			}
		}
	}
	return nil
}

// recordSettling notes in the ledger that keys are reconciled, which may take several
// calls for one. Of a generation without rows it is the only entry, and there is none
// if nothing is to be sent.
func (f *importRun) recordSettling(send context.Context, imp Import) error {
	contested, file := false, imp.Part > 0
	f.mu.Lock()
	for i := range f.members {
		contested = f.known[i].keys.Confirm(&f.generation.fate, f.confirmed) || contested
	}
	f.mu.Unlock()
	if !file && !contested {
		return nil
	}
	if !file {
		imp.Part, imp.Parts = 1, 1
	}
	f.enter(Settling, imp)
	if err := f.commit(send, "settle", imp, f.batcher.ledger.Reconcile); err != nil {
		return err
	}
	if !file {
		f.contend()
	}
	return nil
}

func (f *settling) run(ctx, send context.Context, imp Import) error {
	f.setSettling(true)
	defer f.setSettling(false)
	wait := waiting{importRun: f.importRun}
	defer wait.on("")
	f.leaveOut()
	for {
		ends, err := f.readOn(ctx, &wait)
		if err != nil {
			return err
		}
		if err := f.patiently(ctx, "look at the other lane's ledger", f.batcher.cfg.Peer.Look); err != nil {
			return err
		}
		f.mu.Lock()
		settled := f.known.keys.Reconcile()
		next := f.known.keys.Next(f.confirmed)
		keys, at := f.known.keys.Unconfirmed(f.confirmed)
		f.member.letGo()
		f.mu.Unlock()
		if settled {
			if settled, err = f.noteUnread(ctx, send); settled || err != nil {
				return err
			}
			continue
		}
		switch {
		case len(next) == 0: // it is for the other lane to go on
			wait.on(unconfirmed(keys, at))
			if p, ok := at.Partition.(Partition); ok && f.setApart(p, ends) {
				continue
			}
			if err := pause(ctx, reconcileEvery); err != nil {
				return err
			}
		default:
			f.log.Debug("settling keys that both lanes wrote", "file", imp.File, "keys", len(next))
			if err := f.sendNewest(ctx, next); err != nil {
				return err
			}
		}
	}
}

func (f *settling) setSettling(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known.settling, f.known.ends = on, nil
}

// readOn waits until the log was read to its end as of now.
func (f *settling) readOn(ctx context.Context, wait *waiting) (ends map[Partition]int64, err error) {
	if err := f.patiently(ctx, "find the ends of the log", func(ctx context.Context) (err error) {
		ends, err = f.batcher.cfg.Peer.Ends(ctx, f.member.Name)
		return err
	}); err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.known.ends = ends
	f.known.keys.Noted()
	f.mu.Unlock()
	f.unread = map[Partition]int64{}
	return ends, readTo(ctx, ends, wait.on, func(p Partition) bool { return f.doWithout(p, ends) })
}

// readTo waits until the partitions were read to these offsets, but for some, and says
// for what.
func readTo(ctx context.Context, ends map[Partition]int64, on func(what string), without func(Partition) bool) error {
	for p, end := range ends {
		for p.Read() < end && !without(p) {
			on(unread(p, end))
			if err := pause(ctx, readEvery); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendNewest sends keys' newest states, and returns once all are answered.
func (f *settling) sendNewest(ctx context.Context, all []contest.Newest) error {
	var calls sync.WaitGroup
	work := make(chan contest.Newest)
	for range min(reconcilers, len(all)) {
		calls.Go(func() {
			for n := range work {
				f.sendOne(ctx, n)
			}
		})
	}
	for _, n := range all {
		work <- n
	}
	close(work)
	calls.Wait()
	return ctx.Err()
}

// ErrMadeAnew says that there is no profile of the id that was to be deleted. A file
// may have made the key's profile anew, which has another id then.
var ErrMadeAnew = errors.New("there is no profile of this id; if a file has made the key's profile anew, that has another id")

// sendOne sends a key's newest state by calls. What calls cannot say becomes a
// row of the next file, which then shares the fate of that file.
func (f *settling) sendOne(ctx context.Context, n contest.Newest) {
	nothing, err := f.batcher.cfg.Peer.Apply(ctx, f.member.Name, n.Writes)
	if ctx.Err() != nil {
		return
	}
	anew := errors.Is(err, ErrMadeAnew)
	if anew {
		err = nil
	}
	refused := f.refuse(n, err)
	if f.tell(n, nothing, err) || refused {
		err = nil // its records are dead letters
	}
	if refused {
		f.noRow(n.Key)
	}
	if _, deletes := f.member.Loads[schemas.Delete]; anew && deletes {
		if n.Row == nil {
			n.Row = &n.Last
		}
		if current, err := f.rowsAgain(ctx, n); !current || err != nil {
			return // it is given out again
		}
	} else if anew {
		f.log.Warn("a profile that a newer record deletes may have been made anew by a file, under an id that is not known; "+
			"it stays. An import for deletes (imports.delete) would delete it by its key", "mapping", f.member.Name)
	}
	if err != nil && n.Row != nil {
		var current bool
		if current, err = f.rowsAgain(ctx, n); !current {
			return
		}
		if err != nil {
			f.noRow(n.Key)
		}
	}
	if err != nil {
		f.log.Warn("a key that both lanes wrote could not be settled: the service refuses its newest state, which is a dead letter of the other lane if that wrote it", "err", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known.keys.Sent(n)
}

// rowsAgain puts a key's newest state into the open file. Its offset is held
// there before this import lets go of it. It reports false if the state is not
// the newest any more, or the import run has ended.
func (f *settling) rowsAgain(ctx context.Context, n contest.Newest) (current bool, err error) {
	for try := 0; ; try++ {
		current, err = f.member.appendAgain(f.known, n)
		if p, ok := n.Row.Partition.(Partition); ok && current && err == nil {
			f.noteMoved(p)
		}
		if _, invalid := errors.AsType[*schemas.ValueError](err); err == nil || invalid {
			return current, err
		}
		f.log.Error("spool: a row is added again, trying once more; check the spool's disk", "err", err)
		if err := pause(ctx, f.backoff(f.batcher.cfg.Retry, try, 0)); err != nil {
			return false, err
		}
	}
}

// patiently makes attempts until one succeeds.
func (f *importRun) patiently(ctx context.Context, what string, attempt func(context.Context) error) error {
	for n := 0; ; n++ {
		err := attempt(ctx)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		f.log.Warn(what+": trying again", "err", err)
		if err := pause(ctx, f.backoff(f.batcher.cfg.Retry, n, 0)); err != nil {
			return err
		}
	}
}
