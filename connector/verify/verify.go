// Package verify tells whether a table says what its topics say. It holds the newest state
// of each key, or of a random sample of the keys, against the table record that the service
// has of it.
//
// Only what is certain is compared: the columns that were named since the row began anew or
// was written whole, of keys of which all records had been confirmed before the table was
// read, and which had no newer record afterwards. What differs is looked at a second time, from
// the beginning: a dead letter may have been replayed meanwhile, or a call landed late.
//
// It reads, and sends nothing. It knows states, records and shares; what the log says it asks
// replay. Profiles it knows nothing about: the interface has no operation that reads one.
package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/schemas"
)

// Why a table record differs, beside the fields that do.
const (
	Missing    = "missing"     // there is none
	NotDeleted = "not deleted" // there is one, and the newest state is a delete
	Differs    = "differs"     // in some fields
)

// maxRepair is how many differing keys are kept, to be looked at again and repaired. Of more,
// the number is known.
const maxRepair = 100_000

// maxShown is how many differences are shown one by one.
const maxShown = 1000

// Difference is one key whose table record is not what its newest state says. Without ShowValues
// it holds nothing of the customer's.
type Difference struct {
	Record string   `json:"record"` // the last one of the key, which should have won: topic[partition]@offset
	Why    string   `json:"why"`
	Fields []string `json:"fields,omitempty"` // of Differs
	// With ShowValues: the key, and what the fields should and do hold.
	Key  string                     `json:"key,omitempty"`
	Want map[string]json.RawMessage `json:"want,omitempty"`
	Have map[string]json.RawMessage `json:"have,omitempty"`
}

// Report is what was compared, and how it ended.
type Report struct {
	Mapping string `json:"mapping"`
	Table   string `json:"table"`
	// Readable is false of a profile table: nothing was compared, and Known is all there is.
	Readable bool   `json:"readable"`
	Known    *Known `json:"known,omitempty"`

	Records     int64 `json:"records"`     // confirmed, in the log
	DeadLetters int64 `json:"deadLetters"` // of these, which never came to the table
	NoKey       int64 `json:"noKey"`       // of these, whose rows cannot be told: the service chose their keys
	Keys        int64 `json:"keys"`
	About       bool  `json:"about"`  // of Keys
	Sample      int   `json:"sample"` // how many were asked for; 0: all

	Compared  int64            `json:"compared"`
	Different int64            `json:"different"`
	Newer     int64            `json:"newer"`            // left out: a newer record was not confirmed before, or came meanwhile
	Unread    map[string]int64 `json:"unread,omitempty"` // by why the service did not show the record
	// All says that every key was compared that was not left out. Otherwise AtMost is the share
	// of them that differs at most, with a confidence of 95 %, from 0 to 1.
	All    bool    `json:"all"`
	AtMost float64 `json:"atMost,omitempty"`

	Counts
	Differences []Difference `json:"differences"`       // as many as are shown
	Gone        []string     `json:"gone,omitempty"`    // where the log has lost its beginning
	Former      []string     `json:"former,omitempty"`  // where records may have been applied that the mapping does not take any more
	Writers     []string     `json:"writers,omitempty"` // other mappings of the table, whose what differs may be
	// Repair is what became of the keys that differ; nil: it was not asked for.
	Repair *replay.BackfillReport `json:"repair,omitempty"`
	Error  string                 `json:"error,omitempty"` // why not all was compared, or sent again
}

// Empty reports whether nothing is known yet.
func (r *Report) Empty() bool { return r.Records == 0 && r.Known == nil }

// Counts are how many keys differ, by how they do.
type Counts struct {
	Missing    int64            `json:"missing"`
	NotDeleted int64            `json:"notDeleted"`
	Fields     map[string]int64 `json:"fields,omitempty"`
}

func (c *Counts) add(d Difference) {
	switch d.Why {
	case Missing:
		c.Missing++
	case NotDeleted:
		c.NotDeleted++
	}
	for _, name := range d.Fields {
		c.Fields[name]++
	}
}

