package connector

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/flood"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/pause"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// pauses has lanes follow what persons said of mappings: to any member, before any
// restart. It is kept in the ledgers of all partitions that a mapping reads, in both
// lanes' groups, and each member looks at those of both.
type pauses struct {
	known pause.Known
	// mu has lanes follow one after the other: what is older never comes last.
	mu sync.Mutex
}

// followPausesEvery is how late a pause may end whose time is over.
const followPausesEvery = time.Second

// pauseOf is a lane of a mapping as pauses know it.
func pauseOf(m *router.Compiled, which schemas.Lane) pause.Of {
	return pause.Of{Mapping: flood.HashOf(m.Name), Batch: which == schemas.Batch}
}

// watchPauses ends pauses whose time is over, and has the lanes follow what was said to
// other members, until ctx ends.
func (s *Sink) watchPauses(ctx context.Context) error {
	tick := time.NewTicker(max(followPausesEvery, s.opts.LookEvery))
	defer tick.Stop()
	var own ownPauses
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		own.look(ctx, s.now().lanes)
		s.learnPauses(own.found)
		s.now().applyPauses()
	}
}

// ownPauses are those in the ledgers of a lane's own group. Each lane looks at the other's
// group all the time: only where that one has no member in this process is there more to see.
type ownPauses struct {
	found []ack.Pause
	next  time.Time
}

func (o *ownPauses) look(ctx context.Context, lanes []*lane) {
	if len(lanes) != 1 { // a reload may have changed that
		*o = ownPauses{}
		return
	}
	if time.Now().Before(o.next) {
		return
	}
	found, again, err := lanes[0].source.OwnPauses(ctx)
	if o.next = time.Now().Add(again); err != nil {
		lanes[0].log.Debug("what other members know of pauses is not known; asking again", "error", err)
		return
	}
	o.found = found
}

func (s *Sink) learnPauses(found []ack.Pause) {
	for _, l := range s.now().lanes {
		found = append(found, l.source.OtherPauses()...)
	}
	s.pauses.known.Learn(found)
	s.pauses.known.Forget(found, s.now().unused())
}

// unused are the lanes that mappings' routes do not lead to: their ledgers stay as they are.
func (s *pipeline) unused() map[pause.Of]bool {
	all := map[pause.Of]bool{}
	for _, m := range s.router.Mappings() {
		for _, which := range schemas.Lanes {
			all[pauseOf(m, which)] = !m.Uses(which)
		}
	}
	return all
}

func (s *pipeline) applyPauses() {
	for _, l := range s.lanes {
		l.followPauses()
	}
}

// followPauses brings the lane to what is known: calls and files of paused mappings wait,
// and so does a partition that only such mappings read. The partitions' ledgers get it after
// that: nothing of what a ledger shows as paused begins any more.
func (l *lane) followPauses() {
	known := &l.pauses.known
	l.pauses.mu.Lock()
	defer l.pauses.mu.Unlock()
	partitions := l.source.Partitions()
	for _, p := range partitions {
		p.ChangePauses(func(kept []ack.Pause) []ack.Pause {
			known.Learn(kept)
			return kept
		})
	}
	for _, m := range l.Router.Mappings() {
		if !m.Uses(l.which) {
			continue
		}
		said, paused := known.Paused(pauseOf(m, l.which))
		switch {
		case !l.floods.SetPaused(m, paused):
		case paused:
			what := []any{"mapping", m.Name, "reason", said.Reason, "with", "feedsink resume --mapping " + m.Name, "since", millis(said.At)}
			if said.Until > 0 {
				what = append(what, "until", millis(said.Until))
			}
			l.log.Warn("mapping paused, as a command asked for it: no call and no import of it begins, its records wait", what...)
		default: // the time keeps each turn from being counted as a repetition
			l.log.Warn("mapping resumed: its records go on", "mapping", m.Name, "since", time.Now())
		}
	}
	stops := memo(l.stops) // by topic: there may be thousands of partitions
	for _, p := range partitions {
		p.SetPaused(stops(p.Topic))
	}
	last := memo(l.pausesFor)
	for _, p := range partitions {
		p.ChangePauses(func(kept []ack.Pause) []ack.Pause {
			if len(kept) > 0 {
				known.Learn(kept)
				return l.pausesFor(p.Topic)
			}
			return last(p.Topic)
		})
	}
}

