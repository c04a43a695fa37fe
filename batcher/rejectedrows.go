package batcher

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/feedsink/feedsink/batcher/rowerror"
	"github.com/feedsink/feedsink/schemas"
)

const (
	// replayRows is how many rows in error are looked for at once, and
	// replayBytes how long they may be together: more take another reading.
	replayRows  = 100_000
	replayBytes = 32 << 20
)

// unexplained is the reason of a row of which the service gives none.
const unexplained = "the service put the row in error and gave no reason"

// rejectedRows makes dead letters of the records behind one file's rows in error.
type rejectedRows struct {
	*importRun
	imp    *Import
	of     []*member // whose rows the import loads
	replay replay
	size   int   // of the replay's rows, in bytes
	rows   int64 // in error, as the output files have them

	byMember []int64 // rows in error whose records were found, by member
	counting bool    // the rows with a record; none becomes a dead letter

	pending   []UnmatchedRow // rows that match no record, to be dead letters of their own
	unmatched int64          // rows that did not
	released  bool           // rows that have no place as dead letters are given up
	givenUp   bool           // some were
}

func newRejectedRows(f *importRun, imp *Import, released bool) *rejectedRows {
	b := &rejectedRows{importRun: f, imp: imp, of: f.loaded(imp), replay: replay{op: imp.Op, rows: map[rowKey]*errorRow{}}, released: released}
	b.byMember = make([]int64, len(b.of))
	return b
}

func (b *rejectedRows) run(ctx context.Context, outputs rowerror.File) error {
	err := rowerror.Read(outputs, b.outputFormats(), func(r rowerror.Row) error { return b.add(ctx, r) })
	if err != nil && !unreadable(err) {
		return err
	}
	return errors.Join(err, b.flush(ctx)) // what could be read becomes dead letters all the same
}

// count is how many rows in error the output files name, lines of one key that
// follow each other counted once.
func (b *rejectedRows) count(ctx context.Context, outputs rowerror.File) (rows int64, err error) {
	seen := map[uint64]bool{} // of member and key
	err = rowerror.Read(outputs, b.outputFormats(), func(r rowerror.Row) error {
		if rows%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		key := xxhash.Sum64String(r.Key) + uint64(r.Of[0])
		if r.Key != "" && seen[key] {
			return nil
		}
		if len(seen) >= b.batcher.atOnce {
			clear(seen)
		}
		seen[key] = true
		rows++
		return nil
	})
	return rows, err
}

// outputFormats are the formats of what the import loads, in its order.
func (b *rejectedRows) outputFormats() (all []rowerror.Format) {
	for _, m := range b.of {
		out := rowerror.Format{
			Separator: cmp.Or(m.CSV.Separator, ",")[0], Enclosing: m.rows.Quote(), Encoding: m.rows.Encoding(),
			Key: m.Columns[m.rows.Key()].Header, File: b.imp.File,
		}
		if b.imp.Members != nil {
			stem, _, _ := strings.Cut(m.Entry, dateToken)
			out.File, out.Table = strings.TrimRight(stem, "-_. "), m.Table.Name
		}
		for i, c := range m.Columns {
			if b.imp.Members == nil || m.rows.Holds(i, b.imp.Op) {
				out.Columns = append(out.Columns, c.Header)
			}
		}
		all = append(all, out)
	}
	return all
}

// nothingToDelete matches the words of a service that puts a DELETE row in error
// because there is nothing to delete.
var nothingToDelete = regexp.MustCompile(`(?i)not[ _-]?found|does[ _-]?n[o']t[ _-]?exist|not[ _-]?there|no (such|matching|profile|record|row)`)

func (b *rejectedRows) add(ctx context.Context, r rowerror.Row) error {
	b.rows++
	if b.imp.Op == schemas.Delete && nothingToDelete.MatchString(r.Reason) {
		return nil // it is as it was to be
	}
	reason := cmp.Or(r.Reason, unexplained)
	if r.Key == "" {
		if err := b.addUnmatched(r); err != nil {
			return err
		}
		return b.endFull(ctx)
	}
	if !b.counting && b.waits(r, reason) || b.heard() {
		return nil
	}
	if row := b.replay.rows[rowKey{b.of[r.Of[0]].Name, r.Key}]; row != nil { // one line for each value that is wrong
		b.rows--
		if !strings.Contains(row.reason, reason) && len(row.reason) < 2000 {
			row.reason += "; " + reason
		}
		return nil
	}
	one := &rejected{Row: r, reason: reason}
	for _, i := range r.Of {
		row := &errorRow{rejected: one, member: i}
		one.of = append(one.of, row)
		b.replay.rows[rowKey{b.of[i].Name, r.Key}] = row
	}
	b.replay.rejected = append(b.replay.rejected, one)
	b.size += lengthOf(r)
	return b.endFull(ctx)
}

