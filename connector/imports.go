package connector

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/service"
)

// importer gives the batcher operations 10, 11 and 12.
type importer struct {
	client  *service.Client
	service *calls.Service            // what calls and imports know of the service together
	zones   map[string]*time.Location // by ETL: the calendar its table's slots follow
	leased  func() bool               // whether the table can be nobody else's by now
	spans   lineage
}

// errNotLeased stops a trigger whose intent was committed, but so long ago that
// another member may have taken the import up. The next commit tells.
var errNotLeased batcher.Failure = notLeased{}

type notLeased struct{}

func (notLeased) Error() string {
	return "not sent: the consumer group has not answered for so long that the table may be another member's"
}
func (notLeased) Transient() bool           { return true }
func (notLeased) RetryAfter() time.Duration { return 0 }
func (notLeased) Unknown() bool             { return false }
func (notLeased) NoSlot() bool              { return false }
func (notLeased) Reason() string            { return "" }
func (notLeased) Cause() string             { return "" }

func (i importer) Trigger(ctx context.Context, etl, name string, open func() (io.ReadCloser, int64, error)) (string, error) {
	if !i.leased() {
		return "", errNotLeased
	}
	file := service.File{Name: name, ContentType: contentType(name), Open: open}
	return request(i.service, func() (string, error) {
		ctx, call := i.spans.trigger(ctx, name)
		execution, err := i.client.Trigger(ctx, etl, file, i.zones[etl])
		call.End(err, statusOf(err))
		return execution.ID, err
	})
}

func contentType(name string) string {
	switch filepath.Ext(name) {
	case ".gz":
		return "application/gzip"
	case ".zip":
		return "application/zip"
	}
	return "text/csv"
}

func (i importer) Results(ctx context.Context, execution string) (batcher.Results, error) {
	r, err := request(i.service, func() (service.Results, error) { return i.client.Results(ctx, execution) })
	if err != nil {
		return batcher.Results{}, err
	}
	c := r.Counters
	inError := c.InError // Unsaid: only the output files tell
	if r.Status != service.Finished {
		inError = 0
	}
	return batcher.Results{
		Status: batcher.Status(r.Status), Reason: r.Error, Cause: r.Cause(), SameAgain: r.FileAtFault(),
		Read: max(c.Read, 0), InError: inError,
		Inserted: max(c.Inserted, 0), Updated: max(c.Updated, 0), Deleted: max(c.Deleted, 0),
	}, nil
}

func (i importer) OutputFiles(ctx context.Context, execution string, w io.Writer) error {
	_, err := request(i.service, func() (service.Output, error) { return i.client.OutputFiles(ctx, execution, w) })
	return err
}

// ledger lets the batcher write an import's steps into the offset commits of
// the partitions whose records it covers.
type ledger struct {
	lane   *lane
	pacing *pacing
}

func (l ledger) Commit(ctx context.Context, imp batcher.Import, claims []batcher.Claim) error {
	state := ack.Intended
	switch {
	case imp.Refused:
		state = ack.Refused
	case imp.Execution != "":
		state = ack.Running
		for _, load := range imp.Loads() {
			l.pacing.answered(load.Mapping)
		}
	default:
		l.lane.tracing.intended(imp, own(claims))
	}
	return l.lane.source.RecordImport(ctx, entry(imp, state), l.slotPartitions(imp), own(claims))
}

// slotPartitions are where the imports of the tables are counted that imp loads.
func (l ledger) slotPartitions(imp batcher.Import) (homes []kafka.SlotPartition) {
	for _, load := range imp.Loads() {
		t := l.pacing.tables[load.Mapping]
		homes = append(homes, kafka.SlotPartition{Topic: t.slotTopic, Table: t.table, At: l.pacing.days(load.Mapping)})
	}
	return homes
}

func (l ledger) Reconcile(ctx context.Context, imp batcher.Import, claims []batcher.Claim) error {
	return l.lane.source.RecordImport(ctx, entry(imp, ack.Settling), l.slotPartitions(imp), own(claims))
}

func (l ledger) Confirm(ctx context.Context, imp batcher.Import, claims []batcher.Claim) error {
	held := own(claims)
	key := imp.Table.Qualified()
	if imp.OnlyErrors {
		key = kafka.KeptKey(key, imp.File)
	}
	if err := l.lane.source.ConfirmImport(ctx, key, held); err != nil {
		return err
	}
	l.confirmed(held)
	return nil
}

func (l ledger) confirmed(held []*kafka.Claim) {
	for _, c := range held {
		l.lane.metrics.records.WithLabelValues(c.Topic(), outcomeConfirmed).Add(float64(max(c.Records()-c.Dead()-c.Refused(), 0)))
	}
}

func (l ledger) SetApart(ctx context.Context, imp batcher.Import, claims []batcher.Claim, apart, again func(batcher.Partition) bool) (left bool, err error) {
	held := own(claims)
	of := func(which func(batcher.Partition) bool) func(*kafka.Partition) bool {
		return func(p *kafka.Partition) bool { return which(assignment{p}) }
	}
	left, err = l.lane.source.SetApart(ctx, entry(imp, ack.SetApart), held, of(apart), of(again))
	if err != nil {
		return false, err
	}
	l.confirmed(slices.DeleteFunc(held, func(c *kafka.Claim) bool {
		return left && (of(apart)(c.Partition()) || of(again)(c.Partition()))
	}))
	return left, nil
}

// Unread implements batcher.Ledger.
func (l ledger) Unread(ctx context.Context, _ batcher.Import, ends map[batcher.Partition]int64) error {
	unread := make(map[*kafka.Partition]int64, len(ends))
	for p, end := range ends {
		if a, ok := p.(assignment); ok {
			unread[a.Partition] = end
		}
	}
	return l.lane.source.WriteAgain(ctx, unread)
}

func (l ledger) StartOver(ctx context.Context, imp batcher.Import, claims []batcher.Claim) error {
	state := ack.Rebuild
	if imp.Refused { // built again, it waits for a person
		state = ack.Refused
	}
	return l.lane.source.StartOver(ctx, entry(imp, state), own(claims))
}

func entry(imp batcher.Import, state ack.State) ack.Import {
	return ack.Import{
		State: state, Table: imp.Table.Qualified(), Mode: imp.Mode, File: imp.File, Execution: imp.Execution,
		Fingerprint: imp.Fingerprint, Part: imp.Part, Parts: imp.Parts, Attempt: imp.Attempt,
	}
}

// assignment lets the batcher hold records of a partition.
type assignment struct{ *kafka.Partition }

var _ batcher.Named = assignment{}

func (a assignment) String() string { return fmt.Sprintf("%s[%d]", a.Topic, a.ID) }

// Halted is why the partition is halted.
func (a assignment) Halted() string {
	st, _ := a.Status()
	return strings.Join(st.Halted, "; ")
}

// Waits is what of the other lane the partition's records wait for.
func (a assignment) Waits() string {
	st, _ := a.Status()
	return st.Waiting
}

func (a assignment) Claim(offset int64) batcher.Claim { return a.Partition.Claim(offset) }

// own gives the claims back as what assignment made them.
func own(claims []batcher.Claim) []*kafka.Claim {
	out := make([]*kafka.Claim, len(claims))
	for i, c := range claims {
		out[i], _ = c.(*kafka.Claim)
	}
	return out
}