// memo is f, which is asked once for each topic.
func memo[T any](f func(topic string) T) func(topic string) T {
	known := map[string]T{}
	return func(topic string) T {
		v, ok := known[topic]
		if !ok {
			v = f(topic)
			known[topic] = v
		}
		return v
	}
}

// pausesFor are the pauses that a partition of the topic keeps: those of both lanes, for
// the other lane's members look here too, and routes may lead to a lane again. To those members
// one of this lane that goes on is a partition that is paused here: of a mapping that has left
// the lane none is kept.
func (l *lane) pausesFor(topic string) (all []ack.Pause) {
	for _, m := range l.Router.TopicMappings(topic) {
		for _, which := range schemas.Lanes {
			p, known := l.pauses.known.Last(pauseOf(m, which))
			if known && (p.Resumed || which != l.which || m.Uses(which)) {
				all = append(all, p)
			}
		}
	}
	return all
}

// stops reports whether the topic is not read: all mappings that read it in this lane are
// paused, or another one of their bundle is, without which no file of theirs goes out. An import on its way may have to be reconciled with what follows: until it has
// ended, reading goes on.
func (l *lane) stops(topic string) bool {
	paused := false
	for _, m := range l.Router.TopicMappings(topic) {
		if !m.Uses(l.which) {
			continue
		}
		bundled := l.which == schemas.Batch && slices.ContainsFunc(m.Bundle(), l.isPaused)
		if !bundled && !l.isPaused(m) || l.delivery.underWay(m) {
			return false
		}
		paused = true
	}
	return paused
}

func (l *laneBase) isPaused(m *router.Compiled) bool {
	_, yes := l.pauses.known.Paused(pauseOf(m, l.which))
	return yes
}

// underWay is no: a call has nothing to read on for.
func (c *callDelivery) underWay(*router.Compiled) bool { return false }

func (f *fileDelivery) underWay(m *router.Compiled) bool { return f.files.UnderWay(m.Name) }

// paused are the lanes of a mapping that a person has paused.
func (s *pipeline) paused(m *router.Compiled) (all []observe.PauseStatus) {
	for _, which := range m.Lanes() {
		if p, yes := s.pauses.known.Paused(pauseOf(m, which)); yes {
			all = append(all, observe.PauseStatus{Lane: which.String(), At: millis(p.At), Until: millis(p.Until), Reason: p.Reason})
		}
	}
	return all
}

// pausedFiles reports whether no file of the mapping may be sent.
func (s *pipeline) pausedFiles(mapping string) bool {
	_, yes := s.pauses.known.Paused(pause.Of{Mapping: flood.HashOf(mapping), Batch: true})
	return yes
}

func millis(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.UnixMilli(at).UTC()
}

// mappingsAPI is where an operator pauses mappings, through the admin server.
type mappingsAPI struct{ *Sink }

// Pause implements admin.MappingsAPI. Its type is observe.Paused.
func (d mappingsAPI) Pause(ctx context.Context, name string, asked admin.PauseRequest) (any, error) {
	if err := pause.CheckReason(asked.Reason); err != nil {
		return nil, refuse(http.StatusBadRequest, "reason: %w", err)
	}
	if !asked.Until.IsZero() && !asked.Until.After(time.Now()) {
		return nil, refuse(http.StatusBadRequest, "until: must be in the future, is %s", asked.Until.Format(time.RFC3339))
	}
	m, lanes, err := d.find(name, asked.Lane)
	if err != nil {
		return nil, err
	}
	until := int64(0)
	if !asked.Until.IsZero() {
		until = asked.Until.UnixMilli()
	}
	return d.say(ctx, m, lanes, ack.Pause{Until: until, Reason: asked.Reason})
}

