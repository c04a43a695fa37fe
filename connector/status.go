package connector

import (
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/connector/source"
)

// Status is the running sink as an operator sees it, at /status.
type Status struct {
	Version  string          `json:"version"`
	Started  time.Time       `json:"started"`
	Ready    bool            `json:"ready"`
	Unready  []string        `json:"unready,omitempty"` // why not
	Token    bool            `json:"token"`             // the service gave one
	Schemas  string          `json:"schemas,omitempty"` // why records that need a schema wait
	Lanes    []LaneStatus    `json:"lanes"`
	Mappings []MappingStatus `json:"mappings"`
}

// LaneStatus is one consumer group.
type LaneStatus struct {
	Lane       string                   `json:"lane"`
	Group      string                   `json:"group"`
	Joined     bool                     `json:"joined"`
	Partitions []source.PartitionStatus `json:"partitions"`
	Calls      *CallStatus              `json:"calls,omitempty"` // immediate lane
}

// CallStatus is how the immediate lane drives the service.
type CallStatus struct {
	Pending  int    `json:"pending"` // writes not confirmed
	InFlight int    `json:"inFlight"`
	Limit    int    `json:"limit"` // calls that may be in flight
	Breaker  string `json:"breaker"`
}

// MappingStatus is one mapping.
type MappingStatus struct {
	Name   string                 `json:"name"`
	Table  string                 `json:"table"`
	Topics []string               `json:"topics"`
	Lanes  []string               `json:"lanes"`
	Halted []string               `json:"halted,omitempty"`
	Batch  *batcher.MappingStatus `json:"batch,omitempty"`
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
	st := Status{Version: s.opts.Version, Started: s.started, Unready: s.Unready(), Token: s.client.TokenOK()}
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
		for _, b := range s.files.Status() {
			files[b.Mapping] = &b
		}
	}
	for _, m := range s.router.Mappings() {
		ms := MappingStatus{Name: m.Name, Table: m.Table.Name, Topics: m.Config.Topics, Halted: halted[m.Name], Batch: files[m.Name]}
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
	st := LaneStatus{Lane: l.which.String(), Group: s.group(l.which), Joined: l.source.Joined(), Partitions: []source.PartitionStatus{}}
	for _, p := range l.source.Partitions() {
		ps, _ := p.Status()
		st.Partitions = append(st.Partitions, ps)
	}
	slices.SortFunc(st.Partitions, func(a, b source.PartitionStatus) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.Partition - b.Partition)
	})
	if c, ok := l.delivery.(*calling); ok {
		st.Calls = &CallStatus{Pending: c.calls.Pending(), InFlight: c.calls.InFlight(), Limit: c.calls.Limit(), Breaker: c.calls.Breaker().String()}
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
