package connector

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// records reads the records behind rows in error from Kafka again: no list of them is
// needed.
type records struct {
	lane    *laneBase
	creates *createRows
	writers *schemas.Registry // nil: no mapping needs one

	receipts *importReceipts
}

// Again implements batcher.Records.
func (r records) Again(ctx context.Context, imp batcher.Import, claims []batcher.Claim, each batcher.EachWrite) error {
	held := own(claims)
	stretches := kafka.Stretches(held)
	behind := claimsOf(stretches, held)
	var sent outbox
	room := newDeadLetterRoom()
	read := 0 // table records, for creates
	// Once the partitions go, no dead letter is sent any more: ctx has ended.
	err := again{r.lane.source, r.lane.router, r.writers}.read(ctx, stretches, everyRecord, func(i int, record *kafka.Record, writesOf []router.Routed) (err error) {
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
			reason := each(routed.Mapping.Name, lane, &routed.Write, spool.At{Partition: i, Offset: record.Offset, Of: assignment{behind[i].Partition()}})
			if reason == "" || lane != schemas.Batch {
				continue
			}
			whose := writes.Theirs
			if routed.Write.Op == schemas.Create && imp.Op == schemas.Create {
				if whose, err = r.creates.judge(ctx, &imp, behind[i].Partition(), record, &routed.Write, &read); err != nil {
					return err
				}
			}
			if whose != writes.Ours {
				if err := room.Acquire(ctx, roomFor(record)); err != nil {
					return err
				}
				var in notedRow
				if r.receipts != nil {
					in = r.receipts.row(routed, record, j, len(writesOf))
				}
				r.deadLetter(&sent, room, behind[i], record, routed.Mapping, imp, reason, whose == writes.Perhaps, in)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return sent.wait(ctx)
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
func roomFor(r *kafka.Record) int64 { return min(kafka.HeldBytes(r, 0), deadLetterBytes) }

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

// deadLetter sends the record behind a row in error to the dead-letter topic. Without
// such a topic, or if it refuses the record, the partition halts with the watermark
// at the record; the rest of the import is confirmed.
func (r records) deadLetter(sent *outbox, room *semaphore.Weighted, c *kafka.Claim, record *kafka.Record, m *router.Compiled, imp batcher.Import, reason string, mayBeInTable bool, in notedRow) {
	receipted := r.receipts.rowInError(c.Partition(), in.rowAt)
	if mayBeInTable {
		reason = deadletter.MayBeInTable + ": " + reason
	}
	halt := func(why, advice string) {
		c.Refuse(record.Offset, imp.File)
		p := c.Partition()
		p.Halt("record", fmt.Sprintf("%s[%d] offset %d: mapping %s: import_row: its row was in error in execution %s. "+
			"There is no other place for the record: %s. The partition waits at it. %s, then restart feedsink: the record becomes a dead letter, "+
			"and the file is not sent again", record.Topic, record.Partition, record.Offset, m.Name, imp.Execution, why, advice))
		r.lane.log.Error("partition halted", "topic", record.Topic, "partition", record.Partition, "offset", record.Offset,
			"mapping", m.Name, "code", writes.CodeImportRow, "execution", imp.Execution, "why", why)
	}
	if r.lane.post == nil {
		room.Release(roomFor(record))
		halt(noTopic, setTopic)
		return
	}
	sent.add(1)
	r.lane.unacknowledged.add(1)
	why := deadletter.Reason{
		Stage: deadletter.Delivering, Code: writes.CodeImportRow, Message: reason,
		Mapping: m.Name, Table: m.Label, Lane: schemas.Batch.String(), Execution: imp.Execution, MayBeInTable: mayBeInTable,
	}
	r.lane.post.Send(record, why, func(err error) {
		done := func() {
			r.lane.unacknowledged.done(1)
			sent.done(1)
		}
		room.Release(roomFor(record))
		if err != nil {
			halt(err.Error(), openTopic)
			done()
			return
		}
		c.DeadLetter()
		r.lane.metrics.DeadLetter(record.Topic, writes.CodeImportRow)
		r.lane.metrics.RecordsEnded(record.Topic, observe.OutcomeDeadLetter, 1)
		r.lane.noteDeadLetter(record, why)
		if !receipted {
			done()
			return
		}
		r.receipts.deadLetter(c.Partition(), in, &imp, done)
	})
}

// Unmatched implements batcher.Records: the row is the dead letter's value, its key cell
// the dead letter's key. The record that it came of is not known.
func (r records) Unmatched(ctx context.Context, imp batcher.Import, rows []batcher.UnmatchedRow) error {
	if r.lane.post == nil {
		return fmt.Errorf("%w: %s", batcher.ErrNoDeadLetter, noTopic)
	}
	var sent outbox
	var refused atomic.Pointer[error]
	for i := range rows {
		row := &rows[i]
		why := deadletter.Reason{
			Stage: deadletter.Delivering, Code: writes.CodeImportRow, Message: row.Reason, Mapping: row.Mapping, Table: router.LabelOf(r.lane.router.Mappings(), tableOf(&imp, row.Mapping)),
			Lane: schemas.Batch.String(), Execution: imp.Execution,
		}
		record := &deadletter.Record{Value: row.Row, Timestamp: time.Now()}
		if row.Key != "" {
			record.Key = []byte(row.Key)
		}
		sent.add(1)
		r.lane.unacknowledged.add(1)
		r.lane.post.Send(record, why, func(err error) {
			defer r.lane.unacknowledged.done(1)
			defer sent.done(1)
			if err != nil {
				refused.Store(&err)
				return
			}
			r.lane.metrics.DeadLetter("", writes.CodeImportRow)
			r.lane.recent.DeadLetter(record, why)
		})
	}
	if err := sent.wait(ctx); err != nil {
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

// mostRead is how many records are read for the rows in error of one import. Of
// the rows behind them it is only known that they may be in the table.
const mostRead = 10_000

// createRows tells whose a record is that a row of a CREATE_ONLY file has met: the
// file may have been loaded before, by a try whose answer was lost or by a former
// owner. Records are read one after the other, within the batch lane's part of the
// rate, and not before the time that the service has named.
type createRows struct {
	writes.Operations
	service *calls.Service
	backoff retry.Backoff
	mu      sync.Mutex // several imports may have rows in error at once
	rnd     *rand.Rand
	pace    *rate.Limiter // nil: no rate is configured
	perCall func() rate.Limit
}

func newCreateRows(client *service.Client, service *calls.Service, cfg *config.Config, share func() float64, rnd *rand.Rand) *createRows {
	c := &createRows{Operations: writes.Operations{Client: client}, service: service, backoff: retry.Backoff{Initial: cfg.Retry.Initial, Max: cfg.Retry.Max}, rnd: rnd}
	if r := cfg.Service.Rate; r.Calls > 0 {
		c.pace = rate.NewLimiter(0, 1)
		c.perCall = func() rate.Limit { return rate.Limit(float64(r.Calls) / r.Per.Seconds() * share()) }
	}
	return c
}

// judge says whose the row's record is. read counts the records that were read
// for the import.
func (c *createRows) judge(ctx context.Context, imp *batcher.Import, p *kafka.Partition, r *kafka.Record, w *schemas.Write, read *int) (v writes.Verdict, err error) {
	cr := writes.Create{Written: r.Timestamp, Assigned: assignedAt(p, r), Tried: p.Assigned(), Unsure: imp.Attempt > 1}
	if !w.Table.Custom { // a profile cannot be read
		if cr.Unsure || r.Timestamp.Before(cr.Assigned) {
			return writes.Perhaps, nil
		}
		return writes.Theirs, nil
	}
	if *read++; *read > mostRead {
		return writes.Perhaps, nil
	}
	err = retry.Do(ctx, c.backoff, c.random, func(ctx context.Context) error {
		if err := c.wait(ctx); err != nil {
			return err
		}
		v, err = c.Judge(ctx, w, cr)
		c.service.Heard(err)
		return err
	}, func(err error) (bool, time.Duration) {
		e, ok := errors.AsType[*service.Error](err)
		if !ok {
			return true, 0
		}
		return e.Transient(), e.RetryAfter()
	})
	switch {
	case ctx.Err() != nil:
		return writes.Theirs, ctx.Err()
	case err != nil: // it cannot be read at all
		return writes.Perhaps, nil
	}
	return v, nil
}

func (c *createRows) random() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rnd.Float64()
}

// wait waits until the service wants calls, and for the next of the rate.
func (c *createRows) wait(ctx context.Context) error {
	for held := c.service.Held(); held > 0; held = c.service.Held() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(held):
		}
	}
	if c.pace == nil {
		return nil
	}
	c.pace.SetLimit(max(c.perCall(), slowestRate))
	return c.pace.Wait(ctx)
}

// slowestRate is for a member that has no share at present.
const slowestRate = rate.Limit(0.1)
