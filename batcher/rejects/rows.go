// Package rejects finds what becomes a dead letter for the rows of an import that are in
// error: the records behind them, since a file holds what the writes of a key came to, or
// the rows themselves where there are none.
//
// It knows output files and the order of a key's writes. It knows nothing of how records are
// read again, of how dead letters are written, or of when it is time for that.
package rejects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/batcher/reconcile"
	"github.com/feedsink/feedsink/batcher/rowerror"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/schemas"
)

const (
	// AtOnce is how many rows in error are looked for at once, and
	// bytesAtOnce how long they may be together: more take another reading.
	AtOnce      = 100_000
	bytesAtOnce = 32 << 20
)

// Unexplained is the reason of a row of which the service gives none.
const Unexplained = "the service put the row in error and gave no reason"

// Source has the records that the import's files were made of, and takes what has none.
type Source interface {
	// Again reads the records, as contract.Records has them, again and again while that
	// fails; begin is called before each time.
	Again(ctx context.Context, begin func(), each contract.EachWrite) error
	// Post makes dead letters of their own of rows that match no record.
	Post(ctx context.Context, rows []contract.UnmatchedRow) error
	// Hold reports whether it takes the row, of which it is decided later, and whether it
	// has taken it before, for another value that is wrong.
	Hold(of []int, key, reason string) (held, before bool)
}

// Import is the import whose rows are in error.
type Import struct {
	*contract.Import
	Of       []*files.Mapping // whose rows it loads, in the order of its Loads
	AtOnce   int              // rows in error that are looked for in one reading
	Rebuilt  bool             // writes of the other lane have dropped none of its rows
	Thirds   *Thirds          // of its generation
	OnlyHeld bool             // a former owner has made dead letters already of rows that were not held
}

// Rows are the rows in error of one file.
type Rows struct {
	Import
	Named     int64   // by the output files
	byMember  []int64 // rows whose records were found, by the mapping's place in Of
	Unmatched int64   // rows that match no record

	source   Source
	rows     []*spool.Rows     // of the mappings
	traces   [][]*spool.Trace  // of the rows at hand, of each mapping; where both lanes write, first one without what writes of the other have dropped from an open file
	rank     spool.Rank        // of the file's rows
	formats  []rowerror.Format // of what the import loads, in its order
	counting bool              // the rows with a record; none becomes a dead letter

	// The rows at hand. Their records are read again, since a file holds what a key's
	// writes came to: memory follows the number of rows in error, not that of records.
	rejected []*rejected
	byKey    map[rowKey]*errorRow
	size     int // of them and of pending, in bytes

	pending []contract.UnmatchedRow // rows that match no record, to be dead letters of their own
}

// New returns none of an import.
func New(source Source, imp Import) (*Rows, error) {
	rr := &Rows{Import: imp, source: source, rank: spool.RankOf(imp.File), byKey: map[rowKey]*errorRow{}, byMember: make([]int64, len(imp.Of))}
	for _, m := range imp.Of {
		rows, err := m.Rows()
		if err != nil {
			return nil, err
		}
		traces := []*spool.Trace{spool.NewTrace(rows)}
		if m.DualLane {
			traces = append(traces, spool.NewTrace(rows))
		}
		rr.traces = append(rr.traces, traces)
		rr.rows, rr.formats = append(rr.rows, rows), append(rr.formats, m.Format(rows, imp.File, imp.Op, imp.Members != nil))
	}
	return rr, nil
}

// Read makes dead letters of what is behind the rows in error that the output files name.
func (rr *Rows) Read(ctx context.Context, outputs rowerror.File) error {
	err := rowerror.Read(outputs, rr.formats, func(r rowerror.Row) error { return rr.add(ctx, r) })
	if err != nil && !Unreadable(err) {
		return err
	}
	return errors.Join(err, rr.flush(ctx)) // what could be read becomes dead letters all the same
}

