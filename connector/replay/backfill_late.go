package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/feedsink/feedsink/connector/words"
)

// sendLate sends the rows once more of which an attempt may have been applied after
// the one that was answered, as soon as none can be any more; with wait it waits for that.
func (b *Backfill) sendLate(ctx context.Context, w *window, wait bool) error {
	if len(b.late) == 0 || !wait && time.Now().Before(b.settle) {
		return nil
	}
	late := b.late
	if err := b.outwait(ctx, w, late, b.settle); err != nil {
		return err
	}
	b.late, b.settle = nil, time.Time{}
	if err := b.deliver(ctx, w, late); err != nil {
		return err
	}
	for _, one := range late {
		b.ended(one)
	}
	return b.flooded()
}

// sendAside sends those rows once more that were set aside. Who interrupts it, or comes to no answer
// again, leaves them to another run: it begins with the first of them.
func (b *Backfill) sendAside(ctx, working context.Context, w *window) error {
	aside := b.aside
	if len(aside) == 0 {
		return nil
	}
	b.tell(0, words.Counted(len(aside), "key")+" came to no answer; sending once more what they say")
	if err := b.outwait(ctx, w, aside, b.tried.Add(b.Replay.Late)); err != nil {
		return err
	}
	if err := b.Replay.deliver(working, w, partsOf(aside)); err != nil && !errors.Is(err, errNoAnswer) {
		return err
	}
	if err := b.readToEnd(working, w); err != nil {
		return err
	}
	b.aside, b.silent = nil, false
	for _, one := range aside {
		b.ended(one)
	}
	for _, one := range b.aside {
		b.report.Left[Unanswered]++
		b.note(one, Unanswered, "the service said neither yes nor no; run again to go on with it")
	}
	if len(b.aside) > 0 && b.held == nil {
		held := b.state
		b.held = &held
	}
	b.aside = nil
	return b.flooded()
}

// outwait returns once no attempt at the rows can be applied any more.
func (b *Backfill) outwait(ctx context.Context, w *window, rows []backfillRow, at time.Time) error {
	if err := b.Replay.Wait(ctx, time.Until(at)); err != nil {
		return err
	}
	if err := b.readToEnd(ctx, w); err != nil {
		return err
	}
	for _, one := range rows {
		b.Replay.Service.Unsure(&one.newest)  // which is over
		one.unsure, one.profileID = false, "" // the profile may have been made anew
	}
	return nil
}

// unanswered is the error of a run that leaves keys which came to no answer.
func (b *Backfill) unanswered() error {
	if b.held == nil {
		return nil
	}
	b.report.Done = b.held.done()
	return fmt.Errorf("%s came to no answer; run again to go on with them", words.Counted(b.report.Left[Unanswered], "key"))
}