// Resume implements admin.MappingsAPI. Its type is observe.Paused.
func (d mappingsAPI) Resume(ctx context.Context, name, lane string) (any, error) {
	m, lanes, err := d.find(name, lane)
	if err != nil {
		return nil, err
	}
	// One that was resumed just now is resumed again: Kafka may not have it yet.
	if !slices.ContainsFunc(lanes, func(which schemas.Lane) bool { return d.now().pauses.known.Knows(pauseOf(m, which)) }) {
		return nil, refuse(http.StatusConflict, "mapping %s: nothing to resume, it is not paused; a mapping that is halted goes on with feedsink imports release", name)
	}
	return d.say(ctx, m, lanes, ack.Pause{Resumed: true})
}

// say notes what a person said and returns once it is in Kafka.
func (d mappingsAPI) say(ctx context.Context, m *router.Compiled, lanes []schemas.Lane, said ack.Pause) (any, error) {
	for _, which := range lanes {
		of := pauseOf(m, which)
		said.Mapping, said.Batch = of.Mapping, of.Batch
		d.now().pauses.known.Say(said)
	}
	d.now().applyPauses()
	for _, l := range d.now().lanes {
		if !slices.ContainsFunc(l.source.Partitions(), reads(m)) {
			continue
		}
		if err := l.source.CommitNow(ctx); err != nil {
			return nil, fmt.Errorf("mapping %s: it is so in this process, but Kafka may not have it yet and a restart would forget it; "+
				"that is tried again every second. Run the command again to be sure: %w", m.Name, err)
		}
	}
	return observe.Paused{Mapping: m.Name, Bundle: m.Config.Bundle, Paused: append([]observe.PauseStatus{}, d.now().paused(m)...)}, nil
}

// reads reports whether a partition is one that the mapping reads, and its ledger is ours
// to write.
func reads(m *router.Compiled) func(*kafka.Partition) bool {
	return func(p *kafka.Partition) bool {
		_, ok := p.Status()
		return ok && slices.Contains(m.Config.Topics, p.Topic)
	}
}

// find is the mapping and the lanes that are meant, or a refusal.
func (d mappingsAPI) find(name, wanted string) (*router.Compiled, []schemas.Lane, error) {
	m := d.now().router.Mapping(name)
	if m == nil {
		var names []string
		for _, m := range d.now().router.Mappings() {
			names = append(names, m.Name)
		}
		return nil, nil, refuse(http.StatusNotFound, "mapping %s: is not in the configuration, which has %s", name, strings.Join(names, ", "))
	}
	if wanted != "" && wanted != schemas.Immediate.String() && wanted != schemas.Batch.String() {
		return nil, nil, refuse(http.StatusBadRequest, "lane: must be immediate or batch, is %.40q", wanted)
	}
	lanes := m.Lanes()
	if wanted != "" {
		lanes = slices.DeleteFunc(lanes, func(which schemas.Lane) bool { return which.String() != wanted })
	}
	if len(lanes) == 0 {
		return nil, nil, refuse(http.StatusConflict, "mapping %s: no route of it leads to the %s lane", name, wanted)
	}
	if !slices.ContainsFunc(d.now().lanes, func(l *lane) bool { return slices.ContainsFunc(l.source.Partitions(), reads(m)) }) {
		return nil, nil, refuse(http.StatusConflict, "mapping %s: this process has no partition of its topics; %s", name, d.now().orOwner(d.now().others.Owner(m.Config.Topics[0], m.Lanes()...)))
	}
	if wanted == "" { // one, too, that the routes lead to no more, or not yet
		lanes = schemas.Lanes
	}
	return m, lanes, nil
}

// orOwner is whom to ask for what this process has not; owner: who has it, where that is known.
func (s *pipeline) orOwner(owner string) string {
	if slices.ContainsFunc(s.lanes, func(l *lane) bool { return !l.source.HasPlace() }) {
		return "it has no place in its group yet: try again once it has (/readyz), or " + observe.AskOwner(owner)
	}
	return observe.AskOwner(owner)
}

func refuse(status int, format string, args ...any) error {
	return &admin.Refusal{Status: status, Message: fmt.Errorf(format, args...).Error()}
}
