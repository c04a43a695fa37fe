package connector

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// shared is the topics of mappings with both lanes.
func shared(mappings []*router.Compiled) map[string]bool {
	topics := map[string]bool{}
	for _, m := range mappings {
		if m.DualLane() {
			for _, topic := range m.Config.Topics {
				topics[topic] = true
			}
		}
	}
	return topics
}

func (f *fileDelivery) follows(topic string) bool { return f.shared[topic] }

// observe shows the files what is not theirs to write: writes of the other lane,
// and rows that were confirmed before a restart.
func (f *fileDelivery) observe(p *kafka.Partition, r *kafka.Record, routed []router.Routed, done bool) error {
	for i := range routed {
		w := &routed[i]
		switch {
		case w.Err != nil || !w.Mapping.DualLane():
		case w.Lane == schemas.Immediate:
			if err := f.files.Other(w.Mapping.Name, w.Write, assignment{p}, r.Offset); errors.Is(err, batcher.ErrBusy) {
				return err // soon it is not
			} else if err != nil {
				return f.noRoom(w.Mapping.Name, r, err)
			}
		case done:
			f.files.Landed(w.Mapping.Name, w.Write, assignment{p}, r.Offset)
		}
	}
	return nil
}

// peer lets the batcher see what the immediate lane, which may be another
// process, has done, and reconcile keys by calls of its own.
type peer struct {
	source *kafka.Source
	topics map[string][]string // by mapping
	keys   map[string]string   // the unique key's name, by mapping
	calls  *calls.Lane         // nil: no mapping uses both lanes
	mu     sync.RWMutex        // no call is queued while those of a table are dropped
}

func (p *peer) Look(ctx context.Context) error { return p.source.LookAtOther(ctx) }

func (p *peer) Confirmed(at batcher.Partition, offset int64) bool {
	a, ok := at.(assignment)
	return ok && a.OtherConfirmed(offset)
}

// Halted implements batcher.Peer.
func (p *peer) Halted(at batcher.Partition) bool {
	a, ok := at.(assignment)
	return ok && a.OtherHalted()
}

func (p *peer) Ends(ctx context.Context, mapping string) (map[batcher.Partition]int64, error) {
	ends, err := p.source.Ends(ctx, p.topics[mapping])
	out := make(map[batcher.Partition]int64, len(ends))
	for partition, end := range ends {
		out[assignment{partition}] = end
	}
	return out, err
}

// errNoID says that a write of a profile can only be a row.
var errNoID = errors.New("the profile's id is not known, which its call needs")

// Apply implements batcher.Peer.
func (p *peer) Apply(ctx context.Context, mapping string, all []schemas.Write) (nothing []int, err error) {
	for _, w := range all {
		if !w.Table.Custom && w.Op != schemas.Upsert && (w.ProfileID == "" || w.Op == schemas.Merge) {
			return nil, errNoID
		}
	}
	for i, w := range all {
		a := &answer{mapping: mapping}
		err := p.call(ctx, w, a)
		switch {
		case ctx.Err() != nil:
			return nothing, ctx.Err()
		case err == nil && a.absent && w.Op == schemas.Delete && !w.Table.Custom && i == len(all)-1:
			return nothing, p.deleteAnew(ctx, mapping, w)
		case err != nil && !void(&w, err):
			return nothing, err
		case err != nil:
			nothing = append(nothing, i)
		}
	}
	return nothing, nil
}

// call makes one call and returns how it ended.
func (p *peer) call(ctx context.Context, w schemas.Write, a *answer) error {
	a.result = make(chan error, 1)
	if err := p.submit(ctx, calls.Item{Mapping: a.mapping, Write: w, Origin: a}); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		// A call in flight is bounded by itself; who ends the import waits for this.
		_ = p.calls.Drop(context.WithoutCancel(ctx), func(o calls.Origin) bool { return o == a })
		return ctx.Err()
	case err := <-a.result:
		return err
	}
}

// deleteAnew deletes a profile whose id is not the one that its newest record names: a
// file may have made it anew. An upsert of the key alone tells the id, and makes the
// profile where there is none; a crash in between finds the import unconfirmed, and
// all of it is done again. ErrMadeAnew says that the profile may be there all the same.
func (p *peer) deleteAnew(ctx context.Context, mapping string, w schemas.Write) error {
	key := p.keys[mapping]
	if key == "" {
		return batcher.ErrMadeAnew
	}
	named := w
	named.ProfileID, named.Op, named.Cells = "", schemas.Upsert, []schemas.Cell{{Place: &schemas.Place{Section: schemas.Attributes, Name: key}, Value: schemas.StringValue(w.Key)}}
	a := &answer{mapping: mapping, names: true}
	err := p.call(ctx, named, a)
	if err == nil && a.id != "" {
		w.ProfileID = a.id
		err = p.call(ctx, w, &answer{mapping: mapping})
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil, a.id == "", a.unsure: // a call without an answer may make it once more
		return batcher.ErrMadeAnew
	}
	return nil
}

