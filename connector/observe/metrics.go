package observe

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// Metrics are the counters that are kept as things happen. What is a state
// rather than an event is read when it is asked for.
type Metrics struct {
	records     *prometheus.CounterVec
	writes      *prometheus.CounterVec
	calls       *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	delivery    *prometheus.HistogramVec
	objective   *prometheus.CounterVec
	imports     *prometheus.CounterVec
	importTime  *prometheus.HistogramVec
	unmatched   *prometheus.CounterVec
	deadLetters *prometheus.CounterVec
	receipts    *prometheus.CounterVec
	schemas     *prometheus.CounterVec
	unread      *prometheus.CounterVec

	cached cachedSeries
}

// How a record ended, as label values.
const (
	OutcomeConfirmed  = "confirmed"
	OutcomeDeadLetter = "dead_letter"
	OutcomeOtherLane  = "other_lane"  // confirmed at once: the other lane sees to it
	OutcomeDone       = "done_before" // confirmed before a restart
	OutcomeNoChange   = "no_change"   // confirmed at once: it says that no row has changed
	OutcomeUnchanged  = "unchanged"   // confirmed at once: the last calls for its keys have said the same
	OutcomeSkipped    = "skipped"     // confirmed at once: routes skip it, or no mapping takes it
	OutcomeIgnored    = "ignored"     // ended after its partition had moved on
)

// NewMetrics registers the metrics. Each bucket is a line for each of perhaps a thousand
// mappings: there are no more than the panels and alerts tell apart.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		records: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "feedsink_records_total",
			Help: "Kafka records by how they ended: confirmed, dead_letter, other_lane (confirmed at once, the other lane sees to it), done_before (confirmed before a restart), no_change (it says that no row has changed), unchanged (its keys' last calls have said the same), skipped (routes skip it, or no mapping takes it), ignored (ended after its partition had moved on).",
		}, []string{"topic", "outcome"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "feedsink_writes_total",
			Help: "Writes by how they ended: applied, absent (a delete that found nothing), unchanged (the last call for its key has said the same: none is made), rejected, and retried for each try that is repeated. And calls that send a key's newest state once more, since an older one may land late: repeated, repeat_refused, not_repeated (too many keys are remembered; no op).",
		}, []string{"mapping", "lane", "op", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "feedsink_write_duration_seconds",
			Help:    "Time of one call of the immediate lane, from sending to its answer.",
			Buckets: []float64{0.005, 0.02, 0.05, 0.1, 0.25, 1, 5, 30},
		}, []string{"mapping", "op"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "feedsink_calls_total",
			Help: "Calls of the immediate lane by the status of their answer; none where no answer came.",
		}, []string{"mapping", "op", "status"}),
		delivery: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "feedsink_delivery_seconds",
			Help:    "Time from a record's Kafka timestamp until it was confirmed; of records in files within a 64th of the time that the file's timestamps span.",
			Buckets: []float64{0.05, 0.25, 1, 5, 30, 120, 900, 4 * 3600, 24 * 3600},
		}, []string{"mapping", "lane"}),
		objective: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "feedsink_objective_records_total",
			Help: "Records of routes with an objective (within), when they were confirmed: kept yes where that was in time from the record's Kafka timestamp; of records in files within a 64th of the time that the file's timestamps span. The route is its name, or its number from 1.",
		}, []string{"mapping", "route", "kept"}),
		imports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "feedsink_imports_total",
			Help: "Imports that ended, by mode and status: FINISHED, FAILED, refused.",
		}, []string{"mapping", "mode", "status"}),
		importTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "feedsink_import_duration_seconds",
			Help:    "Time of an import from its trigger to its result.",
			Buckets: []float64{10, 30, 60, 300, 900, 3600, 6 * 3600},
		}, []string{"mapping"}),
		unmatched: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "feedsink_import_rows_unmatched_total",
			Help: "Rows that the service put in error and no record was found for: a dead letter of its own each, or, where a mapping was released without their names, one for all of them.",
		}, []string{"mapping"}),
		deadLetters: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "feedsink_dead_letters_total",
			Help: "Dead letters that Kafka acknowledged, by reason; the topic is that of their records, empty for rows of files that match no record.",
		}, []string{"topic", "reason"}),
		receipts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "feedsink_receipts_total",
			Help: "Receipts that Kafka acknowledged, by how their events ended: called, imported, merged, superseded, absent, skipped, dead_letter.",
		}, []string{"outcome"}),
		schemas: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "feedsink_schema_requests_total",
			Help: "Requests to the schema registry by how they ended: found, unknown, failed (records wait, and it is asked again).",
		}, []string{"outcome"}),
		unread: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "feedsink_unread_fields_total",
			Help: "Fields of a topic's values that no mapping reads, each counted once since the start; the log names them.",
		}, []string{"topic"}),
	}
	m.remember()
	reg.MustRegister(m.records, m.writes, m.calls, m.duration, m.delivery, m.objective, m.imports, m.importTime, m.unmatched, m.deadLetters, m.receipts, m.schemas, m.unread)
	return m
}

