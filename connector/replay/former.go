package replay

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/router"
)

// since is the offset of the partition from which on all lanes of the mapping apply its present
// routes. What is before it may have been applied as former ones said.
func (all lanes) since(c *router.Compiled, p cluster.TopicPartition) (offset int64) {
	for _, lane := range c.Lanes() {
		commit := all[lane][p]
		ledger, err := ack.Decode(commit.Metadata, commit.Offset)
		if err != nil {
			return math.MaxInt64
		}
		from, known := ledger.Routes.From(c.Routes)
		if !known {
			return math.MaxInt64
		}
		offset = max(offset, from)
	}
	return offset
}

// findRoutes notes from where on the present routes of the letters' mappings count.
func findRoutes(letters []*deadLetter, confirmed lanes) {
	for _, l := range letters {
		for _, p := range l.parts {
			if p.mapping != nil {
				p.since = confirmed.since(p.mapping, place(l.Record))
			}
		}
	}
}

// lookBack notes that a record which no mapping of a part takes now may have been applied under
// former routes: one of its Kafka key, as whose row it was is not known.
func (r *Replay) lookBack(o *origin, rec *deadletter.Record) {
	for _, p := range o.keys[string(rec.Key)] {
		if rec.Offset <= p.deadLetter.Record.Offset || rec.Offset >= p.since || r.dead.has(r, p.mapping, rec) {
			continue
		}
		if !slices.ContainsFunc(r.routed, func(routed router.Routed) bool { return routed.Mapping == p.mapping }) {
			p.former = cluster.PlaceOf(rec).String()
		}
	}
}

// kafkaKey is what records of one Kafka key in one partition have in common; zero: they have none.
type kafkaKey struct {
	place cluster.TopicPartition
	hash  uint64
}

func keyOf(rec *deadletter.Record) (k kafkaKey) {
	if rec.Key != nil {
		k = kafkaKey{place(rec), xxhash.Sum64(rec.Key)}
	}
	return k
}

// lookBack is Replay.lookBack for a record of the span that the mapping does not take. The first of
// each partition is told.
func (b *Backfill) lookBack(rec *deadletter.Record, tell bool) error {
	at, key := cluster.PlaceOf(rec), keyOf(rec)
	if rec.Offset >= b.routes[at.TopicPartition] || b.isLeftOut(rec) {
		return nil
	}
	first := func(line string) bool { return strings.HasPrefix(line, at.TopicPartition.String()+"@") }
	if tell && !slices.ContainsFunc(b.report.Former, first) {
		b.report.Former = append(b.report.Former, fmt.Sprintf("%s is not taken by mapping %s now, and may have been applied under its former routes: "+
			"an older value may go over that of such records", at, b.Mapping.Name))
	}
	if key == (kafkaKey{}) || b.Files != nil && !b.Replay.DryRun || b.Replay.AssumeNewest {
		return nil
	}
	if b.former[key] = rec.Offset; len(b.former) > mostFormer {
		return fmt.Errorf("mapping %s: more than %d Kafka keys have records that it does not take now, and that may have been applied under its former routes; "+
			"--assume-newest sends older states all the same", b.Mapping.Name, mostFormer)
	}
	return nil
}

// mostFormer bounds the memory for such keys.
const mostFormer = 500_000

// behind is the place of a record that may have followed the key's under former routes, "" if none has.
func (b *Backfill) behind(k *keyState) string {
	for _, s := range k.places {
		if last := b.former[s.key]; last > s.offset {
			return cluster.RecordPlace{TopicPartition: s.place, Offset: last}.String()
		}
	}
	return ""
}

// findMoved notes for which letters newer records of their Kafka keys go to another partition, as
// partitions were added since: the last one holds nothing older than them.
func (r *Replay) findMoved(ctx context.Context, letters []*deadLetter, spans map[cluster.TopicPartition]cluster.Span) error {
	partitions := map[string]int{}
	for p := range spans {
		partitions[p.Topic]++
	}
	moved := map[string][]*deadLetter{}
	for _, l := range letters {
		if n := partitions[l.Record.Topic]; len(l.parts) > 0 && l.Record.Key != nil && n > 0 && cluster.PartitionOf(l.Record.Key, n) != l.Record.Partition {
			moved[l.Record.Topic] = append(moved[l.Record.Topic], l)
		}
	}
	for topic, some := range moved {
		oldest := slices.MinFunc(some, func(a, b *deadLetter) int { return a.Record.Timestamp.Compare(b.Record.Timestamp) })
		after, err := r.Reader.After(ctx, oldest.Record.Timestamp.Truncate(time.Millisecond), topic)
		if err != nil {
			return err
		}
		in := func(partition int32) (from int64, span cluster.Span) {
			p := cluster.TopicPartition{Topic: topic, Partition: partition}
			from, some := after[p]
			if !some {
				from = spans[p].To
			}
			return from, spans[p]
		}
		if from, last := in(int32(partitions[topic] - 1)); from > last.From {
			continue
		}
		for _, l := range some {
			to := cluster.PartitionOf(l.Record.Key, partitions[topic])
			if from, span := in(to); from < span.To {
				l.moved = cluster.TopicPartition{Topic: topic, Partition: to}.String()
			}
		}
	}
	return nil
}

// overtaken says what newer value of the dead letter's row may not have been seen; "" if nothing.
func (l *deadLetter) overtaken() string {
	for _, p := range l.parts {
		switch {
		case !p.needsCall():
		case p.former != "":
			return fmt.Sprintf("%s, of the same Kafka key, is not taken by mapping %s now, and may have been applied under its former routes", p.former, p.mapping.Name)
		case l.moved != "":
			return fmt.Sprintf("partitions were added since, and newer records of its Kafka key may be in %s", l.moved)
		}
	}
	return ""
}