// tellID makes the call that tells a profile's id.
func (c laneCalls) tellID(ctx context.Context, w *schemas.Write, retried bool, a *answer) error {
	ref, err := c.Client.UpsertProfile(ctx, w.Table.Name, (*writes.ProfileBody)(w))
	if a.unsure = a.unsure || retried; err == nil {
		a.id = ref.ID()
	}
	return err
}

// submit queues a call, unless ctx has ended.
func (p *peer) submit(ctx context.Context, it calls.Item) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	p.calls.Submit(it)
	return nil
}

// release drops the calls that wait for mappings whose imports were ended, and
// waits for those in flight: the tables' next owner must not be overtaken by
// one. Once it has begun, none starts.
func (p *peer) release(ctx context.Context, mappings []string) error {
	if p == nil || p.calls == nil {
		return nil // no key is written by both lanes
	}
	of := func(o calls.Origin) bool {
		a, ok := o.(*answer)
		return ok && slices.Contains(mappings, a.mapping)
	}
	now, end := context.WithCancel(ctx)
	end()
	p.mu.Lock()
	_ = p.calls.Drop(now, of) // waits for nothing
	p.mu.Unlock()
	return p.calls.Drop(ctx, of)
}

// void reports whether a refusal says that the write changes nothing: a patch of
// what is not there, a create of what is.
func void(w *schemas.Write, err error) bool {
	e, ok := errors.AsType[*service.Error](err)
	return ok && (w.Op == schemas.Patch && e.Kind() == service.NotFound || w.Op == schemas.Create && e.Kind() == service.Conflict)
}

// answer is the origin of a write that somebody waits for.
type answer struct {
	mapping string
	result  chan error
	names   bool // the call is to tell a profile's id
	// Read after result:
	absent bool   // there was nothing to delete
	id     string // the profile's, if it was told
	unsure bool   // an attempt before the last came to no answer
}

// Confirm implements calls.Origin.
func (a *answer) Confirm(outcome calls.Outcome) {
	a.absent = outcome == calls.AbsentAlready
	a.result <- nil
}

// Reject implements calls.Origin.
func (a *answer) Reject(err error) { a.result <- err }

// Premature reports whether the answer that there is nothing to patch, or a record
// already where one is to be created, may be due to a row that is still on its way
// in a file: the write is tried again until the batch lane has confirmed what came
// before it, or has loaded it, and then a few times more.
func (p *part) Premature() bool {
	switch {
	case p.op != schemas.Patch && p.op != schemas.Create || !p.mapping.DualLane():
		return false
	case p.passed < lastTries:
	case p.awaitsReconciling():
		p.passed = 1 // a few times behind that, too
	default:
		return false
	}
	if p.passed > 0 || p.partition.OtherPassed(ledgerTable(p.mapping), p.entry.Offset()) {
		p.passed++
	}
	return true
}

// lastTries are the tries of a write that the batch lane has passed. One alone could fall
// between the two calls by which that lane deletes and writes a row to bring its newest
// state.
const lastTries = 3

// longestReconciling bounds how long a patch waits for the batch lane's reconciling.
const longestReconciling = time.Minute

// awaitsReconciling reports whether the batch lane reconciles keys of an import that covers
// the patch, and the log has a row for it: an older delete of this lane has landed behind the
// file, and that lane brings the row back, even where it waits for the patch.
func (p *part) awaitsReconciling() bool {
	if p.op != schemas.Patch || !p.partition.OtherReconciles(ledgerTable(p.mapping), p.entry.Offset(), math.MaxInt64) {
		return false
	}
	if p.asked == nil {
		if p.asked = p.lane.missing.ask(p); p.asked == nil {
			return false
		}
	}
	return p.lane.missing.mayFind(p.asked) && time.Since(p.asked.since) < longestReconciling
}

var _ calls.Premature = (*part)(nil)

// mappingTopics is the topics of each mapping with both lanes.
func mappingTopics(mappings []*router.Compiled) map[string][]string {
	topics := map[string][]string{}
	for _, m := range mappings {
		if m.DualLane() {
			topics[m.Name] = slices.Clone(m.Config.Topics)
		}
	}
	return topics
}

// keyNames is the unique key of each mapping with both lanes.
func keyNames(mappings []*router.Compiled) map[string]string {
	names := map[string]string{}
	for _, m := range mappings {
		if m.DualLane() {
			names[m.Name] = m.KeyName
		}
	}
	return names
}
