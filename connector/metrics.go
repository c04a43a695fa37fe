package connector

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// metrics are the counters that are kept as things happen. What is a state
// rather than an event is read when it is asked for, in collector.go.
type metrics struct {
	records     *prometheus.CounterVec
	writes      *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	imports     *prometheus.CounterVec
	importTime  *prometheus.HistogramVec
	unmatched   *prometheus.CounterVec
	deadLetters *prometheus.CounterVec
	schemas     *prometheus.CounterVec

	cached cachedSeries
}

// How a record ended, as label values.
const (
	outcomeConfirmed  = "confirmed"
	outcomeDeadLetter = "dead_letter"
	outcomeOtherLane  = "other_lane"  // confirmed at once: the other lane sees to it
	outcomeDone       = "done_before" // confirmed before a restart
	outcomeNoChange   = "no_change"   // confirmed at once: it says that no row has changed
	outcomeIgnored    = "ignored"     // ended after its partition had moved on
)

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		records: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "feedsink_records_total",
			Help: "Kafka records by how they ended: confirmed, dead_letter, other_lane (confirmed at once, the other lane sees to it), done_before (confirmed before a restart), no_change (it says that no row has changed), ignored (ended after its partition had moved on).",
		}, []string{"topic", "outcome"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "feedsink_writes_total",
			Help: "Writes by how they ended: applied, absent (a delete that found nothing), rejected, and retried for each try that is repeated. And calls that send a key's newest state once more, since an older one may land late: repeated, repeat_refused, not_repeated (too many keys are remembered; no op).",
		}, []string{"mapping", "lane", "op", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "feedsink_write_duration_seconds",
			Help:    "Time of one call of the immediate lane, from sending to its answer.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
		}, []string{"mapping", "op"}),
		imports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "feedsink_imports_total",
			Help: "Imports that ended, by mode and status: FINISHED, FAILED, refused.",
		}, []string{"mapping", "mode", "status"}),
		importTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "feedsink_import_duration_seconds",
			Help:    "Time of an import from its trigger to its result.",
			Buckets: prometheus.ExponentialBuckets(1, 3, 11),
		}, []string{"mapping"}),
		unmatched: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "feedsink_import_rows_unmatched_total",
			Help: "Rows that the service put in error and no record was found for: a dead letter of its own each, or, where a mapping was released without their names, one for all of them.",
		}, []string{"mapping"}),
		deadLetters: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "feedsink_dead_letters_total",
			Help: "Dead letters that Kafka acknowledged, by reason; the topic is that of their records, empty for rows of files that match no record.",
		}, []string{"topic", "reason"}),
		schemas: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "feedsink_schema_requests_total",
			Help: "Requests to the schema registry by how they ended: found, unknown, failed (records wait, and it is asked again).",
		}, []string{"outcome"}),
	}
	m.remember()
	reg.MustRegister(m.records, m.writes, m.duration, m.imports, m.importTime, m.unmatched, m.deadLetters, m.schemas)
	return m
}

func (m *metrics) call(mapping string, op schemas.Op, took time.Duration) {
	m.cached.duration.of(durationKey{mapping, op}).Observe(took.Seconds())
}

// repeated counts a key's newest state that was sent again, or was not.
func (m *metrics) repeated(mapping, op, outcome string) {
	m.writes.WithLabelValues(mapping, schemas.Immediate.String(), op, outcome).Inc()
}

// reasons are the codes of dead letters.
var reasons = []string{"decode", "value", router.CodeNoID, "conflict", "not_found", "rejected", "import_row"}

// begin makes the series whose first event an alert must not miss: a counter that
// appears with its first event has, to Prometheus, not increased.
func (m *metrics) begin(mappings []*router.Compiled, lanes []schemas.Lane) {
	for _, c := range mappings {
		for _, topic := range c.Config.Topics {
			for _, reason := range reasons {
				m.deadLetters.WithLabelValues(topic, reason)
			}
		}
		im := c.Config.Imports
		if _, batch := c.Lanes(); !batch || !slices.Contains(lanes, schemas.Batch) {
			continue
		}
		for _, load := range []*router.Import{im.Upsert, im.Patch, im.Create, im.Delete} {
			if load != nil {
				m.imports.WithLabelValues(c.Name, load.Mode, string(batcher.Finished))
				m.imports.WithLabelValues(c.Name, load.Mode, string(batcher.Failed))
			}
		}
	}
}

