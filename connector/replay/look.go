package replay

import (
	"context"
	"slices"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// Looking says which keys Look goes through. What is left zero does not restrict.
type Looking struct {
	// Most is how many keys are looked at, chosen by chance; 0: all.
	Most int
	// Seed decides which.
	Seed string
	// Repair says that a Backfill of what is found follows, Asked as this one: calls of one
	// that did not end can't be applied any more when the first key is looked at.
	Repair bool
}

// State is what the confirmed records of the span state for certain of the row of one key.
type State struct {
	// Write has the values that the table must have: those that are named since the row began
	// anew or was written whole. Its Op is Delete if there must be no row.
	Write  schemas.Write
	Record string // the last one of the key: topic[partition]@offset
}

// Look calls look with the states of some keys at a time, in the order of their hashes, of
// which newer records say nothing. judge is called then with the index of each of them that
// still is the newest: what look has found out of the table is to be held against it. The
// others count as Newer. Nothing is sent or noted. An error of look ends it.
func (b *Backfill) Look(ctx context.Context, which Looking, look func(context.Context, []State) (judge func(int), err error)) (BackfillReport, error) {
	b.Replay.begun = time.Now()
	b.reset()
	if which.Repair {
		if err := b.settled(ctx); err != nil {
			return b.report, err
		}
	}
	b.looking, b.Replay.DryRun, b.report.DryRun = &which, true, true
	held, err := b.Replay.Reader.Spans(ctx, b.Mapping.Config.Topics...)
	if err != nil {
		return b.report, err
	}
	if err := b.begin(ctx, held); err != nil {
		return b.report, err
	}
	for judged := 0; b.state.Pos < hashes; {
		s, err := b.collect(ctx, hashes)
		if err != nil {
			return b.report, err
		}
		b.countKeys(s)
		if err := b.lookAt(ctx, s, &judged, look); err != nil {
			return b.report, err
		}
		if b.state.Pos = s.bound; which.Most > 0 {
			break // there were more candidates than are wanted
		}
	}
	b.report.Done, b.report.Ended = 1, true
	b.tell(0, "")
	return b.report, nil
}

// candidates are as many as to leave enough where newer records replace some.
func (l *Looking) candidates() int { return 4 * l.Most }

// settled returns once no call of an earlier repair can be applied any more.
func (b *Backfill) settled(ctx context.Context) error {
	old, err := b.load(ctx)
	switch {
	case err != nil || old == nil || old.Ended:
		return err
	case old.Asked != b.Asked:
		return b.unfinished(old)
	}
	return b.Replay.outwait(ctx, []*deadLetter{{tried: old.Tried > old.Pos}})
}

// lookAt looks at the keys that are in memory.
func (b *Backfill) lookAt(ctx context.Context, s *span, judged *int, look func(context.Context, []State) (func(int), error)) error {
	w, rows, err := b.window(s)
	if err != nil {
		return err
	}
	defer w.tail.Close()
	for len(rows) > 0 {
		most := max(b.Replay.Round, 1)
		if b.looking.Most > 0 {
			most = min(most, b.looking.Most-*judged)
		}
		if most == 0 {
			return nil
		}
		if err := b.rest(ctx, 0); err != nil {
			return err
		}
		if err := b.readToEnd(ctx, w); err != nil {
			return err
		}
		some := rows[:min(most, len(rows))]
		rows = rows[len(some):]
		n, err := b.judge(ctx, w, some, look)
		if err != nil {
			return err
		}
		*judged += n
		b.report.Done = float64(some[len(some)-1].hash) / hashes
		if b.looking.Most > 0 {
			b.report.Done = float64(*judged) / float64(b.looking.Most)
		}
		b.tell(0, "")
	}
	return nil
}

// judge has some keys looked at and counts those of which it was the newest state.
func (b *Backfill) judge(ctx context.Context, w *window, some []backfillRow, look func(context.Context, []State) (func(int), error)) (judged int, err error) {
	newer := func(r backfillRow) bool { return r.changed != nil || r.former != "" }
	fresh := slices.DeleteFunc(slices.Clone(some), newer)
	states := make([]State, len(fresh))
	for i, r := range fresh {
		states[i] = State{Write: r.newest, Record: r.record}
	}
	found, err := look(ctx, states)
	if err != nil {
		return 0, err
	}
	if err := b.readToEnd(ctx, w); err != nil {
		return 0, err
	}
	for i, r := range fresh {
		if !newer(r) {
			found(i)
			judged++
		}
	}
	b.report.Newer += int64(len(some) - judged)
	return judged, nil
}

// stated is fold for what is certain. An upsert of a table record may keep the columns that
// it does not name or clear them: the interface leaves it open for calls, and of a file it
// follows from its ETL. So nothing is certain of them from then on. A patch of what was
// deleted changes nothing, whether it has become a dead letter or not.
func stated(older, w schemas.Write, _ bool) (newest schemas.Write, replaced bool) {
	switch {
	case older.Op == schemas.Delete && w.Op == schemas.Patch:
		return older, false
	case older.Op == schemas.Delete || !w.Op.Partial():
		return w, true
	}
	newest = older
	newest.Cells = schemas.Overlay(slices.Clone(older.Cells), w.Cells)
	return newest, false
}
