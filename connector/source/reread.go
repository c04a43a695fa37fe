package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Span is records of one partition that were read before.
type Span struct {
	Topic     string
	Partition int32
	From, To  int64 // offsets from From to before To
}

const (
	// rereadWait is how long records may take to come.
	rereadWait = 5 * time.Second
	// rereadTries is how often none may come, with the broker at hand, before the
	// rest of a span counts as gone from the log.
	rereadTries = 3
)

// Spans are what claims span, each record once, ordered by topic, partition and
// offset.
func Spans(claims []*Claim) []Span {
	var all []Span
	for _, c := range claims {
		c.p.mu.Lock()
		span := c.c.Span()
		c.p.mu.Unlock()
		all = append(all, Span{c.p.Topic, c.p.ID, span.From, span.To})
	}
	slices.SortFunc(all, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.From, b.From))
	})
	out := all[:0]
	for _, s := range all {
		if n := len(out); n > 0 && out[n-1].Topic == s.Topic && out[n-1].Partition == s.Partition && s.From <= out[n-1].To {
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

// Bury notes that one of the claim's records has become a dead letter.
func (c *Claim) Bury() {
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

// Reread reads spans once more, one after the other, beside the group: nothing is
// committed and no position moves. Records that the log has lost meanwhile are
// left out. Any error of each ends it.
func (s *Source) Reread(ctx context.Context, spans []Span, each func(i int, r *Record) error) error {
	opts, err := s.cfg.Connection.Options()
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(append(opts,
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // the last of a span may be one
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(500*time.Millisecond),
		kgo.FetchMaxBytes(1<<20), kgo.FetchMaxPartitionBytes(1<<20),
		kgo.MetadataMinAge(time.Second),
		kgo.WithLogger(clientLog{s.cfg.Log}),
	)...)
	if err != nil {
		return fmt.Errorf("kafka client: %w", err)
	}
	defer client.Close()
	for i, span := range spans {
		if err := s.rereadSpan(ctx, client, span, func(r *Record) error { return each(i, r) }); err != nil {
			return fmt.Errorf("read %s[%d] from %d to %d again: %w", span.Topic, span.Partition, span.From, span.To, err)
		}
	}
	return nil
}

func (s *Source) rereadSpan(ctx context.Context, client *kgo.Client, span Span, each func(*Record) error) error {
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{span.Topic: {span.Partition: kgo.NewOffset().At(span.From)}})
	defer client.RemoveConsumePartitions(map[string][]int32{span.Topic: {span.Partition}})
	for silent := 0; silent < rereadTries; {
		polling, cancel := context.WithTimeout(ctx, rereadWait)
		fetches := client.PollFetches(polling)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := fetchFailure(fetches); err != nil {
			return err
		}
		records := fetches.Records()
		if len(records) == 0 {
			if _, err := s.ends(ctx, []string{span.Topic}); err != nil {
				return err
			}
			silent++
			continue
		}
		silent = 0
		for _, r := range records {
			if r.Offset >= span.To {
				return nil
			}
			if isControl(r) || r.Offset < span.From {
				continue
			}
			if err := each(r); err != nil {
				return err
			}
		}
		if records[len(records)-1].Offset+1 >= span.To {
			return nil
		}
	}
	s.log.Warn("records that were read before are not in the log any more", "topic", span.Topic, "partition", span.Partition, "before", span.To)
	return nil
}

// fetchFailure is what has gone wrong with a fetch, beside that nothing came and
// that records are gone.
func fetchFailure(fetches kgo.Fetches) (failure error) {
	fetches.EachError(func(_ string, _ int32, err error) {
		if _, lost := errors.AsType[*kgo.ErrDataLoss](err); !lost && !errors.Is(err, context.DeadlineExceeded) {
			failure = err
		}
	})
	return failure
}
