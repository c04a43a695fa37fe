package batcher

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/reconcile"
	"github.com/feedsink/feedsink/batcher/rowerror"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/schemas"
)

const (
	// rowsAtOnce is how many rows in error are looked for at once, and
	// bytesAtOnce how long they may be together: more take another reading.
	rowsAtOnce  = 100_000
	bytesAtOnce = 32 << 20
)

// unexplained is the reason of a row of which the service gives none.
const unexplained = "the service put the row in error and gave no reason"

// rejectedRows makes dead letters of the records behind one file's rows in error.
type rejectedRows struct {
	run  *importRun
	imp  *contract.Import
	of   []*member // whose rows the import loads
	rows int64     // in error, as the output files have them

	// The rows at hand. Their records are read again, since a file holds what a key's
	// writes came to: memory follows the number of rows in error, not that of records.
	rejected []*rejected
	byKey    map[rowKey]*errorRow
	size     int // of them and of pending, in bytes

	byMember []int64 // rows in error whose records were found, by member
	counting bool    // the rows with a record; none becomes a dead letter

	pending   []contract.UnmatchedRow // rows that match no record, to be dead letters of their own
	unmatched int64                   // rows that did not
	released  bool                    // rows that have no place as dead letters are given up
	givenUp   bool                    // some were
}

func newRejectedRows(r *importRun, imp *contract.Import, released bool) *rejectedRows {
	rr := &rejectedRows{run: r, imp: imp, byKey: map[rowKey]*errorRow{}, released: released}
	for _, load := range imp.Loads() {
		rr.of = append(rr.of, r.batcher.byName[load.Mapping])
	}
	rr.byMember = make([]int64, len(rr.of))
	return rr
}

func (rr *rejectedRows) read(ctx context.Context, outputs rowerror.File) error {
	err := rowerror.Read(outputs, rr.outputFormats(), func(r rowerror.Row) error { return rr.add(ctx, r) })
	if err != nil && !unreadable(err) {
		return err
	}
	return errors.Join(err, rr.flush(ctx)) // what could be read becomes dead letters all the same
}

// count is how many rows in error the output files name, lines of one key that
// follow each other counted once.
func (rr *rejectedRows) count(ctx context.Context, outputs rowerror.File) (rows int64, err error) {
	seen := map[uint64]bool{} // of member and key
	err = rowerror.Read(outputs, rr.outputFormats(), func(r rowerror.Row) error {
		if rows%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		key := xxhash.Sum64String(r.Key) + uint64(r.Of[0])
		if r.Key != "" && seen[key] {
			return nil
		}
		if len(seen) >= rr.run.batcher.atOnce {
			clear(seen)
		}
		seen[key] = true
		rows++
		return nil
	})
	return rows, err
}

// countDead counts, by member, the rows in error of which dead letters follow, as the
// output files have them. What cannot be read is not counted.
func (rr *rejectedRows) countDead(outputs rowerror.File) (counts []int64, err error) {
	counts = make([]int64, len(rr.of))
	last := map[int]string{} // a row has one line for each value that is wrong
	err = rowerror.Read(outputs, rr.outputFormats(), func(row rowerror.Row) error {
		if row.Key == "" || row.Harmless(rr.imp.Op) || last[row.Of[0]] == row.Key {
			return nil
		}
		last[row.Of[0]] = row.Key
		counts[row.Of[0]]++
		return nil
	})
	return counts, err
}

// outputFormats are the formats of what the import loads, in its order.
func (rr *rejectedRows) outputFormats() (all []rowerror.Format) {
	for _, m := range rr.of {
		all = append(all, m.Format(m.rows, rr.imp.File, rr.imp.Op, rr.imp.Members != nil))
	}
	return all
}

