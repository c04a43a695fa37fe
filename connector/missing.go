package connector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/feedsink/feedsink/connector/imports"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/receipt"
	"github.com/feedsink/feedsink/connector/tables"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// A patch that finds nothing may be one that was applied before a crash and is sent
// again: the newer delete that followed it was applied then, too. Or a newer write
// of the other lane was faster. So, before such a patch is a dead letter, the log is
// read on from its record: where a newer delete, upsert of the whole profile or upsert of
// a table record that says all that the patch does has made it void, it is confirmed with
// that. For such an upsert the batch lane drops the row that was there to patch. Its key is not held up meanwhile, and no
// call is made.

const (
	// mostMissing is how many patches wait to be looked at; others are dead letters
	// at once.
	mostMissing = 1000
	// farthest is how many records behind a patch are looked at: more than a member
	// has under way.
	farthest = 20_000
	// missingEvery is how often it is looked again, while patches wait.
	missingEvery = time.Second
)

// missing are the immediate lane's patches of what was not there.
type missing struct {
	source  *kafka.Source
	router  *router.Router
	writers *schemas.Registry
	log     *slog.Logger
	wake    chan struct{}

	mu    sync.Mutex
	parts []*missed
}

// missed is one of them.
type missed struct {
	*part
	offset int64 // of its record
	write  schemas.Write
	err    error
	looked bool
	newer  *newer // nil: no newer write makes it void

	since time.Time // since when it is looked at

	asking bool // it is still tried
	there  bool // then: older writes, as far as the batch lane has not confirmed them, make a row
}

// newer is a write that makes an older one void.
type newer struct {
	offset int64
	lane   schemas.Lane
	op     schemas.Op
}

func newMissing(source *kafka.Source, r *router.Router, writers *schemas.Registry, log *slog.Logger) *missing {
	return &missing{source: source, router: r, writers: writers, log: log, wake: make(chan struct{}, 1)}
}

// take takes a part that the service has refused, if it is such a patch.
func (m *missing) take(p *part, err error) bool {
	answer, ok := errors.AsType[interface {
		error
		Status() int
	}](err)
	if m == nil || p.op != schemas.Patch || !ok || answer.Status() != http.StatusNotFound {
		return false
	}
	return m.add(&missed{part: p, err: err}) != nil
}

// ask asks whether the log has a row for a patch that is still tried, and nothing newer that makes
// it void; nil: too much is asked.
func (m *missing) ask(p *part) *missed {
	if m == nil {
		return nil
	}
	return m.add(&missed{part: p, asking: true})
}

// add has it looked at; nil: it cannot be.
func (m *missing) add(p *missed) *missed {
	r := p.record.Load()
	m.mu.Lock()
	defer m.mu.Unlock()
	if r == nil || len(m.parts) >= mostMissing {
		return nil
	}
	p.offset, p.since = r.Offset, time.Now()
	m.parts = append(m.parts, p)
	select {
	case m.wake <- struct{}{}:
	default: // it has not looked since the last one
	}
	return p
}

// mayFind is the answer to ask, and true before the log was read. What makes the patch void may
// have to wait for it in the batch lane.
func (m *missing) mayFind(asked *missed) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := asked.newer
	return !asked.looked || asked.there && (n == nil || n.lane != asked.lane.which && !asked.hasEnded(n))
}

// release forgets the patches of partitions that go.
func (m *missing) release(gone map[*kafka.Partition]bool) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.parts = slices.DeleteFunc(m.parts, func(p *missed) bool { return gone[p.partition] })
}

// run looks after the patches until ctx ends.
func (m *missing) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.wake:
		}
		for m.waiting() && ctx.Err() == nil {
			if err := m.look(ctx); err != nil && ctx.Err() == nil {
				m.log.Warn("the records behind patches of nothing could not be read; trying again", "wait", missingEvery, "error", err)
			}
			m.decide()
			select {
			case <-ctx.Done():
			case <-time.After(missingEvery):
			}
		}
	}
}

func (m *missing) waiting() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.parts) > 0
}

// decide ends the patches of which it is known what became of them.
func (m *missing) decide() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.parts = slices.DeleteFunc(m.parts, func(p *missed) bool {
		switch {
		case !p.looked:
			return false
		case p.asking:
			return true
		case p.newer != nil && p.hasEnded(p.newer) && !p.refused(p.newer):
			p.endWith(receipt.Superseded, http.StatusNotFound)
			return true
		case p.newer == nil, p.hasEnded(p.newer), p.holdsUp(p.newer):
			p.deadLetter(writes.RefusalReason(p.err), p.err)
			return true
		}
		return false
	})
}

// hasEnded reports whether the newer write is confirmed, or its file has landed. A delete of
// this lane leaves nothing of the patch whenever it lands, and is not waited for where it
// may wait for the patch.
func (p *missed) hasEnded(n *newer) bool {
	if n.lane == p.lane.which {
		ended, _ := p.partition.Ended(n.offset)
		return ended || n.op == schemas.Delete && p.holdsUp(n)
	}
	return p.partition.OtherPassed(tables.LedgerTable(p.mapping), n.offset)
}

