package source

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
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
	if s.cfg.TopicOf == nil {
		return TopicRoutes{}
	}
	return s.cfg.TopicOf(name)
}

// agreement is what a partition knows of the routes of both lanes. It is guarded
// by the partition's lock.
type agreement struct {
	TopicRoutes
	// recorded is how many looks at the other lane had begun when the broker had
	// acknowledged our routes: only a later one counts. -1: it has not.
	recorded int64
	waiting  string            // what records wait for; "": nothing
	running  map[string]string // execution by file: imports of the other lane that are waited for, "" while it is not known
	since    time.Time         // when it was first asked whether the other lane has let go
	resends  bool              // what is confirmed beyond the watermark is forgotten with this assignment
}

// Decide says what is to be done with a write that the lane's routes give to the
// other lane; fingerprint is of its mapping's routes.
func (p *Partition) Decide(fingerprint uint64, offset int64) ack.Decision {
	view, number := p.other.look(p.Topic, p.ID)
	p.mu.Lock()
	defer p.mu.Unlock()
	decision, looked := p.decision(&view, number, fingerprint, offset)
	switch decision {
	case ack.Wait:
		p.other.wanted.Store(true)
		p.routes.waiting = p.other.differs(&view, looked)
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
	view, number := p.other.look(p.Topic, p.ID)
	p.mu.Lock()
	defer p.mu.Unlock()
	decision, _ := p.decision(&view, number, fingerprint, offset)
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
func (o *other) differs(v *ack.View, looked bool) string {
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

// resume decides from the ledgers of both lanes how the partition begins.
func (s *Source) resume(p *Partition, topic ack.TopicID, committed bool, at int64, ledger *ack.Ledger) ack.Resumption {
	view, _ := s.other.look(p.Topic, p.ID)
	if view.Committed && view.Routes.Known() && s.other.topicID(p.Topic, p.ID).Differs(topic) {
		view = ack.View{} // of an earlier topic of this name
	}
	now := time.Now().UnixMilli()
	if !committed {
		return p.routes.Begin(at, &view, now)
	}
	return p.routes.Resume(at, ledger, &view, now)
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
		view, _ := s.other.look(p.Topic, p.ID)
		p.holdApart(&view)
		switch old, waits := p.compare(&view); {
		case old:
			outdated = append(outdated, p)
		case waits:
			held = append(held, p)
		}
	}
	for _, p := range outdated {
		s.log.Info("the other lane has changed its routes; reading again what it had not confirmed before", "of", s.cfg.Other, "topic", p.Topic, "partition", p.ID)
	}
	if len(outdated) > 0 {
		s.ReadAgain(outdated)
	}
	if len(held) > 0 {
		s.awaitOther(looking, held)
	}
}

// compare takes notice of what was seen of the other lane.
func (p *Partition) compare(v *ack.View) (outdated, held bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.live || !p.loaded || p.draining {
		return false, false
	}
	if p.ledger.Routes.Outdated(&p.routes.LaneRoutes, v) {
		return true, false
	}
	p.ledger.Routes.Notice(&p.routes.LaneRoutes, v)
	return false, p.ledger.Routes.Hold
}

// awaitOther lets the partitions go on that the other lane, which some mapping
// does not use any more, has let go of: it applies the same routes or no member
// has the partition, and no import of it runs.
func (s *Source) awaitOther(ctx context.Context, held []*Partition) {
	owned, err := s.ownedByOther(ctx)
	if err != nil {
		s.log.Warn("the members of the other lane cannot be seen; trying again", "of", s.cfg.Other, "error", err)
		for _, p := range held {
			p.waitFor(fmt.Sprintf("the members of group %s, which a mapping of this topic does not use any more, cannot be seen; "+
				"it is tried again: the log says why", s.cfg.Other))
		}
		return
	}
	for _, p := range held {
		view, _ := s.other.look(p.Topic, p.ID)
		if owned(p) && !p.routes.Agrees(&view) {
			p.waitFor(fmt.Sprintf("group %s, which a mapping of this topic does not use any more, still owns the partition: "+
				"give both lanes the same configuration", s.cfg.Other))
			continue
		}
		if file := s.stillRunning(ctx, p, s.other.imports(p.Topic, p.ID)); file != "" {
			p.waitFor(fmt.Sprintf("the import of %s, sent by group %s under the former routes, has not ended", file, s.cfg.Other))
			continue
		}
		p.letGo()
		s.log.Info("the other lane has let go of the partition; its records are taken", "of", s.cfg.Other, "topic", p.Topic, "partition", p.ID)
	}
}

// ownedByOther tells which partitions members of the other group own.
func (s *Source) ownedByOther(ctx context.Context) (func(*Partition) bool, error) {
	described, err := s.admin.DescribeGroups(ctx, s.cfg.Other)
	if err == nil {
		err = described.Error()
	}
	group := described[s.cfg.Other]
	switch {
	case missingGroup(err) || err == nil && len(group.Members) == 0:
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
	if s.cfg.Ended == nil {
		return true
	}
	ended, err := s.cfg.Ended(ctx, execution)
	if err != nil {
		s.log.Warn("the result of the other lane's import cannot be read; trying again", "execution", execution, "error", err)
	}
	return ended && err == nil
}

// waitsForOther reports whether the partition waits until the other lane has let go of it.
func (p *Partition) waitsForOther() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ledger.Routes.Hold
}

func (p *Partition) waitFor(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.routes.waiting = what
}

func (p *Partition) letGo() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ledger.Routes.Hold, p.ledger.Routes.Passed = false, false
	p.routes.waiting, p.routes.running = "", nil
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
		p.ledger.Routes.Resend = max(p.ledger.Routes.Resend, ends[p])
		p.routes.resends = true
		p.mu.Unlock()
	}
	return nil
}