// Equal reports whether nothing is known that differs, or that could not be read.
func (r *Report) Equal() bool {
	if r.Known != nil {
		return r.Known.Fine()
	}
	return r.Different == 0 && len(r.Unread) == 0
}

// Repaired reports whether every key that differs was sent again, or has a newer record.
func (r *Report) Repaired() bool {
	return r.Repair != nil && r.Repair.Ended && r.Repair.Sent+r.Repair.Newer >= r.Different && len(r.Unread) == 0
}

// Verify compares once. Its fields are set by its caller.
type Verify struct {
	// Log is what the topics say, anew for each look at them.
	Log func() *replay.Backfill
	// Get makes one attempt to read a table record. Its errors are the service client's.
	Get        func(ctx context.Context, table, key string) (service.Record, error)
	Rate       rate.Limit // of these, by the second
	GiveUp     time.Duration
	Backoff    retry.Backoff
	Random     func() float64 // jitter
	Seed       string         // decides which keys a sample has
	Sample     int            // 0: all keys
	ShowValues bool
	Repair     bool // the keys that differ will be repaired
	// Tell is told how far it is; nil: not told.
	Tell func(replay.BackfillReport)

	limiter *rate.Limiter
}

// Run compares. keys are those that differ, at most maxRepair. With an error the report
// tells what was compared until then.
func (v *Verify) Run(ctx context.Context) (report Report, keys map[string]bool, err error) {
	v.limiter = rate.NewLimiter(v.Rate, 1)
	first := newFindings()
	b := v.Log()
	looked, err := v.look(ctx, b, first, replay.Looking{Most: v.Sample, Seed: v.Seed, Repair: v.Repair})
	all := looked.Ended && (v.Sample == 0 || !looked.About && first.seen()+looked.Newer == looked.Keys)
	last := first
	if err == nil && len(first.different) > 0 {
		again := v.Log()
		again.Only, last = keysOf(first.different), newFindings()
		var second replay.BackfillReport
		second, err = v.look(ctx, again, last, replay.Looking{})
		looked.Newer += second.Newer
	}
	if errors.Is(err, replay.ErrNothing) {
		err = fmt.Errorf("mapping %s: %w", b.Mapping.Name, ErrNothing)
	}
	report = Report{
		Mapping: b.Mapping.Name, Table: b.Mapping.Label, Readable: true, Records: looked.Records, DeadLetters: looked.DeadLetters, NoKey: looked.NoKey,
		Keys: looked.Keys, About: looked.About, Sample: v.Sample, Newer: looked.Newer, Gone: looked.Gone, Former: looked.Former,
		Compared: first.compared, Different: first.more + int64(len(last.different)), Unread: first.unread,
		Counts: first.moreBy, Differences: []Difference{},
	}
	if last != first {
		report.Compared -= int64(len(first.different)) - last.compared
		for why, n := range last.unread {
			report.Unread[why] += n
		}
	}
	if report.All = all && err == nil; !report.All {
		report.AtMost = AtMost(report.Different, report.Compared)
	}
	for _, d := range last.different {
		report.add(d)
		report.Differences = append(report.Differences, d)
	}
	slices.SortFunc(report.Differences, func(a, b Difference) int { return strings.Compare(a.Record, b.Record) })
	report.Differences = report.Differences[:min(len(report.Differences), maxShown)]
	return report, keysOf(last.different), err
}

// ErrNothing says that there is no state to compare.
var ErrNothing = errors.New("there is nothing to compare: the sink has confirmed no record that its topics hold")

// findings are what one look has found.
type findings struct {
	compared  int64
	different map[string]Difference // by key, maxRepair at most
	more      int64                 // that differ, too
	moreBy    Counts                // of these
	unread    map[string]int64
}

func newFindings() *findings {
	return &findings{different: map[string]Difference{}, moreBy: Counts{Fields: map[string]int64{}}, unread: map[string]int64{}}
}

// seen is how many keys were looked at whose state was the newest.
func (f *findings) seen() (n int64) {
	n = f.compared
	for _, unread := range f.unread {
		n += unread
	}
	return n
}