// collector reads what is a state, not an event, at the moment it is asked.
type collector struct{ sink *Sink }

var (
	descUnconfirmed = describe("feedsink_unconfirmed_records", "Kafka records that are not confirmed, by what they wait for: calling, buffered (in an open file), importing, or waiting for a slot (their file is complete and the day's imports are used up or spread).", "topic", "partition", "state")
	descLag         = describe("feedsink_lag_records", "Offsets between the committed one and the end of the partition, as the brokers were asked at most some 15 seconds ago.", "lane", "topic", "partition")
	descCommitted   = describe("feedsink_committed_offset", "Offset that the lane has committed for the partition; none before the first commit.", "lane", "topic", "partition")
	descInFlight    = describe("feedsink_calls_in_flight", "Calls of the immediate lane under way.")
	descLimit       = describe("feedsink_concurrency_limit", "Calls of the immediate lane that may be under way at present.")
	descBreaker     = describe("feedsink_breaker_state", "Breaker of the table's calls: 0 closed, 1 half-open (probing), 2 open. Of two tables of one name the label has the kind too: profile/NAME, custom/NAME.", "table")
	descRows        = describe("feedsink_batch_rows", "Rows in the mapping's open file, within about 3 %.", "mapping")
	descBytes       = describe("feedsink_batch_bytes", "Uncompressed bytes in the mapping's open file.", "mapping")
	descAge         = describe("feedsink_batch_age_seconds", "Time since the first row of the mapping's open file, 0 without one.", "mapping")
	descSlots       = describe("feedsink_import_slots_remaining", "Imports the table has left today, the reserve included. Of two tables of one name the label has the kind too: profile/NAME, custom/NAME.", "table")
	descStep        = describe("feedsink_import_step_seconds", "Time that the mapping's import has been in its present step, as /imports names it; none without an import.", "mapping", "step")
	descSpool       = describe("feedsink_spool_bytes", "Bytes the spool takes on disk.")
	descSpoolMax    = describe("feedsink_spool_max_bytes", "Bytes at which the spool is full and the batch lane's partitions pause (spool.maxBytes).")
	descPending     = describe("feedsink_pending_bytes", "Bytes of memory that records take whose calls, or dead letters, are not confirmed.")
	descPendingMax  = describe("feedsink_pending_max_bytes", "Bytes that they may take (memory.pending).")
	descToken       = describe("feedsink_token_ok", "1 if the last request for an access token was answered with one.")
	descWaiting     = describe("feedsink_partitions_waiting_for_routes", "Partitions of the lane whose records wait until the other lane applies the same routes, or has let go of them; /status says which and for what.", "lane")
	descHalted      = describe("feedsink_halted", "1 while the mapping is halted and waits for a person.", "mapping")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe names no metric: which of them there are depends on the lanes, and
// the registry then checks each scrape instead.
func (collector) Describe(chan<- *prometheus.Desc) {}

// gauges is where a state is written to.
type gauges func(d *prometheus.Desc, value float64, labels ...string)

// Collect reads the lanes.
func (c collector) Collect(out chan<- prometheus.Metric) {
	gauge := gauges(func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	})
	waits := c.sink.waitingForSlots()
	for _, l := range c.sink.lanes {
		laneState(gauge, l, waits)
	}
	if calls := c.sink.calls; calls != nil {
		gauge(descInFlight, float64(calls.InFlight()))
		gauge(descLimit, float64(calls.Limit()))
		mappings := c.sink.router.Mappings()
		for _, t := range calledTables(mappings) {
			gauge(descBreaker, float64(calls.Breaker(t)), router.LabelOf(mappings, t))
		}
	}
	gauge(descPending, float64(c.sink.pending.Used()))
	gauge(descPendingMax, float64(c.sink.cfg.Memory.Pending))
	gauge(descToken, number(c.sink.client.TokenOK()))
	halted := c.sink.halted()
	for _, m := range c.sink.router.Mappings() {
		gauge(descHalted, number(len(halted[m.Name]) > 0), m.Name)
	}
	c.fileState(gauge)
}

