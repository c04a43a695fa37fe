package batcher

import (
	"context"
	"errors"
	"slices"

	"github.com/feedsink/feedsink/batcher/contest"
	"github.com/feedsink/feedsink/schemas"
)

// refusedWrites are writes of a key that were taken from the other lane, whose ledger
// has them confirmed, and that the service has refused for good.
type refusedWrites struct {
	member int // the mapping's place on the line
	key    string
	at     []contest.At
	reason string
}

// refuse notes what was taken of a newest state that cannot be sent, in place of what
// was noted of older ones. It reports whether there was any.
func (f *settling) refuse(n contest.Newest, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refusedFor = slices.DeleteFunc(f.refusedFor, func(r refusedWrites) bool { return r.member == f.member.index && r.key == n.Key })
	if err == nil || len(n.Taken) == 0 || f.batcher.cfg.Records == nil {
		return false
	}
	reason := err.Error()
	if failure, ok := errors.AsType[Failure](err); ok && failure.Reason() != "" {
		reason = failure.Reason()
	}
	f.refusedFor = append(f.refusedFor, refusedWrites{f.member.index, n.Key, n.Taken, reason})
	return true
}

// rejectTaken makes dead letters of the records of writes that were taken and
// refused, before the import is confirmed: nothing else holds them.
func (f *importRun) rejectTaken(ctx context.Context, imp Import) error {
	f.mu.Lock()
	refused := f.refusedFor
	f.mu.Unlock()
	for i, m := range f.members {
		deadLetters := map[string]refusedWrites{}
		for _, r := range refused {
			if r.member == i {
				deadLetters[r.key] = r
			}
		}
		if len(deadLetters) == 0 {
			continue
		}
		imp := imp
		imp.Mapping, imp.Table, imp.Members, imp.OnlyTaken = m.Name, m.Table, nil, true
		f.enter(RowErrors, imp)
		f.log.Warn("writes that former routes gave to the other lane are refused by the service; their records become dead letters",
			"mapping", m.Name, "keys", len(deadLetters))
		each := func(mapping string, w *schemas.Write, at At) string {
			r := deadLetters[w.Key]
			if mapping == m.Name && slices.ContainsFunc(r.at, func(a contest.At) bool { return a.Offset == at.Offset }) {
				return r.reason
			}
			return ""
		}
		if err := f.patiently(ctx, "make dead letters of refused writes", func(ctx context.Context) error {
			return f.batcher.cfg.Records.Again(ctx, imp, f.generation.claims, each)
		}); err != nil {
			return err
		}
	}
	return nil
}
