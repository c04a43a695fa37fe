package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
)

// The client calls these one at a time: assigned, then offsetsFetched, then
// startOffsets, then records; in the end revoked or lost. Of these, assigned,
// revoked and lost wait until no poll holds the group.

// assigned opens assignments. Nothing is committed in them before the broker
// has told what was committed by others: it would be erased.
func (s *Source) assigned(ctx context.Context, client *kgo.Client, added map[string][]int32) {
	member, generation := client.GroupMetadata()
	if again := s.find(added); len(again) > 0 { // of topics that were created again
		s.drop(ctx, again)
	}
	for topic, ids := range added {
		s.mu.Lock()
		for _, id := range ids {
			s.parts[topicPartition{topic, id}] = s.open(topic, id, member, assigned)
		}
		s.updateShare()
		s.mu.Unlock()
		s.log.Info("partitions assigned", "topic", topic, "partitions", ids, "generation", generation)
	}
	s.joined.Store(true)
	s.conditions.Joined()
	s.lease.Assigned()
	if old := s.reopen(member); len(old) > 0 {
		s.log.Warn("back in the group as a new member; reading the ledger of kept partitions again", "partitions", len(old))
		s.handler.Release(over(ctx), old)
	}
}

// reopen begins a new assignment for partitions that were kept over a change
// of member id. A member that was thrown out and came back may keep some
// without any further callback for them, though another could have had them in
// between. Their ledgers are read again by the poll loop: offsets can't be set
// from within a callback.
func (s *Source) reopen(member string) (old []*Partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		if p.member != member {
			old = append(old, p)
		}
	}
	for _, p := range old {
		s.reassign(p, member)
	}
	return old
}

// offsetsFetched notes what was committed before, for startOffsets.
func (s *Source) offsetsFetched(_ context.Context, _ *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
	for _, g := range resp.Groups {
		for _, t := range g.Topics {
			for _, got := range t.Partitions {
				p := s.partition(t.Topic, got.Partition)
				if p == nil || got.ErrorCode != 0 {
					continue
				}
				metadata := ""
				if got.Metadata != nil {
					metadata = *got.Metadata
				}
				p.setFetched(commit{got.Offset, got.LeaderEpoch, metadata})
			}
		}
	}
	return nil
}

// setFetched notes what the broker had committed before this assignment.
func (p *Partition) setFetched(c commit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fetched = &c
}

func (p *Partition) lastFound() *commit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fetched
}

// startOffsets reads the ledgers and decides where each partition starts. An
// error sends the member back to joining the group.
func (s *Source) startOffsets(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	ps, begun := s.toLoad(offsets)
	starts, err := s.load(ctx, ps)
	if err != nil {
		s.log.Warn("reading the ledgers was disturbed; joining the group again", "error", err)
		return nil, err
	}
	s.marking.Lock() // a table's partitions begin together
	for _, p := range ps {
		p.loadedByClient()
	}
	s.marking.Unlock()
	out := map[string]map[int32]kgo.Offset{}
	for _, p := range begun {
		starts[p] = p.position()
	}
	for p, at := range starts {
		if out[p.Topic] == nil {
			out[p.Topic] = map[int32]kgo.Offset{}
		}
		out[p.Topic][p.ID] = kgo.NewOffset().At(at)
	}
	return out, nil
}

// toLoad are the partitions whose ledgers are to be read, and those that have
// begun: the client asks again when a rebalance has cut the group's session short.
func (s *Source) toLoad(offsets map[string]map[int32]kgo.Offset) (ps, begun []*Partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for topic, ids := range offsets {
		for id := range ids {
			switch p := s.parts[topicPartition{topic, id}]; {
			case p == nil:
			case p.askedFor():
				ps = append(ps, p)
			default:
				begun = append(begun, p)
			}
		}
	}
	return ps, begun
}

// beginLoaded begins assignments whose ledgers were read for the client. It is called by
// the poll loop while it holds the group and before it hands on what it has polled,
// which may be their first records.
func (s *Source) beginLoaded() {
	s.marking.Lock()
	ps := s.partitionsIn(loaded)
	s.marking.Unlock()
	s.begin(ps, loaded)
}

// begin begins assignments that are in a state still and tells the handler.
func (s *Source) begin(ps []*Partition, from state) {
	// Begun before the handler's word: it may have something to commit at once.
	ps = slices.DeleteFunc(ps, func(p *Partition) bool { return !p.begin(from) })
	if len(ps) == 0 {
		return
	}
	agree(ps)
	s.afterRetention(ps)
	s.handler.Assigned(ps)
	s.CommitSoon()
}

