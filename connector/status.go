package connector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/imports"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// Unready lists why /readyz fails.
func (s *Sink) Unready() []string { return s.now().unready() }

// Status describes the sink. Its type is observe.Status; admin needs to know nothing
// of it.
func (s *Sink) Status() any {
	st := s.now().status()
	st.Reload = s.last.Status()
	return st
}

// membership is what this member says of itself to the others.
func (s *Sink) membership() admin.Membership {
	own := admin.Membership{Groups: map[string]string{}}
	own.Member, _ = os.Hostname() // "" where the system does not tell
	for lane, source := range s.sources {
		if id := source.MemberID(); id != "" {
			own.Groups[s.now().group(lane)] = id
		}
	}
	return own
}

// port is that of the admin server.
func (s *Sink) port() string {
	_, port, _ := net.SplitHostPort(s.AdminAddress()) // it is listened on
	return port
}

// unready lists why /readyz fails: the end, no place in a group, or no token. A halted
// mapping or a day without slots is no reason.
func (s *pipeline) unready() (reasons []string) {
	if until := s.stopping.Load(); until != nil {
		reasons = append(reasons, "stopping until "+until.Format(time.RFC3339))
	}
	for _, l := range s.lanes {
		if !l.source.HasPlace() {
			reasons = append(reasons, "the "+l.which.String()+" lane has not joined its consumer group")
		}
	}
	if !s.client.TokenOK() {
		reasons = append(reasons, "the service has given no token")
	}
	return reasons
}

func (s *pipeline) status() observe.Status {
	st := observe.Status{
		Version: s.opts.Version, Started: s.started, At: time.Now(),
		Unready: s.unready(), Token: s.client.TokenOK(), TokenRefused: s.client.TokenRefused(), Waits: s.waits(), DeadLetters: s.recent.DeadLetters(),
	}
	st.Ready = len(st.Unready) == 0
	if until := s.stopping.Load(); until != nil {
		st.Stopping = *until
	}
	st.Member, _ = os.Hostname() // "" where the system does not tell
	if s.writers != nil {
		if err := s.writers.Err(); err != nil {
			st.Schemas = err.Error()
		}
	}
	for _, l := range s.lanes {
		st.Lanes = append(st.Lanes, s.laneStatus(l))
	}
	ages := s.ages()
	halted, files := s.halted(), map[string]*contract.MappingStatus{}
	if s.files != nil {
		st.Spool = &observe.SpoolStatus{Bytes: s.files.SpoolBytes(), MaxBytes: int64(s.cfg.Spool.MaxBytes)}
		if free, ok := s.files.SpoolFree(); ok {
			st.Spool.FreeBytes = &free
		}
		for _, b := range s.files.Status() {
			files[b.Mapping] = &b
		}
	}
	for _, m := range s.router.Mappings() {
		ms := observe.MappingStatus{
			Name: m.Name, Table: m.Label, Topics: m.Config.Topics, Bundle: m.Config.Bundle,
			Oldest: map[string]float64{}, Halted: halted[m.Name], Paused: s.paused(m), Batch: files[m.Name], Objectives: s.objectives(m),
		}
		if ms.Batch != nil {
			im := m.Config.Imports.Roll
			ms.Roll = &observe.RollStatus{Rows: im.Rows, Bytes: int64(im.Bytes), Seconds: im.Age.Seconds(), At: im.At}
			ms.Day, ms.Due = s.pacing.Day(m.Name), s.due(*ms.Batch)
			ms.Day.Imports = s.recent.ImportsSince(m.Name, ms.Day.Begins)
		}
		if s.releasable(m) || ms.Batch != nil && ms.Batch.Halted != "" {
			ms.Release = "feedsink imports release --mapping " + m.Name
		}
		if s.calls != nil {
			ms.Pending = s.calls.PendingOf(m.Table)
		}
		for _, lane := range schemas.Lanes {
			if !m.Uses(lane) {
				continue
			}
			ms.Lanes = append(ms.Lanes, lane.String())
			if of, runs := ages[lane.String()]; runs {
				ms.Oldest[lane.String()] = of[m.Name].Seconds()
			}
		}
		st.Mappings = append(st.Mappings, ms)
	}
	return st
}