func keysOf(of map[string]Difference) map[string]bool {
	keys := make(map[string]bool, len(of))
	for key := range maps.Keys(of) {
		keys[key] = true
	}
	return keys
}

// stored is what the service said of a key.
type stored struct {
	record service.Record
	found  bool
	unread string // why it did not say
}

func (v *Verify) look(ctx context.Context, b *replay.Backfill, into *findings, which replay.Looking) (replay.BackfillReport, error) {
	b.Tell = v.Tell
	return b.Look(ctx, which, func(ctx context.Context, states []replay.State) (func(int), error) {
		have, err := v.read(ctx, states)
		return func(i int) { v.judge(&states[i], &have[i], into) }, err
	})
}

// inFlight is how many reads wait for their answers at once: enough for any rate, and few
// beside live traffic.
const inFlight = 16

// read reads the table records of all states, at the rate.
func (v *Verify) read(ctx context.Context, states []replay.State) ([]stored, error) {
	have := make([]stored, len(states))
	reading, working := errgroup.WithContext(ctx)
	reading.SetLimit(inFlight)
	for i := range states {
		if v.limiter.Wait(working) != nil {
			break // a read has failed, or ctx has ended
		}
		reading.Go(func() (err error) {
			have[i], err = v.get(working, &states[i].Write)
			return err
		})
	}
	if err := reading.Wait(); err != nil {
		return nil, err
	}
	return have, ctx.Err()
}

// get reads one table record, however often that takes.
func (v *Verify) get(ctx context.Context, w *schemas.Write) (have stored, err error) {
	trying, cancel := context.WithTimeout(ctx, v.GiveUp)
	defer cancel()
	tries := 0
	err = retry.Do(trying, v.Backoff, v.Random, func(ctx context.Context) (err error) {
		if tries++; tries > 1 {
			if err := v.limiter.Wait(ctx); err != nil {
				return err
			}
		}
		have.record, err = v.Get(ctx, w.Table.Name, w.Key)
		return err
	}, func(err error) (again bool, after time.Duration) {
		said, ok := errors.AsType[*service.Error](err)
		if !ok {
			return false, 0
		}
		return said.Transient(), said.RetryAfter()
	})
	said, ok := errors.AsType[*service.Error](err)
	switch {
	case err == nil:
		have.found = true
	case ctx.Err() != nil:
		return have, ctx.Err()
	case ok && said.Kind() == service.NotFound:
	case ok && !said.Transient():
		have.unread = said.Kind().String()
	default:
		return have, fmt.Errorf("a table record could not be read for %v: %w; once the service answers, run again", v.GiveUp, err)
	}
	return have, nil
}

// judge holds the table record against the state, which is still the newest.
func (v *Verify) judge(s *replay.State, have *stored, into *findings) {
	if have.unread != "" {
		into.unread[have.unread]++
		return
	}
	into.compared++
	d := Difference{Record: s.Record}
	deleted := s.Write.Op == schemas.Delete
	switch {
	case deleted && have.found:
		d.Why = NotDeleted
	case deleted:
		return
	case !have.found:
		d.Why = Missing
	default:
		if d.Fields = differing(&s.Write, &have.record); len(d.Fields) == 0 {
			return
		}
		d.Why = Differs
	}
	if len(into.different) == maxRepair {
		into.more++
		into.moreBy.add(d)
		return
	}
	if v.ShowValues && len(into.different) < maxShown {
		d.show(s, have)
	}
	into.different[s.Write.Key] = d
}

// show adds what is the customer's.
func (d *Difference) show(s *replay.State, have *stored) {
	d.Key, d.Want, d.Have = s.Write.Key, map[string]json.RawMessage{}, map[string]json.RawMessage{}
	for _, cell := range s.Write.Cells {
		if slices.Contains(d.Fields, cell.Name) {
			d.Want[cell.Name] = cell.Value.AppendJSON(nil)
			d.Have[cell.Name] = have.record.Value(cell.Name)
		}
	}
}
