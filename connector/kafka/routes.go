package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector/ack"
)

// TopicRoutes is what the lane's configuration says of a topic.
type TopicRoutes struct {
	ack.LaneRoutes
	// Follows says that this lane must know what the other one has done: it reads
	// all that the other has not confirmed, be it below its own committed offset.
	Follows bool
}

// topic is what the configuration says of one of the lane's topics.
func (s *Source) topic(name string) TopicRoutes {
	topicOf := s.now.Load().TopicOf
	if topicOf == nil {
		return TopicRoutes{}
	}
	return topicOf(name)
}

// agreement is what a partition knows of the routes of both lanes. It is guarded
// by the partition's lock.
type agreement struct {
	TopicRoutes
	// recorded is how many looks at the other lane had begun when the broker had
	// acknowledged our routes: only a later one counts. -1: it has not.
	recorded int64
	looks    *atomic.Int64     // that have begun
	waiting  string            // what records wait for; "": nothing
	running  map[string]string // execution by file: imports of the other lane that are waited for, "" while it is not known
	// redo says that what is confirmed beyond the watermark is done again: it may have
	// been left to the other lane before a file of former routes overwrote it.
	redo  bool
	since time.Time // when it was first asked whether the other lane has let go
}

// Decide says what is to be done with a write that the lane's routes give to the
// other lane; fingerprint is of its mapping's routes.
func (p *Partition) Decide(fingerprint uint64, offset int64) ack.Decision {
	there, number := p.other.at(p.Topic, p.ID)
	p.mu.Lock()
	defer p.mu.Unlock()
	decision, looked := p.decision(&there.View, number, fingerprint, offset)
	switch decision {
	case ack.Wait:
		notify(p.other.wanted)
		p.routes.waiting = p.other.differs(&there.View, looked)
	case ack.Leave:
		p.ledger.Routes.Passed = true
		p.routes.waiting = ""
	case ack.Take:
		p.routes.waiting = ""
	}
	return decision
}

// Takes reports whether such a write, which is behind by now, is this lane's. Other
// than Decide it makes no record wait.
func (p *Partition) Takes(fingerprint uint64, offset int64) bool {
	there, number := p.other.at(p.Topic, p.ID)
	p.mu.Lock()
	defer p.mu.Unlock()
	decision, _ := p.decision(&there.View, number, fingerprint, offset)
	return decision == ack.Take
}

// decision is what a look at the other lane says; looked is false if it was made
// before our routes were on record. The caller holds mu.
func (p *Partition) decision(v *ack.View, number int64, fingerprint uint64, offset int64) (d ack.Decision, looked bool) {
	if p.routes.recorded < 0 || number <= p.routes.recorded {
		return ack.Wait, false
	}
	return p.ledger.Routes.Decide(v, fingerprint, offset), true
}

// DecideAll is Decide for a record that is no mapping's before it is decoded.
func (p *Partition) DecideAll(offset int64) (decision ack.Decision) {
	decision = ack.Leave
	for _, f := range p.routes.Fingerprints {
		switch p.Decide(f, offset) {
		case ack.Wait:
			return ack.Wait
		case ack.Take:
			decision = ack.Take
		}
	}
	return decision
}

// Shared reports whether the other lane reads the topic, too.
func (p *Partition) Shared() bool { return p.routes.Shared }

// Resends reports whether writes of the other lane are to be written again, as a
// file of former routes may have overwritten them.
func (p *Partition) Resends(offset int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return offset < p.ledger.Routes.Resend
}