// objectives are how fresh records of the mapping are to be, and were in the last hour.
func (s *pipeline) objectives(m *router.Compiled) (all []observe.ObjectiveStatus) {
	for _, o := range m.Objectives(s.opts.Lanes) {
		st := observe.ObjectiveStatus{Route: o.Route, Lane: o.Lane.String(), Within: o.Within.Seconds(), Objective: o.Share}
		var kept float64
		if kept, st.Records = s.hour.Kept(o); st.Records > 0 {
			st.Kept = &kept
		}
		all = append(all, st)
	}
	return all
}

// releasable reports whether some lane has halted the mapping until it is released.
func (s *pipeline) releasable(m *router.Compiled) bool {
	return slices.ContainsFunc(s.lanes, func(l *lane) bool { return l.floods.Halted(m) })
}

func (s *pipeline) laneStatus(l *lane) observe.LaneStatus {
	_, left := s.left.Load(l.which)
	st := observe.LaneStatus{Lane: l.which.String(), Group: s.group(l.which), Joined: l.source.HasPlace() && !left, Partitions: l.source.Status()}
	if c, ok := l.delivery.(*callDelivery); ok {
		worst := calls.Closed
		for _, t := range c.tables {
			worst = max(worst, c.calls.Breaker(t))
		}
		st.Calls = &observe.CallStatus{Pending: c.calls.Pending(), InFlight: c.calls.InFlight(), Limit: c.calls.Limit(), Breaker: worst.String(), Waits: s.waitStatus(c.calls.Waits())}
		if cause := s.breakerCause.Load(); cause != nil && worst != calls.Closed {
			st.Calls.Cause = *cause
		}
	}
	return st
}

// halted gives, for each mapping that is halted or reads a halted partition in its
// lane, the reasons.
func (s *pipeline) halted() map[string][]string {
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
					if m.Uses(l.which) { // all of them: the partition is not read
						add(m.Name, reason)
					}
				}
			}
		}
	}
	return reasons
}

// due is when a mapping's open file is sent, as far as that is known.
func (s *pipeline) due(st contract.MappingStatus) time.Time {
	if st.Opened.IsZero() || st.Import != nil || st.Halted != "" || s.pausedFiles(st.Mapping) {
		return time.Time{}
	}
	due := st.Until
	switch now := time.Now(); {
	case st.Due, !due.IsZero() && due.Before(now):
		due = now
	case due.IsZero(): // only when it is full
		return time.Time{}
	}
	wait := s.pacing.Wait(st.Mapping, nil, false)
	if slot := time.Now().Add(wait); slot.After(due) { // since then; midnight is not to show as 23:59
		due = slot
	}
	return due
}

// importsAPI is where an operator sees and steers the batch lane, through the admin
// server.
type importsAPI struct{ *Sink }

// Imports lists the mappings of the batch lane, none if this process does not
// run it. Its type is []MappingImports.
func (d importsAPI) Imports() any {
	list := []observe.MappingImports{}
	if d.now().files != nil {
		now := d.now().waits()
		for _, st := range d.now().files.Status() {
			list = append(list, d.asShown(d.mapping(st), now))
		}
	}
	return list
}

// Import is one mapping. Its type is MappingImports.
func (d importsAPI) Import(name string) (any, error) {
	m, err := d.find(name)
	return d.asShown(m, d.now().waits()), err
}

// asShown adds for a person why the mapping's records wait for a release, in either lane,
// and what its batch lane waits for, be it with others. The first is no halt of its
// import: a file that is open still goes.
func (d importsAPI) asShown(m observe.MappingImports, now []observe.Wait) observe.MappingImports {
	for _, l := range d.now().lanes {
		switch reason := l.floods.Reason(m.Mapping); {
		case strings.Contains(m.Halted, reason): // its import says it, or there is none
		case m.Halted == "":
			m.Halted = reason
		default:
			m.Halted += "; " + reason
		}
	}
	of := d.now().router.Mapping(m.Mapping)
	for _, w := range now {
		others := w.Mapping != "" && w.Mapping != m.Mapping
		topic := w.Topic == "" || w.Topic == d.now().cfg.DLQ.Topic || w.Topic == d.now().cfg.Receipts.Topic || of != nil && slices.Contains(of.Config.Topics, w.Topic)
		if w.Lane == schemas.Batch.String() && !others && topic {
			m.Waits = append(m.Waits, w)
		}
	}
	return m
}

