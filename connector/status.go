package connector

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/service"
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

// DayStatus is a table's calendar day: its slots and what became of them.
type DayStatus struct {
	Zone    string    `json:"zone"` // whose calendar the day follows
	Begins  time.Time `json:"begins"`
	Ends    time.Time `json:"ends"`
	PerDay  int       `json:"perDay"`
	Reserve int       `json:"reserve"` // of these, kept back for further tries
	// Owned says that this process has the table; otherwise another member knows
	// what follows, or nobody yet.
	Owned   bool          `json:"owned"`
	Left    int           `json:"left"`          // the reserve included
	Used    []UsedSlots   `json:"used"`          // in the order of time
	Next    time.Time     `json:"next,omitzero"` // before then no new import begins; zero: one may at once
	Imports []EndedImport `json:"imports"`       // results that this process has seen today, the oldest first
}

// UsedSlots are imports that began in the same second, or long ago, in the same
// quarter of an hour: the ledger rounds.
type UsedSlots struct {
	At    time.Time `json:"at"`
	Count int       `json:"count"`
}

// RollStatus is when an open file is complete: at the first of these.
type RollStatus struct {
	Rows    int64   `json:"rows"`
	Bytes   int64   `json:"bytes"`   // uncompressed
	Seconds float64 `json:"seconds"` // since its first row
}

// day is the calendar day of now: its beginning, and that of the next.
func day(now time.Time, zone *time.Location) (begins, ends time.Time) {
	y, m, d := now.In(zone).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, zone), time.Date(y, m, d+1, 0, 0, 0, 0, zone)
}

// day is how far the mapping's table is with the day's slots.
func (s *Sink) day(mapping string) *DayStatus {
	t, now := s.pacing.tables[mapping], time.Now()
	st := &DayStatus{Zone: t.Zone.String(), PerDay: t.PerDay, Reserve: t.Reserve, Used: []UsedSlots{}}
	st.Begins, st.Ends = day(now, t.Zone)
	st.Imports = s.recent.importsSince(mapping, st.Begins)
	used, ok := s.pacing.used(mapping, now)
	if !ok {
		return st
	}
	st.Owned = true
	st.Left, _ = s.pacing.remaining(mapping)
	for _, at := range used {
		if n := len(st.Used); n > 0 && st.Used[n-1].At.Equal(at) {
			st.Used[n-1].Count++
			continue
		}
		st.Used = append(st.Used, UsedSlots{At: at, Count: 1})
	}
	if wait := s.pacing.Wait(mapping, false); wait > 0 {
		st.Next = now.Add(wait)
	}
	return st
}

// MappingImports is the batch lane of one mapping, at /imports.
type MappingImports struct {
	Mapping string `json:"mapping"`
	Table   string `json:"table"`
	Bundle  string `json:"bundle,omitempty"` // whose import it shares; a release is for all of its mappings
	// Owned says that this process has the table. Another member has it
	// otherwise, or nobody yet; what follows is then empty.
	Owned       bool                  `json:"owned"`
	SlotsLeft   *int                  `json:"slotsLeft,omitempty"` // imports left today, the reserve included
	SlotsPerDay int                   `json:"slotsPerDay"`
	Open        *OpenFile             `json:"open,omitempty"`
	Import      *batcher.ImportStatus `json:"import,omitempty"` // on its way
	Halted      string                `json:"halted,omitempty"` // why the import waits for a release
	Kept        []string              `json:"kept,omitempty"`   // files in the spool for a person to look at
}

// OpenFile is the file that takes rows.
type OpenFile struct {
	Rows  int64     `json:"rows"`  // distinct keys, within about 3 %
	Bytes int64     `json:"bytes"` // uncompressed
	Since time.Time `json:"since"` // its first row
}

// Released is what goes on after a release.
type Released struct {
	Mapping   string   `json:"mapping"`
	File      string   `json:"file,omitempty"`      // sent again
	Loaded    bool     `json:"loaded,omitempty"`    // the file is not sent again: its rows in error become dead letters
	SlotsLeft *int     `json:"slotsLeft,omitempty"` // imports left today, the reserve included
	Lanes     []string `json:"lanes,omitempty"`     // in which its records, of which nearly all were refused alike, are tried again
}

// importsAPI is where an operator sees and steers the batch lane, through the admin
// server.
type importsAPI struct{ sink *Sink }

// Imports lists the mappings of the batch lane, none if this process does not
// run it. Its type is []MappingImports.
func (d importsAPI) Imports() any {
	list := []MappingImports{}
	if d.sink.files != nil {
		for _, st := range d.sink.files.Status() {
			list = append(list, d.mapping(st))
		}
	}
	return list
}

// Import is one mapping. Its type is MappingImports.
func (d importsAPI) Import(name string) (any, error) { return d.find(name) }