// RecordsEnded counts records of a topic by how they ended.
func (m *Metrics) RecordsEnded(topic, outcome string, n int64) {
	m.cached.records.of(recordsKey{topic, outcome}).Add(float64(n))
}

// WritesEnded counts writes by how they ended.
func (m *Metrics) WritesEnded(mapping string, lane schemas.Lane, op schemas.Op, outcome string, n int64) {
	m.cached.writes.of(writesKey{mapping, lane, op, outcome}).Add(float64(n))
}

// Called notes how long a call of the immediate lane took, and the status of its answer; 0:
// none came.
func (m *Metrics) Called(mapping string, op schemas.Op, status int, took time.Duration) {
	m.cached.calls.of(callsKey{mapping, op, status}).Inc()
	m.cached.duration.of(durationKey{mapping, op}).Observe(took.Seconds())
}

// Delivered notes how old so many records were when they were confirmed. trace is the id of one
// that tells of them, their exemplar; "": none is sampled.
func (m *Metrics) Delivered(mapping string, lane schemas.Lane, age time.Duration, records int64, trace string) {
	series, seconds := m.cached.delivery.of(deliveryKey{mapping, lane}), max(age, 0).Seconds()
	if trace != "" && records > 0 {
		series.(prometheus.ExemplarObserver).ObserveWithExemplar(seconds, prometheus.Labels{"trace_id": trace}) // as every histogram is
		records--
	}
	for range records {
		series.Observe(seconds)
	}
}

// Judged counts so many records of that age, which were confirmed, under the objective of
// their route; nil: it has none.
func (m *Metrics) Judged(o *router.Objective, age time.Duration, records int64) {
	if o != nil {
		m.cached.objective.of(objectiveKey{routeKey{o.Mapping, o.Route}, age <= o.Within}).Add(float64(records))
	}
}

// DeadLetter counts a dead letter that Kafka has acknowledged.
func (m *Metrics) DeadLetter(topic, reason string) {
	m.deadLetters.WithLabelValues(topic, reason).Inc()
}

// Receipts counts receipts that Kafka has acknowledged.
func (m *Metrics) Receipts(outcome string, n int) { m.cached.receipts.of(outcome).Add(float64(n)) }

// SchemaAsked counts a request to the schema registry.
func (m *Metrics) SchemaAsked(outcome string) { m.schemas.WithLabelValues(outcome).Inc() }

// FieldsUnread counts fields of a topic that no mapping reads.
func (m *Metrics) FieldsUnread(topic string, fields int) {
	m.unread.WithLabelValues(topic).Add(float64(fields))
}

// RowsUnmatched counts rows in error that no record was found for.
func (m *Metrics) RowsUnmatched(mapping string, rows int64) {
	m.unmatched.WithLabelValues(mapping).Add(float64(rows))
}

// ImportEnded counts an import and the writes in it, for each of its mappings.
func (m *Metrics) ImportEnded(imp contract.Import, r contract.Results, took time.Duration) {
	for _, load := range loaded(imp, r) {
		m.imports.WithLabelValues(load.Mapping, imp.Mode, string(r.Status)).Inc()
		m.importTime.WithLabelValues(load.Mapping).Observe(took.Seconds())
		if r.Status == contract.Finished {
			rejected := max(load.InError, 0)
			m.WritesEnded(load.Mapping, schemas.Batch, imp.Op, "applied", max(load.Rows-rejected, 0))
			m.WritesEnded(load.Mapping, schemas.Batch, imp.Op, "rejected", rejected)
		}
	}
}

// Repeated counts a key's newest state that was sent again, or was not.
func (m *Metrics) Repeated(mapping, op, outcome string) {
	m.writes.WithLabelValues(mapping, schemas.Immediate.String(), op, outcome).Inc()
}

// reasons are the codes of dead letters.
var reasons = []string{"decode", "value", router.CodeNoID, "conflict", "not_found", "rejected", "import_row"}

// Begin makes the series whose first event an alert must not miss: a counter that
// appears with its first event has, to Prometheus, not increased.
func (m *Metrics) Begin(mappings []*router.Compiled, lanes []schemas.Lane) {
	for _, c := range mappings {
		for _, topic := range c.Config.Topics {
			for _, reason := range reasons {
				m.deadLetters.WithLabelValues(topic, reason)
			}
			m.unread.WithLabelValues(topic)
		}
		for _, o := range c.Objectives(lanes) {
			m.Judged(o, 0, 0)
			m.Judged(o, o.Within+1, 0)
		}
		if !c.Uses(schemas.Batch) || !slices.Contains(lanes, schemas.Batch) {
			continue
		}
		m.deadLetters.WithLabelValues("", "import_row") // of rows that match no record
		for _, load := range c.Config.Imports.All() {
			m.imports.WithLabelValues(c.Name, load.Mode, string(contract.Finished))
			m.imports.WithLabelValues(c.Name, load.Mode, string(contract.Failed))
		}
	}
}