// Reason tells what the service said; where a former owner of the table heard it,
// the service is asked again. Its type is observe.LastMessage.
func (d importsAPI) Reason(ctx context.Context, name string) (any, error) {
	if _, err := d.find(name); err != nil {
		return nil, err
	}
	last := observe.LastMessage{Mapping: name}
	message, ok := d.now().files.LastServiceMessage(name)
	if !ok {
		return last, nil
	}
	if message.Words == "" {
		results, err := imports.Request(&d.now().service, func() (service.Results, error) { return d.now().client.Results(ctx, message.Execution) })
		if err != nil {
			return nil, fmt.Errorf("mapping %s: the service said it to another process, and cannot be asked again: %w", name, err)
		}
		message.Words = results.Error
	}
	last.Said = &message
	return last, nil
}

// Release lets a halted mapping go on: its file, and its records that wait because
// nearly all were refused alike, in each lane. Its type is Released.
func (d importsAPI) Release(name string) (any, error) {
	released := observe.Released{Mapping: name}
	for _, l := range d.now().lanes {
		if l.floods.Release(name) {
			released.Lanes = append(released.Lanes, l.which.String())
		}
	}
	m, err := d.find(name)
	switch {
	case err == nil && m.Halted != "" && m.Import != nil && d.now().files.Release(name) == nil:
		released.File, released.Loaded, released.SlotsLeft = m.Import.File, m.Import.Loaded, m.SlotsLeft
	case released.Lanes != nil:
	case err != nil:
		if refusal, ok := errors.AsType[*admin.Refusal](err); ok {
			refusal.Message += "; nor is it halted in this process: each member of the group releases its own"
		}
		return nil, err
	default: // or somebody else was faster
		return nil, &admin.Refusal{Status: http.StatusConflict, Message: d.now().notHalted(m)}
	}
	return released, nil
}

// rollPatience is how long a file may take to be written before Roll answers without its
// name.
const rollPatience = 10 * time.Second

// Roll sends the open file now. Its type is observe.Rolled.
func (d importsAPI) Roll(ctx context.Context, name string, reserve bool) (any, error) {
	m, err := d.find(name)
	if err == nil {
		err = d.rollable(m, reserve)
	}
	if err != nil {
		return nil, err
	}
	asked, err := d.now().files.Roll(name, reserve)
	if errors.Is(err, batcher.ErrNothingOpen) {
		err = refuse(http.StatusConflict, "mapping %s: nothing to send, %w", name, err)
	}
	if err != nil {
		return nil, err
	}
	rolled := observe.Rolled{Mapping: name, Bundle: m.Bundle}
	if m.Import != nil {
		rolled.After = cmp.Or(m.Import.File, "the file that is being written")
		return rolled, nil
	}
	ctx, cancel := context.WithTimeout(ctx, rollPatience)
	defer cancel()
	files, ok := asked.Files(ctx)
	rolled.Files, rolled.Nothing = files, ok && len(files) == 0
	return rolled, nil
}

// rollable says why a mapping's open file cannot be sent now; nil: it can, or goes next.
func (d importsAPI) rollable(m observe.MappingImports, reserve bool) error {
	conflict := func(format string, args ...any) error {
		return refuse(http.StatusConflict, "mapping %s: "+format, append([]any{m.Mapping}, args...)...)
	}
	switch {
	case !m.Owned:
		return conflict("this process does not have its table; %s", d.now().orOwner(m.Owner))
	case m.Halted != "":
		return conflict("it is halted, and nothing of it is sent before it is released: %s", m.Halted)
	}
	var wait, further time.Duration
	for _, st := range d.now().files.Status() {
		if st.Mapping != m.Mapping && (m.Bundle == "" || st.Bundle != m.Bundle) {
			continue
		}
		if d.now().pausedFiles(st.Mapping) {
			return conflict("nothing is sent while %s is paused; feedsink resume --mapping %s lets it go on", st.Mapping, st.Mapping)
		}
		wait, further = max(wait, d.now().pacing.Wait(st.Mapping, nil, reserve)), max(further, d.now().pacing.Wait(st.Mapping, nil, true))
	}
	if wait == 0 || m.Import != nil || m.Open == nil && m.Bundle == "" {
		return nil // now, or it goes next, or there is nothing that could
	}
	at := time.Now().Add(wait).In(d.now().pacing.Table(m.Mapping).Zone).Format("15:04 MST on 2006-01-02")
	if further == 0 {
		return conflict("no slot until %s: what is left of the day's imports is spread, or kept for further tries; --reserve takes one of those now", at)
	}
	return conflict("no slot until %s: the day's imports are used up", at)
}

