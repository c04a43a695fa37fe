package connector

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// group is the consumer group of a lane.
func (s *Sink) group(which schemas.Lane) string { return s.cfg.Kafka.Group + "-" + which.String() }

func otherLane(l schemas.Lane) schemas.Lane {
	if l == schemas.Immediate {
		return schemas.Batch
	}
	return schemas.Immediate
}

// openLanes builds the lanes this process runs, each only if some mapping uses
// it.
func (s *Sink) openLanes() (err error) {
	for _, which := range s.opts.Lanes {
		topics := s.router.Topics(which)
		if len(topics) == 0 {
			continue
		}
		followed := shared(s.router.Mappings())
		l := &lane{
			which: which, post: s.post,
			metrics: s.metrics, recent: s.recent, log: s.log.With("lane", which.String()),
			tracing: s.lineage(which),
		}
		read := func() reader { return newReader(s.router, s.writers) }
		l.reader = read()
		l.floods = newFloods(l, s.cfg.DLQ, s.router.Mappings())
		cfg := kafka.Config{
			Connection:     s.brokers(),
			Group:          s.group(which),
			Topics:         topics,
			FromEnd:        s.cfg.Kafka.StartAt == "latest",
			SessionTimeout: s.cfg.Kafka.SessionTimeout,
			ReleaseTimeout: releaseTime(s.cfg.Service.Timeout),
			CommitEvery:    s.opts.CommitEvery,
			MetadataMaxAge: s.opts.MetadataMaxAge,
			Upgrade:        func(topic string, l *ack.Ledger) { upgrade(s.router.Mappings(), topic, l) },
			Pending:        s.pending,
			Log:            s.log,
			Metrics:        s.registry,
		}
		cfg.Other, cfg.TopicOf = s.group(otherLane(which)), s.topicRoutes(which, followed)
		if which == schemas.Immediate {
			cfg.Ended, cfg.Grace = s.executionEnded, s.cfg.Service.Timeout
			s.openCalls(l)
			s.missing, l.floods.calls = newMissing(l, s.writers), s.calls
		} else {
			cfg.TableOf, cfg.Filed = tablesOf(s.router.Mappings())
			if err := s.openFiles(l); err != nil {
				return err
			}
			files := &fileDelivery{lane: l, files: s.files, peer: s.peer, shared: followed, halted: make([]string, len(s.router.Mappings())), tables: ledgerTables(s.router.Mappings())}
			l.delivery = files
			if l.ahead, err = newAhead(files, read); err != nil {
				return err
			}
		}
		if l.source, err = kafka.New(cfg, l); err != nil {
			return fmt.Errorf("kafka: %w", err)
		}
		s.onClose("source of the "+which.String()+" lane", l.source.Close)
		if which == schemas.Batch {
			s.pacing.source, s.parents.source, s.peer.source = l.source, l.source, l.source
		}
		s.lanes = append(s.lanes, l)
	}
	if len(s.lanes) == 0 {
		return fmt.Errorf("no mapping uses the lanes asked for: %v", s.opts.Lanes)
	}
	return nil
}

// newRand gives each room its own source of chance: none of them shares one
// between goroutines of different owners.
func (s *Sink) newRand() *rand.Rand {
	return rand.New(rand.NewPCG(s.opts.Rand.Uint64(), s.opts.Rand.Uint64()))
}

// pace is how hard the service may be driven, from the configuration.
func pace(cfg *config.Config) calls.Config {
	service, retry := cfg.Service, cfg.Retry
	return calls.Config{
		Concurrency: calls.Concurrency{Start: service.Concurrency.Start, Max: service.Concurrency.Max},
		Rate:        calls.Rate{Calls: service.Rate.Calls, Per: service.Rate.Per},
		Breaker:     calls.Breaker{Failures: service.Breaker.Failures, OpenFor: service.Breaker.OpenFor},
		Retry:       calls.Retry{Initial: retry.Initial, Max: retry.Max, GiveUpAfter: retry.GiveUpAfter},
	}
}

