package batcher

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/reconcile"
	"github.com/feedsink/feedsink/batcher/rejects"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/schemas"
)

const (
	// reconcileEvery is how soon it is looked again whether keys can be reconciled.
	reconcileEvery = time.Second
	// bringBackEvery is how many looks pass before rows are brought back that patches may
	// wait for.
	bringBackEvery = 3
	// readEvery is how soon it is looked again how far the log was read.
	readEvery = 20 * time.Millisecond
	// waitLogged is how soon, and how soon again, the log says what is waited for.
	waitLogged = time.Minute
	// reconcilers is how many keys are reconciled at once; how many calls that are is
	// for the one who makes them to say.
	reconcilers = 64
)

// look looks at the other lane's ledger, right before the generation's
// first intent.
func (r *importRun) look(ctx context.Context) error {
	if !r.queue.anyDualLane() {
		return nil
	}
	return r.retrying(ctx, "look at the other lane's ledger", r.batcher.cfg.Peer.Look)
}

// findConflicts finds the keys whose older writes by the other lane may land after the
// files. The generation's entry is on record by then: what had not landed yet when
// it was written, the member that adopts the files reads again.
func (r *importRun) findConflicts() {
	r.queue.mu.Lock()
	defer r.queue.mu.Unlock()
	for i, m := range r.queue.members {
		r.known[i].keys.Send(r.queue.confirmed)
		if r.generation.from.Part <= 1 {
			r.known[i].keys.Trim(r.queue.confirmed)
		}
		m.letGo()
	}
}

// reconciliation is what reconciles the keys of one of the import run's mappings.
type reconciliation struct {
	run       *importRun
	member    *member
	known     *dualLane          // of the member, when the import run began
	undecided *rejects.Undecided // likewise
	imp       contract.Import

	waitingSince time.Time           // since when it waits for one thing, or when that was logged last
	watched      time.Time           // when it was looked last which partitions are halted or wait
	unread       map[Partition]int64 // ends of partitions that are not read to them
}

// reconcile ends an import whose files have landed: where the other lane wrote keys
// of them meanwhile, it is not known what landed last, and so the newest state of
// each is sent again. Until nothing is conflicting any more the import's offsets are
// not committed; its entry in the ledger says that it has ended.
//
// The newest state is known only once the log was read to its end as it stood
// when the service had answered: what came later lands later.
//
// The mappings of a bundle are reconciled one after the other: what the other lane
// writes meanwhile lands behind the files of all of them.
func (r *importRun) reconcile(ctx, send context.Context, imp contract.Import) error {
	if !r.queue.anyDualLane() {
		return nil
	}
	r.batcher.spool.Remove(imp.File) // the log may have to be read on although the spool is full
	if err := r.recordReconciling(send, imp); err != nil {
		return err
	}
	for i, m := range r.queue.members {
		if m.DualLane {
			s := reconciliation{run: r, member: m, known: r.known[i], undecided: &r.undecided[i], imp: imp}
			if err := s.untilReconciled(ctx, send); err != nil {
				return err
			}
		}
	}
	return nil
}

// recordReconciling notes in the ledger that keys are reconciled, which may take several
// calls for one. Of a generation without rows it is the only entry, and there is none
// if nothing is to be sent.
func (r *importRun) recordReconciling(send context.Context, imp contract.Import) error {
	conflicting, file := false, imp.Part > 0
	r.queue.mu.Lock()
	for i := range r.queue.members {
		conflicting = r.known[i].keys.Confirm(&r.generation.fate, r.queue.confirmed) || conflicting
	}
	r.queue.mu.Unlock()
	if !file && !conflicting {
		return nil
	}
	if !file {
		imp.Part, imp.Parts = 1, 1
	}
	r.enter(contract.Reconciling, imp)
	if err := r.commit(send, "reconcile", imp, r.batcher.ledger.Reconcile); err != nil {
		return err
	}
	if !file {
		r.findConflicts()
	}
	return nil
}

