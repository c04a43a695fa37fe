package connector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/decode"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// records reads the records behind rows in error from Kafka again. Routing is a
// pure function of record and configuration, so that no list of them is needed.
type records struct {
	lane    *lane
	creates *createRows
	writers *schemas.Registry // nil: no mapping needs one
}

// Again implements batcher.Records.
func (r records) Again(ctx context.Context, imp batcher.Import, claims []batcher.Claim, each func(mapping string, w *schemas.Write, at batcher.At) string) error {
	held := own(claims)
	stretches := kafka.Stretches(held)
	behind := make([]*kafka.Claim, len(stretches)) // a claim of each stretch's partition
	for i, s := range stretches {
		for _, c := range held {
			if p := c.Partition(); p.Topic == s.Topic && p.ID == s.Partition {
				behind[i] = c
			}
		}
	}
	// the lane's own decoders are at work
	reading := &lane{which: r.lane.which, Reader: decode.NewReader(r.lane.Router, r.writers)}
	decode := decode.WaitForSchemas(ctx, r.writers, reading.Decode)
	var letters outbox
	room := byteLimit{limit: deadLetterBytes}
	read := 0 // table records, for creates
	err := r.lane.source.Reread(ctx, stretches, func(i int, record *kafka.Record) error {
		if ctx.Err() != nil {
			return ctx.Err() // the partitions go: no letter is sent any more
		}
		if behind[i].Apart(record.Offset) {
			return nil
		}
		decoded, err := decode(record)
		if errors.Is(err, schemas.ErrSchemaUnavailable) {
			return err
		}
		if err != nil {
			return nil //nolint:nilerr // what cannot be decoded has never been a row
		}
		reading.routed = r.lane.Router.Route(reading.routed[:0], decoded)
		for j := range reading.routed {
			routed := &reading.routed[j]
			if !loads(&imp, routed.Mapping.Name) || routed.Err != nil || !behindImport(&imp, behind[i].Partition(), routed, record.Offset) {
				continue
			}
			reason := each(routed.Mapping.Name, &routed.Write, batcher.At{Partition: i, Offset: record.Offset})
			if reason == "" {
				continue
			}
			whose := writes.Theirs
			if routed.Write.Op == schemas.Create && imp.Op == schemas.Create {
				if whose, err = r.creates.judge(ctx, &imp, behind[i].Partition(), record, &routed.Write, &read); err != nil {
					return err
				}
			}
			if whose != writes.Ours {
				if err := room.take(ctx, kafka.HeldBytes(record, 0)); err != nil {
					return err
				}
				r.bury(&letters, &room, behind[i], record, routed.Mapping, imp, reason, whose == writes.Perhaps)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return letters.wait(ctx)
}

// behindImport reports whether a write is one of those that the import stands for.
func behindImport(imp *batcher.Import, p *kafka.Partition, w *router.Routed, offset int64) bool {
	if imp.OnlyTaken { // which of these were taken, the batcher knows by their places
		return w.Lane != schemas.Batch && !w.Mapping.Fileable(&w.Write)
	}
	return w.Lane == schemas.Batch || taken(p, w, offset)
}

// taken reports whether a write that the routes give to the other lane is a row
// all the same.
func taken(p *kafka.Partition, w *router.Routed, offset int64) bool {
	return p.Shared() && w.Mapping.Fileable(&w.Write) && p.Taken(w.Mapping.Routes, offset)
}

// loads reports whether the import is one of the mapping's rows.
func loads(imp *batcher.Import, mapping string) bool {
	return slices.ContainsFunc(imp.Loads(), func(m batcher.Member) bool { return m.Mapping == mapping })
}

// bury sends the record behind a row in error to the dead-letter topic. Without
// such a topic, or if it refuses the record, the partition halts with the watermark
// at the record; the rest of the import is confirmed.
func (r records) bury(letters *outbox, room *byteLimit, c *kafka.Claim, record *kafka.Record, m *router.Compiled, imp batcher.Import, reason string, mayBeInTable bool) {
	if mayBeInTable {
		reason = writes.MayBeInTableText + ": " + reason
	}
	halt := func(why, advice string) {
		c.Refuse(record.Offset, imp.File)
		p := c.Partition()
		p.Halt("record", fmt.Sprintf("%s[%d] offset %d: mapping %s: import_row: its row was in error in execution %s. "+
			"There is no other place for the record: %s. The partition waits at it. %s, then restart feedsink: the record becomes a dead letter, "+
			"and the file is not sent again", record.Topic, record.Partition, record.Offset, m.Name, imp.Execution, why, advice))
		r.lane.log.Error("partition halted", "topic", record.Topic, "partition", record.Partition, "offset", record.Offset,
			"mapping", m.Name, "code", codeImportRow, "execution", imp.Execution, "why", why)
	}
	if r.lane.post == nil {
		room.free(kafka.HeldBytes(record, 0))
		halt(noTopic, setTopic)
		return
	}
	letters.add()
	r.lane.unacknowledged.add()
	why := deadletter.Reason{
		Stage: deadletter.Delivering, Code: codeImportRow, Message: reason,
		Mapping: m.Name, Table: m.Label, Lane: schemas.Batch.String(), Execution: imp.Execution, MayBeInTable: mayBeInTable,
	}
	r.lane.post.Send(record, why, func(err error) {
		defer letters.done()
		defer r.lane.unacknowledged.done()
		room.free(kafka.HeldBytes(record, 0))
		if err != nil {
			halt(err.Error(), openTopic)
			return
		}
		c.DeadLetter()
		r.lane.metrics.deadLetters.WithLabelValues(record.Topic, codeImportRow).Inc()
		r.lane.metrics.records.WithLabelValues(record.Topic, outcomeDeadLetter).Inc()
		r.lane.noteDeadLetter(record, why)
	})
}

// Unmatched implements batcher.Records: the row is the letter's value, its key cell
// the letter's key. The record that it came of is not known.
func (r records) Unmatched(ctx context.Context, imp batcher.Import, rows []batcher.UnmatchedRow) error {
	if r.lane.post == nil {
		return fmt.Errorf("%w: %s", batcher.ErrNoDeadLetter, noTopic)
	}
	var letters outbox
	var refused atomic.Pointer[error]
	for i := range rows {
		row := &rows[i]
		why := deadletter.Reason{
			Stage: deadletter.Delivering, Code: codeImportRow, Message: row.Reason, Mapping: row.Mapping, Table: router.LabelOf(r.lane.Router.Mappings(), tableOf(&imp, row.Mapping)),
			Lane: schemas.Batch.String(), Execution: imp.Execution,
		}
		record := &deadletter.Record{Value: row.Row, Timestamp: time.Now()}
		if row.Key != "" {
			record.Key = []byte(row.Key)
		}
		letters.add()
		r.lane.unacknowledged.add()
		r.lane.post.Send(record, why, func(err error) {
			defer r.lane.unacknowledged.done()
			defer letters.done()
			if err != nil {
				refused.Store(&err)
				return
			}
			r.lane.metrics.deadLetters.WithLabelValues("", codeImportRow).Inc()
			r.lane.recent.deadLetter(record, why)
		})
	}
	if err := letters.wait(ctx); err != nil {
		return err
	}
	if err := refused.Load(); err != nil {
		return fmt.Errorf("%w: %w", batcher.ErrNoDeadLetter, *err)
	}
	r.lane.log.Warn("rows in error that match no record became dead letters of their own; feedsink dlq list shows them",
		"file", imp.File, "execution", imp.Execution, "rows", len(rows))
	return nil
}

// tableOf is the table of one of the import's mappings.
func tableOf(imp *batcher.Import, mapping string) schemas.Table {
	for _, load := range imp.Loads() {
		if load.Mapping == mapping {
			return load.Table
		}
	}
	return imp.Table
}

// codeImportRow is the reason code of a record whose row was in error.
const codeImportRow = "import_row"
