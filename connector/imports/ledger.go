package imports

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/pacing"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// Ledger lets the batcher write an import's steps into the offset commits of
// the partitions whose records it covers.
type Ledger struct {
	*Lane
	Pacer    *pacing.Pacer
	Receipts *Receipts // nil: no receipts topic
}

// Commit implements contract.Ledger.
func (l Ledger) Commit(ctx context.Context, imp contract.Import, claims []contract.Claim) error {
	state := ack.Intended
	switch {
	case imp.Refused:
		state = ack.Refused
	case imp.Execution != "":
		state = ack.Running
		l.Receipts.running(imp)
	default:
		l.Spans.Intended(imp, Claims(claims))
	}
	return l.Source.RecordImport(ctx, entry(imp, state), l.slotPartitions(imp), Claims(claims))
}

// slotPartitions are where the imports of the tables are counted that imp loads.
func (l Ledger) slotPartitions(imp contract.Import) (all []kafka.SlotPartition) {
	for _, load := range imp.Loads() {
		t := l.Pacer.Table(load.Mapping)
		all = append(all, kafka.SlotPartition{Topic: t.Topic, Table: t.Name, At: l.Pacer.Days(load.Mapping)})
	}
	return all
}

// Reconcile implements contract.Ledger.
func (l Ledger) Reconcile(ctx context.Context, imp contract.Import, claims []contract.Claim) error {
	return l.Source.RecordImport(ctx, entry(imp, ack.Reconciling), l.slotPartitions(imp), Claims(claims))
}

// Confirm implements contract.Ledger.
func (l Ledger) Confirm(ctx context.Context, imp contract.Import, claims []contract.Claim) error {
	held := Claims(claims)
	key := imp.Table.Qualified()
	if imp.OnlyErrors {
		key = kafka.KeptKey(key, imp.File)
	}
	if err := l.Receipts.write(ctx, &imp, held); err != nil {
		return err
	}
	if err := l.Source.ConfirmImport(ctx, key, held); err != nil {
		return err
	}
	l.Receipts.confirmed(&imp)
	l.confirmed(imp, held)
	return nil
}

func (l Ledger) confirmed(imp contract.Import, held []*kafka.Claim) {
	now, trace := time.Now(), l.Spans.TraceOf(imp)
	for _, c := range held {
		for _, m := range l.Router.TopicMappings(c.Topic()) {
			if loads(&imp, m.Name) {
				c.EachTimestamp(func(at time.Time, n int64) { l.Metrics.Delivered(m.Name, schemas.Batch, now.Sub(at), n, trace) })
			}
		}
		c.EachTimestampOf(func(kind any, at time.Time, n int64) {
			if o, ok := kind.(*router.Objective); ok && loads(&imp, o.Mapping) {
				l.Metrics.Judged(o, now.Sub(at), n)
			}
		})
		l.Metrics.RecordsEnded(c.Topic(), observe.OutcomeConfirmed, max(c.Records()-c.Dead()-c.Refused(), 0))
	}
}

// SetApart implements contract.Ledger.
func (l Ledger) SetApart(ctx context.Context, imp contract.Import, claims []contract.Claim, apart, again func(contract.Partition) bool) (left bool, err error) {
	held := Claims(claims)
	of := func(which func(contract.Partition) bool) func(*kafka.Partition) bool {
		return func(p *kafka.Partition) bool { return which(Partition{p}) }
	}
	leaves := slices.ContainsFunc(held, func(c *kafka.Claim) bool { return of(apart)(c.Partition()) })
	if err := l.Receipts.write(ctx, &imp, slices.DeleteFunc(slices.Clone(held), func(c *kafka.Claim) bool {
		return of(apart)(c.Partition()) || leaves && of(again)(c.Partition())
	})); err != nil {
		return false, err
	}
	left, err = l.Source.SetApart(ctx, entry(imp, ack.SetApart), held, of(apart), of(again))
	if err != nil {
		return false, err
	}
	l.Receipts.confirmed(&imp)
	l.confirmed(imp, slices.DeleteFunc(held, func(c *kafka.Claim) bool {
		return left && (of(apart)(c.Partition()) || of(again)(c.Partition()))
	}))
	return left, nil
}

// Unread implements contract.Ledger.
func (l Ledger) Unread(ctx context.Context, _ contract.Import, ends map[contract.Partition]int64) error {
	unread := make(map[*kafka.Partition]int64, len(ends))
	for p, end := range ends {
		if a, ok := p.(Partition); ok {
			unread[a.Partition] = end
		}
	}
	return l.Source.WriteAgain(ctx, unread)
}

// StartOver implements contract.Ledger.
func (l Ledger) StartOver(ctx context.Context, imp contract.Import, claims []contract.Claim) error {
	state := ack.Rebuild
	if imp.Refused { // built again, it waits for a person
		state = ack.Refused
	}
	return l.Source.StartOver(ctx, entry(imp, state), Claims(claims), imp.Rerouted)
}

func entry(imp contract.Import, state ack.State) ack.Import {
	return ack.Import{
		State: state, Table: imp.Table.Qualified(), Mode: imp.Mode, File: imp.File, Execution: imp.Execution,
		Fingerprint: imp.Fingerprint, Part: imp.Part, Parts: imp.Parts, Attempt: imp.Attempt,
	}
}

// Partition lets the batcher hold records of a partition.
type Partition struct{ *kafka.Partition }

// PartitionOf is the partition as the batcher knows it.
func PartitionOf(p *kafka.Partition) Partition { return Partition{p} }

var _ contract.Partition = Partition{}

// String is topic[partition].
func (a Partition) String() string { return fmt.Sprintf("%s[%d]", a.Topic, a.ID) }

// Halted is why the partition is halted.
func (a Partition) Halted() string {
	st, _ := a.Status()
	return strings.Join(st.Halted, "; ")
}

// Waits is what of the other lane the partition's records wait for.
func (a Partition) Waits() string {
	st, _ := a.Status()
	return st.Waiting
}

// Claim implements contract.Partition.
func (a Partition) Claim(offset int64) contract.Claim { return a.Partition.Claim(offset) }

// Claims gives the claims back as what Partition made them.
func Claims(claims []contract.Claim) []*kafka.Claim {
	out := make([]*kafka.Claim, len(claims))
	for i, c := range claims {
		out[i] = c.(*kafka.Claim)
	}
	return out
}
