package ops

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/flood"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/pause"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/connector/tables"
	"github.com/feedsink/feedsink/schemas"
)

// A backfill's pause ends by itself after pauseFor, and is said again every renewEvery. It is
// told from a person's by its end.
const (
	pauseFor    = 10 * time.Minute
	renewEvery  = time.Minute
	pauseReason = "backfill by file"
	// lookEvery is how often the ledgers are looked at while they are waited for, and
	// knownWithin for how long the table may stay paused meanwhile.
	lookEvery   = 500 * time.Millisecond
	knownWithin = 2 * time.Minute
)

// tablePause keeps the lanes of all mappings that write the table paused.
type tablePause struct {
	*tableImports
	stop    context.CancelFunc
	renewal sync.WaitGroup

	mu   sync.Mutex
	ends []int64 // that it was given, in milliseconds of Unix, the latest last
	lost error   // since when it may not have been held
}

// Pause implements replay.Imports. Imports are waited for before, too: one that has keys of
// both lanes may have to wait for calls, which wait for the pause's end.
func (t *tableImports) Pause(ctx context.Context, waiting func(string)) (replay.Pause, error) {
	for {
		if err := t.until(ctx, waiting, func(l ledgers) string { return l.underWay }); err != nil {
			return nil, err
		}
		if err := t.running(ctx); err != nil {
			return nil, err
		}
		p := &tablePause{tableImports: t, stop: func() {}}
		if err := p.say(ctx); err != nil {
			return nil, errors.Join(err, p.Resume(context.WithoutCancel(ctx)))
		}
		pausing, cancel := context.WithTimeout(ctx, knownWithin)
		unknown := ""
		err := t.until(pausing, waiting, func(l ledgers) string {
			if unknown = l.unpaused(t, p.isOurs); unknown != "" {
				return "waiting until all members know that the table is paused: " + unknown
			}
			return l.underWay
		})
		again := pausing.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil {
			renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
			p.stop = stop
			p.renewal.Go(func() { p.renew(renewing) })
			return p, nil
		}
		if again && unknown != "" {
			again, err = false, fmt.Errorf("not all members knew within %v that the table is paused, so it goes on, and no import was made: %s; see to its member, then run the same again", knownWithin, unknown)
		}
		if ended := p.Resume(context.WithoutCancel(ctx)); !again || ended != nil {
			return nil, errors.Join(err, ended)
		}
	}
}