// differs says why records wait for the other lane; "" while it is only about to
// be looked at.
func (o *otherLane) differs(v *ack.View, looked bool) string {
	switch {
	case !looked && o.unreadable.Load():
		return fmt.Sprintf("what group %s has committed cannot be read; it is tried again: the log says why", o.group)
	case !looked:
		return ""
	case !v.Committed:
		return fmt.Sprintf("group %s has committed nothing of this partition: start that lane with this configuration", o.group)
	case v.Routes.Known():
		return fmt.Sprintf("group %s has applied other routes since %s: give both lanes the same configuration",
			o.group, time.UnixMilli(v.Routes.Changed).UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("group %s does not say which routes it applies: start that lane with this version and configuration", o.group)
}

// takenWrites are what was decided in this assignment about writes that the routes
// give to the other lane. The other lane may take new routes while the file of a
// write that was taken is on its way: what it shows then does not tell any more whose
// the write was.
type takenWrites struct {
	some atomic.Bool // any was taken

	mu sync.Mutex
	by map[uint64]*takenRanges // by the fingerprint of the mapping's routes
}

// takenRanges are the offsets between the first and the last of some writes that were
// taken one after the other. What a stretch has between them was not asked about.
type takenRanges struct {
	ack.Ranges
	open bool // the last write asked about was taken
}

// Took notes that a write which the routes give to the other lane was taken.
func (p *Partition) Took(fingerprint uint64, offset int64) {
	t := &p.taken
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by == nil {
		t.by = map[uint64]*takenRanges{}
	}
	s := t.by[fingerprint]
	if s == nil {
		s = &takenRanges{}
		t.by[fingerprint] = s
	}
	from := offset
	if n := len(s.Ranges); n > 0 && s.open {
		from = min(from, s.Ranges[n-1].To)
	}
	s.Ranges, s.open = s.Add(ack.Range{From: from, To: offset + 1}), true
	t.some.Store(true)
}

// Left notes that such a write was left to the other lane.
func (p *Partition) Left(fingerprint uint64, offset int64) {
	t := &p.taken
	if !t.some.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.by[fingerprint]; s != nil {
		s.Ranges, s.open = s.Remove(ack.Range{From: offset, To: offset + 1}), false // taken before, and offered again
	}
}

// Taken reports whether such a write, which is behind by now, is this lane's: as was
// decided in this assignment, or else as would be now.
func (p *Partition) Taken(fingerprint uint64, offset int64) bool {
	t := &p.taken
	t.mu.Lock()
	s := t.by[fingerprint]
	noted := s != nil && s.Contains(offset)
	t.mu.Unlock()
	return noted || !p.decidedHere(offset) && p.Takes(fingerprint, offset)
}

// decidedHere reports whether the record was decided about in this assignment.
func (p *Partition) decidedHere(offset int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return offset >= p.first && offset < p.read
}

// resume decides from the ledgers of both lanes how the partition begins.
func (s *Source) resume(p *Partition, committed bool, at int64, ledger *ack.Ledger) ack.Resumption {
	there, _ := s.other.at(p.Topic, p.ID)
	now := time.Now().UnixMilli()
	if !committed {
		return p.routes.Begin(at, &there.View, now)
	}
	return p.routes.Resume(at, ledger, &there.View, now)
}

// follow looks at the other lane for the partitions that depend on it.
func (s *Source) follow(ctx context.Context) {
	looking, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	if err := s.LookAtOther(looking); err != nil {
		if ctx.Err() == nil {
			s.log.Warn("the other lane's committed offsets cannot be read; trying again", "of", s.cfg.Other, "error", err)
		}
		return
	}
	var outdated, held []*Partition
	for _, p := range s.Partitions() {
		there, number := s.other.at(p.Topic, p.ID)
		p.holdApart()
		switch old, waits := p.compare(&there.View, number); {
		case old:
			outdated = append(outdated, p)
		case waits:
			held = append(held, p)
		case p.withheld().has(awaitsLane):
			notify(s.other.wanted) // it is about to be on record that it does
		}
	}
	if len(held) > 0 {
		outdated = append(outdated, s.awaitOther(looking, held)...)
	}
	s.perTopic(outdated, "the other lane has changed its routes; reading again what it had not confirmed before", "of", s.cfg.Other)
	if len(outdated) > 0 {
		s.ReadAgain(outdated)
	}
}

// compare takes notice of what was seen of the other lane. One that waits until that
// has let go looks for its members once it is on record itself that it does.
func (p *Partition) compare(v *ack.View, number int64) (outdated, held bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != reading || p.causes.has(readAgain) {
		return false, false
	}
	if p.ledger.Routes.Outdated(&p.routes.LaneRoutes, v) {
		return true, false
	}
	p.ledger.Routes.Notice(&p.routes.LaneRoutes, v)
	return false, p.ledger.Routes.Hold && p.routes.recorded >= 0 && number > p.routes.recorded
}

// awaitOther lets the partitions go on that the other lane has let go of: it shares
// them again, or, where some mapping does not use it any more, it applies the same
// routes or no member has the partition, and no import of it runs. It returns those
// that have to be read again before.
func (s *Source) awaitOther(ctx context.Context, held []*Partition) (again []*Partition) {
	owned, err := s.ownedByOther(ctx)
	if err != nil {
		s.log.Warn("the members of the other lane cannot be seen; trying again", "of", s.cfg.Other, "error", err)
		for _, p := range held {
			p.waitFor(fmt.Sprintf("the members of group %s, which a mapping of this topic does not use any more, cannot be seen; "+
				"it is tried again: the log says why", s.cfg.Other))
		}
		return nil
	}
	if err := s.LookAtOther(ctx); err != nil { // what members committed that are gone by now
		return nil
	}
	var goingOn []*Partition
	for _, p := range held {
		other, _ := s.other.at(p.Topic, p.ID)
		if p.routes.Awaits(&other.View, owned(p)) {
			p.waitFor(s.awaited(p, &other.View))
			continue
		}
		if file := s.stillRunning(ctx, p, other.imports); file != "" {
			p.waitFor(fmt.Sprintf("the import of %s, sent by group %s under the former routes, has not ended", file, s.cfg.Other))
			continue
		}
		ok, waited := p.goOn(&other.View)
		if !ok {
			again = append(again, p)
		}
		if waited {
			goingOn = append(goingOn, p)
		}
	}
	s.perTopic(goingOn, "the other lane has let go of partitions; reading goes on", "of", s.cfg.Other)
	return again
}

// perTopic logs one line for each topic of the partitions.
func (s *Source) perTopic(ps []*Partition, message string, attrs ...any) {
	ids := map[string][]int32{}
	for _, p := range ps {
		ids[p.Topic] = append(ids[p.Topic], p.ID)
	}
	for _, topic := range slices.Sorted(maps.Keys(ids)) {
		slices.Sort(ids[topic])
		s.log.Info(message, slices.Concat(attrs, []any{"topic", topic, "partitions", ids[topic]})...)
	}
}

// awaited says what of the other lane the partition waits for.
func (s *Source) awaited(p *Partition, v *ack.View) string {
	if p.routes.Shared && v.Alone() {
		return fmt.Sprintf("group %s takes all records of the partition since %s, as no mapping of its configuration uses this lane: "+
			"give both lanes the same configuration", s.cfg.Other, time.UnixMilli(v.Routes.Changed).UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("group %s, which a mapping of this topic does not use any more, still owns the partition: "+
		"give both lanes the same configuration", s.cfg.Other)
}

// ownedByOther tells which partitions members of the other group own.
func (s *Source) ownedByOther(ctx context.Context) (func(*Partition) bool, error) {
	described, err := s.admin.DescribeGroups(ctx, s.cfg.Other)
	if err == nil {
		err = described.Error()
	}
	group := described[s.cfg.Other]
	switch {
	case errors.Is(err, kerr.GroupIDNotFound) || err == nil && len(group.Members) == 0:
		return func(*Partition) bool { return false }, nil
	case err != nil:
		return nil, err
	case group.State != "Stable": // partitions are on their way from one member to another
		return func(*Partition) bool { return true }, nil
	}
	return func(p *Partition) bool {
		return slices.ContainsFunc(group.Members, func(m kadm.DescribedGroupMember) bool {
			assigned, ok := m.Assigned.AsConsumer()
			return ok && slices.ContainsFunc(assigned.Topics, func(t kmsg.ConsumerMemberAssignmentTopic) bool {
				return t.Topic == p.Topic && slices.Contains(t.Partitions, p.ID)
			})
		})
	}, nil
}

// stillRunning names the file of an import of the other lane that may not have
// ended; "": there is none. One whose execution is not known has, once a request
// of that time has ended.
func (s *Source) stillRunning(ctx context.Context, p *Partition, imports []ack.Import) string {
	if len(p.routes.Alone) == 0 {
		return "" // the other lane sees to it: what it sent before it shared the partition is written again
	}
	p.mu.Lock()
	if p.routes.running == nil {
		p.routes.running, p.routes.since = map[string]string{}, time.Now()
	}
	for _, im := range imports {
		if im.State == ack.Intended || im.State == ack.Running {
			p.routes.running[im.File] = im.Execution
		}
	}
	running, since := maps.Clone(p.routes.running), p.routes.since
	p.mu.Unlock()
	var left []string
	for file, execution := range running {
		if execution == "" && time.Since(since) < s.cfg.Grace || execution != "" && !s.ended(ctx, execution) {
			left = append(left, file)
		}
	}
	slices.Sort(left)
	return strings.Join(left, ", ")
}

func (s *Source) ended(ctx context.Context, execution string) bool {
	hasEnded := s.now.Load().Ended
	if hasEnded == nil {
		return true
	}
	ended, err := hasEnded(ctx, execution)
	if err != nil {
		s.log.Warn("the result of the other lane's import cannot be read; trying again", "execution", execution, "error", err)
	}
	return ended && err == nil
}

// WaitsFor is what of the other lane the partition's records wait for; "": nothing.
func (p *Partition) WaitsFor() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != reading {
		return ""
	}
	return p.routes.waiting
}

func (p *Partition) waitFor(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.routes.waiting = what
}

// goOn ends the time of waiting. It reports false if records have to be read again
// before: the other lane had gone back. waited says that it was for something.
func (p *Partition) goOn(v *ack.View) (ok, waited bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := &p.ledger.Routes
	if p.routes.GoesBack(p.tracker.Watermark(), own, v) {
		return false, false
	}
	waited = p.routes.waiting != ""
	p.routes.GoOn(own, v)
	p.routes.waiting, p.routes.running = "", nil
	return true, waited
}

// resend notes that writes of the other lane below the logs' present ends may be
// overwritten by a file of former routes, which has ended.
func (s *Source) resend(ctx context.Context, ps []*Partition) error {
	ends, err := s.Ends(ctx, topicsOf(ps))
	if err != nil {
		return err
	}
	for _, p := range ps {
		if p.other == nil {
			continue
		}
		p.mu.Lock()
		p.ledger.Routes.Resend, p.routes.redo = max(p.ledger.Routes.Resend, ends[p]), true
		p.mu.Unlock()
	}
	return nil
}