func (rr *rejectedRows) add(ctx context.Context, r rowerror.Row) error {
	rr.rows++
	if r.NothingToDelete(rr.imp.Op) {
		return nil // it is as it was to be
	}
	reason := cmp.Or(r.Reason, unexplained)
	if r.Key == "" {
		if err := rr.addUnmatched(r); err != nil {
			return err
		}
		return rr.endFull(ctx)
	}
	if !rr.counting && rr.holdBack(r, reason) || rr.onlyWaiting() {
		return nil
	}
	if row := rr.byKey[rowKey{rr.of[r.Of[0]].Name, r.Key}]; row != nil { // one line for each value that is wrong
		rr.rows--
		if !strings.Contains(row.rejected.reason, reason) && len(row.rejected.reason) < 2000 {
			row.rejected.reason += "; " + reason
		}
		return nil
	}
	one := &rejected{Row: r, reason: reason}
	for _, i := range r.Of {
		row := &errorRow{rejected: one, member: i}
		one.of = append(one.of, row)
		rr.byKey[rowKey{rr.of[i].Name, r.Key}] = row
	}
	rr.rejected = append(rr.rejected, one)
	rr.size += r.Len()
	return rr.endFull(ctx)
}

// endFull ends the rows at hand once they are as many as are looked for at once.
func (rr *rejectedRows) endFull(ctx context.Context) error {
	if len(rr.rejected)+len(rr.pending) >= rr.run.batcher.atOnce || rr.size >= bytesAtOnce {
		return rr.flush(ctx)
	}
	return nil
}

// flush ends the rows at hand: the records behind them are read and become dead
// letters, or the rows themselves, where there are none.
func (rr *rejectedRows) flush(ctx context.Context) error {
	if len(rr.rejected) > 0 {
		if err := rr.deadLetters(ctx); err != nil {
			return err
		}
	}
	for _, r := range rr.rejected {
		if row := r.found(); row != nil {
			if !rr.counting || !r.Harmless(rr.imp.Op) {
				rr.byMember[row.member]++
			}
		} else if err := rr.addUnmatched(r.Row); err != nil {
			return err
		}
	}
	clear(rr.byKey)
	rr.rejected, rr.size = rr.rejected[:0], 0
	return rr.postUnmatched(ctx)
}

// postUnmatched makes dead letters of the rows that match no record.
func (rr *rejectedRows) postUnmatched(ctx context.Context) error {
	if len(rr.pending) == 0 {
		return nil
	}
	err := rr.run.post(ctx, rr.imp, rr.pending)
	if errors.Is(err, contract.ErrNoDeadLetter) && rr.released {
		rr.run.log.Error("rows in error that match no record were given up, since they cannot become dead letters; look at the output files, which are kept",
			"file", rr.imp.File, "execution", rr.imp.Execution, "rows", len(rr.pending), "err", err)
		rr.givenUp, err = true, nil
	}
	rr.unmatched += int64(len(rr.pending))
	clear(rr.pending)
	rr.pending = rr.pending[:0]
	return err
}

// post makes dead letters of their own of rows, again and again while that fails.
func (r *importRun) post(ctx context.Context, imp *contract.Import, rows []contract.UnmatchedRow) error {
	var refused error
	if err := r.retrying(ctx, "make dead letters of rows in error that match no record", func(ctx context.Context) error {
		err := r.batcher.cfg.Records.Unmatched(ctx, *imp, rows)
		if errors.Is(err, contract.ErrNoDeadLetter) {
			refused, err = err, nil
		}
		return err
	}); err != nil {
		return err
	}
	return refused
}

// deadLetters reads the records behind the rows at hand twice: to see which of them
// came to which row, and to make dead letters of those.
func (rr *rejectedRows) deadLetters(ctx context.Context) error {
	if err := rr.again(ctx, func() {
		for _, row := range rr.byKey {
			row.trace.Reset()
			row.left.Reset()
		}
	}, func(row *errorRow, lane schemas.Lane, w *schemas.Write, at spool.At) string {
		switch {
		case lane == schemas.Batch:
			row.trace.Add(w.Op, at)
			row.left.Add(w.Op, at)
		case rr.run.generation.upTo == nil && rr.dropped(row, w): // from one that is built again nothing is
			row.left.Reset()
		}
		return ""
	}); err != nil {
		return err
	}
	if rr.counting {
		return nil
	}
	return rr.again(ctx, func() {}, func(row *errorRow, lane schemas.Lane, w *schemas.Write, at spool.At) string {
		if lane != schemas.Batch {
			return ""
		}
		return row.deadReason(rr.imp.Op, w, at)
	})
}

