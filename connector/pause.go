package connector

import (
	"fmt"
	"time"

	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// openCalls builds the immediate lane's calls.
func (s *Sink) openCalls(l *lane) {
	mappings := s.router.Mappings()
	c := &callDelivery{lane: l, tables: calledTables(mappings), began: time.Now().Add(-upToDate)}
	pace := build.Pace(s.cfg)
	pace.MayCall, pace.Share, pace.Service = l.leased, l.share(rateOf(schemas.Immediate, mappings)), &s.service
	pace.RepeatAfter, pace.Repeats = landed*s.cfg.Service.Timeout, c.repeats
	s.calls = calls.New(pace, s.caller(), observer{s}, s.newRand())
	c.calls, l.delivery = s.calls, c
}

// takes reports whether calls for the record's tables go out: others would only wait.
// A row of the other lane supersedes what was called for its key before.
func (c *callDelivery) takes(routed []router.Routed) bool {
	for i := range routed {
		w := &routed[i]
		switch {
		case w.Err != nil:
		case w.Lane != c.lane.which && !w.Taken:
			c.calls.Superseded(&w.Write)
		case c.calls.Paused(w.Write.Table):
			c.refused.Store(int64(time.Since(c.began)))
			return false
		}
	}
	return true
}

// heldBack is what was taken in for tables before their calls failed.
func (c *callDelivery) heldBack() int64 { return int64(c.calls.HeldBack()) }

func (f *fileDelivery) heldBack() int64 { return 0 }

func (f *fileDelivery) takes([]router.Routed) bool { return true }

// ready reports whether calls for any table go out.
func (c *callDelivery) ready() bool {
	for _, t := range c.tables {
		if !c.calls.Paused(t) {
			return true
		}
	}
	return len(c.tables) == 0
}

// calledTables are the tables that mappings of the immediate lane write, each once.
func calledTables(mappings []*router.Compiled) (tables []schemas.Table) {
	seen := map[schemas.Table]bool{}
	for _, m := range mappings {
		if immediate, _ := m.Lanes(); immediate && !seen[m.Table] {
			seen[m.Table] = true
			tables = append(tables, m.Table)
		}
	}
	return tables
}

// upToDate is how long ago the lane must have refused a record for it to know of all
// rows that the other lane may have sent by now.
const upToDate = 10 * time.Second

// repeats reports whether what was called last for a key of the table is its newest
// state. Of a mapping with both lanes it is unless a row was read since: that is known
// while this lane is not behind with reading. A mapping that only has files is not read.
func (c *callDelivery) repeats(t schemas.Table) bool {
	dual := false
	for _, m := range c.lane.Router.Mappings() {
		immediate, batch := m.Lanes()
		if m.Table == t && batch && !immediate {
			return false
		}
		dual = dual || m.Table == t && batch
	}
	return !dual || c.lane.source.Pending() < maxPending/2 && time.Since(c.began)-time.Duration(c.refused.Load()) > upToDate
}

// landed is how long after it was given up a call may still reach the table, in
// multiples of service.timeout.
const landed = 3

// ofPartition stands for the origins of a partition's writes where these must not
// keep the records in memory.
type ofPartition struct{ partition *kafka.Partition }

func (ofPartition) Confirm(calls.Outcome) {}
func (ofPartition) Reject(error)          {}

// Lasting is the part's partition.
func (p *part) Lasting() calls.Origin { return ofPartition{p.partition} }

// partitionOf is the partition that an origin in the immediate lane is of.
func partitionOf(o calls.Origin) *kafka.Partition {
	if of, ok := o.(ofPartition); ok {
		return of.partition
	}
	return o.(*part).partition
}

// releaseTime is how long partitions that are given back wait for calls under way:
// as long as a call may take, and a little for its token.
func releaseTime(timeout time.Duration) time.Duration { return timeout + 5*time.Second }

// DrainTime is what stopping may take: the calls under way, the last commit and leaving
// the groups.
func DrainTime(cfg *config.Config) time.Duration {
	return kafka.LeaveTime(releaseTime(cfg.Service.Timeout))
}

// WaitStatus is why calls wait, and until when.
type WaitStatus struct {
	Table string    `json:"table,omitempty"` // empty: calls for any table
	Until time.Time `json:"until"`           // then one call is tried
	Why   string    `json:"why"`
}

func waitStatus(mappings []*router.Compiled, waits []calls.Wait) (out []WaitStatus) {
	for _, w := range waits {
		why := "calls fail, and the breaker is open"
		if w.Status != 0 {
			why = fmt.Sprintf("the service answered %d", w.Status)
		}
		out = append(out, WaitStatus{Table: router.LabelOf(mappings, w.Table), Until: w.Until, Why: why})
	}
	return out
}