func laneState(gauge gauges, l *lane, waits map[string]slotWait) {
	waiting := 0
	for _, p := range l.source.Partitions() {
		partitionState(gauge, l.which, p, waits[p.Topic])
		st, ok := p.Status()
		if ok && st.Committed >= 0 {
			gauge(descCommitted, float64(st.Committed), l.which.String(), p.Topic, strconv.Itoa(int(p.ID)))
		}
		if st.Waiting != "" {
			waiting++
		}
	}
	gauge(descWaiting, float64(waiting), l.which.String())
}

func partitionState(gauge gauges, lane schemas.Lane, p *kafka.Partition, waits slotWait) {
	u, id := p.Unconfirmed(), strconv.Itoa(int(p.ID))
	if lane == schemas.Batch {
		waiting := int64(0)
		if waits.open {
			u.Buffered, waiting = 0, u.Buffered
		}
		if waits.sent {
			u.Importing, waiting = 0, waiting+u.Importing
		}
		gauge(descUnconfirmed, float64(u.Buffered), p.Topic, id, "buffered")
		gauge(descUnconfirmed, float64(u.Importing), p.Topic, id, "importing")
		gauge(descUnconfirmed, float64(waiting), p.Topic, id, string(batcher.Waiting))
	} else {
		gauge(descUnconfirmed, float64(u.Pending), p.Topic, id, "calling")
	}
	if lag, ok := p.Lag(); ok {
		gauge(descLag, float64(lag), lane.String(), p.Topic, id)
	}
}

// fileState is about the batch lane's files, where this process has the lane.
func (c collector) fileState(gauge gauges) {
	files := c.sink.files
	if files == nil {
		return
	}
	gauge(descSpool, float64(files.SpoolBytes()))
	gauge(descSpoolMax, float64(c.sink.cfg.Spool.MaxBytes))
	counted := map[string]bool{} // tables: several mappings may share one
	for _, st := range files.Status() {
		gauge(descRows, float64(st.Rows), st.Mapping)
		gauge(descBytes, float64(st.Bytes), st.Mapping)
		gauge(descAge, st.Age.Seconds(), st.Mapping)
		if st.Import != nil {
			gauge(descStep, time.Since(st.Import.Since).Seconds(), st.Mapping, string(st.Import.Step))
		}
		table := c.sink.pacing.tables[st.Mapping].label
		if left, ok := c.sink.pacing.remaining(st.Mapping); ok && !counted[table] {
			counted[table] = true
			gauge(descSlots, float64(left), table)
		}
	}
}

// number is a yes or no as a metric has it.
func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// remembered keeps the series of a metric that every record or call touches, by a
// key that is cheaper to look up than a list of label values. There are as many
// as the configuration has mappings and topics, so none is ever let go.
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

// cachedSeries are the series of what happens with every record.
type cachedSeries struct {
	records  remembered[recordsKey, prometheus.Counter]
	writes   remembered[writesKey, prometheus.Counter]
	duration remembered[durationKey, prometheus.Observer]
}

func (m *metrics) remember() {
	m.cached.records.find = func(k recordsKey) prometheus.Counter {
		return m.records.WithLabelValues(k.topic, k.outcome)
	}
	m.cached.writes.find = func(k writesKey) prometheus.Counter {
		return m.writes.WithLabelValues(k.mapping, k.lane.String(), k.op.String(), k.outcome)
	}
	m.cached.duration.find = func(k durationKey) prometheus.Observer {
		return m.duration.WithLabelValues(k.mapping, k.op.String())
	}
}

// RecentDeadLetter are the records of one topic that went to the dead-letter topic
// for one reason since this process began.
type RecentDeadLetter struct {
	Topic   string       `json:"topic"`             // empty: rows of files that match no record; their partitions and offsets say nothing
	Mapping string       `json:"mapping,omitempty"` // empty: the record could not even be decoded
	Reason  string       `json:"reason"`            // the code of the dead letter's header
	Count   int64        `json:"count"`
	Latest  []DeadLetter `json:"latest"` // a few, the newest first
}

