package connector

import (
	"slices"
	"time"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/kafka"
)

// Status is the running sink as an operator sees it, at /status.
type Status struct {
	Version string       `json:"version"`
	Started time.Time    `json:"started"`
	At      time.Time    `json:"at"` // when this was so
	Ready   bool         `json:"ready"`
	Unready []string     `json:"unready,omitempty"` // why not
	Token   bool         `json:"token"`             // the service gave one
	Schemas string       `json:"schemas,omitempty"` // why records that need a schema wait
	Lanes   []LaneStatus `json:"lanes"`
	Spool   *SpoolStatus `json:"spool,omitempty"` // batch lane
	// DeadLetters are those since this process began, the most frequent first.
	DeadLetters []RecentDeadLetter `json:"deadLetters"`
	Mappings    []MappingStatus    `json:"mappings"`
}

// SpoolStatus is the disk space of files that wait.
type SpoolStatus struct {
	Bytes    int64 `json:"bytes"`
	MaxBytes int64 `json:"maxBytes"` // at this size the batch lane pauses
}

// LaneStatus is one consumer group.
type LaneStatus struct {
	Lane       string                  `json:"lane"`
	Group      string                  `json:"group"`
	Joined     bool                    `json:"joined"`
	Partitions []kafka.PartitionStatus `json:"partitions"`
	Calls      *CallStatus             `json:"calls,omitempty"` // immediate lane
}

// CallStatus is how the immediate lane drives the service.
type CallStatus struct {
	Pending  int    `json:"pending"` // writes not confirmed
	InFlight int    `json:"inFlight"`
	Limit    int    `json:"limit"`   // calls that may be in flight
	Breaker  string `json:"breaker"` // of the table whose breaker is worst
	// Cause is what opened a breaker last, until all are closed.
	Cause string `json:"cause,omitempty"`
	// Waits are what holds calls back, and until when.
	Waits []WaitStatus `json:"waits,omitempty"`
}

// MappingStatus is one mapping.
type MappingStatus struct {
	Name   string   `json:"name"`
	Table  string   `json:"table"`
	Topics []string `json:"topics"`
	Lanes  []string `json:"lanes"`
	Bundle string   `json:"bundle,omitempty"` // whose files go as one, with one import for all its mappings
	Halted []string `json:"halted,omitempty"`
	// Release is the command that lets a halted mapping go on; empty if it is not halted, or a release does not help.
	Release string                 `json:"release,omitempty"`
	Batch   *batcher.MappingStatus `json:"batch,omitempty"`
	Roll    *RollStatus            `json:"roll,omitempty"`
	Day     *DayStatus             `json:"day,omitempty"`
}

// Unready lists why /readyz fails: no place in a group, or no token. A halted
// mapping or a day without slots is no reason.
func (s *Sink) Unready() (reasons []string) {
	for _, l := range s.lanes {
		if !l.source.Joined() {
			reasons = append(reasons, "the "+l.which.String()+" lane has not joined its consumer group")
		}
	}
	if !s.client.TokenOK() {
		reasons = append(reasons, "the service has given no token")
	}
	return reasons
}

// Status describes the sink. Its type is Status; admin needs to know nothing
// of it.
func (s *Sink) Status() any {
	st := Status{
		Version: s.opts.Version, Started: s.started, At: time.Now(),
		Unready: s.Unready(), Token: s.client.TokenOK(), DeadLetters: s.recent.deadLetters(),
	}
	st.Ready = len(st.Unready) == 0
	if s.writers != nil {
		if err := s.writers.Trouble(); err != nil {
			st.Schemas = err.Error()
		}
	}
	for _, l := range s.lanes {
		st.Lanes = append(st.Lanes, s.laneStatus(l))
	}
	halted, files := s.halted(), map[string]*batcher.MappingStatus{}
	if s.files != nil {
		st.Spool = &SpoolStatus{Bytes: s.files.SpoolBytes(), MaxBytes: int64(s.cfg.Spool.MaxBytes)}
		for _, b := range s.files.Status() {
			files[b.Mapping] = &b
		}
	}
	for _, m := range s.router.Mappings() {
		ms := MappingStatus{Name: m.Name, Table: m.Label, Topics: m.Config.Topics, Bundle: m.Config.Bundle, Halted: halted[m.Name], Batch: files[m.Name]}
		if ms.Batch != nil {
			im := m.Config.Imports.Roll
			ms.Roll = &RollStatus{Rows: im.Rows, Bytes: int64(im.Bytes), Seconds: im.Age.Seconds()}
			ms.Day = s.day(m.Name)
		}
		if s.releasable(m) || ms.Batch != nil && ms.Batch.Halted != "" {
			ms.Release = "feedsink imports release --mapping " + m.Name
		}
		immediate, batch := m.Lanes()
		if immediate {
			ms.Lanes = append(ms.Lanes, "immediate")
		}
		if batch {
			ms.Lanes = append(ms.Lanes, "batch")
		}
		st.Mappings = append(st.Mappings, ms)
	}
	return st
}

func (s *Sink) laneStatus(l *lane) LaneStatus {
	st := LaneStatus{Lane: l.which.String(), Group: s.group(l.which), Joined: l.source.Joined(), Partitions: l.source.Status()}
	if c, ok := l.delivery.(*callDelivery); ok {
		worst := calls.Closed
		for _, t := range c.tables {
			worst = max(worst, c.calls.Breaker(t))
		}
		st.Calls = &CallStatus{Pending: c.calls.Pending(), InFlight: c.calls.InFlight(), Limit: c.calls.Limit(), Breaker: worst.String(), Waits: waitStatus(s.router.Mappings(), c.calls.Waits())}
		if cause := s.breakerCause.Load(); cause != nil && worst != calls.Closed {
			st.Calls.Cause = *cause
		}
	}
	return st
}

// halted gives, for each mapping that is halted or reads a halted partition,
// the reasons.
func (s *Sink) halted() map[string][]string {
	reasons := map[string][]string{}
	add := func(mapping, reason string) {
		if !slices.Contains(reasons[mapping], reason) {
			reasons[mapping] = append(reasons[mapping], reason)
		}
	}
	if s.files != nil {
		for _, m := range s.router.Mappings() {
			if reason, halted := s.files.Halted(m.Name); halted {
				add(m.Name, reason)
			}
		}
	}
	for _, l := range s.lanes {
		for _, p := range l.source.Partitions() {
			st, _ := p.Status()
			for _, reason := range st.Halted {
				for _, m := range s.router.TopicMappings(p.Topic) {
					add(m.Name, reason)
				}
			}
		}
	}
	return reasons
}