func (rec *reconciliation) untilReconciled(ctx, send context.Context) error {
	defer rec.run.queue.locked(func() { rec.known.ends = nil })
	defer rec.waitFor("")
	rec.leaveOut()
	var ends map[Partition]int64
	reads := true // while the other lane alone can go on, what it writes lands later: nothing more is read for it
	for looks := 0; ; looks++ {
		if reads {
			var err error
			if ends, err = rec.readOn(ctx); err != nil {
				return err
			}
		}
		reads = true
		if err := rec.run.look(ctx); err != nil {
			return err
		}
		rec.run.queue.mu.Lock()
		reconciled := rec.known.keys.Reconcile()
		next := rec.known.keys.Next(rec.run.queue.confirmed)
		keys, at := rec.known.keys.Unconfirmed(rec.run.queue.confirmed)
		rec.member.letGo()
		rec.run.queue.mu.Unlock()
		if reconciled {
			if reconciled, err := rec.noteUnread(ctx, send); reconciled || err != nil {
				return err
			}
			continue
		}
		switch {
		case len(next) == 0: // it is for the other lane to go on
			rec.waitFor(reconcile.Unconfirmed(keys, at))
			if p, ok := at.Partition.(Partition); ok && rec.setApart(p, ends) {
				continue
			}
			reads = looks%bringBackEvery == bringBackEvery-1 && rec.bringBack(ctx)
			if err := retry.Sleep(ctx, reconcileEvery); err != nil {
				return err
			}
		default:
			rec.run.log.Debug("reconciling keys that both lanes wrote", "file", rec.imp.File, "keys", len(next))
			rec.waitFor("calls send the newest state of " + reconcile.SomeKeys(len(next)) + " that both lanes wrote")
			reconcile.AtOnce(next, reconcilers, func(n reconcile.Newest) { rec.sendOne(ctx, n) })
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
}

// readOn waits until the log was read to its end as of now.
func (rec *reconciliation) readOn(ctx context.Context) (ends map[Partition]int64, err error) {
	if ends, err = rec.run.ends(ctx, rec.member); err != nil {
		return nil, err
	}
	rec.run.queue.locked(func() {
		rec.known.ends = ends
		rec.known.keys.Noted()
	})
	rec.unread = map[Partition]int64{}
	return ends, rec.run.readTo(ctx, rec.known, ends, rec.waitFor, func(p Partition) bool { return rec.leaveUnread(p, ends) || rec.setApart(p, ends) })
}

// ends are where the logs of the mapping's partitions end now.
func (r *importRun) ends(ctx context.Context, m *member) (ends map[Partition]int64, err error) {
	err = r.retrying(ctx, "find the ends of the log", func(ctx context.Context) (err error) {
		ends, err = r.batcher.cfg.Peer.Ends(ctx, m.Name)
		return err
	})
	return ends, err
}

// readTo waits until the partitions were read to these offsets, but for some, and says
// for what. They are read although there is no room.
func (r *importRun) readTo(ctx context.Context, known *dualLane, ends map[Partition]int64, on func(what string), without func(Partition) bool) error {
	r.queue.locked(func() { known.reading = true })
	defer r.queue.locked(func() { known.reading = false })
	for p, end := range ends {
		for p.Read() < end && !without(p) {
			on(contract.Unread(p, end))
			if err := retry.Sleep(ctx, readEvery); err != nil {
				return err
			}
		}
	}
	return nil
}

// bringBack sends keys that wait for patches, which may wait for the keys' rows, and reports
// whether there are any. How that ends is seen when the keys' newest states are sent.
func (rec *reconciliation) bringBack(ctx context.Context) bool {
	rec.run.queue.mu.Lock()
	all := rec.known.keys.BringBack(rec.run.queue.confirmed)
	rec.run.queue.mu.Unlock()
	reconcile.AtOnce(all, reconcilers, func(n reconcile.Newest) {
		_, _ = rec.run.batcher.cfg.Peer.Apply(ctx, rec.member.Name, n.Writes)
	})
	return len(all) > 0
}

// sendOne sends a key's newest state by calls. What calls cannot say becomes a
// row of the next file, which then shares the fate of that file.
func (rec *reconciliation) sendOne(ctx context.Context, n reconcile.Newest) {
	nothing, err := rec.run.batcher.cfg.Peer.Apply(ctx, rec.member.Name, n.Writes)
	anew := errors.Is(err, contract.ErrMadeAnew)
	if anew {
		err = nil
	}
	final, cause := isFinal(err), err
	var rest *reconcile.Newest
	if final {
		var found []int
		if rest, found = rec.applyRest(ctx, &n); rest == nil && rec.awaits(n) {
			return // it is given out again
		}
		if rest != nil && !rest.Short {
			n, nothing, err = *rest, found, nil
		}
	}
	if ctx.Err() != nil {
		return
	}
	refused := rec.refuse(n, rest != nil, cause)
	if rec.decide(n, nothing, err) || refused || rest != nil {
		err = nil // its records are dead letters
	}
	if refused {
		rec.deadLetterRows(n.Key)
	}
	if _, deletes := rec.member.Loads[schemas.Delete]; anew && deletes {
		if n.Row == nil {
			n.Row = &n.Last
		}
		if current, err := rec.rowsAgain(ctx, n); !current || err != nil {
			return // it is given out again
		}
	} else if anew && !rec.unnamedProfile(ctx, n.Key) {
		return // likewise
	}
	if err != nil && n.Row != nil && (!final || n.Ours()) {
		var current bool
		if current, err = rec.rowsAgain(ctx, n); !current {
			return
		}
		if err != nil {
			rec.deadLetterRows(n.Key)
		}
	}
	if err != nil {
		rec.run.log.Warn("a key that both lanes wrote could not be reconciled: the service refuses its newest state, which is a dead letter of the other lane if that wrote it", "error", err)
	}
	rec.run.queue.mu.Lock()
	defer rec.run.queue.mu.Unlock()
	rec.known.keys.Sent(n)
}

// applyRest sends what a key's newest state is without writes that the service has refused alone:
// a row may have landed behind a call that is older than these. It tells what the service has taken,
// and which places of it say nothing; nil, if there is no need for it, or it takes none. n is Refused then.
func (rec *reconciliation) applyRest(ctx context.Context, n *reconcile.Newest) (rest *reconcile.Newest, nothing []int) {
	inError := func(op schemas.Op) (has bool) {
		rec.run.queue.locked(func() { has = rec.undecided.Has(n.Key, op) })
		return has
	}
	defer n.Refused(rec.run.batcher.mayBeRefused, inError)
	for left := range n.Rests(rec.run.batcher.refused, rec.run.batcher.mayBeRefused, inError) {
		nothing, err := rec.run.batcher.cfg.Peer.Apply(ctx, rec.member.Name, left.Writes)
		if err == nil {
			return &left, nothing
		}
		if !isFinal(err) { // ctx has ended, or there is no call for the rest
			break
		}
	}
	return nil, nil
}

// isFinal reports whether the service has refused what was sent for good.
func isFinal(err error) bool {
	failure, ok := errors.AsType[contract.Failure](err)
	return ok && !failure.Transient()
}

// awaits reports whether it is not known yet what becomes of the newest write of the other lane in
// that lane: it tells whether it was that write that the service has refused.
func (rec *reconciliation) awaits(n reconcile.Newest) bool {
	rec.run.queue.mu.Lock()
	defer rec.run.queue.mu.Unlock()
	return rec.known.keys.Awaits(&n, rec.run.queue.confirmed)
}

// rowsAgain puts a key's newest state into the open file. Its offset is held
// there before this import lets go of it. It reports false if the state is not
// the newest any more, or the import run has ended.
func (rec *reconciliation) rowsAgain(ctx context.Context, n reconcile.Newest) (current bool, err error) {
	for try := 0; ; try++ {
		current, err = rec.member.appendAgain(rec.known, n)
		if p, ok := n.Row.Partition.(Partition); ok && current && err == nil {
			rec.run.queue.mu.Lock()
			rec.run.moved[p] = true
			rec.run.queue.mu.Unlock()
		}
		if _, invalid := errors.AsType[*schemas.ValueError](err); err == nil || invalid {
			return current, err
		}
		rec.run.log.Error("spool: a row is added again, trying once more; check the spool's disk", "error", err)
		if err := retry.Sleep(ctx, rec.run.backoff(rec.run.batcher.cfg.Retry, try, 0)); err != nil {
			return false, err
		}
	}
}

// Reconciling reads each partition to its end: calls that the immediate lane has made
// for records there may have been overwritten by the file. A partition whose next
// record waits for the other lane's routes is not read on before the lanes apply the
// same routes, which may be long. It holds up the import for a while only. Then the
// ledger notes up to where it was not read, and the import is confirmed: once the
// lanes apply the same routes, the batch lane reads that and writes it again, whatever
// has landed before.

// leaveUnread reports whether the partition has waited long enough for the other
// lane's routes, and notes that it is not read to its end.
func (rec *reconciliation) leaveUnread(p Partition, ends map[Partition]int64) bool {
	rec.watch(ends)
	since, waits := rec.known.waits[p]
	if !waits || time.Since(since) < rec.run.batcher.cfg.ApartAfter {
		return false
	}
	rec.run.queue.mu.Lock()
	_, suspect := rec.known.suspect[p]
	rec.run.queue.mu.Unlock()
	if suspect { // rows that a former owner sent are not read yet
		return false
	}
	rec.unread[p] = ends[p]
	return true
}

// noteUnread has the ledger note which partitions were not read to their ends. It
// reports false if one of them goes on by now, and is to be read after all, or if the
// other lane's writes that were read until the note have made a key conflicting.
func (rec *reconciliation) noteUnread(ctx, send context.Context) (reconciled bool, err error) {
	if len(rec.unread) == 0 {
		return true, nil
	}
	if err := rec.run.commit(send, "leave unread", rec.imp, func(ctx context.Context, imp contract.Import, _ []Claim) error {
		return rec.run.batcher.ledger.Unread(ctx, imp, rec.unread)
	}); err != nil {
		return false, err
	}
	for p := range rec.unread {
		if p.Waits() == "" {
			delete(rec.known.waits, p)
			return false, ctx.Err()
		}
	}
	rec.run.queue.mu.Lock()
	reconciled = rec.known.keys.Reconcile()
	rec.run.queue.mu.Unlock()
	if reconciled {
		rec.run.log.Warn("import confirmed while records of its table wait for the other lane's routes; calls of that lane which its rows may have overwritten are written again once both lanes apply the same routes: give both the same configuration",
			"file", rec.imp.File, "partitions", contract.Names(maps.Keys(rec.unread)))
	}
	return reconciled, ctx.Err()
}

// Reconciling needs each partition of the table: the batch lane must have read it to
// its end, the immediate lane must have confirmed writes of it. A partition that is
// halted in either lane gives neither until a person acts. It is set apart: the rest
// of the import is confirmed, and the records of this partition are read again once
// it goes on. Their rows go out once more and are reconciled like any others.

// watch notes which of the mapping's partitions are halted, or wait for the other
// lane's routes, and since when.
func (rec *reconciliation) watch(ends map[Partition]int64) {
	if time.Since(rec.watched) < reconcileEvery {
		return
	}
	rec.watched = time.Now()
	if rec.known.halted == nil {
		rec.known.halted, rec.known.waits = map[Partition]time.Time{}, map[Partition]time.Time{}
	}
	note := func(since map[Partition]time.Time, p Partition, is bool) {
		if _, known := since[p]; !is {
			delete(since, p)
		} else if !known {
			since[p] = rec.watched
		}
	}
	for p := range ends {
		note(rec.known.halted, p, rec.run.batcher.cfg.Peer.Halted(p) || p.Halted() != "")
		note(rec.known.waits, p, p.Waits() != "")
	}
}

// setApart reports whether reconciling goes on without the partition. Where all of
// them are halted nothing would be gained.
func (rec *reconciliation) setApart(p Partition, ends map[Partition]int64) bool {
	if rec.run.apart[p] {
		return true
	}
	rec.watch(ends)
	since, halted := rec.known.halted[p]
	if !halted || time.Since(since) < rec.run.batcher.cfg.ApartAfter || len(rec.known.halted) == len(ends) {
		return false
	}
	rec.run.apart[p] = true
	rec.leaveOut()
	return true
}

// leaveOut leaves the keys of partitions that are set apart to their next reading.
func (rec *reconciliation) leaveOut() {
	left := make(map[any]bool, len(rec.run.apart))
	for p := range rec.run.apart {
		left[p] = true
	}
	rec.run.queue.mu.Lock()
	defer rec.run.queue.mu.Unlock()
	rec.known.keys.LeaveOut(left)
}

// confirmRest confirms an import but for the partitions that are set apart. If it has
// records of them, the table's partitions are read again.
func (r *importRun) confirmRest(ctx, send context.Context, imp contract.Import) error {
	r.enter(contract.Confirming, imp)
	apart := func(p Partition) bool { return r.apart[p] }
	// Rows of the open file, which is dropped then, say the newest state of their keys.
	moved := func(p Partition) bool {
		r.queue.mu.Lock()
		defer r.queue.mu.Unlock()
		return r.moved[p]
	}
	left := false
	if err := r.commit(send, "set apart", imp, func(ctx context.Context, imp contract.Import, claims []Claim) (err error) {
		left, err = r.batcher.ledger.SetApart(ctx, imp, claims, apart, moved)
		return err
	}); err != nil || !left {
		return err
	}
	r.log.Warn("import confirmed without partitions that hold up reconciling; their records of it are read again, and their rows sent again, once the cause of the halt is gone and they go on",
		"file", imp.File, "partitions", contract.Names(maps.Keys(r.apart)))
	<-ctx.Done() // HandOver follows
	return ctx.Err()
}

// waitFor shows what reconciling waits for, and says so in the log once in a while.
func (rec *reconciliation) waitFor(what string) {
	rec.run.queue.mu.Lock()
	known := rec.run.now.WaitsFor
	rec.run.now.WaitsFor = what
	rec.run.queue.mu.Unlock()
	switch now := time.Now(); {
	case what == "":
	case known == "":
		rec.waitingSince = now
	case now.Sub(rec.waitingSince) >= waitLogged:
		rec.waitingSince = now
		rec.run.log.Warn("reconciling keys that both lanes wrote: waiting; the table's next import follows", "for", what)
	}
}
