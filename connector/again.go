package connector

import (
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// sentAgain is the keys of which records are sent once more after a restart, as bits
// of their hashes: a bit that two keys share has a record sent once more in vain.
type sentAgain [1 << 14]uint64

func (s *sentAgain) bit(w *schemas.Write) (word *uint64, mask uint64) {
	key := w.Key
	if key == "" {
		key = w.ProfileID
	}
	hash := xxhash.Sum64String(key)*31 + xxhash.Sum64String(w.Table.Name)
	if w.Table.Custom {
		hash++
	}
	return &s[hash>>6%uint64(len(s))], 1 << (hash & 63)
}

// sendsAgain decides about a record of those of which some were confirmed before a
// restart and some were not. It reports true for one that is done and has to be sent
// once more all the same, behind an older one of its key that was not confirmed; of
// its writes those of such keys are left then.
func (l *lane) sendsAgain(p *kafka.Partition, r *kafka.Record, done bool) bool {
	mine := func(w *router.Routed) bool { return w.Lane == l.which || w.Taken }
	keyed := func(w *router.Routed) bool {
		return mine(w) && w.Err == nil && (w.Write.Key != "" || w.Write.ProfileID != "") && !l.delivery.covers(p, w, r.Offset)
	}
	keys := l.again[p]
	if !done {
		for i := range l.routed {
			w := &l.routed[i]
			if !keyed(w) {
				continue
			}
			if keys == nil {
				keys = new(sentAgain)
				if l.again == nil {
					l.again = map[*kafka.Partition]*sentAgain{}
				}
				l.again[p] = keys
			}
			word, mask := keys.bit(&w.Write)
			*word |= mask
			p.SendAgain(r.Offset)
		}
		return false
	}
	older := func(w *router.Routed) bool {
		if keys == nil || !keyed(w) {
			return false
		}
		word, mask := keys.bit(&w.Write)
		return *word&mask != 0
	}
	if !slices.ContainsFunc(l.routed, func(w router.Routed) bool { return older(&w) }) {
		return false
	}
	l.routed = slices.DeleteFunc(l.routed, func(w router.Routed) bool { return mine(&w) && !older(&w) })
	return true
}

// restored forgets what sendsAgain knows of a partition that was read on to next, if
// nothing of what follows was confirmed before the restart.
func (l *lane) restored(p *kafka.Partition, next int64) {
	if l.again[p] == nil {
		return
	}
	if _, restored := p.Stands(next); !restored {
		delete(l.again, p)
	}
}