// endFull ends the rows at hand once they are as many as are looked for at once.
func (b *rejectedRows) endFull(ctx context.Context) error {
	if len(b.replay.rejected)+len(b.pending) >= b.batcher.atOnce || b.size >= replayBytes {
		return b.flush(ctx)
	}
	return nil
}

func lengthOf(r rowerror.Row) (n int) {
	for _, cell := range r.Cells {
		n += len(cell)
	}
	return n + len(r.Reason)
}

// flush ends the rows at hand: the records behind them are read and become dead
// letters, or the rows themselves, where there are none.
func (b *rejectedRows) flush(ctx context.Context) error {
	if len(b.replay.rejected) > 0 {
		if err := b.deadLetters(ctx); err != nil {
			return err
		}
	}
	for _, r := range b.replay.rejected {
		if row := r.found(); row != nil {
			if !b.counting || !harmless(b.imp.Op, row.Reason) {
				b.byMember[row.member]++
			}
		} else if err := b.addUnmatched(r.Row); err != nil {
			return err
		}
	}
	clear(b.replay.rows)
	b.replay.rejected, b.size = b.replay.rejected[:0], 0
	return b.postUnmatched(ctx)
}

// postUnmatched makes dead letters of the rows that match no record.
func (b *rejectedRows) postUnmatched(ctx context.Context) error {
	if len(b.pending) == 0 {
		return nil
	}
	err := b.post(ctx, b.imp, b.pending)
	if errors.Is(err, ErrNoDeadLetter) && b.released {
		b.log.Error("rows in error that match no record were given up, since they cannot become dead letters; look at the output files, which are kept",
			"file", b.imp.File, "execution", b.imp.Execution, "rows", len(b.pending), "err", err)
		b.givenUp, err = true, nil
	}
	b.unmatched += int64(len(b.pending))
	clear(b.pending)
	b.pending = b.pending[:0]
	return err
}

// post makes dead letters of their own of rows, again and again while that fails.
func (f *importRun) post(ctx context.Context, imp *Import, rows []UnmatchedRow) error {
	var refused error
	if err := f.patiently(ctx, "make dead letters of rows in error that match no record", func(ctx context.Context) error {
		err := f.batcher.cfg.Records.Unmatched(ctx, *imp, rows)
		if errors.Is(err, ErrNoDeadLetter) {
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
func (b *rejectedRows) deadLetters(ctx context.Context) error {
	if err := b.again(ctx, func(mapping string, w *schemas.Write, at At) string {
		b.replay.trace(mapping, w, at)
		return ""
	}, b.replay.reset); err != nil {
		return err
	}
	if b.counting {
		return nil
	}
	return b.again(ctx, b.replay.reason, func() {})
}

// again reads the generation's records, again and again while that fails.
func (b *rejectedRows) again(ctx context.Context, each func(mapping string, w *schemas.Write, at At) string, begin func()) error {
	return b.patiently(ctx, "read the records behind rows in error", func(ctx context.Context) error {
		begin()
		return b.batcher.cfg.Records.Again(ctx, *b.imp, b.generation.claims, func(mapping string, w *schemas.Write, at At) string {
			row := b.replay.rows[rowKey{mapping, w.Key}]
			if row == nil || !b.of[row.member].fits(w) {
				return ""
			}
			return each(mapping, w, at)
		})
	})
}

// fits reports whether the write has become a row, and not a dead letter at once.
func (m *member) fits(w *schemas.Write) bool {
	if _, ok := m.Loads[w.Op]; !ok {
		return false
	}
	m.line.mu.Lock()
	defer m.line.mu.Unlock()
	_, err := m.rows.AppendEntry(nil, w)
	return err == nil
}

// addUnmatched takes a row that matches no record.
func (b *rejectedRows) addUnmatched(r rowerror.Row) error {
	if b.counting || b.imp.OnlyErrors || b.heard() { // they became dead letters when the import ended
		return nil
	}
	text, err := asCSV(r.Header, r.Cells)
	if err != nil {
		return err
	}
	row := UnmatchedRow{Mapping: b.of[r.Of[0]].Name, Key: r.Key, Row: text, Reason: cmp.Or(r.Reason, unexplained)}
	if len(r.Of) > 1 {
		row.Reason += " (of which of the bundle's tables it is the output files do not tell)"
	}
	b.pending = append(b.pending, row)
	b.size += len(text)
	return nil
}

// heard reports whether a former owner has made dead letters of the rows already
// that are not waiting.
func (b *rejectedRows) heard() bool { return b.adopted != nil && b.adopted.Settling }

// asCSV is a row under its header.
func asCSV(header, cells []string) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	err := w.WriteAll([][]string{header, cells})
	return b.Bytes(), err
}

// shares are the import's members with their rows in error; the import's own are
// being looked at by others.
func (b *rejectedRows) shares() []Member {
	members := slices.Clone(b.imp.Members)
	for i := range members {
		members[i].InError = b.byMember[i]
	}
	return members
}