// Polls of a running execution, from the first to the slowest.
const (
	firstPoll   = 2 * time.Second
	slowestPoll = time.Minute
)

func (s *Sink) openFiles(l *lane) error {
	zones := map[string]*time.Location{}
	s.pacing = &pacing{tables: map[string]tableSlots{}, clock: clock{wall: s.opts.Wall, log: s.log}}
	s.parents = newParents(s.router.Mappings(), s.group(schemas.Immediate))
	s.peer = &peer{topics: mappingTopics(s.router.Mappings())}
	if len(s.peer.topics) > 0 {
		pace := pace(s.cfg)
		pace.MayCall, pace.Share, pace.Service = l.leased, l.share(eitherRate(s.router.Mappings())), &s.service
		s.reconcileCalls = calls.New(pace, s.caller(), observer{s}, s.newRand())
		s.peer.calls = s.reconcileCalls
	}
	var mappings []batcher.Mapping
	for _, m := range filed(s.router.Mappings()) {
		zone, err := time.LoadLocation(m.Config.Imports.Timezone)
		if err != nil {
			return fmt.Errorf("mapping %s: imports.timezone: %w", m.Name, err)
		}
		mapping := batchMapping(m)
		mapping.Zone = zone
		mappings = append(mappings, mapping)
		for _, load := range mappings[len(mappings)-1].Loads {
			zones[load.ETL] = zone
		}
		im := m.Config.Imports
		s.pacing.tables[m.Name] = tableSlots{
			Slots: batcher.Slots{PerDay: im.SlotsPerDay, Reserve: im.Reserve, Zone: zone, Every: im.Roll.Age},
			table: m.Table.Qualified(), label: m.Label, slotTopic: m.Config.Topics[0],
		}
	}
	var err error
	s.files, err = batcher.New(batcher.Config{
		Dir:         s.cfg.Spool.Dir,
		MaxBytes:    int64(s.cfg.Spool.MaxBytes),
		MaxFollowed: int64(s.cfg.Memory.Pending),
		Poll:        retry.Backoff{Initial: s.opts.firstPoll(), Max: slowestPoll},
		Retry:       retry.Backoff{Initial: s.cfg.Retry.Initial, Max: s.cfg.Retry.Max},
		Grace:       s.cfg.Service.Timeout,
		Gate:        heldGate{s.pacing, &s.service},
		Parents:     s.parents,
		Peer:        s.peer,
		ApartAfter:  s.opts.ApartAfter,
		Records:     records{l, newCreateRows(s.client, &s.service, s.cfg, l.share(eitherRate(s.router.Mappings())), s.newRand()), s.writers},
		Floods:      l.floods,
		Log:         s.log,
	}, mappings, importer{s.client, &s.service, zones, l.leased, l.tracing}, ledger{l, s.pacing}, observer{s}, s.newRand())
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	s.onClose("spool", func() {
		if err := s.files.Close(); err != nil {
			s.log.Warn("closing the spool", "error", err)
		}
	})
	return nil
}

