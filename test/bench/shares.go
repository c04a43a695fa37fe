package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/schemas"
)

// Of the service that takes 90 calls a minute: a minute goes by in a second.
const (
	scarceRate = 90 // calls a second; the configuration has them by the minute
	scarceTook = 5 * time.Millisecond
	// An urgent event is confirmed this much beyond the time between two calls: two seconds
	// of sixty.
	urgentGoal   = time.Second/scarceRate + 2*time.Second/60
	urgentWeight = 10
	urgentEvery  = time.Second / 3 // of a backlog's; twenty seconds of sixty
	readTable    = 6               // the operation that reads a table record
	bulk, urgent = "bench-bulk", "bench-urgent"
	fairMinutes  = 20
	rowsToRead   = 500
)

// scarce is a sink of a service that takes few calls, with a topic of bulk and one of urgent
// events.
type scarce struct {
	sink
	bench   *bench
	service *sandbox.Sandbox
	config  string
	urgent  int // events so far
}

// shares lets urgent events go beside bulk: how long they take while bulk waits, how both share
// calls while both wait, and whether reading the table for `feedsink verify` holds them up.
func shares(ctx context.Context, b *bench, o options) []finding {
	length := time.Minute
	if o.quick {
		length = 5 * time.Second
	}
	var found []finding
	beside := func(waits int, auto bool, do func(s *scarce)) {
		apart(b, func() any {
			s := b.scarce(ctx, waits, auto)
			do(s)
			return nil
		})
	}
	alone := 0.0
	beside(10_000, false, func(s *scarce) {
		alone = s.rate(ctx, length)
		p99, goal := s.p99(ctx, int(length/urgentEvery), urgentEvery), urgentGoal.Seconds()*1e3
		found = append(found, check(p99 <= goal, "10,000 wait at 90 calls a minute, an urgent one each 20 s: p99 from produce to confirmed, in a time 60 times as fast",
			fmt.Sprintf("≤ %.1f ms", goal), "%.1f ms", p99))
	})
	beside(10_000, true, func(s *scarce) {
		p99, goal := s.p99(ctx, int(length/urgentEvery), urgentEvery), urgentGoal.Seconds()*1e3
		found = append(found, check(p99 <= goal, "the same beside 10,000 of an auto route, which calls take from a file and its import takes the rest of",
			fmt.Sprintf("≤ %.1f ms", goal), "%.1f ms, %d imports", p99, len(s.service.Executions())))
	})
	beside(10_000, false, func(s *scarce) {
		s.produce(ctx, 10_000, 0)
		pause(ctx, time.Second)
		least, most, together := s.shares(ctx, fairMinutes)
		want := float64(urgentWeight) / (urgentWeight + 1)
		found = append(found,
			check(least >= 0.95*want && most <= 1.05*want, fmt.Sprintf("both wait: the share of weight %d beside weight 1 in each of %d minutes of 90 calls", urgentWeight, fairMinutes),
				fmt.Sprintf("%.3f, 5 %% off at most", want), "%.3f–%.3f", least, most),
			check(together >= 0.98*alone, "calls of both to those of one alone", "≥ 0.98", "%.2f", together/alone))
	})
	beside(0, false, func(s *scarce) {
		s.produce(ctx, rowsToRead, 0)
		s.reach(ctx, rowsToRead, s.done)
		every := 2 * time.Second / scarceRate // half of the calls
		without := s.p99(ctx, int(length/every), every)
		s.verify(ctx)
		reads := s.service.CallCount(readTable)
		with := s.p99(ctx, int(length/every), every)
		found = append(found, note("p99 from produce to confirmed while verify reads the table, and while it does not", "%.1f ms, %.1f ms, with %d records read",
			with, without, s.service.CallCount(readTable)-reads))
	})
	return found
}