// Forget removes the series of mappings, topics and objectives that a new configuration
// does not have. Nothing of the former one may be counted meanwhile, or later.
func (m *Metrics) Forget(former, now *router.Router) {
	gone := func(label, value string) {
		for _, vec := range []interface {
			DeletePartialMatch(labels prometheus.Labels) int
		}{m.records, m.writes, m.calls, m.duration, m.delivery, m.objective, m.imports, m.importTime, m.unmatched, m.deadLetters, m.unread} {
			vec.DeletePartialMatch(prometheus.Labels{label: value})
		}
	}
	named, judged := map[string]bool{}, map[routeKey]bool{}
	for _, c := range now.Mappings() {
		named[c.Name] = true
		for _, o := range c.Objectives(schemas.Lanes) {
			judged[routeKey{o.Mapping, o.Route}] = true
		}
	}
	for _, c := range former.Mappings() {
		if !named[c.Name] {
			gone("mapping", c.Name)
		}
		for _, o := range c.Objectives(schemas.Lanes) {
			if !judged[routeKey{o.Mapping, o.Route}] {
				m.objective.DeletePartialMatch(prometheus.Labels{"mapping": o.Mapping, "route": o.Route})
			}
		}
		for _, topic := range c.Config.Topics {
			if len(now.TopicMappings(topic)) == 0 {
				gone("topic", topic)
			}
		}
	}
	m.cached.records.known.Store(nil)
	m.cached.writes.known.Store(nil)
	m.cached.calls.known.Store(nil)
	m.cached.duration.known.Store(nil)
	m.cached.delivery.known.Store(nil)
	m.cached.objective.known.Store(nil)
}

// remembered keeps the series of a metric that every record or call touches, by a
// key that is cheaper to look up than a list of label values. There are as many
// as the configuration has mappings and topics; Forget alone lets some go.
type remembered[K comparable, S any] struct {
	find  func(K) S
	known atomic.Pointer[map[K]S] // never changed, only replaced
	mu    sync.Mutex              // held to replace it
}

// of is the series of that key. It appears with its first use.
func (r *remembered[K, S]) of(key K) S {
	if known := r.known.Load(); known != nil {
		if s, ok := (*known)[key]; ok {
			return s
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	next := map[K]S{}
	if known := r.known.Load(); known != nil {
		maps.Copy(next, *known)
	}
	s := r.find(key)
	next[key] = s
	r.known.Store(&next)
	return s
}

// all are the series that were used. The caller does not change the map.
func (r *remembered[K, S]) all() map[K]S {
	if known := r.known.Load(); known != nil {
		return *known
	}
	return nil
}

type recordsKey struct{ topic, outcome string }

type writesKey struct {
	mapping string
	lane    schemas.Lane
	op      schemas.Op
	outcome string
}

type durationKey struct {
	mapping string
	op      schemas.Op
}

type callsKey struct {
	mapping string
	op      schemas.Op
	status  int
}

type deliveryKey struct {
	mapping string
	lane    schemas.Lane
}

type routeKey struct{ mapping, route string }

type objectiveKey struct {
	routeKey
	kept bool
}

// cachedSeries are the series of what happens with every record.
type cachedSeries struct {
	records   remembered[recordsKey, prometheus.Counter]
	writes    remembered[writesKey, prometheus.Counter]
	calls     remembered[callsKey, prometheus.Counter]
	duration  remembered[durationKey, prometheus.Observer]
	delivery  remembered[deliveryKey, prometheus.Observer]
	objective remembered[objectiveKey, prometheus.Counter]
	receipts  remembered[string, prometheus.Counter]
}

func (m *Metrics) remember() {
	m.cached.receipts.find = func(outcome string) prometheus.Counter { return m.receipts.WithLabelValues(outcome) }
	m.cached.records.find = func(k recordsKey) prometheus.Counter {
		return m.records.WithLabelValues(k.topic, k.outcome)
	}
	m.cached.writes.find = func(k writesKey) prometheus.Counter {
		return m.writes.WithLabelValues(k.mapping, k.lane.String(), k.op.String(), k.outcome)
	}
	m.cached.calls.find = func(k callsKey) prometheus.Counter {
		status := "none"
		if k.status != 0 {
			status = strconv.Itoa(k.status)
		}
		return m.calls.WithLabelValues(k.mapping, k.op.String(), status)
	}
	m.cached.delivery.find = func(k deliveryKey) prometheus.Observer {
		return m.delivery.WithLabelValues(k.mapping, k.lane.String())
	}
	m.cached.objective.find = func(k objectiveKey) prometheus.Counter {
		kept := "no"
		if k.kept {
			kept = "yes"
		}
		return m.objective.WithLabelValues(k.mapping, k.route, kept)
	}
	m.cached.duration.find = func(k durationKey) prometheus.Observer {
		return m.duration.WithLabelValues(k.mapping, k.op.String())
	}
}