// reload is startOffsets for partitions that were kept over a change of
// member id, for which the client fetches nothing. It is called by the poll
// loop before a poll; the starts it returns take effect with beginRenewed.
func (s *Source) reload(ctx context.Context) map[*Partition]int64 {
	kept := s.partitionsIn(renewed)
	if len(kept) == 0 {
		return nil
	}
	loading, cancel := context.WithTimeout(ctx, s.cfg.SessionTimeout)
	defer cancel()
	committed, err := s.admin.FetchOffsets(loading, s.cfg.Group)
	if err == nil {
		err = committed.Error()
	}
	var starts map[*Partition]int64
	if err == nil {
		for _, p := range kept {
			found := commit{offset: -1, epoch: -1}
			if o, ok := committed.Lookup(p.Topic, p.ID); ok {
				found = commit{o.At, o.LeaderEpoch, o.Metadata}
			}
			p.setFetched(found)
		}
		starts, err = s.load(loading, kept)
	}
	if err != nil {
		if ctx.Err() == nil {
			s.log.Warn("reading the ledgers was disturbed; trying again", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(reloadEvery):
		}
	}
	return starts
}

// beginRenewed makes reloaded partitions start where their ledgers say. It is called
// by the poll loop once it is done with what it has polled: records polled
// before, from wherever the partition stood, must not be taken for those that
// follow the ledger.
func (s *Source) beginRenewed(starts map[*Partition]int64) {
	// Those that were revoked meanwhile are another member's, and the client has been
	// told where others begin that it asked for.
	maps.DeleteFunc(starts, func(p *Partition, _ int64) bool { return !p.in(renewed) })
	s.setOffsets(starts)
	s.begin(slices.Collect(maps.Keys(starts)), renewed)
}

// ReadAgain has partitions read again from their committed offsets, in new
// assignments, as soon as none of their records is on its way one by one.
func (s *Source) ReadAgain(ps []*Partition) {
	for _, p := range ps {
		p.drain()
	}
}

// togetherWith are the assignments whose topics have one owner with those of some.
func (s *Source) togetherWith(ps []*Partition) []*Partition {
	return slices.DeleteFunc(s.Partitions(), func(p *Partition) bool {
		return !slices.ContainsFunc(ps, func(q *Partition) bool { return s.together(p.Topic, q.Topic) })
	})
}

// together reports whether two topics have one owner.
func (s *Source) together(a, b string) bool {
	tableOf := s.now.Load().TableOf
	return a == b || tableOf != nil && tableOf(a) == tableOf(b)
}

// startOver ends the assignments that are to be read again, once none of their
// records is on its way one by one: those would be done twice. It is called by
// the poll loop; the ledgers are read again before its next poll.
func (s *Source) startOver(ctx context.Context) {
	again := s.allToReadAgain()
	if len(again) == 0 || slices.ContainsFunc(again, func(p *Partition) bool { return p.underWay() > 0 }) {
		return
	}
	// The handler lets go while commits still pass: what it is sending for another
	// table of these partitions is written down, so that it is not sent twice.
	releasing, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.ReleaseTimeout)
	defer cancel()
	s.handler.Release(releasing, again)
	if err := s.commit(ctx, again); err != nil {
		s.log.Warn("offsets were not committed; reading again waits for that", "error", err)
		return
	}
	s.mu.Lock()
	for _, p := range again {
		maps.Copy(s.reassign(p, p.member).halts, p.haltsApart())
	}
	s.mu.Unlock()
	s.log.Info("reading records again from the committed offsets", "partitions", len(again))
}

// allToReadAgain are the partitions to be read again, with all that belong together
// with them: the handler lets go of a table as a whole.
func (s *Source) allToReadAgain() []*Partition {
	again := slices.DeleteFunc(s.Partitions(), func(p *Partition) bool { return !p.withheld().has(readAgain) })
	if len(again) == 0 {
		return nil
	}
	again = s.togetherWith(again)
	s.ReadAgain(again)
	return again
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
	epochs := kadm.OffsetForLeaderEpochRequest{}
	for _, p := range ps {
		if found := p.lastFound(); found != nil && found.epoch >= 0 {
			epochs.Add(p.Topic, p.ID, found.epoch)
		}
	}
	l, err := cluster.ListLogs(ctx, s.admin, topicsOf(ps), epochs)
	if err != nil {
		return nil, err
	}
	looks := s.other.looks.Load()
	if s.cfg.Other != "" {
		if err := s.LookAtOther(ctx); err != nil {
			return nil, err
		}
	}
	counted, err := s.counted(ctx, ps)
	if err != nil {
		return nil, err
	}
	starts := make(map[*Partition]int64, len(ps))
	var fresh []string // partitions without a commit
	var rerouted []*Partition
	for _, p := range ps {
		topic := l.Topics[p.Topic]
		start, ok := l.Start.Lookup(p.Topic, p.ID)
		end, ok2 := l.End.Lookup(p.Topic, p.ID)
		if err := errors.Join(topic.Err, start.Err, end.Err); err != nil {
			return nil, fmt.Errorf("list offsets of %s[%d]: %w", p.Topic, p.ID, err)
		}
		found := p.lastFound()
		if !ok || !ok2 || found == nil {
			return nil, fmt.Errorf("list offsets of %s[%d]: the broker's answer lacks the partition", p.Topic, p.ID)
		}
		p.setLogEnd(end.Offset)
		var back bool
		if found.offset < 0 {
			fresh = append(fresh, fmt.Sprintf("%s[%d]", p.Topic, p.ID))
		}
		if starts[p], back = s.loadOne(p, *found, ack.TopicID(topic.ID), start.Offset, l.KnownEnd(p.Topic, p.ID), looks); back {
			rerouted = append(rerouted, p)
		}
		p.countHere(counted[p])
	}
	s.perTopic(rerouted, "the routes of this lane or of the other one were changed; reading from where no record can have been left by both")
	if n := len(fresh); n > 0 { // one line, and not a page of it where there are thousands
		slices.Sort(fresh)
		s.log.Info("nothing committed; starting as kafka.startAt says", "count", n, "first", fresh[:min(n, 20)])
	}
	return starts, nil
}