// LastMessage is what the service said about a mapping's import that went wrong.
type LastMessage struct {
	Mapping string                  `json:"mapping"`
	Said    *batcher.ServiceMessage `json:"said,omitempty"` // nil: nothing, as far as this process heard
}

// Reason tells what the service said; where a former owner of the table heard it,
// the service is asked again. Its type is Said.
func (d importsAPI) Reason(ctx context.Context, name string) (any, error) {
	if _, err := d.find(name); err != nil {
		return nil, err
	}
	told := LastMessage{Mapping: name}
	said, ok := d.sink.files.LastServiceMessage(name)
	if !ok {
		return told, nil
	}
	if said.Words == "" {
		results, err := request(&d.sink.service, func() (service.Results, error) { return d.sink.client.Results(ctx, said.Execution) })
		if err != nil {
			return nil, fmt.Errorf("mapping %s: the service said it to another process, and cannot be asked again: %w", name, err)
		}
		said.Words = results.Error
	}
	told.Said = &said
	return told, nil
}

// Release lets a halted mapping go on: its file, and its records that wait because
// nearly all were refused alike, in each lane. Its type is Released.
func (d importsAPI) Release(name string) (any, error) {
	released := Released{Mapping: name}
	for _, l := range d.sink.lanes {
		if g := l.floods.gateNamed(name); g != nil && g.release() {
			released.Lanes = append(released.Lanes, l.which.String())
		}
	}
	m, err := d.find(name)
	switch {
	case err == nil && m.Halted != "" && m.Import != nil && d.sink.files.Release(name) == nil:
		released.File, released.Loaded, released.SlotsLeft = m.Import.File, m.Import.Loaded, m.SlotsLeft
	case released.Lanes != nil:
	case err != nil:
		if refusal, ok := errors.AsType[*admin.Refusal](err); ok {
			refusal.Message += "; nor is it halted in this process: each member of the group releases its own"
		}
		return nil, err
	default: // or somebody else was faster
		return nil, &admin.Refusal{Status: http.StatusConflict, Message: notHalted(m)}
	}
	return released, nil
}

// TakeSlot counts an import by hand. Its type is MappingImports. The slot is in the
// ledger with the next commit; until then a crash of this process forgets it.
func (d importsAPI) TakeSlot(name string) (any, error) {
	m, err := d.find(name)
	switch {
	case err != nil:
		return nil, err
	case m.SlotsLeft == nil:
		return nil, &admin.Refusal{Status: http.StatusConflict, Message: fmt.Sprintf("mapping %s: this process does not have its table; ask the member that does", name)}
	case *m.SlotsLeft == 0:
		return nil, &admin.Refusal{Status: http.StatusConflict, Message: fmt.Sprintf("mapping %s: no import is left today, all %d were used", name, m.SlotsPerDay)}
	}
	d.sink.pacing.took(name)
	return d.find(name)
}

func notHalted(m MappingImports) string {
	const message = "mapping %s: nothing to release, no import of it is halted"
	if !m.Owned {
		return fmt.Sprintf(message+" here; this process does not have its table, ask the member that does", m.Mapping)
	}
	return fmt.Sprintf(message+"; if its partitions wait all the same, /status says what for", m.Mapping)
}

// find is the mapping, or a refusal that says what there is instead.
func (d importsAPI) find(name string) (MappingImports, error) {
	if d.sink.files == nil {
		return MappingImports{}, unknown("mapping %s: not here, this process does not run the batch lane", name)
	}
	all := d.sink.files.Status()
	names := make([]string, len(all))
	for i, st := range all {
		if st.Mapping == name {
			return d.mapping(st), nil
		}
		names[i] = st.Mapping
	}
	has := "the batch lane has " + strings.Join(names, ", ")
	for _, m := range d.sink.router.Mappings() {
		if m.Name == name {
			return MappingImports{}, unknown("mapping %s: has no imports, all of its routes lead to the immediate lane; %s", name, has)
		}
	}
	return MappingImports{}, unknown("mapping %s: is not in the configuration; %s", name, has)
}

func unknown(format string, args ...any) error {
	return &admin.Refusal{Status: http.StatusNotFound, Message: fmt.Sprintf(format, args...)}
}

func (d importsAPI) mapping(st batcher.MappingStatus) MappingImports {
	slots := d.sink.pacing.tables[st.Mapping]
	m := MappingImports{
		Mapping: st.Mapping, Table: slots.label, Bundle: st.Bundle, SlotsPerDay: slots.PerDay,
		Import: st.Import, Halted: st.Halted, Kept: slices.Clone(st.Kept),
	}
	var left int
	if left, m.Owned = d.sink.pacing.remaining(st.Mapping); m.Owned {
		m.SlotsLeft = &left
	}
	if !st.Opened.IsZero() {
		m.Open = &OpenFile{Rows: st.Rows, Bytes: st.Bytes, Since: st.Opened}
	}
	return m
}
