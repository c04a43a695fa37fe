package kafka

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
)

// latest is where partitions begin that the group has not committed, if it starts
// at the logs' ends: there where they ended before this process joined the group.
// Only topics are in it of which the group had committed nothing by then. What was
// added since, or to a topic that the group had read before, is not in it and is
// read from its start: no member has read it. Members that start together agree, in
// whatever order they commit.
type latest struct {
	ids  map[string]ack.TopicID
	ends map[topicPartition]int64
	// open are topics that exist, but whose ends no broker told.
	open map[string]bool
}

// lookBeforeJoining finds out where partitions of topics that are new to this member
// begin under FromEnd, if that is asked for. It returns with an answer, or once ctx has ended.
func (s *Source) lookBeforeJoining(ctx context.Context, topics []string) {
	for s.cfg.FromEnd && ctx.Err() == nil {
		looking, cancel := context.WithTimeout(ctx, commitTimeout)
		found, err := s.lookForLatest(looking, topics)
		cancel()
		if err == nil {
			if before := s.latest.Load(); before != nil {
				maps.Copy(found.ids, before.ids)
				maps.Copy(found.ends, before.ends)
				maps.Copy(found.open, before.open)
			}
			s.latest.Store(&found)
			return
		}
		if ctx.Err() == nil {
			s.log.Warn("where the topics end is not known; the group is joined after that; asking again", "error", err, "wait", reloadEvery)
		}
		select {
		case <-ctx.Done():
		case <-time.After(reloadEvery):
		}
	}
}

func (s *Source) lookForLatest(ctx context.Context, of []string) (latest, error) {
	found := latest{ids: map[string]ack.TopicID{}, ends: map[topicPartition]int64{}, open: map[string]bool{}}
	committed, err := s.own.Fetch(ctx)
	if err == nil {
		err = committed.Error()
	}
	if err != nil {
		return found, fmt.Errorf("fetch offsets of %s: %w", s.cfg.Group, err)
	}
	topics, err := s.admin.ListTopics(ctx, of...)
	if err != nil {
		return found, fmt.Errorf("list topics: %w", err)
	}
	var fresh []string
	for name, topic := range topics {
		if len(topic.Partitions) > 0 && !hasCommit(committed[name]) {
			found.ids[name] = ack.TopicID(topic.ID)
			fresh = append(fresh, name)
		}
	}
	if len(fresh) == 0 {
		return found, nil
	}
	ends, err := s.admin.ListEndOffsets(ctx, fresh...)
	if err != nil {
		return found, fmt.Errorf("list end offsets: %w", err)
	}
	ends.Each(func(end kadm.ListedOffset) {
		if end.Err != nil {
			found.open[end.Topic] = true
			return
		}
		found.ends[topicPartition{end.Topic, end.Partition}] = end.Offset
	})
	return found, nil
}

func hasCommit(partitions map[int32]kadm.OffsetResponse) bool {
	for _, o := range partitions {
		if o.At >= 0 {
			return true
		}
	}
	return false
}

// beginning is where a partition starts that the group has committed nothing for.
func (s *Source) beginning(p *Partition, topic ack.TopicID, logStart, logEnd int64) int64 {
	l := s.latest.Load()
	if l == nil {
		return logStart
	}
	seen, ok := l.ids[p.Topic]
	if !ok || seen.Differs(topic) { // read before, or made since
		return logStart
	}
	if end, ok := l.ends[topicPartition{p.Topic, p.ID}]; ok {
		return max(logStart, min(end, logEnd))
	}
	if l.open[p.Topic] {
		return logEnd
	}
	return logStart
}

// startFor is where reading begins: at the committed offset, or before it as far
// as writes of the other lane may not have landed, or may have landed after the
// rows of an import that is on its way.
func (s *Source) startFor(p *Partition, at int64, imports []ack.Import, logStart int64) int64 {
	if !p.routes.Follows {
		return at
	}
	start := at
	if p.elsewhere().Committed || !s.cfg.FromEnd {
		start = min(start, p.OtherWatermark())
	}
	for _, im := range imports {
		start = min(start, im.Since)
	}
	return max(start, min(at, logStart))
}

// afterRetention decides about the gaps of partitions whose ledgers agree by now: a
// partition of which nothing is lost goes on, any other one is halted.
func (s *Source) afterRetention(ps []*Partition) {
	for _, p := range ps {
		var tables []string
		if filed := s.now.Load().Filed; filed != nil {
			tables = filed(p.Topic)
		}
		switch g, why, ok := p.bridge(tables); {
		case !ok:
			s.haltLostData(p, fmt.Sprintf("the committed offset %d is below the log's start %d", g.Committed, g.LogStart), why)
		case g.UpTo > 0:
			s.log.Warn("the topic's retention has deleted records that are not confirmed; all of them are in the files of running imports, so reading goes on",
				"topic", p.Topic, "partition", p.ID, "from", g.Committed, "to", g.UpTo, "logStart", g.LogStart)
		}
	}
}

// bridge takes the partition over its gap, if nothing in it is lost: every table
// that this lane brings the topic's records to by file has a running import that
// covers it. Otherwise ok is false and why tells what lacks, if there is more to say.
func (p *Partition) bridge(tables []string) (g ack.Gap, why string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g = p.gap
	if g.UpTo > 0 {
		for _, table := range tables {
			if why = p.lacks(g, table); why != "" {
				return g, "; " + why, false
			}
		}
		if len(tables) == 0 {
			return g, "", false
		}
	}
	p.tracker.Advance(g.LogStart)
	return g, "", true
}

// lacks says why the table's import, if there is one, does not stand in for the
// records of the gap; "" if it does. p.mu is held.
func (p *Partition) lacks(g ack.Gap, table string) string {
	im, sent := p.imports[table]
	upTo, covers := p.covered[table]
	switch {
	case !sent:
		return fmt.Sprintf("table %s has no running import that could have them", table)
	case builtAgain(im.State) || !covers: // or another partition's ledger says so
		return fmt.Sprintf("file %s of table %s had some of them and was not loaded, and can't be built again", im.File, table)
	case im.Execution == "":
		return fmt.Sprintf("file %s of table %s had some of them, and it is not known whether it was sent", im.File, table)
	case im.Part < im.Parts:
		return fmt.Sprintf("file %s of table %s is number %d of %d that had some of them, and the others can't be built again", im.File, table, im.Part, im.Parts)
	case upTo < g.UpTo:
		return fmt.Sprintf("the running import of file %s of table %s has those below offset %d only", im.File, table, upTo)
	case p.routes.Follows:
		return fmt.Sprintf("the running import of file %s of table %s has them, but not which keys of it the other lane wrote meanwhile", im.File, table)
	}
	return ""
}

// haltLostData halts a partition of which retention has deleted records that were not read; why says more of it.
func (s *Source) haltLostData(p *Partition, what, why string) {
	s.halt(p, "lost data", cluster.Deleted(p.Topic, p.ID, what, why, s.cfg.Group))
}

// haltCut halts a partition whose log was cut at an offset.
func (s *Source) haltCut(p *Partition, what string, at int64) {
	p.mu.Lock()
	p.cut = at
	p.mu.Unlock()
	s.halt(p, "lost data", cluster.Cut(p.Topic, p.ID, what, at))
}

func (s *Source) halt(p *Partition, cause, reason string) {
	p.Halt(cause, reason)
	s.log.Error("partition halted", "topic", p.Topic, "partition", p.ID, "reason", reason)
}