// loadOne decides where p starts. What is unreadable or belongs to another
// topic leads to reading records again, never to skipping some. logEnd is where the log ends as far as
// the records are those that were there when found was committed. back says that p is read
// from before the committed offset since routes have changed.
func (s *Source) loadOne(p *Partition, found commit, topic ack.TopicID, logStart, logEnd, looks int64) (start int64, back bool) {
	at, committed := found.offset, found.offset >= 0
	log := s.log.With("topic", p.Topic, "partition", p.ID)
	var ledger ack.Ledger
	switch {
	case at < 0:
		at = s.beginning(p, topic, logStart, logEnd)
		had := s.had(p)
		ledger = had.OfEarlierTopic(at)
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
			at, ledger = logStart, ledger.OfEarlierTopic(logStart)
		}
	}
	if topic == (ack.TopicID{}) {
		topic = ledger.Topic
	}
	s.other.know(p.Topic, topic)
	at, cut := ledger.Trim(at, logEnd)
	r := s.resume(p, committed, at, &ledger)
	if back = r.At != at; back {
		at = min(max(r.At, min(at, logStart)), logEnd)
	}
	if n := len(r.Done); n > 0 && r.Done[n-1].To > logEnd { // the other lane's, of a log that was cut
		r.Done = nil
	}
	if r.Rerouted {
		for i := range ledger.Imports {
			ledger.Imports[i].Fingerprint = 0 // of no mapping
		}
	}
	start = max(s.startFor(p, at, ledger.Imports, logStart), logStart)
	if r.Routes.Hold {
		notify(s.other.wanted)
	}
	p.mu.Lock()
	if committed && reflect.DeepEqual(r.Routes, ledger.Routes) {
		p.routes.recorded = looks
	}
	p.ledger = ack.Ledger{Topic: topic, Slots: ledger.Slots, Halts: ledger.Halts, Pauses: ledger.Pauses, Routes: r.Routes, Refused: ledger.Refused}
	p.tracker = ack.New(at, r.Done)
	p.committed, p.epoch, p.standing = found, found.epoch, time.Now()
	p.polled, p.read, p.first, p.behind = start, start, start, time.Time{}
	p.endThen = logEnd
	p.gap = ack.GapBelow(logStart, at, r.Done)
	p.adopt(ledger.Imports)
	p.mu.Unlock()
	p.holdApart()
	if cut != "" {
		s.haltCut(p, cut, at)
	}
	return start, back
}

// had is what the last assignment of the partition had on record.
func (s *Source) had(p *Partition) ack.Ledger {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left[topicPartition{p.Topic, p.ID}]
}

// forgotten is what goes with a ledger. No record is lost by that, but a person who
// reads it can look at the imports that run and count those of the day.
const forgotten = "Forgotten is what it held: which offsets beyond it are confirmed (their records are sent again), " +
	"which imports run (they are not awaited, their records are sent again), how many imports its tables had today (the day's slots begin anew), " +
	"and which mappings were paused, or halted because nearly all of their records were refused alike (they go on unless another ledger says so: feedsink pause pauses them again)"

// Upgrade brings a topic's ledger up to date that a former version may have written.
type Upgrade func(topic string, l *ack.Ledger)

// decode reads a ledger of the topic.
func (s *Source) decode(topic string, c commit) (ack.Ledger, error) {
	l, err := ack.Decode(c.metadata, c.offset)
	if upgrade := s.now.Load().Upgrade; err == nil && upgrade != nil {
		upgrade(topic, &l)
	}
	return l, err
}