// CountFound counts, by member, the rows in error with a record, but for harmless ones.
// Nothing becomes a dead letter.
func (rr *Rows) CountFound(ctx context.Context, outputs rowerror.File) (counts []int64, err error) {
	rr.counting = true
	err = rr.Read(ctx, outputs)
	return rr.byMember, err
}

// Found reports whether Read has found a record behind any of the rows.
func (rr *Rows) Found() bool {
	return slices.ContainsFunc(rr.byMember, func(rows int64) bool { return rows > 0 })
}

// Unreadable reports whether an error is of what the output files say, and not of
// the disk that they are read from.
func Unreadable(err error) bool {
	_, local := errors.AsType[*fs.PathError](err)
	return !local && errors.Is(err, rowerror.ErrUnreadable)
}

// Lack is what the output files lack of the rows in error, of which the service counts inError, -1 if
// it does not say how many; "": they name all of them.
func (rr *Rows) Lack(ctx context.Context, outputs *spool.OutputFiles, inError int64) (why string, err error) {
	n, err := rr.count(ctx, outputs)
	switch {
	case err != nil && Unreadable(err):
		why = err.Error()
	case err != nil:
		return "", err
	case n.rows < inError:
		why = fmt.Sprintf("the output files name %d of the %s in error", n.rows, counted(inError))
	case rr.Bundle == "" && n.exact && n.withKey < inError && n.rows-n.harmless > inError:
		why = fmt.Sprintf("the output files name %d of the %s in error by a key, and have more lines without one than there are others", n.withKey, counted(inError))
	case rr.Bundle == "" && inError >= 0 && n.unmarked > 0 && n.rows-n.harmless > inError:
		why = fmt.Sprintf("the output files name %d rows, but %s in error, and neither a file's name nor a column says of %d of them that they are: they may be those that are loaded. "+
			"Look at the files: feedsink imports files %s. A release makes dead letters of what they name and confirms the others", n.rows, areCounted(inError), n.unmarked, rr.Execution)
	case inError < 0 && outputs.Size() == 0:
		why = "there is nothing in the output files"
	}
	return why, nil
}

// counted is a number of rows in a sentence.
func counted(rows int64) string {
	if rows == 1 {
		return "1 row"
	}
	return fmt.Sprintf("%d rows", rows)
}

// areCounted is a number of rows that the service counts, in a sentence.
func areCounted(rows int64) string {
	if rows == 1 {
		return "1 row is"
	}
	return fmt.Sprintf("%d rows are", rows)
}

// named are rows in error that the output files name.
type named struct {
	rows     int64
	withKey  int64 // of these
	harmless int64 // of these
	unmarked int64 // of these: in files that nothing marks as files of errors
	exact    bool  // no row is counted twice
}

// count is how many rows in error the output files name, lines of one key that
// follow each other counted once.
func (rr *Rows) count(ctx context.Context, outputs rowerror.File) (n named, err error) {
	seen := map[uint64]bool{} // of member and key
	n.exact = true
	err = rowerror.Read(outputs, rr.formats, func(r rowerror.Row) error {
		if n.rows%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		key := xxhash.Sum64String(r.Key) + uint64(r.Of[0])
		if r.Key != "" && seen[key] {
			return nil
		}
		if len(seen) >= rr.AtOnce {
			clear(seen)
			n.exact = false
		}
		seen[key] = true
		n.rows++
		if r.Key != "" {
			n.withKey++
		}
		if r.Harmless(rr.Op) {
			n.harmless++
		}
		if !r.Marked {
			n.unmarked++
		}
		return nil
	})
	return n, err
}

// CountDead counts, by member, the rows in error of which dead letters follow, as the
// output files have them. What cannot be read is not counted.
func (rr *Rows) CountDead(outputs rowerror.File) (counts []int64, err error) {
	counts = make([]int64, len(rr.Of))
	last := map[int]string{} // a row has one line for each value that is wrong
	err = rowerror.Read(outputs, rr.formats, func(row rowerror.Row) error {
		if row.Key == "" || row.Harmless(rr.Op) || last[row.Of[0]] == row.Key {
			return nil
		}
		last[row.Of[0]] = row.Key
		counts[row.Of[0]]++
		return nil
	})
	return counts, err
}

