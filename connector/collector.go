package connector

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedsink/feedsink/schemas"
)

// collector reads what is a state, not an event, at the moment it is asked.
type collector struct{ sink *Sink }

var (
	descUnconfirmed = describe("feedsink_unconfirmed_records", "Kafka records that are not confirmed, by what they wait for: calling, buffered (in an open file), importing.", "topic", "partition", "state")
	descInFlight    = describe("feedsink_calls_in_flight", "Calls of the immediate lane under way.")
	descLimit       = describe("feedsink_concurrency_limit", "Calls of the immediate lane that may be under way at present.")
	descBreaker     = describe("feedsink_breaker_state", "Breaker of the immediate lane: 0 closed, 1 half-open (probing), 2 open.")
	descRows        = describe("feedsink_batch_rows", "Rows in the mapping's open file, within about 3 %.", "mapping")
	descBytes       = describe("feedsink_batch_bytes", "Uncompressed bytes in the mapping's open file.", "mapping")
	descAge         = describe("feedsink_batch_age_seconds", "Time since the first row of the mapping's open file, 0 without one.", "mapping")
	descSlots       = describe("feedsink_import_slots_remaining", "Imports the table has left today, the reserve included.", "table")
	descSpool       = describe("feedsink_spool_bytes", "Bytes the spool takes on disk.")
	descHalted      = describe("feedsink_halted", "1 while the mapping is halted and waits for a person.", "mapping")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe names no metric: which of them there are depends on the lanes, and
// the registry then checks each scrape instead.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect reads the lanes.
func (c collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for _, l := range c.sink.lanes {
		for _, p := range l.source.Partitions() {
			u, id := p.Unconfirmed(), strconv.Itoa(int(p.ID))
			if l.which == schemas.Batch {
				gauge(descUnconfirmed, float64(u.Buffered), p.Topic, id, "buffered")
				gauge(descUnconfirmed, float64(u.Importing), p.Topic, id, "importing")
			} else {
				gauge(descUnconfirmed, float64(u.Pending), p.Topic, id, "calling")
			}
		}
	}
	if calls := c.sink.calls; calls != nil {
		gauge(descInFlight, float64(calls.InFlight()))
		gauge(descLimit, float64(calls.Limit()))
		gauge(descBreaker, float64(calls.Breaker()))
	}
	halted := c.sink.halted()
	for _, m := range c.sink.router.Mappings() {
		value := 0.0
		if len(halted[m.Name]) > 0 {
			value = 1
		}
		gauge(descHalted, value, m.Name)
	}
	if files := c.sink.files; files != nil {
		gauge(descSpool, float64(files.SpoolBytes()))
		for _, st := range files.Status() {
			gauge(descRows, float64(st.Rows), st.Mapping)
			gauge(descBytes, float64(st.Bytes), st.Mapping)
			gauge(descAge, st.Age.Seconds(), st.Mapping)
			if left, ok := c.sink.pacing.remaining(st.Mapping); ok {
				gauge(descSlots, float64(left), c.sink.pacing.tables[st.Mapping].table)
			}
		}
	}
}