// batchMapping is the batch lane's part of a mapping.
func batchMapping(m *router.Compiled) batcher.Mapping {
	im := m.Config.Imports
	key := spool.Key{Section: schemas.Attributes, Name: m.KeyName}
	if m.Table.Custom {
		key.Section = schemas.Properties
	}
	out := batcher.Mapping{
		Name: m.Name, Table: m.Table, Fingerprint: m.FileFingerprint(),
		Key:         key,
		CSV:         spool.CSV(im.CSV),
		Roll:        batcher.Roll{Rows: im.Roll.Rows, Bytes: int64(im.Roll.Bytes), Age: im.Roll.Age},
		RetryFailed: im.RetryFailed,
		KeepResults: im.KeepResults,
		After:       m.Config.After,
		DualLane:    usesBothLanes(m),
		Loads:       map[schemas.Op]batcher.Load{},
		Bundle:      m.Config.Bundle,
		Entry:       m.EntryName(),
	}
	for i, c := range m.Columns {
		out.Columns = append(out.Columns, spool.Column{
			Header: c.Header, Section: c.Section, Name: c.Name, Kept: m.IgnoresEmpty(schemas.Upsert, i), CreateOnly: c.CreateOnly,
		})
	}
	for op, load := range map[schemas.Op]*router.Import{
		schemas.Upsert: im.Upsert, schemas.Patch: im.Patch, schemas.Create: im.Create, schemas.Delete: im.Delete,
	} {
		if load != nil {
			out.Loads[op] = batcher.Load{ETL: load.ETL, Mode: load.Mode}
		}
	}
	return out
}

// observer counts what the lanes do.
type observer struct{ s *Sink }

func (o observer) Called(a calls.Attempt) {
	o.s.metrics.call(a.Mapping, a.Op, a.Took)
	switch {
	case a.Repeat && a.Outcome == calls.Rejected:
		o.s.metrics.repeated(a.Mapping, a.Op.String(), "repeat_refused")
		o.s.log.Warn("a key's newest state was sent again, since an older call may have landed late, and was refused; nothing waits for it",
			"mapping", a.Mapping, "op", a.Op, "error", a.Err)
	case a.Repeat && (a.Outcome == calls.Applied || a.Outcome == calls.AbsentAlready):
		o.s.metrics.repeated(a.Mapping, a.Op.String(), "repeated")
	case a.Outcome == calls.Retried:
		o.s.metrics.writes.WithLabelValues(a.Mapping, schemas.Immediate.String(), a.Op.String(), a.Outcome.String()).Add(float64(a.Writes))
	}
}

func (o observer) NotRepeated(mapping string) { o.s.metrics.repeated(mapping, "", "not_repeated") }

func (o observer) BreakerTurned(of schemas.Table, to calls.BreakerState, cause error) {
	switch to {
	case calls.Open:
		if cause != nil {
			text := cause.Error()
			o.s.breakerCause.Store(&text)
		}
		o.s.log.Warn("calls for the table fail; they pause, and one is tried from time to time",
			"table", router.LabelOf(o.s.router.Mappings(), of), "openFor", o.s.cfg.Service.Breaker.OpenFor, "cause", cause)
	case calls.Closed:
		o.s.log.Info("calls for the table are answered again and go on", "table", router.LabelOf(o.s.router.Mappings(), of))
	case calls.HalfOpen:
		o.s.log.Debug("trying a call for the table", "table", router.LabelOf(o.s.router.Mappings(), of))
	}
}

func (o observer) ImportEnded(imp batcher.Import, r batcher.Results, took time.Duration) {
	o.s.imports.ended(imp, r)
	for _, load := range imp.Loads() {
		if imp.Members == nil { // of a bundle the counters are of all together
			load.InError = r.InError
		}
		o.s.metrics.imports.WithLabelValues(load.Mapping, imp.Mode, string(r.Status)).Inc()
		o.s.metrics.importTime.WithLabelValues(load.Mapping).Observe(took.Seconds())
		o.s.recent.imported(imp, load, string(r.Status), took)
		if r.Status == batcher.Finished {
			lane, op, rejected := schemas.Batch.String(), imp.Op.String(), max(load.InError, 0)
			o.s.metrics.writes.WithLabelValues(load.Mapping, lane, op, "applied").Add(float64(max(load.Rows-rejected, 0)))
			o.s.metrics.writes.WithLabelValues(load.Mapping, lane, op, "rejected").Add(float64(rejected))
		}
	}
}

func (o observer) RowsUnmatched(imp batcher.Import, rows int64) {
	o.s.metrics.unmatched.WithLabelValues(imp.Mapping).Add(float64(rows))
}