// running says which lane of the table has no members, who would not learn of a pause.
func (t *tableImports) running(ctx context.Context) error {
	for _, m := range t.mappings {
		for _, lane := range m.Lanes() {
			group := lane.Group(t.cfg.Kafka.Group)
			members, err := t.reader.Members(ctx, group)
			if err == nil && len(members) == 0 {
				err = fmt.Errorf("group %s has no members, who have to note that mapping %s is paused: run its sink, then the same again", group, m.Name)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// until looks at the ledgers until nothing is in the way.
func (t *tableImports) until(ctx context.Context, waiting func(string), inTheWay func(ledgers) string) error {
	for {
		l, err := t.look(ctx)
		if err != nil {
			return err
		}
		why := inTheWay(l)
		if why == "" {
			return nil
		}
		waiting(why)
		if err := retry.Sleep(ctx, lookEvery); err != nil {
			return err
		}
	}
}

// ledgers are what the members have in Kafka of the table.
type ledgers struct {
	underWay string // an import of it, in words; "": none
	pauses   map[schemas.Lane]map[cluster.TopicPartition][]ack.Pause
	places   []cluster.TopicPartition
}

func (t *tableImports) look(ctx context.Context) (l ledgers, err error) {
	var topics []string
	for _, m := range t.mappings {
		topics = append(topics, m.Config.Topics...)
	}
	slices.Sort(topics)
	spans, err := t.reader.Spans(ctx, slices.Compact(topics)...)
	if err != nil {
		return l, err
	}
	for p := range spans {
		l.places = append(l.places, p)
	}
	l.pauses = map[schemas.Lane]map[cluster.TopicPartition][]ack.Pause{}
	for _, lane := range schemas.Lanes {
		commits, err := t.reader.Committed(ctx, lane.Group(t.cfg.Kafka.Group))
		if err != nil {
			return l, err
		}
		l.pauses[lane] = map[cluster.TopicPartition][]ack.Pause{}
		for _, p := range l.places {
			c, committed := commits[p]
			if !committed {
				continue
			}
			ledger, err := ack.Decode(c.Metadata, c.Offset)
			if err != nil {
				return l, fmt.Errorf("the ledger of %s: %w", p, err)
			}
			l.pauses[lane][p] = ledger.Pauses
			for _, im := range ledger.Imports {
				ofBundle := im.Table == tables.LedgerTable(t.options.Mapping) // which is named by its first mapping's table
				if (im.State == ack.Intended || im.State == ack.Running || im.State == ack.Reconciling) && (ofBundle || t.options.Mapping.Table.IsNamed(im.Table)) {
					l.underWay = "waiting for the end of the sink's import " + im.File
				}
			}
		}
	}
	return l, nil
}

// unpaused names a partition whose ledger does not have a pause that ours is true of, "" if
// there is none.
func (l ledgers) unpaused(t *tableImports, ours func(ack.Pause) bool) string {
	for _, m := range t.mappings {
		for _, lane := range m.Lanes() {
			for _, p := range l.places {
				shown := func(x ack.Pause) bool {
					return x.Mapping == flood.HashOf(m.Name) && x.Batch == (lane == schemas.Batch) && !x.Resumed && ours(x)
				}
				if slices.Contains(m.Config.Topics, p.Topic) && !slices.ContainsFunc(l.pauses[lane][p], shown) {
					return fmt.Sprintf("the ledger of %s in group %s does not have it", p, lane.Group(t.cfg.Kafka.Group))
				}
			}
		}
	}
	return ""
}

// byPerson is why the table is paused without a backfill, "" if it is not.
func (l ledgers) byPerson(t *tableImports, ours func(ack.Pause) bool) string {
	var known pause.Known // a ledger that no member writes any more may have less than others
	for _, at := range l.pauses {
		for _, pauses := range at {
			known.Learn(pauses)
		}
	}
	for _, m := range t.mappings {
		for _, lane := range m.Lanes() {
			if x, paused := known.Paused(pause.Of{Mapping: flood.HashOf(m.Name), Batch: lane == schemas.Batch}); paused && x.Reason != pauseReason && !ours(x) {
				return fmt.Sprintf("mapping %s is paused by a person, and a backfill would write its table: feedsink resume --mapping %[1]s first", m.Name)
			}
		}
	}
	return ""
}

func (p *tablePause) isOurs(x ack.Pause) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.ends, x.Until)
}

// say pauses the table, or goes on with that for as long again.
func (p *tablePause) say(ctx context.Context) error {
	sink, err := p.sink()
	if err != nil {
		return err
	}
	l, err := p.look(ctx)
	if err != nil {
		return err
	}
	if why := l.byPerson(p.tableImports, p.isOurs); why != "" {
		return errors.New(why)
	}
	until := time.Now().Add(pauseFor).Truncate(time.Second)
	p.mu.Lock()
	p.ends = append(p.ends, until.UnixMilli())
	p.mu.Unlock()
	for _, m := range p.mappings {
		var paused observe.Paused
		if err := sink.Pause(ctx, m.Name, admin.PauseRequest{Reason: pauseReason, Until: until}, &paused); err != nil {
			return p.asked(err)
		}
	}
	return nil
}

// renew says it again while it is held. What is not held any more stays so.
func (p *tablePause) renew(ctx context.Context) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := p.Held(ctx)
		if err == nil {
			err = p.say(ctx)
		}
		if err != nil && ctx.Err() == nil {
			p.options.Log.Warn("the table's pause was not made longer; trying again", "until", p.until(), "error", err)
		}
	}
}

// until is when the pause ends by itself, on the wall's clock: this process may have been
// stopped for a while. Zero: there is none.
func (p *tablePause) until() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.ends) == 0 {
		return time.Time{}
	}
	return time.UnixMilli(p.ends[len(p.ends)-1])
}

var errNotHeld = errors.New("its pause has ended, or was changed by a person")

// Held implements replay.Pause.
func (p *tablePause) Held(ctx context.Context) error {
	l, err := p.look(ctx)
	if err != nil {
		return err
	}
	why := l.unpaused(p.tableImports, p.isOurs)
	over := time.Now().UnixMilli() >= p.until().UnixMilli()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost == nil && (why != "" || over) {
		p.lost = fmt.Errorf("%w (%s)", errNotHeld, why)
	}
	return p.lost
}

// Resume implements replay.Pause.
func (p *tablePause) Resume(ctx context.Context) error {
	if p.Leave().IsZero() {
		return nil // it was not paused
	}
	sink, err := p.sink()
	if err != nil {
		return err
	}
	l, err := p.look(ctx)
	if err == nil && l.byPerson(p.tableImports, p.isOurs) != "" {
		return nil // which stays
	}
	for _, m := range p.mappings {
		var left observe.Paused
		err := sink.Resume(ctx, m.Name, "", &left)
		if refusal, ok := errors.AsType[*admin.Refusal](err); ok && refusal.Status == http.StatusConflict {
			continue // it is not paused
		}
		if err != nil {
			return fmt.Errorf("mapping %s goes on at %s only: %w", m.Name, p.until().UTC().Format(time.RFC3339), err)
		}
	}
	return nil
}

// Leave implements replay.Pause.
func (p *tablePause) Leave() time.Time {
	p.stop()
	p.renewal.Wait()
	return p.until()
}
