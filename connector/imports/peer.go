package imports

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// Peer lets the batcher see what the immediate lane, which may be another
// process, has done, and reconcile keys by calls of its own.
type Peer struct {
	source *kafka.Source
	topics map[string][]string // by mapping
	keys   map[string]string   // the unique key's name, by mapping
	calls  *calls.Lane         // nil: no mapping uses both lanes
	mu     sync.RWMutex        // no call is queued while those of a table are dropped
}

// NewPeer makes the peer of the mappings with both lanes. calls are for them alone; nil if
// there are none.
func NewPeer(source *kafka.Source, mappings []*router.Compiled, calls *calls.Lane) *Peer {
	p := &Peer{source: source, calls: calls, topics: map[string][]string{}, keys: map[string]string{}}
	for _, m := range mappings {
		if m.DualLane() {
			p.topics[m.Name], p.keys[m.Name] = m.Config.Topics, m.KeyName
		}
	}
	return p
}

// Waits are what holds the calls back.
func (p *Peer) Waits() []calls.Wait {
	if p.calls == nil {
		return nil
	}
	return p.calls.Waits()
}

// Run makes the calls until ctx ends.
func (p *Peer) Run(ctx context.Context) error {
	if p.calls == nil {
		return nil
	}
	return p.calls.Run(ctx)
}

// Look implements contract.Peer.
func (p *Peer) Look(ctx context.Context) error { return p.source.LookAtOther(ctx) }

// Confirmed implements contract.Peer.
func (p *Peer) Confirmed(at contract.Partition, offset int64) bool {
	a, ok := at.(Partition)
	return ok && a.OtherConfirmed(offset)
}

// Refused implements contract.Peer.
func (p *Peer) Refused(at contract.Partition, offset int64) (may, is bool) {
	if a, ok := at.(Partition); ok {
		return a.OtherRefused(offset)
	}
	return false, false
}

// Halted implements contract.Peer.
func (p *Peer) Halted(at contract.Partition) bool {
	a, ok := at.(Partition)
	return ok && a.OtherHalted()
}

// Ends implements contract.Peer.
func (p *Peer) Ends(ctx context.Context, mapping string) (map[contract.Partition]int64, error) {
	ends, err := p.source.Ends(ctx, p.topics[mapping])
	out := make(map[contract.Partition]int64, len(ends))
	for partition, end := range ends {
		out[PartitionOf(partition)] = end
	}
	return out, err
}

// errNoID says that a write of a profile can only be a row.
var errNoID = errors.New("the profile's id is not known, which its call needs")

// Apply implements contract.Peer.
func (p *Peer) Apply(ctx context.Context, mapping string, all []schemas.Write) (nothing []int, err error) {
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
func (p *Peer) call(ctx context.Context, w schemas.Write, a *answer) error {
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
func (p *Peer) deleteAnew(ctx context.Context, mapping string, w schemas.Write) error {
	key := p.keys[mapping]
	if key == "" {
		return contract.ErrMadeAnew
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
		return contract.ErrMadeAnew
	}
	return nil
}

// submit queues a call, unless ctx has ended.
func (p *Peer) submit(ctx context.Context, it calls.Item) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	p.calls.Submit(it)
	return nil
}

// Release drops the calls that wait for mappings whose imports were ended, and
// waits for those in flight: the tables' next owner must not be overtaken by
// one. Once it has begun, none starts.
func (p *Peer) Release(ctx context.Context, mappings []string) error {
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

// PeerCalls makes the calls of a peer.
type PeerCalls struct {
	calls.Caller
	Client *service.Client
}

// Call makes one attempt for the writes of these origins.
func (c PeerCalls) Call(ctx context.Context, w *schemas.Write, try calls.Try) error {
	if len(try.Of) == 1 { // what is sent once more for its key alone has none
		if a, ok := try.Of[0].(*answer); ok && a.names {
			return c.tellID(ctx, w, try, a)
		}
	}
	return c.Caller.Call(ctx, w, try)
}

// tellID makes the call that tells a profile's id.
func (c PeerCalls) tellID(ctx context.Context, w *schemas.Write, try calls.Try, a *answer) error {
	ref, err := c.Client.While(try.May).UpsertProfile(ctx, w.Table.Name, (*writes.ProfileBody)(w))
	if a.unsure = a.unsure || try.Retried; err == nil {
		a.id = ref.ID()
	}
	return err
}
