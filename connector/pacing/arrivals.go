package pacing

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"time"

	"github.com/feedsink/feedsink/batcher/slots"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/retry"
)

const (
	// learntDays are the days before today from which it is learnt what a day brings: a week.
	learntDays = 7
	quarter    = 24 * time.Hour / slots.Quarters
	// learnEvery is how often is looked for tables that this member has got.
	learnEvery = 10 * time.Second
	// learnAgain is how soon it is tried again after the brokers did not answer.
	learnAgain = time.Hour
	// askEvery spares brokers and processor: nothing waits for what is learnt.
	askEvery = 20 * time.Millisecond
)

// Arrivals learn from the timestamps in Kafka what a day brings to the tables whose imports
// are scarce. Nothing is kept for it: the table's next owner learns the same.
type Arrivals struct {
	source Written
	log    *slog.Logger
	every  time.Duration // one request
	// before is, by topic and unix time in quarters of an hour, how many records it had then.
	before map[string]map[int64]int64
}

// Written is the log, as *kafka.Source asks the brokers for it.
type Written interface {
	WrittenBefore(ctx context.Context, topic string, at time.Time) (int64, error)
}

// NewArrivals makes arrivals of a log.
func NewArrivals(source Written, log *slog.Logger) *Arrivals {
	return &Arrivals{source: source, log: log, every: askEvery, before: map[string]map[int64]int64{}}
}

// Run learns once a day, until ctx ends, for each table that is this member's.
func (a *Arrivals) Run(ctx context.Context, p *Pacer) error {
	for retry.Sleep(ctx, learnEvery) == nil {
		now := p.clock.Candidates()[0]
		for mapping, t := range p.tables {
			today, _ := slots.Day(now, t.Zone)
			if !t.Scarce() || t.learnt.Equal(today) || now.Before(t.learnAgain) {
				continue
			}
			if _, own := p.record.Slots(t.Topic, t.Name); !own {
				continue
			}
			days, err := a.days(ctx, t.Topics, today, t.Zone)
			if err == nil {
				t.learnt = today
				t.expected.Store(slots.Expect(days))
			} else if ctx.Err() == nil && !stops(err) {
				t.learnAgain = now.Add(learnAgain)
				a.log.Warn("what days bring cannot be learnt; the day's imports are spread as before until it can", "mapping", mapping, "again", learnAgain, "error", err)
			}
		}
	}
	return nil
}

// stops reports whether the source has ended: it does before ctx when the process stops.
func stops(err error) bool {
	return errors.Is(err, kafka.ErrClosed) || errors.Is(err, context.Canceled)
}

// days are what the topics brought on each of the days before today that they hold whole.
func (a *Arrivals) days(ctx context.Context, topics []string, today time.Time, zone *time.Location) ([][slots.Quarters]int64, error) {
	days, cut := make([][slots.Quarters]int64, learntDays), [learntDays]bool{} // cut: a topic does not hold all of the day
	for _, topic := range topics {
		first, err := a.source.WrittenBefore(ctx, topic, time.UnixMilli(0))
		if err != nil {
			return nil, err
		}
		total, err := a.at(ctx, topic, today)
		if err != nil {
			return nil, err
		}
		for n := range days {
			at, ends := today.AddDate(0, 0, n-learntDays), today.AddDate(0, 0, n+1-learntDays)
			last, err := a.at(ctx, topic, at)
			if err != nil {
				return nil, err
			}
			cut[n] = cut[n] || last <= first && total != first
			for !cut[n] && at.Before(ends) {
				next, err := a.at(ctx, topic, at.Add(quarter))
				if err != nil {
					return nil, err
				}
				days[n][slots.Quarter(at.In(zone))] += max(next-last, 0)
				at, last = at.Add(quarter), next
			}
		}
	}
	var held [][slots.Quarters]int64
	for n, d := range days {
		if !cut[n] {
			held = append(held, d)
		}
	}
	return held, nil
}

// at is how many records the topic had at a time; the brokers are asked once.
func (a *Arrivals) at(ctx context.Context, topic string, t time.Time) (int64, error) {
	known, quarters := a.before[topic], t.Unix()/int64(quarter/time.Second)
	if known == nil {
		known = map[int64]int64{}
		a.before[topic] = known
	}
	if n, ok := known[quarters]; ok {
		return n, nil
	}
	if err := retry.Sleep(ctx, a.every); err != nil {
		return 0, err
	}
	n, err := a.source.WrittenBefore(ctx, topic, t)
	if err != nil {
		return 0, err
	}
	maps.DeleteFunc(known, func(old, _ int64) bool { return old < quarters-(learntDays+2)*slots.Quarters })
	known[quarters] = n
	return n, nil
}