// refused reports whether the newer write may be a dead letter: then it makes nothing void.
func (p *missed) refused(n *newer) bool {
	if n.lane == p.lane.which {
		_, refused := p.partition.Ended(n.offset)
		return refused
	}
	may, _ := p.partition.OtherRefused(n.offset)
	return may
}

// holdsUp reports whether the newer write may wait for this patch: as a row whose file
// waits for the import before it, which waits for the patch, or as a call that is not made for
// long, as it is behind another patch of the key, which waits for such a row. So it was not that
// write that left nothing to patch.
func (p *missed) holdsUp(n *newer) bool {
	if n.lane == p.lane.which && n.op != schemas.Delete && time.Since(p.since) < longestReconciling {
		return false
	}
	return p.partition.OtherReconciles(tables.LedgerTable(p.mapping), p.offset, n.offset)
}

// look reads the log from each new patch on, as far as it goes now.
func (m *missing) look(ctx context.Context) error {
	byPartition := map[*kafka.Partition][]*missed{}
	var topics []string
	m.mu.Lock()
	for _, p := range m.parts {
		if !p.looked {
			byPartition[p.partition] = append(byPartition[p.partition], p)
			topics = append(topics, p.partition.Topic)
		}
	}
	m.mu.Unlock()
	if len(byPartition) == 0 {
		return nil
	}
	slices.Sort(topics)
	ends, err := m.source.Ends(ctx, slices.Compact(topics))
	if err != nil {
		return err
	}
	for partition, parts := range byPartition {
		if err := m.lookBehind(ctx, partition, parts, ends[partition]); err != nil {
			return fmt.Errorf("%s[%d]: %w", partition.Topic, partition.ID, err)
		}
	}
	return nil
}

// lookBehind looks for newer writes of the keys of one partition's patches, and for older ones
// of those that are still tried.
func (m *missing) lookBehind(ctx context.Context, partition *kafka.Partition, parts []*missed, end int64) error {
	from, to := parts[0].offset, parts[0].offset
	at := map[int64][]*missed{}
	for _, p := range parts {
		first := p.offset
		if p.asking {
			first = max(partition.OtherWatermark(), p.offset-farthest)
		}
		from, to = min(from, first), max(to, p.offset)
		at[p.offset] = append(at[p.offset], p)
	}
	to = min(to+farthest, max(end, to+1))
	follows := newBehind()
	stretch := cluster.Stretch{TopicPartition: cluster.TopicPartition{Topic: partition.Topic, Partition: partition.ID}, Span: cluster.Span{From: from, To: to}}
	if err := (imports.Reader{Source: m.source, Router: m.router, Writers: m.writers}).Read(ctx, []cluster.Stretch{stretch}, imports.EveryRecord, func(_ int, r *kafka.Record, routed []router.Routed) error {
		for i := range routed {
			follows.take(&routed[i], r.Offset, at[r.Offset])
		}
		return nil
	}); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range parts {
		p.looked = true
	}
	for p, n := range follows.found {
		p.newer = n
	}
	for _, p := range follows.there {
		p.there = true
	}
	return nil
}

// behind finds the first write behind each patch that makes it void.
type behind struct {
	byKey map[writeKey][]*missed
	found map[*missed]*newer
	rows  map[writeKey]bool // keys that have a row by what was read so far, or by that none
	there []*missed         // that have one
}

func newBehind() behind {
	return behind{byKey: map[writeKey][]*missed{}, rows: map[writeKey]bool{}}
}

// writeKey is what a mapping's write is about.
type writeKey struct{ mapping, key, profile string }

func (b *behind) take(w *router.Routed, offset int64, patches []*missed) {
	if w.Err != nil {
		return
	}
	key := writeKey{mapping: w.Mapping.Name, key: w.Write.Key}
	if key.key == "" {
		key.profile = w.Write.ProfileID
	}
	patch := false
	for _, p := range patches { // it may be asked about, too
		if p.mapping == w.Mapping {
			if b.rows[key] {
				b.there = append(b.there, p)
			}
			p.write, _ = w.Write.Own()
			b.byKey[key] = append(b.byKey[key], p)
			patch = true
		}
	}
	if patch {
		return
	}
	if w.Lane != schemas.Immediate && w.Lane != schemas.Batch {
		return
	}
	if w.Write.Op != schemas.Patch {
		b.rows[key] = w.Write.Op != schemas.Delete
	}
	b.byKey[key] = slices.DeleteFunc(b.byKey[key], func(p *missed) bool {
		if !w.Write.Voids(&p.write) {
			return false
		}
		if b.found == nil {
			b.found = map[*missed]*newer{}
		}
		b.found[p] = &newer{offset, w.Lane, w.Write.Op}
		return true
	})
}
