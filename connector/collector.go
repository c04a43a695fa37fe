package connector

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

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
