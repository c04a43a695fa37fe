package pacing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/batcher/slots"
	"github.com/feedsink/feedsink/connector/clock"
	"github.com/feedsink/feedsink/connector/kafka"
	brokers "github.com/feedsink/feedsink/connector/kafka/cluster"
)

// TestDaysAreLearntFromTheTimesOfRecords has a record in each quarter of an hour of the
// morning, and ten more at 12:20, since noon eight days ago.
func TestDaysAreLearntFromTheTimesOfRecords(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "crm", "empty"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	broker := cluster.ListenAddrs()[0]
	client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.DefaultProduceTopic("crm"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	zone, err := time.LoadLocation("Europe/Brussels")
	if err != nil {
		t.Fatal(err)
	}
	today := time.Date(2026, 10, 28, 0, 0, 0, 0, zone) // three days after the clocks went back
	for at := today.AddDate(0, 0, -8).Add(12 * time.Hour); at.Before(today.Add(9 * time.Hour)); at = at.Add(quarter) {
		n := 0
		switch clock := at.In(zone); {
		case clock.Hour() < 12:
			n = 1
		case clock.Hour() == 12 && clock.Minute() == 15:
			n = 10
		}
		for i := range n {
			r := &kgo.Record{Partition: int32(at.Unix()/int64(quarter/time.Second)+int64(i)) % 3, Timestamp: at.Add(5 * time.Minute), Value: []byte("x")}
			if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	log := slog.New(slog.DiscardHandler)
	source, err := kafka.New(kafka.Config{
		Connection: brokers.Connection{Brokers: []string{broker}}, Group: "feedsink", SessionTimeout: 45 * time.Second, Log: log, Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(source.Close)
	learnt := NewArrivals(source, log)
	learnt.every = 0
	for _, days := range []int{7, 7} { // the second time what is known already
		got, err := learnt.days(t.Context(), []string{"crm", "empty"}, today, zone)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != days {
			t.Fatalf("got %d days, want %d", len(got), days)
		}
		for n, day := range got {
			var want [slots.Quarters]int64
			for i := range 12 * 4 {
				want[i] = 1
			}
			want[12*4+1] = 10
			if n == 4 { // 2026-10-25 has two to three o'clock twice
				for i := range 4 {
					want[2*4+i] = 2
				}
			}
			if day != want {
				t.Errorf("day %d: got %v, want %v", n, day, want)
			}
		}
	}
	if got, err := learnt.days(t.Context(), []string{"crm"}, today.AddDate(0, 0, -6), zone); err != nil || len(got) != 1 {
		t.Errorf("a day after the first whole one: got %d days, %v, want 1: the log began in the midst of the one before", len(got), err)
	}
	if _, err := learnt.days(t.Context(), []string{"gone"}, today, zone); err == nil {
		t.Error("a topic that is not there: got no error")
	}
}

// nightly is a log into which all comes between two and four o'clock, by UTC.
type nightly struct {
	asked atomic.Int64
	down  atomic.Bool
}

func (n *nightly) WrittenBefore(_ context.Context, _ string, at time.Time) (int64, error) {
	n.asked.Add(1)
	if n.down.Load() {
		return 0, errors.New("no broker")
	}
	day, clock := at.Unix()/(24*60*60), at.Sub(at.Truncate(24*time.Hour))
	return 1000 + day*1000 + int64(1000*min(max(clock-2*time.Hour, 0), 2*time.Hour)/(2*time.Hour)), nil
}

// endedLog is a log whose source has ended with an error.
type endedLog struct{ err error }

func (e endedLog) WrittenBefore(context.Context, string, time.Time) (int64, error) {
	return 0, fmt.Errorf("offsets of crm: %w", e.err)
}

// TestOnlyBrokersThatDoNotAnswerAreToldOf: when the sink stops, the source ends first.
func TestOnlyBrokersThatDoNotAnswerAreToldOf(t *testing.T) {
	for err, lines := range map[error]int{kafka.ErrClosed: 0, context.Canceled: 0, errors.New("no broker"): 1} {
		synctest.Test(t, func(t *testing.T) {
			record, out := &owned{}, &bytes.Buffer{}
			record.own.Store(true)
			table := &Table{Plan: slots.Plan{PerDay: 3, Zone: time.UTC, Every: time.Minute}, Name: "customers", Topic: "crm", Topics: []string{"crm"}}
			p := New(record, clock.New(nil, nil), map[string]*Table{"customers": table})
			ctx, stop := context.WithCancel(t.Context())
			a := NewArrivals(endedLog{err}, slog.New(slog.NewTextHandler(out, nil)))
			over := make(chan error, 1)
			go func() { over <- a.Run(ctx, p) }()
			time.Sleep(time.Minute)
			stop()
			if err := <-over; err != nil {
				t.Error(err)
			}
			if got := strings.Count(out.String(), "\n"); got != lines {
				t.Errorf("%v: got %q, want %d lines", err, out, lines)
			}
		})
	}
}

// owned is the record of slots of a table that may be another member's.
type owned struct {
	account
	own atomic.Bool
}

func (o *owned) Slots(home, table string) (used []time.Time, ok bool) {
	used, _ = o.account.Slots(home, table)
	return used, o.own.Load()
}

func TestScarceImportsGoWhenRowsHaveCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		record, log := &owned{}, &nightly{}
		table := &Table{Plan: slots.Plan{PerDay: 3, Zone: time.UTC, Every: time.Minute}, Name: "customers", Topic: "crm", Topics: []string{"crm"}}
		free := &Table{Plan: slots.Plan{PerDay: 1000, Zone: time.UTC, Every: time.Hour}, Name: "free", Topic: "crm", Topics: []string{"crm"}}
		p := New(record, clock.New(nil, nil), map[string]*Table{"customers": table, "free": free})
		a := NewArrivals(log, slog.New(slog.DiscardHandler))
		log.down.Store(true)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx, p) }()
		pass := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}

		pass(2 * time.Hour) // the bubble begins at midnight
		if log.asked.Load() > 0 {
			t.Errorf("while another member has the table: got %d requests, want none", log.asked.Load())
		}
		record.own.Store(true)
		pass(90 * time.Second)
		pass(30 * time.Minute)
		if log.asked.Load() != 1 || table.expected.Load() != nil {
			t.Errorf("brokers that do not answer: got %d requests, want one within the hour", log.asked.Load())
		}
		log.down.Store(false)
		pass(time.Hour)
		if table.expected.Load() == nil || free.expected.Load() != nil {
			t.Errorf("got %v and %v, want what days bring of the table whose imports are scarce alone", table.expected.Load(), free.expected.Load())
		}
		before := log.asked.Load()
		pass(20 * time.Hour)
		if log.asked.Load() != before {
			t.Errorf("on the same day: got %d requests more, want none", log.asked.Load()-before)
		}
		pass(2 * time.Hour)
		if got := log.asked.Load() - before; got == 0 || got > slots.Quarters+10 {
			t.Errorf("on the next day: got %d requests more, want those of one day", got)
		}

		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}

		// It is half past one on the second day. The last import was at midnight.
		record.used = []time.Time{time.Now().Truncate(24 * time.Hour)}
		wait := p.Wait("customers", nil, false)
		if at := time.Now().Add(wait); at.Hour() < 2 || at.Hour() > 4 || at.Hour() == 4 && at.Minute() > 5 {
			t.Errorf("the next import: got %s, want one while rows come, or as they have come", at.Format("15:04"))
		}
		record.used = append(record.used, time.Now().Add(wait))
		time.Sleep(wait)
		if at := time.Now().Add(p.Wait("customers", nil, false)); at.Hour() != 4 || at.Minute() > 5 {
			t.Errorf("the last import: got %s, want 04:00, when all have come", at.Format("15:04"))
		}
	})
}