func (rr *Rows) add(ctx context.Context, r rowerror.Row) error {
	rr.Named++
	if r.NothingToDelete(rr.Op) {
		return nil // it is as it was to be
	}
	reason := cmp.Or(r.Reason, Unexplained)
	if r.Key == "" {
		if err := rr.addUnmatched(r); err != nil {
			return err
		}
		return rr.endFull(ctx)
	}
	if !rr.counting {
		if held, before := rr.source.Hold(r.Of, r.Key, reason); held {
			if before {
				rr.Named--
			}
			return nil
		}
	}
	if rr.OnlyHeld {
		return nil
	}
	if row := rr.byKey[rowKey{rr.Of[r.Of[0]].Name, r.Key}]; row != nil { // one line for each value that is wrong
		rr.Named--
		if !strings.Contains(row.rejected.reason, reason) && len(row.rejected.reason) < 2000 {
			row.rejected.reason += "; " + reason
		}
		return nil
	}
	one := &rejected{Row: r, reason: reason}
	for _, i := range r.Of {
		row := &errorRow{rejected: one, member: i}
		one.of = append(one.of, row)
		rr.byKey[rowKey{rr.Of[i].Name, r.Key}] = row
	}
	rr.rejected = append(rr.rejected, one)
	rr.size += r.Len()
	return rr.endFull(ctx)
}

// endFull ends the rows at hand once they are as many as are looked for at once.
func (rr *Rows) endFull(ctx context.Context) error {
	if len(rr.rejected)+len(rr.pending) >= rr.AtOnce || rr.size >= bytesAtOnce {
		return rr.flush(ctx)
	}
	return nil
}

// flush ends the rows at hand: the records behind them are read and become dead
// letters, or the rows themselves, where there are none.
func (rr *Rows) flush(ctx context.Context) error {
	if len(rr.rejected) > 0 {
		if err := rr.DeadLetters(ctx); err != nil {
			return err
		}
	}
	for _, r := range rr.rejected {
		if row := r.found(); row != nil {
			if !rr.counting || !r.Harmless(rr.Op) {
				rr.byMember[row.member]++
			}
		} else if err := rr.addUnmatched(r.Row); err != nil {
			return err
		}
	}
	clear(rr.byKey)
	rr.rejected, rr.size = rr.rejected[:0], 0
	return rr.endUnmatched(ctx)
}

// endUnmatched makes dead letters of the rows that match no record.
func (rr *Rows) endUnmatched(ctx context.Context) error {
	if len(rr.pending) == 0 {
		return nil
	}
	err := rr.source.Post(ctx, rr.pending)
	rr.Unmatched += int64(len(rr.pending))
	clear(rr.pending)
	rr.pending = rr.pending[:0]
	return err
}