// scarce starts a sink for which so many bulk events wait, of an auto route or one that makes calls.
func (b *bench) scarce(ctx context.Context, waits int, auto bool) *scarce {
	tables := []sandbox.Table{{Name: "bulk", Custom: true, Open: true}, {Name: "urgent", Custom: true, Open: true}}
	etls := []sandbox.ETL{{ID: "101", Loads: []sandbox.Load{{Table: "bulk", Mode: sandbox.CreateOrUpdate}}}}
	service := must(sandbox.New(sandbox.Config{Entity: "acme", APIKeys: []string{"bench"}, Tables: tables, ETLs: etls, Processing: 10 * time.Second, KeepCalls: 1 << 20}))
	service.SetLatency(0, scarceTook)
	b.cleanup(service.Close)
	b.fill(ctx, bulk, events{n: waits, next: func(i int) (key, value []byte) { return record(i) }})
	b.fill(ctx, urgent, events{})
	c := sinkConfig{Topic: urgent, Bulk: bulk, Auto: auto, Start: 16, Highest: 64, Service: b.listen(service)}
	s := &scarce{bench: b, service: service, config: b.configure(c)}
	lanes := []schemas.Lane{schemas.Immediate}
	if auto {
		lanes = schemas.Lanes
	}
	s.child = b.start(ctx, "sink", settings{Config: s.config, Lanes: lanes})
	s.done = b.committed(b.group(schemas.Immediate), urgent)
	if waits > 0 {
		s.reach(ctx, 1, func(context.Context) int64 { return int64(len(service.Calls())) })
	}
	return s
}

// record is the i-th event, of a key of its own.
func record(i int) (key, value []byte) {
	key = customer(i)
	return key, fmt.Appendf(nil, `{"op":"upsert","businessKey":%q,"properties":{"number":%d}}`, key, i)
}

// produce produces urgent events, so long apart; 0: as fast as it goes.
func (s *scarce) produce(ctx context.Context, n int, every time.Duration) (sent []time.Time) {
	first := s.urgent
	s.urgent += n
	perSecond := 0
	if every > 0 {
		perSecond = int(time.Second / every)
	}
	try(s.bench.produce(ctx, urgent, events{n: n, perSecond: perSecond, next: func(i int) (key, value []byte) {
		sent = append(sent, time.Now())
		return record(first + i)
	}}))
	return sent
}

// p99 is of urgent events that are produced so long apart, from produce to the service's answer,
// in milliseconds.
func (s *scarce) p99(ctx context.Context, n int, every time.Duration) float64 {
	first := s.urgent
	sent := s.produce(ctx, n, every)
	s.reach(ctx, int64(s.urgent), s.done)
	came := map[string]time.Time{}
	for _, c := range s.service.Calls() {
		if c.Table == "urgent" && c.Op != readTable {
			came[c.Key] = c.At.Add(scarceTook)
		}
	}
	answers := make([]time.Time, n)
	for i := range answers {
		answers[i] = came[string(customer(first+i))]
	}
	return must(newDelays(sent, answers)).p99
}

// rate is how many calls come in a second.
func (s *scarce) rate(ctx context.Context, length time.Duration) float64 {
	before := len(s.service.Calls())
	pause(ctx, length)
	return float64(len(s.service.Calls())-before) / length.Seconds()
}

// shares are the least and the most that urgent events had of the calls of a minute, and how
// many calls came in a second.
func (s *scarce) shares(ctx context.Context, minutes int) (least, most, rate float64) {
	began := time.Now()
	pause(ctx, time.Duration(minutes)*time.Second)
	all, urgent := make([]float64, minutes), make([]float64, minutes)
	for _, c := range s.service.Calls() {
		minute := int(c.At.Sub(began) / time.Second)
		if c.At.Before(began) || minute >= minutes {
			continue
		}
		all[minute]++
		rate++
		if c.Table == "urgent" {
			urgent[minute]++
		}
	}
	least = 1
	for i := range all {
		least, most = min(least, urgent[i]/all[i]), max(most, urgent[i]/all[i])
	}
	return least, most, rate / float64(minutes)
}

// verify starts a process that compares the urgent table with its topic, again and again, and
// waits until it reads.
func (s *scarce) verify(ctx context.Context) {
	reader := s.bench.start(ctx, "verify", settings{Config: s.config})
	reader.reach(ctx, 1, func(context.Context) int64 { return s.service.CallCount(readTable) })
}

// newVerify is the role of `feedsink verify`.
func newVerify(s settings) *role {
	cfg := must(config.Load(s.Config, os.LookupEnv))
	return &role{run: func(ctx context.Context) error {
		for {
			_, err := ops.Verify(ctx, cfg, ops.VerifyOptions{Name: "urgent", GiveUp: limit, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				return err
			}
		}
	}}
}
