package replay

import (
	"context"
	"slices"

	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/router"
)

// dead are the dead letters whose records have not come to their tables: the open and the
// discarded ones.
type dead struct {
	upTo map[int32]int64 // how far the dead-letter topic was read, by partition
	at   map[cluster.RecordPlace][]*deadletter.Received
}

// read takes up the dead letters that came since the last time. Of their records it keeps
// what tells them from others only.
func (d *dead) read(ctx context.Context, r *Replay) error {
	if d == nil {
		return nil
	}
	spans, err := r.Reader.Spans(ctx, r.Topic)
	if err != nil {
		return err
	}
	for p, s := range spans {
		spans[p] = cluster.Span{From: max(s.From, d.upTo[p.Partition]), To: s.To}
	}
	err = r.marks.lettersOf(ctx, spans, func(_ *deadletter.Record, l *deadletter.Received) error {
		if l == nil || l.NoRecord() {
			return nil
		}
		if state, _ := r.marks.State(l); state == deadletter.StateDone {
			return nil
		}
		at := cluster.PlaceOf(l.Record)
		kept := &deadletter.Received{Partition: l.Partition, Offset: l.Offset, Record: &deadletter.Record{Topic: at.Topic, Timestamp: l.Record.Timestamp}}
		kept.Mapping, kept.Table = l.Mapping, l.Table
		d.at[at] = append(d.at[at], kept)
		return nil
	})
	for p, s := range spans {
		d.upTo[p.Partition] = s.To
	}
	return err
}

// has reports whether what the mapping makes of the record is such a dead letter. One that
// this run has replayed is not.
func (d *dead) has(r *Replay, m *router.Compiled, rec *deadletter.Record) bool {
	return d != nil && slices.ContainsFunc(d.at[cluster.PlaceOf(rec)], func(l *deadletter.Received) bool {
		state, _ := r.marks.State(l)
		return state != deadletter.StateDone && l.Record.Timestamp.Equal(rec.Timestamp) && OfMapping(r.Router, m, l)
	})
}
