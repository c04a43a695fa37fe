package connector

import (
	"cmp"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/imports"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/tables"
	"github.com/feedsink/feedsink/connector/waits"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// collector reads what is a state, not an event, when it is asked.
type collector struct{ sink *Sink }

// stateOf is that of one configuration.
type stateOf struct{ *pipeline }

var (
	descUnconfirmed = describe("feedsink_unconfirmed_records", "Kafka records that are not confirmed, by what they wait for: calling, buffered (in an open file), importing, or waiting for a slot (their file is complete and the day's imports are used up or spread). Partitions without such records are left out.", "topic", "partition", "state")
	descLag         = describe("feedsink_lag_records", "Offsets between the committed ones and the ends of the topic's partitions that this member has, as the brokers were asked at most some 15 seconds ago. /status has each partition's.", "lane", "topic")
	descStalled     = describe("feedsink_stalled_seconds", "Time for which a partition of the topic has lagged while its committed offset has not moved, of the worst of them, within some 15 seconds. Topics without one are left out; partitions of a mapping that is paused, or of its bundle, do not count.", "lane", "topic")
	descInFlight    = describe("feedsink_calls_in_flight", "Calls of the immediate lane under way.")
	descLimit       = describe("feedsink_concurrency_limit", "Calls of the immediate lane that may be under way at present.")
	descBreaker     = describe("feedsink_breaker_state", "Breaker of the table's calls: 0 closed, 1 half-open (probing), 2 open. Of two tables of one name the label has the kind too: profile/NAME, custom/NAME.", "table")
	descRows        = describe("feedsink_batch_rows", "Rows in the mapping's open file, within about 3 %.", "mapping")
	descBytes       = describe("feedsink_batch_bytes", "Uncompressed bytes in the mapping's open file.", "mapping")
	descAge         = describe("feedsink_batch_age_seconds", "Time since the first row of the mapping's open file, 0 without one.", "mapping")
	descSlots       = describe("feedsink_import_slots_remaining", "Imports the table has left today, the reserve included. Of two tables of one name the label has the kind too: profile/NAME, custom/NAME.", "table")
	descStep        = describe("feedsink_import_step_seconds", "Time that the mapping's import has been in its present step, as /imports names it; none without an import.", "mapping", "step")
	descSpool       = describe("feedsink_spool_bytes", "Bytes the spool takes on disk.")
	descSpoolFree   = describe("feedsink_spool_free_bytes", "Bytes that the disk of the spool has left; missing where the system does not tell.")
	descSpoolMax    = describe("feedsink_spool_max_bytes", "Bytes at which the spool is full and the batch lane's partitions pause (spool.maxBytes).")
	descPending     = describe("feedsink_pending_bytes", "Bytes of memory that records take whose calls, or dead letters, are not confirmed.")
	descPendingMax  = describe("feedsink_pending_max_bytes", "Bytes that they may take (memory.pending).")
	descToken       = describe("feedsink_token_ok", "1 if the last request for an access token was answered with one.")
	descWaiting     = describe("feedsink_partitions_waiting_for_routes", "Partitions of the lane whose records wait until the other lane applies the same routes, or has let go of them; /status says which and for what.", "lane")
	descWaits       = describe("feedsink_waiting", "What the lane waits for, by cause: how many topics, tables or mappings of it. /status says which, why and until when.", "lane", "cause")
	descFreshness   = describe("feedsink_freshness_seconds", "Age of the mapping's oldest record that is not confirmed, by its Kafka timestamp; 0 without one. Of one that was not fetched, since the brokers first told of it.", "mapping", "lane")
	descObjective   = describe("feedsink_objective_ratio", "Share of the records of a route that are to be confirmed in time (objective, by default 0.99), of routes that lead to the lanes of this process.", "mapping", "route")
	descRunning     = describe("feedsink_lane_running", "1 for a lane that this process runs, 0 for one that its mappings use and that another process has to run, by the lane's consumer group.", "group", "lane")
	descBuild       = describe("feedsink_build_info", "Always 1; the labels say what runs.", "version", "commit", "goversion")
	descHalted      = describe("feedsink_halted", "1 while the mapping is halted and waits for a person.", "mapping")
	descPaused      = describe("feedsink_paused", "1 while the mapping is paused by a command, in one lane or in both.", "mapping")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe names no metric: which of them there are depends on the lanes, and
// the registry then checks each scrape instead.
func (collector) Describe(chan<- *prometheus.Desc) {}

// gauges is where a state is written to.
type gauges func(d *prometheus.Desc, value float64, labels ...string)

// Collect reads the state of the sink.
func (c collector) Collect(out chan<- prometheus.Metric) {
	stateOf{c.sink.now()}.collect(func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	})
}

// collect reads the lanes.
func (c stateOf) collect(gauge gauges) {
	waiting := map[observe.Wait]int{}
	for _, w := range c.waits() {
		waiting[observe.Wait{Lane: w.Lane, Cause: w.Cause}]++
	}
	for _, lane := range schemas.Lanes {
		if len(c.router.Topics(lane)) > 0 {
			gauge(descRunning, number(slices.Contains(c.opts.Lanes, lane)), c.group(lane), lane.String())
		}
	}
	slots := c.waitingForSlots()
	for _, l := range c.lanes {
		for _, cause := range waits.Causes[l.which] {
			gauge(descWaits, float64(waiting[observe.Wait{Lane: l.which.String(), Cause: cause}]), l.which.String(), cause)
		}
		laneState(gauge, l, slots)
		ages := c.freshness(l)
		for _, m := range c.router.Mappings() {
			if m.Uses(l.which) {
				gauge(descFreshness, seconds(ages[m.Name]), m.Name, l.which.String())
			}
		}
	}
	if calls := c.calls; calls != nil {
		gauge(descInFlight, float64(calls.InFlight()))
		gauge(descLimit, float64(calls.Limit()))
	}
	for t, state := range c.breakers() {
		gauge(descBreaker, float64(state), router.LabelOf(c.router.Mappings(), t))
	}
	gauge(descPending, float64(c.pending.Used()))
	gauge(descPendingMax, float64(c.cfg.Memory.Pending))
	gauge(descBuild, 1, cmp.Or(c.opts.Version, "unknown"), cmp.Or(c.opts.Commit, "unknown"), runtime.Version())
	gauge(descToken, number(c.client.TokenOK()))
	halted := c.halted()
	for _, m := range c.router.Mappings() {
		gauge(descHalted, number(len(halted[m.Name]) > 0), m.Name)
		gauge(descPaused, number(len(c.paused(m)) > 0), m.Name)
		for _, o := range m.Objectives(c.opts.Lanes) {
			gauge(descObjective, o.Share, o.Mapping, o.Route)
		}
	}
	c.fileState(gauge)
}

// breakers are those of the tables that this process calls, for records or in the place of
// rows, at their worst.
func (c stateOf) breakers() map[schemas.Table]calls.BreakerState {
	of, rows := map[schemas.Table]calls.BreakerState{}, c.rowTables()
	for _, m := range c.router.Mappings() {
		if c.calls != nil && m.Uses(schemas.Immediate) {
			of[m.Table] = max(of[m.Table], c.calls.Breaker(m.Table))
		}
		if c.rows != nil && m.HasAuto() {
			of[m.Table] = max(of[m.Table], calls.Closed)
			if rows[m.Table] {
				of[m.Table] = max(of[m.Table], c.rows.calls.Breaker(m.Table))
			}
		}
	}
	return of
}

func laneState(gauge gauges, l *lane, slots map[string]slotWait) {
	waiting := 0
	topics := map[string]*topicState{}
	for _, p := range l.source.Partitions() {
		unconfirmedState(gauge, l.which, p, slots[p.Topic])
		if p.WaitsFor() != "" {
			waiting++
		}
		lag, ok := p.Lag()
		if !ok {
			continue
		}
		of := topics[p.Topic]
		if of == nil {
			of = &topicState{}
			topics[p.Topic] = of
		}
		of.lag, of.stalled = of.lag+lag, max(of.stalled, p.Stalled())
	}
	for topic, of := range topics {
		gauge(descLag, float64(of.lag), l.which.String(), topic)
		if of.stalled > 0 {
			gauge(descStalled, seconds(of.stalled), l.which.String(), topic)
		}
	}
	gauge(descWaiting, float64(waiting), l.which.String())
}

// topicState is what the metrics have of a topic's partitions together: there may be
// partitions by the thousand.
type topicState struct {
	lag     int64
	stalled time.Duration
}

func unconfirmedState(gauge gauges, lane schemas.Lane, p *kafka.Partition, slot slotWait) {
	u := p.Unconfirmed()
	unconfirmed := func(records int64, state string) {
		if records > 0 {
			gauge(descUnconfirmed, float64(records), p.Topic, strconv.Itoa(int(p.ID)), state)
		}
	}
	if lane == schemas.Batch {
		waiting := int64(0)
		if slot.open {
			u.Buffered, waiting = 0, u.Buffered
		}
		if slot.sent {
			u.Importing, waiting = 0, waiting+u.Importing
		}
		unconfirmed(u.Buffered, "buffered")
		unconfirmed(u.Importing, "importing")
		unconfirmed(waiting, string(contract.Waiting))
	}
	unconfirmed(int64(u.Pending), "calling")
}

// fileState is about the batch lane's files, where this process has the lane.
func (c stateOf) fileState(gauge gauges) {
	files := c.files
	if files == nil {
		return
	}
	gauge(descSpool, float64(files.SpoolBytes()))
	if free, ok := files.SpoolFree(); ok {
		gauge(descSpoolFree, float64(free))
	}
	gauge(descSpoolMax, float64(c.cfg.Spool.MaxBytes))
	counted := map[string]bool{} // tables: several mappings may share one
	for _, st := range files.Status() {
		gauge(descRows, float64(st.Rows), st.Mapping)
		gauge(descBytes, float64(st.Bytes), st.Mapping)
		gauge(descAge, seconds(st.Age), st.Mapping)
		if st.Import != nil {
			gauge(descStep, seconds(time.Since(st.Import.Since)), st.Mapping, string(st.Import.Step))
		}
		table := c.pacing.Table(st.Mapping).Label
		if left, ok := c.pacing.Remaining(st.Mapping); ok && !counted[table] {
			counted[table] = true
			gauge(descSlots, float64(left), table)
		}
	}
}

// seconds is a duration as a metric has it, in no more digits than are of use.
func seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// number is a yes or no as a metric has it.
func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// observer counts what the lanes do.
type observer struct{ s *pipeline }

func (o observer) Called(a calls.Attempt) {
	status := a.Status
	if a.Outcome == calls.Applied {
		status = o.s.accepts(a.Mapping, a.Op)
	}
	o.s.metrics.Called(a.Mapping, a.Op, status, a.Took)
	switch {
	case a.Repeat && a.Outcome == calls.Rejected:
		o.s.metrics.Repeated(a.Mapping, a.Op.String(), "repeat_refused")
		o.s.log.Warn("a key's newest state was sent again, since an older call may have landed late, and was refused; nothing waits for it",
			"mapping", a.Mapping, "op", a.Op, "error", a.Err)
	case a.Repeat && (a.Outcome == calls.Applied || a.Outcome == calls.AbsentAlready):
		o.s.metrics.Repeated(a.Mapping, a.Op.String(), "repeated")
	case a.Outcome == calls.Retried:
		o.s.metrics.WritesEnded(a.Mapping, schemas.Immediate, a.Op, a.Outcome.String(), int64(a.Writes))
	}
}

// accepts is the status with which the service confirms a call, as the interface has it:
// the lane hears of a yes alone.
func (s *pipeline) accepts(mapping string, op schemas.Op) int {
	if op == schemas.Delete && !s.tables[mapping].Custom {
		return http.StatusNoContent
	}
	return http.StatusOK
}

func (o observer) NotRepeated(mapping string) { o.s.metrics.Repeated(mapping, "", "not_repeated") }

func (o observer) BreakerTurned(of schemas.Table, to calls.BreakerState, cause error) {
	switch to {
	case calls.Open:
		if cause != nil {
			text := cause.Error()
			o.s.breakerCause.Store(&text)
			o.s.breakerCauses.Store(of, text)
		}
		log := o.s.log.Debug
		if _, known := o.s.failing.LoadOrStore(of, true); !known { // else a try has failed, which would be told after its end
			log = o.s.log.Warn
		}
		log("calls for the table fail; they pause, and one is tried from time to time", "since", time.Now(),
			"table", router.LabelOf(o.s.router.Mappings(), of), "openFor", o.s.cfg.Service.Breaker.OpenFor, "cause", cause)
	case calls.Closed:
		o.s.failing.Delete(of)
		o.s.log.Info("calls for the table are answered again and go on", "table", router.LabelOf(o.s.router.Mappings(), of))
	case calls.HalfOpen:
		o.s.log.Debug("trying a call for the table", "table", router.LabelOf(o.s.router.Mappings(), of))
	}
}

func (o observer) ImportEnded(imp contract.Import, r contract.Results, took time.Duration) {
	o.s.spans.Ended(imp, r)
	o.s.metrics.ImportEnded(imp, r, took)
	o.s.recent.ImportEnded(imp, r, took)
}

func (o observer) RowsUnmatched(imp contract.Import, rows int64) {
	o.s.metrics.RowsUnmatched(imp.Mapping, rows)
}

// ages finds, by mapping, how old the oldest record of a lane is that is not
// confirmed. Mappings of which all are confirmed are left out.
type ages struct {
	now time.Time
	of  map[string]time.Duration
}

func (a ages) note(mapping string, written time.Time) {
	if !written.IsZero() {
		a.of[mapping] = max(a.of[mapping], a.now.Sub(written))
	}
}

// ages are the freshness of the lanes of this process, by lane.
func (s *pipeline) ages() map[string]map[string]time.Duration {
	of := map[string]map[string]time.Duration{}
	for _, l := range s.lanes {
		of[l.which.String()] = s.freshness(l)
	}
	return of
}

// freshness is by mapping the age of the lane's oldest record that is not confirmed.
func (s *pipeline) freshness(l *lane) map[string]time.Duration {
	a := ages{time.Now(), map[string]time.Duration{}}
	for _, p := range l.source.Partitions() {
		mappings := slices.DeleteFunc(slices.Clone(s.router.TopicMappings(p.Topic)), func(m *router.Compiled) bool { return !m.Uses(l.which) })
		waiting := p.Waiting()
		for _, m := range mappings {
			a.note(m.Name, waiting)
		}
		p.EachPending(func(of any) bool {
			mappings = a.pending(of.(*recordState), mappings)
			return len(mappings) > 0
		})
	}
	if l.which == schemas.Batch {
		for _, m := range tables.Filed(s.router.Mappings()) {
			for _, c := range imports.Claims(s.files.Claims(m.Name)) {
				a.note(m.Name, c.Oldest())
			}
		}
	}
	return a.of
}

// pending notes a pending record and returns the mappings that it does not wait for.
func (a ages) pending(j *recordState, mappings []*router.Compiled) (others []*router.Compiled) {
	return slices.DeleteFunc(mappings, func(m *router.Compiled) bool {
		for p := j.parts.Load(); p != nil; p = p.before {
			if !p.ended.Load() && (p.mapping == m || p.mapping == nil) {
				a.note(m.Name, kafka.WrittenAt(j.record.Load()))
				return true
			}
		}
		return false
	})
}
