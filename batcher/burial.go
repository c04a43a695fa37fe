package batcher

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"

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

// burial makes dead letters of the records behind one file's rows in error.
type burial struct {
	*flight
	imp    *Import
	of     []*member // whose rows the import loads
	replay replay
	size   int   // of the replay's rows, in bytes
	rows   int64 // in error, as the output files have them

	byMember []int64 // rows in error whose records were found, by member

	matched int64    // rows whose records are dead letters, or that need none
	kept    *os.File // rows that match no record; nil: none yet
	out     *csv.Writer
	headed  []string // the header that kept was given last
}

func (b *burial) run(ctx context.Context, outputs *os.File) error {
	err := rowerror.Read(outputs, b.outputFormats(), func(r rowerror.Row) error { return b.add(ctx, r) })
	return errors.Join(err, b.bury(ctx)) // what could be read is buried all the same
}

// outputFormats are the formats of what the import loads, in its order.
func (b *burial) outputFormats() (all []rowerror.Format) {
	for _, m := range b.of {
		out := rowerror.Format{
			Separator: cmp.Or(m.CSV.Separator, ",")[0], Enclosing: m.rows.quote, Encoding: m.rows.encoding,
			Key: m.Columns[m.rows.key].Header, File: b.imp.File,
		}
		if b.imp.Members != nil {
			stem, _, _ := strings.Cut(m.Entry, dateToken)
			out.File, out.Table = strings.TrimRight(stem, "-_. "), m.Table.Name
		}
		for i, c := range m.Columns {
			if b.imp.Members == nil || m.rows.holds(i, b.imp.Op) {
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

func (b *burial) add(ctx context.Context, r rowerror.Row) error {
	b.rows++
	if b.imp.Op == schemas.Delete && nothingToDelete.MatchString(r.Reason) {
		b.matched++ // it is as it was to be
		return nil
	}
	reason := cmp.Or(r.Reason, unexplained)
	if r.Key == "" {
		return b.keep(r)
	}
	if b.waits(r, reason) {
		return nil
	}
	if b.adopted != nil && b.adopted.Settling {
		b.matched++ // a dead letter since its former owner heard of it
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
	if b.size += lengthOf(r); len(b.replay.rejected) >= b.batcher.atOnce || b.size >= replayBytes {
		return b.bury(ctx)
	}
	return nil
}

func lengthOf(r rowerror.Row) (n int) {
	for _, cell := range r.Cells {
		n += len(cell)
	}
	return n + len(r.Reason)
}

// bury reads the records behind the rows at hand and makes dead letters of them.
func (b *burial) bury(ctx context.Context) error {
	if len(b.replay.rejected) == 0 {
		return nil
	}
	if err := b.letters(ctx); err != nil {
		return err
	}
	for _, r := range b.replay.rejected {
		if row := r.found(); row != nil {
			b.matched++
			b.byMember[row.member]++
		} else if err := b.keep(r.Row); err != nil {
			return err
		}
	}
	clear(b.replay.rows)
	b.replay.rejected, b.size = b.replay.rejected[:0], 0
	return nil
}

// letters reads the records behind the rows at hand twice: to see which of them
// came to which row, and to make dead letters of those.
func (b *burial) letters(ctx context.Context) error {
	if err := b.again(ctx, func(mapping string, w *schemas.Write, at At) string {
		b.replay.trace(mapping, w, at)
		return ""
	}, b.replay.reset); err != nil {
		return err
	}
	return b.again(ctx, b.replay.reason, func() {})
}

// again reads the generation's records, again and again while that fails.
func (b *burial) again(ctx context.Context, each func(mapping string, w *schemas.Write, at At) string, begin func()) error {
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
	_, err := m.rows.appendEntry(nil, w)
	return err == nil
}

// keep writes a row that matches no record to a file for a person to look at.
func (b *burial) keep(r rowerror.Row) error {
	if b.kept == nil {
		file, err := b.batcher.spool.create(b.imp.File + unmatchedSuffix + partSuffix)
		if err != nil {
			return err
		}
		b.kept, b.out = file, csv.NewWriter(file)
	}
	if !slices.Equal(b.headed, r.Header) {
		b.headed = r.Header
		if err := b.out.Write(r.Header); err != nil {
			return err
		}
	}
	return b.out.Write(r.Cells)
}

// shares are the import's members with their rows in error; the import's own are
// being looked at by others.
func (b *burial) shares() []Member {
	members := slices.Clone(b.imp.Members)
	for i := range members {
		members[i].InError = b.byMember[i]
	}
	return members
}

// close gives the file of unmatched rows its name.
func (b *burial) close() {
	if b.kept == nil {
		return
	}
	b.out.Flush()
	b.end(b.kept, b.imp.File+unmatchedSuffix, true)
}