// dropped reports whether a write of the other lane has dropped the row.
func (rr *rejectedRows) dropped(row *errorRow, w *schemas.Write) bool {
	rr.run.queue.mu.Lock() // rows are encoded meanwhile
	defer rr.run.queue.mu.Unlock()
	return rr.of[row.member].drops(w)
}

// again reads the generation's records, again and again while that fails, and calls
// each with those of rows in error.
func (rr *rejectedRows) again(ctx context.Context, begin func(), each func(row *errorRow, lane schemas.Lane, w *schemas.Write, at spool.At) string) error {
	return rr.run.retrying(ctx, "read the records behind rows in error", func(ctx context.Context) error {
		begin()
		return rr.run.batcher.cfg.Records.Again(ctx, *rr.imp, rr.run.generation.claims, func(mapping string, lane schemas.Lane, w *schemas.Write, at spool.At) string {
			row := rr.byKey[rowKey{mapping, w.Key}]
			if row == nil || lane == schemas.Batch && !rr.of[row.member].fits(w) {
				return ""
			}
			return each(row, lane, w, at)
		})
	})
}

// addUnmatched takes a row that matches no record.
func (rr *rejectedRows) addUnmatched(r rowerror.Row) error {
	if rr.counting || rr.imp.OnlyErrors || rr.onlyWaiting() { // they became dead letters when the import ended
		return nil
	}
	text, err := r.CSV()
	if err != nil {
		return err
	}
	row := contract.UnmatchedRow{Mapping: rr.of[r.Of[0]].Name, Key: r.Key, Row: text, Reason: cmp.Or(r.Reason, unexplained)}
	if len(r.Of) > 1 {
		row.Reason += " (of which of the bundle's tables it is the output files do not tell)"
	}
	rr.pending = append(rr.pending, row)
	rr.size += len(text)
	return nil
}

// onlyWaiting reports whether a former owner has made dead letters already of the rows
// that were not waiting.
func (rr *rejectedRows) onlyWaiting() bool {
	return rr.run.adopted != nil && rr.run.adopted.Reconciling
}

// shares are the import's members with their rows in error; the import's own are
// being looked at by others.
func (rr *rejectedRows) shares() []contract.Member {
	members := slices.Clone(rr.imp.Members)
	for i := range members {
		members[i].InError = rr.byMember[i]
	}
	return members
}

// rowKey is a key of one mapping's table.
type rowKey struct{ mapping, key string }

// rejected is a row in error and what it may be a row of: where the output files
// of a bundle do not tell its mapping, the records do that have its key.
type rejected struct {
	rowerror.Row
	reason string
	of     []*errorRow
}

// errorRow is a row in error as a row of one mapping.
type errorRow struct {
	rejected *rejected
	member   int // the mapping's place among those of the import
	trace    spool.Trace
	left     spool.Trace      // of the same without what writes of the other lane have dropped from an open file
	idle     []reconcile.Span // what its records are, where that is known; nil: what came to it
}

// found is the row whose records were found; nil: there are none.
func (r *rejected) found() *errorRow {
	for _, row := range r.of {
		if row.trace.Any() {
			return row
		}
	}
	return nil
}

// deadReason is why the write's record is a dead letter, as its row of op is in error;
// "": it is none. Where the rows came out in another way than the file says all records
// of the key are: none is lost.
func (r *errorRow) deadReason(op schemas.Op, w *schemas.Write, at spool.At) string {
	dead := false
	switch {
	case !r.trace.Any():
	case r.idle != nil:
		dead = w.Op == op && slices.ContainsFunc(r.idle, func(s reconcile.Span) bool { return s.Covers(w.Op, place(at)) })
	case r.left.Has(op):
		dead = r.left.RowOf(w.Op, at) == op
	default:
		dead = !r.trace.Has(op) || r.trace.RowOf(w.Op, at) == op
	}
	if !dead {
		return ""
	}
	return r.rejected.reason
}
