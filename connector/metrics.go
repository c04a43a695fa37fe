package connector

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedsink/feedsink/batcher"
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
