package kafka

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Stretch is records of one partition that were read before.
type Stretch struct {
	Place
	Span
}

// Stretches are what claims span, each record once, ordered by topic, partition
// and offset.
func Stretches(claims []*Claim) []Stretch {
	var all []Stretch
	for _, c := range claims {
		c.p.mu.Lock()
		span := c.c.Span()
		c.p.mu.Unlock()
		all = append(all, Stretch{Place{c.p.Topic, c.p.ID}, Span{span.From, span.To}})
	}
	slices.SortFunc(all, func(a, b Stretch) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.From, b.From))
	})
	out := all[:0]
	for _, s := range all {
		if n := len(out); n > 0 && out[n-1].Place == s.Place && s.From <= out[n-1].To {
			out[n-1].To = max(out[n-1].To, s.To)
			continue
		}
		out = append(out, s)
	}
	return out
}

// Apart reports whether the record at offset, in the span of some claim, was
// confirmed by itself: no claim holds it.
func (c *Claim) Apart(offset int64) bool {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	return c.p.tracker.Apart(offset)
}

// Partition is the assignment that the claim's records came from.
func (c *Claim) Partition() *Partition { return c.p }

// DeadLetter notes that one of the claim's records has become a dead letter.
func (c *Claim) DeadLetter() {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.dead++
}

// Dead is how many of the claim's records have become dead letters.
func (c *Claim) Dead() int64 {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	return c.dead
}

// Reread reads stretches once more, one after the other, beside the group: nothing
// is committed and no position moves. Records that the log has lost meanwhile are
// left out. An error of each ends it.
func (s *Source) Reread(ctx context.Context, stretches []Stretch, each func(i int, r *Record) error) error {
	reader, err := NewReader(s.cfg.Connection)
	if err != nil {
		return err
	}
	defer reader.Close()
	var topics []string
	for _, st := range stretches {
		if !slices.Contains(topics, st.Topic) {
			topics = append(topics, st.Topic)
		}
	}
	left, err := reader.Spans(ctx, topics...)
	if err != nil {
		return err
	}
	for i, st := range stretches {
		if st.From < left[st.Place].From {
			s.log.Warn("records that were read before are not in the log any more", "topic", st.Topic, "partition", st.Partition, "from", st.From)
			st.From = left[st.Place].From
		}
		if err := reader.reread(ctx, st, func(r *Record) error { return each(i, r) }); err != nil {
			return fmt.Errorf("read %s from %d to %d again: %w", st.Place, st.From, st.To, err)
		}
	}
	return nil
}

func (r *Reader) reread(ctx context.Context, st Stretch, each func(*Record) error) error {
	if st.From >= st.To {
		return nil
	}
	tail, err := r.Tail(map[Place]int64{st.Place: st.From})
	if err != nil {
		return err
	}
	defer tail.Close()
	return tail.Until(ctx, map[Place]int64{st.Place: st.To}, func(record *Record) error {
		if record.Offset >= st.To {
			return nil
		}
		return each(record)
	})
}