// DeadLetter is where a dead letter came from: where it can be found, nothing of
// what it says.
type DeadLetter struct {
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	At        time.Time `json:"at"`
}

// EndedImport is an execution whose result this process has seen.
type EndedImport struct {
	File      string    `json:"file"`
	Mode      string    `json:"mode"`
	Execution string    `json:"execution,omitempty"`
	Status    string    `json:"status"` // FINISHED or FAILED
	Rows      int64     `json:"rows"`
	InError   int64     `json:"inError,omitzero"`
	Began     time.Time `json:"began"` // its trigger
	Ended     time.Time `json:"ended"`
}

// What is kept of each kind: enough to look at, whatever happens.
const (
	deadLettersKept = 5
	importsKept     = 48
)

// recentHistory remembers what an operator wants to see of things that are over. It
// is lost with the process; what must not be lost stands in the ledger, the
// dead-letter topic and the metrics.
type recentHistory struct {
	mu      sync.Mutex
	letters map[deadLetterKind]*RecentDeadLetter // as many as mappings have topics and reasons
	imports map[string][]EndedImport             // by mapping, the oldest first
}

type deadLetterKind struct{ topic, mapping, reason string }

func newRecentHistory() *recentHistory {
	return &recentHistory{letters: map[deadLetterKind]*RecentDeadLetter{}, imports: map[string][]EndedImport{}}
}

// deadLetter notes a dead letter that Kafka has acknowledged, and counts those of
// its kind.
func (l *recentHistory) deadLetter(r *deadletter.Record, why deadletter.Reason) (count int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kind := deadLetterKind{r.Topic, why.Mapping, why.Code}
	d := l.letters[kind]
	if d == nil {
		d = &RecentDeadLetter{Topic: r.Topic, Mapping: why.Mapping, Reason: why.Code}
		l.letters[kind] = d
	}
	d.Count++
	d.Latest = slices.Insert(d.Latest, 0, DeadLetter{Partition: r.Partition, Offset: r.Offset, At: time.Now()})
	d.Latest = d.Latest[:min(len(d.Latest), deadLettersKept)]
	return d.Count
}

// noteDeadLetter notes a dead letter and logs the first of its kind, the tenth, the
// hundredth and so on: whoever looks at the log alone must see that there are
// some. The dead letter's message may quote the record and is not for the log.
func (l *lane) noteDeadLetter(r *deadletter.Record, why deadletter.Reason) {
	count := l.recent.deadLetter(r, why)
	leading := count
	for leading%10 == 0 {
		leading /= 10
	}
	if leading == 1 {
		l.log.Warn("records became dead letters; feedsink dlq list says why", "topic", r.Topic, "partition", r.Partition,
			"offset", r.Offset, "mapping", why.Mapping, "reason", why.Code, "status", why.Status, "count", count)
	}
}

// imported notes the result of an execution for one of the mappings that it loads.
func (l *recentHistory) imported(imp batcher.Import, load batcher.Member, status string, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	list := append(l.imports[load.Mapping], EndedImport{
		File: imp.File, Mode: imp.Mode, Execution: imp.Execution, Status: status,
		Rows: load.Rows, InError: load.InError, Began: now.Add(-took), Ended: now,
	})
	l.imports[load.Mapping] = slices.Delete(list, 0, max(len(list)-importsKept, 0))
}

// deadLetters lists the kinds that there were, the most frequent first.
func (l *recentHistory) deadLetters() []RecentDeadLetter {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]RecentDeadLetter, 0, len(l.letters))
	for _, d := range l.letters {
		one := *d
		one.Latest = slices.Clone(d.Latest)
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b RecentDeadLetter) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Mapping, b.Mapping), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}

// importsSince lists a mapping's imports that ended after a time, the oldest first.
func (l *recentHistory) importsSince(mapping string, from time.Time) []EndedImport {
	l.mu.Lock()
	defer l.mu.Unlock()
	since := []EndedImport{}
	for _, e := range l.imports[mapping] {
		if !e.Ended.Before(from) {
			since = append(since, e)
		}
	}
	return since
}
