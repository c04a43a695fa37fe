package imports

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/kafka/memory"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/outbox"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// Records reads the records behind rows in error from Kafka again: no list of them is
// needed.
type Records struct {
	*Lane
	Creates  *Creates
	Receipts *Receipts // nil: no receipts topic
}

// Again implements contract.Records.
func (r Records) Again(ctx context.Context, imp contract.Import, claims []contract.Claim, each contract.EachWrite) error {
	held := Claims(claims)
	stretches := kafka.Stretches(held)
	behind := claimsOf(stretches, held)
	var sent outbox.Outbox
	room := newDeadLetterRoom()
	read := 0 // table records, for creates
	// Once the partitions go, no dead letter is sent any more: ctx has ended.
	err := r.Reader().Read(ctx, stretches, EveryRecord, func(i int, record *kafka.Record, writesOf []router.Routed) (err error) {
		apart := behind[i].Apart(record.Offset) // as are the other lane's that were read before a restart
		for j := range writesOf {
			routed := &writesOf[j]
			if !loads(&imp, routed.Mapping.Name) || routed.Err != nil {
				continue
			}
			lane, ours := schemas.Batch, behindImport(&imp, behind[i].Partition(), routed, record.Offset)
			switch {
			case ours && apart, !ours && imp.OnlyTaken:
				continue
			case !ours:
				lane = schemas.Immediate
			}
			reason := each(routed.Mapping.Name, lane, &routed.Write, spool.At{Partition: i, Offset: record.Offset, Of: Partition{behind[i].Partition()}})
			if reason == "" || lane != schemas.Batch {
				continue
			}
			whose := writes.Theirs
			if routed.Write.Op == schemas.Create && imp.Op == schemas.Create {
				if whose, err = r.Creates.judge(ctx, &imp, behind[i].Partition(), record, &routed.Write, &read); err != nil {
					return err
				}
			}
			if whose != writes.Ours {
				if err := room.Acquire(ctx, roomFor(record)); err != nil {
					return err
				}
				var in Row
				if r.Receipts != nil {
					in = r.Receipts.Row(routed, record, j, len(writesOf))
				}
				r.deadLetter(&sent, room, behind[i], record, routed.Mapping, imp, reason, whose == writes.Perhaps || imp.MayBeLoaded, in)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return sent.Wait(ctx)
}

// claimsOf finds for each stretch a claim of its partition.
func claimsOf(stretches []cluster.Stretch, held []*kafka.Claim) []*kafka.Claim {
	out := make([]*kafka.Claim, len(stretches))
	for i, s := range stretches {
		for _, c := range held {
			if p := c.Partition(); p.Topic == s.Topic && p.ID == s.Partition {
				out[i] = c
			}
		}
	}
	return out
}

// deadLetterBytes is what dead letters of rows in error may take that Kafka has not
// acknowledged: their records are read again by the thousand.
const deadLetterBytes = 16 << 20

func newDeadLetterRoom() *semaphore.Weighted { return semaphore.NewWeighted(deadLetterBytes) }

// roomFor is what a record's dead letter takes of it; one that is larger goes alone.
func roomFor(r *kafka.Record) int64 { return min(memory.Held(r, 0), deadLetterBytes) }

// behindImport reports whether a write is one of those that the import stands for.
func behindImport(imp *contract.Import, p *kafka.Partition, w *router.Routed, offset int64) bool {
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
func loads(imp *contract.Import, mapping string) bool {
	return slices.ContainsFunc(imp.Loads(), func(m contract.Member) bool { return m.Mapping == mapping })
}

// deadLetter sends the record behind a row in error to the dead-letter topic. Without
// such a topic, or if it refuses the record, the partition halts with the watermark
// at the record; the rest of the import is confirmed.
func (r Records) deadLetter(sent *outbox.Outbox, room *semaphore.Weighted, c *kafka.Claim, record *kafka.Record, m *router.Compiled, imp contract.Import, reason string, mayBeInTable bool, in Row) {
	receipted := r.Receipts.rowInError(c.Partition(), in.At)
	if mayBeInTable {
		reason = deadletter.MayBeInTable + ": " + reason
	}
	halt := func(why, advice string) {
		c.Refuse(record.Offset, imp.File)
		p := c.Partition()
		p.Halt("record", fmt.Sprintf("%s[%d] offset %d: mapping %s: import_row: its row was in error in execution %s. "+
			"There is no other place for the record: %s. The partition waits at it. %s: the record becomes a dead letter, "+
			"and the file is not sent again", record.Topic, record.Partition, record.Offset, m.Name, imp.Execution, why, advice))
		r.Log.Error("partition halted", "topic", record.Topic, "partition", record.Partition, "offset", record.Offset,
			"mapping", m.Name, "code", writes.CodeImportRow, "execution", imp.Execution, "why", why)
	}
	if r.Post == nil {
		room.Release(roomFor(record))
		halt(deadletter.NoTopic, deadletter.SetTopic)
		return
	}
	sent.Add(1)
	r.Unacknowledged.Add(1)
	why := deadletter.Reason{
		Stage: deadletter.Delivering, Code: writes.CodeImportRow, Message: reason,
		Mapping: m.Name, Table: m.Label, Lane: schemas.Batch.String(), Execution: imp.Execution, MayBeInTable: mayBeInTable,
	}
	r.Post.Send(record, why, func(err error) {
		done := func() {
			r.Unacknowledged.Done(1)
			sent.Done(1)
		}
		room.Release(roomFor(record))
		if err != nil {
			halt(err.Error(), deadletter.OpenTopic(err))
			done()
			return
		}
		c.DeadLetter()
		c.Partition().Refused(record.Offset, false)
		r.Metrics.DeadLetter(record.Topic, writes.CodeImportRow)
		r.Metrics.RecordsEnded(record.Topic, observe.OutcomeDeadLetter, 1)
		r.Recent.LogDeadLetter(r.Log, record, why)
		if !receipted {
			done()
			return
		}
		r.Receipts.deadLetter(c.Partition(), in, &imp, done)
	})
}

// Unmatched implements contract.Records: the row is the dead letter's value, its key cell
// the dead letter's key. The record that it came of is not known.
func (r Records) Unmatched(ctx context.Context, imp contract.Import, rows []contract.UnmatchedRow) error {
	if r.Post == nil {
		return fmt.Errorf("%w: %s", contract.ErrNoDeadLetter, deadletter.NoTopic)
	}
	var sent outbox.Outbox
	var refused atomic.Pointer[error]
	for i := range rows {
		row := &rows[i]
		why := deadletter.Reason{
			Stage: deadletter.Delivering, Code: writes.CodeImportRow, Message: row.Reason, Mapping: row.Mapping, Table: router.LabelOf(r.Router.Mappings(), tableOf(&imp, row.Mapping)),
			Lane: schemas.Batch.String(), Execution: imp.Execution,
		}
		record := &deadletter.Record{Value: row.Row, Timestamp: time.Now()}
		if row.Key != "" {
			record.Key = []byte(row.Key)
		}
		sent.Add(1)
		r.Unacknowledged.Add(1)
		r.Post.Send(record, why, func(err error) {
			defer r.Unacknowledged.Done(1)
			defer sent.Done(1)
			if err != nil {
				refused.Store(&err)
				return
			}
			r.Metrics.DeadLetter("", writes.CodeImportRow)
			r.Recent.DeadLetter(record, why)
		})
	}
	if err := sent.Wait(ctx); err != nil {
		return err
	}
	if err := refused.Load(); err != nil {
		return fmt.Errorf("%w: %w", contract.ErrNoDeadLetter, *err)
	}
	r.Log.Warn("rows in error that match no record became dead letters of their own; feedsink dlq list shows them",
		"file", imp.File, "execution", imp.Execution, "rows", len(rows))
	return nil
}

// tableOf is the table of one of the import's mappings.
func tableOf(imp *contract.Import, mapping string) schemas.Table {
	for _, load := range imp.Loads() {
		if load.Mapping == mapping {
			return load.Table
		}
	}
	return imp.Table
}