// DeadLetters reads the records behind the rows at hand twice: to see which of them
// came to which row, and to make dead letters of those.
func (rr *Rows) DeadLetters(ctx context.Context) error {
	if err := rr.again(ctx, func() {
		for _, row := range rr.byKey {
			row.written = false
		}
		for _, t := range slices.Concat(rr.traces...) {
			t.Reset()
		}
	}, func(row *errorRow, lane schemas.Lane, w *schemas.Write, at spool.At) string {
		traces := rr.traces[row.member]
		switch {
		case lane == schemas.Batch:
			row.written = true
			for _, t := range traces {
				t.Add(w, at)
			}
		case len(traces) > 1 && !rr.Rebuilt && rr.rows[row.member].Drops(w): // from one that is built again nothing is
			traces[0].Drop(w)
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
		return rr.deadReason(row, w, at)
	})
}

// again reads the records and calls each with those of rows in error at hand.
func (rr *Rows) again(ctx context.Context, begin func(), each func(row *errorRow, lane schemas.Lane, w *schemas.Write, at spool.At) string) error {
	return rr.source.Again(ctx, begin, func(mapping string, lane schemas.Lane, w *schemas.Write, at spool.At) string {
		row := rr.byKey[rowKey{mapping, w.Key}]
		if row == nil || lane == schemas.Batch && !rr.fits(row.member, w) {
			return ""
		}
		return each(row, lane, w, at)
	})
}

// fits reports whether the write has become a row, and not a dead letter at once.
func (rr *Rows) fits(member int, w *schemas.Write) bool {
	if _, loaded := rr.Of[member].Loads[w.Op]; !loaded {
		return false
	}
	_, err := rr.rows[member].AppendEntry(nil, w)
	return err == nil
}

// addUnmatched takes a row that matches no record.
func (rr *Rows) addUnmatched(r rowerror.Row) error {
	if rr.counting || rr.OnlyErrors || rr.OnlyHeld { // they became dead letters when the import ended
		return nil
	}
	text, err := r.CSV()
	if err != nil {
		return err
	}
	row := contract.UnmatchedRow{Mapping: rr.Of[r.Of[0]].Name, Key: r.Key, Row: text, Reason: cmp.Or(r.Reason, Unexplained)}
	if len(r.Of) > 1 {
		row.Reason += " (of which of the bundle's tables it is the output files do not tell)"
	}
	rr.pending = append(rr.pending, row)
	rr.size += len(text)
	return nil
}

// Shares are the import's members with their rows in error; the import's own are
// being looked at by others.
func (rr *Rows) Shares() []contract.Member {
	members := slices.Clone(rr.Members)
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
	member   int              // the mapping's place among those of the import
	written  bool             // there are records of its key
	rounds   bool             // it may be of any round
	idle     []reconcile.Span // what its records are, where that is known; nil: what came to it
}

// found is the row whose records were found; nil: there are none.
func (r *rejected) found() *errorRow {
	for _, row := range r.of {
		if row.written {
			return row
		}
	}
	return nil
}

// deadReason is why the write's record is a dead letter, as a row of its key is in error;
// "": it is none.
func (rr *Rows) deadReason(row *errorRow, w *schemas.Write, at spool.At) string {
	switch {
	case !row.written:
	case row.idle != nil:
		if w.Op == rr.Op && slices.ContainsFunc(row.idle, func(s reconcile.Span) bool { return s.Covers(w.Op, Place(at)) }) {
			return row.rejected.reason
		}
	default:
		switch came := rr.came(row, w, at); {
		case came.Third && rr.Thirds.first(rowKey{rr.Of[row.member].Name, w.Key}, rr.File):
			return thirdReason + row.rejected.reason
		case came.To && !came.Third:
			return row.rejected.reason
		}
	}
	return ""
}

// thirdReason is why a create is a dead letter that is in no file, before what was said of
// another one's row.
const thirdReason = "other creates of its key are before it in the same file, and one of their rows was in error: "

// Thirds are the keys with creates behind two others in the same file, once one of these was
// in error: then they are dead letters, and not once more if the other is in error, too. It
// is for the files of one generation.
type Thirds map[rowKey]string // the file whose row was in error

// first reports whether the file is the first one with a row in error.
func (t *Thirds) first(key rowKey, file string) bool {
	if *t == nil {
		*t = Thirds{}
	}
	if _, known := (*t)[key]; !known {
		(*t)[key] = file
	}
	return (*t)[key] == file
}

// came is what the write has to do with the row in error. Where the rows came out in another
// way than the file says, those of its operation count, or else all: none is lost.
func (rr *Rows) came(row *errorRow, w *schemas.Write, at spool.At) spool.Came {
	for _, meant := range []func(spool.Rank) bool{
		func(r spool.Rank) bool { return r == rr.rank && r.Op == rr.Op && !row.rounds },
		func(r spool.Rank) bool { return r.Op == rr.Op },
	} {
		for _, t := range rr.traces[row.member] {
			if came := t.Came(w, at, meant); came.Any {
				return came
			}
		}
	}
	return spool.Came{To: true}
}

// Place is how keys that both lanes write know a record's place.
func Place(at spool.At) reconcile.At { return reconcile.At{Partition: at.Of, Offset: at.Offset} }
