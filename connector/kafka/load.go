package kafka

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/feedsink/feedsink/connector/ack"
)

// logEnds is what a partition's log holds, and the id of its topic.
type logEnds struct {
	topics     kadm.TopicDetails
	start, end kadm.ListedOffsets
}

func (s *Source) listEnds(ctx context.Context, ps []*Partition) (l logEnds, err error) {
	topics := topicsOf(ps)
	if l.topics, err = s.admin.ListTopics(ctx, topics...); err != nil {
		return l, fmt.Errorf("list topics: %w", err)
	}
	if l.start, err = s.admin.ListStartOffsets(ctx, topics...); err != nil {
		return l, fmt.Errorf("list start offsets: %w", err)
	}
	if l.end, err = s.admin.ListEndOffsets(ctx, topics...); err != nil {
		return l, fmt.Errorf("list end offsets: %w", err)
	}
	return l, nil
}

// topicsOf names each topic of the partitions once.
func topicsOf(ps []*Partition) (topics []string) {
	for _, p := range ps {
		if !slices.Contains(topics, p.Topic) {
			topics = append(topics, p.Topic)
		}
	}
	return topics
}

// load prepares partitions from what was found committed for them and returns
// where each starts.
func (s *Source) load(ctx context.Context, ps []*Partition) (map[*Partition]int64, error) {
	if len(ps) == 0 {
		return map[*Partition]int64{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	l, err := s.listEnds(ctx, ps)
	if err != nil {
		return nil, err
	}
	looks := s.other.looks.Load()
	if s.cfg.Other != "" {
		if err := s.LookAtOther(ctx); err != nil {
			return nil, err
		}
	}
	starts := make(map[*Partition]int64, len(ps))
	for _, p := range ps {
		topic := l.topics[p.Topic]
		start, ok := l.start.Lookup(p.Topic, p.ID)
		end, ok2 := l.end.Lookup(p.Topic, p.ID)
		if err := errors.Join(topic.Err, start.Err, end.Err); err != nil {
			return nil, fmt.Errorf("list offsets of %s[%d]: %w", p.Topic, p.ID, err)
		}
		found := p.lastFound()
		if !ok || !ok2 || found == nil {
			return nil, fmt.Errorf("list offsets of %s[%d]: the broker's answer lacks the partition", p.Topic, p.ID)
		}
		p.reaches(end.Offset)
		starts[p] = s.loadOne(p, *found, ack.TopicID(topic.ID), start.Offset, end.Offset, looks)
	}
	return starts, nil
}

// loadOne decides where p starts. What is unreadable or belongs to another
// topic leads to reading records again, never to skipping some.
func (s *Source) loadOne(p *Partition, found commit, topic ack.TopicID, logStart, logEnd, looks int64) int64 {
	at, committed := found.offset, found.offset >= 0
	log := s.log.With("topic", p.Topic, "partition", p.ID)
	var ledger ack.Ledger
	switch {
	case at < 0:
		at = s.beginning(p, topic, logStart, logEnd)
		log.Info("nothing committed; starting", "offset", at)
	case found.metadata == "":
		log.Warn("the committed offset has no ledger: another tool has set it. "+forgotten, "offset", at)
	default:
		var err error
		ledger, err = s.decode(p.Topic, found)
		switch {
		case err != nil:
			log.Warn("the ledger cannot be read. "+forgotten, "offset", at, "error", err)
		case ledger.Topic.Differs(topic):
			log.Warn("the committed offset belongs to an earlier topic of this name; reading the new one from its start", "offset", at)
			// The slots are of a table and a day, whatever topic feeds it, and halts of a mapping.
			at, ledger = logStart, ack.Ledger{Slots: ledger.Slots, Halts: ledger.Halts}
		}
	}
	if topic == (ack.TopicID{}) {
		topic = ledger.Topic
	}
	at, cut := trim(&ledger, at, logEnd)
	r := s.resume(p, topic, committed, at, &ledger)
	if r.At != at {
		at = min(max(r.At, min(at, logStart)), logEnd)
		log.Info("the routes of this lane or of the other one were changed; reading from where no record can have been left by both", "offset", at)
	}
	if n := len(r.Done); n > 0 && r.Done[n-1].To > logEnd { // the other lane's, of a log that was cut
		r.Done = nil
	}
	if r.Rerouted {
		for i := range ledger.Imports {
			ledger.Imports[i].Fingerprint = 0 // of no mapping
		}
	}
	start := max(s.startFor(p, at, ledger.Imports, logStart), logStart)
	if r.Routes.Hold {
		s.other.wanted.Store(true)
	}
	p.mu.Lock()
	if committed && reflect.DeepEqual(r.Routes, ledger.Routes) {
		p.routes.recorded = looks
	}
	p.ledger = ack.Ledger{Topic: topic, Slots: ledger.Slots, Halts: ledger.Halts, Routes: r.Routes}
	p.tracker = ack.New(at, r.Done)
	p.committed = found
	p.polled, p.read, p.first = start, start, start
	p.gap = gapBelow(logStart, at, r.Done)
	p.mu.Unlock()
	p.adopt(ledger.Imports)
	if p.other != nil {
		view, _ := s.other.look(p.Topic, p.ID)
		p.holdApart(&view)
	}
	if cut != "" {
		s.haltCut(p, cut, at)
	}
	return start
}

// forgotten is what goes with a ledger. No record is lost by that, but a person who
// reads it can look at the imports that run and count those of the day.
const forgotten = "Forgotten is what it held: which offsets beyond it are confirmed (their records are sent again), " +
	"which imports run (they are not awaited, their records are sent again), and how many imports its tables had today (the day's slots begin anew)"