// TakeSlot counts an import by hand and returns once that is in Kafka: a crash of this
// process does not forget it. Its type is MappingImports.
func (d importsAPI) TakeSlot(ctx context.Context, name string) (any, error) {
	m, err := d.find(name)
	switch {
	case err != nil:
		return nil, err
	case m.SlotsLeft == nil:
		return nil, &admin.Refusal{Status: http.StatusConflict, Message: fmt.Sprintf("mapping %s: this process does not have its table; %s", name, d.now().orOwner(m.Owner))}
	case !d.now().pacing.Took(name):
		return nil, &admin.Refusal{Status: http.StatusConflict, Message: fmt.Sprintf("mapping %s: no import is left today, all %d were used", name, m.SlotsPerDay)}
	}
	if err := d.sources[schemas.Batch].CommitNow(ctx); err != nil {
		return nil, fmt.Errorf("mapping %s: an import is counted in this process, but Kafka may not have it yet and a restart would forget it; asking again takes another one: %w", name, err)
	}
	return d.find(name)
}

func (s *pipeline) notHalted(m observe.MappingImports) string {
	const message = "mapping %s: nothing to release, no import of it is halted"
	if !m.Owned {
		return fmt.Sprintf(message+" here; this process does not have its table; %s", m.Mapping, s.orOwner(m.Owner))
	}
	return fmt.Sprintf(message+"; if its partitions wait all the same, /status says what for", m.Mapping)
}

// find is the mapping, or a refusal that says what there is instead.
func (d importsAPI) find(name string) (observe.MappingImports, error) {
	if d.now().files == nil {
		return observe.MappingImports{}, refuse(http.StatusNotFound, "mapping %s: not here, this process does not run the batch lane; ask one that does", name)
	}
	all := d.now().files.Status()
	names := make([]string, len(all))
	for i, st := range all {
		if st.Mapping == name {
			return d.mapping(st), nil
		}
		names[i] = st.Mapping
	}
	has := "the batch lane has " + strings.Join(names, ", ")
	if d.now().router.Mapping(name) != nil {
		return observe.MappingImports{}, refuse(http.StatusNotFound, "mapping %s: has no imports, all of its routes lead to the immediate lane; %s", name, has)
	}
	return observe.MappingImports{}, refuse(http.StatusNotFound, "mapping %s: is not in the configuration; %s", name, has)
}

func (d importsAPI) mapping(st contract.MappingStatus) observe.MappingImports {
	slots := d.now().pacing.Table(st.Mapping)
	m := observe.MappingImports{
		Mapping: st.Mapping, Table: slots.Label, Bundle: st.Bundle, SlotsPerDay: slots.PerDay,
		Import: st.Import, Halted: st.Halted, Kept: slices.Clone(st.Kept),
	}
	var left int
	if left, m.Owned = d.now().pacing.Remaining(st.Mapping); m.Owned {
		m.SlotsLeft = &left
	} else {
		m.Owner = d.now().others.Owner(slots.Topic, schemas.Batch)
	}
	if !st.Opened.IsZero() {
		m.Open = &observe.OpenFile{Rows: st.Rows, Bytes: st.Bytes, Since: st.Opened, Full: st.Full, Due: d.now().due(st)}
	}
	for _, p := range d.now().paused(d.now().router.Mapping(st.Mapping)) {
		if p.Lane == schemas.Batch.String() {
			m.Paused = &p
		}
	}
	return m
}
