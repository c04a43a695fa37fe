package batcher

import (
	"context"
	"regexp"

	"github.com/feedsink/feedsink/batcher/rowerror"
	"github.com/feedsink/feedsink/schemas"
)

// existsAlready matches the words of a service that puts a CREATE_ONLY row in error
// because its key is in the table: a repeated create, no sign of a mistake.
var existsAlready = regexp.MustCompile(`(?i)already|exists|duplicate|conflict`)

// wellLoaded counts a file without rows in error.
func (f *importRun) wellLoaded(imp *Import) {
	if f.batcher.cfg.Floods == nil {
		return
	}
	for _, load := range imp.Loads() {
		f.batcher.cfg.Floods.Ended(load.Mapping, load.Rows, 0)
	}
}

// holdFlood halts the mapping before any dead letter if nearly all rows of the file
// are in error, alone or together with the imports before it. Once it is released,
// they become dead letters.
func (f *importRun) holdFlood(ctx context.Context, imp *Import, r Results, outputs rowerror.File) error {
	floods := f.batcher.cfg.Floods
	if floods == nil {
		return nil
	}
	loads := f.rowsOf(imp, r)
	counts, err := f.refusedRows(ctx, imp, outputs, len(loads), false)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	for i, load := range loads {
		if floods.Suspects(load.Mapping, load.Rows, min(counts[i], load.Rows)) {
			// Rows without a record are no dead letters of records: the log tells.
			if counts, err = f.refusedRows(ctx, imp, outputs, len(loads), true); err != nil && ctx.Err() != nil {
				return ctx.Err()
			}
			break
		}
	}
	reason := ""
	for i, load := range loads {
		if why := floods.Ended(load.Mapping, load.Rows, min(counts[i], load.Rows)); counts[i] > 0 && reason == "" {
			reason = why
		}
	}
	if reason == "" {
		return nil
	}
	return f.awaitRelease(ctx, imp, reason, halted{loaded: true, told: true})
}

// rowsOf are the rows that the import loaded, by mapping; all of them together where
// a former owner sent a bundle's file, and nobody knows how many are whose.
func (f *importRun) rowsOf(imp *Import, r Results) []Member {
	loads, rows := imp.Loads(), int64(0)
	for _, load := range loads {
		rows += load.Rows
	}
	if rows > 0 {
		return loads
	}
	return []Member{{Mapping: imp.Mapping, Table: imp.Table, Rows: max(imp.Rows, r.Read, r.InError)}}
}

// refusedRows counts the rows in error of which dead letters follow, by mapping or all
// together: as the output files have them, or only those with a record in the log.
// What cannot be read is not counted.
func (f *importRun) refusedRows(ctx context.Context, imp *Import, outputs rowerror.File, mappings int, withRecord bool) (counts []int64, err error) {
	counts = make([]int64, mappings)
	if withRecord {
		b := newRejectedRows(f, imp, false)
		b.counting = true
		err = b.run(ctx, outputs)
		for i, n := range b.byMember {
			counts[min(i, mappings-1)] += n
		}
		return counts, err
	}
	b := newRejectedRows(f, imp, false)
	last := map[int]string{} // a row has one line for each value that is wrong
	err = rowerror.Read(outputs, b.outputFormats(), func(row rowerror.Row) error {
		if row.Key == "" || harmless(imp.Op, row.Reason) || last[row.Of[0]] == row.Key {
			return nil
		}
		last[row.Of[0]] = row.Key
		counts[min(row.Of[0], mappings-1)]++
		return nil
	})
	return counts, err
}

// harmless reports whether a row in error is no sign of a mistake: what it was to do
// is done.
func harmless(op schemas.Op, reason string) bool {
	return op == schemas.Delete && nothingToDelete.MatchString(reason) ||
		op == schemas.Create && existsAlready.MatchString(reason)
}
