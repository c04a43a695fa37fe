// Package batcher is the batch lane: it turns writes into rows of files, one
// open file per mapping, and carries each file through its import until the
// service has confirmed it.
//
// An open file is a generation of its mapping: a journal of rows in the order
// they arrived. When it is complete (rows, bytes or age) it is folded, the last
// state of every key wins, and sealed as one compressed CSV per operation. The
// files of a generation are loaded one after the other, share one hold on the
// offsets they came from, and are confirmed together. While a generation is on
// its way, the next one of its mapping keeps growing.
//
// Mappings of a bundle share all of that: one generation with a journal for each
// of them, and per operation one ZIP with an entry for each, parents first.
//
// Memory is bounded by the configuration, not by the rows that wait: a journal
// lives on disk, divided by key, and is folded one 256th at a time.
//
// The package knows files, CSV and the steps of an import. It knows nothing
// about Kafka, HTTP, or where an import is written down so that a crash does not
// repeat it: those come through the interfaces in batcher/contract.
package batcher

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/batcher/rejects"
	"github.com/feedsink/feedsink/batcher/said"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/schemas"
)

// Partition is contract.Partition, which is needed everywhere here.
type Partition = contract.Partition

// Claim is contract.Claim, likewise.
type Claim = contract.Claim

// Config is what all mappings share. That it can work, and the mappings with it, is checked
// where the configuration file is read.
type Config struct {
	Dir      string // the spool; this process must be its only user
	MaxBytes int64  // Full reports when the spool takes as much, in bytes
	// MaxFollowed is what keys that both lanes write may take of memory, in bytes;
	// 0: any size.
	MaxFollowed int64
	Poll        retry.Backoff
	Retry       retry.Backoff
	// Grace is how long a request that is on its way when Run is told to end may
	// take to its answer. A trigger that is cut off may waste an import.
	Grace time.Duration
	Gate  contract.Gate
	// Parents is asked about mappings with After.
	Parents contract.Parents
	// Peer is asked about mappings with Both; nil: there are none.
	Peer contract.Peer
	// ApartAfter is how long a partition that is halted, or waits for the other lane's
	// routes, holds up reconciling; 0: a minute.
	ApartAfter time.Duration
	// LookEvery is how often, at most, keys are let go of that the other lane has confirmed; 0: once a second.
	LookEvery time.Duration
	// Calls makes calls in the place of rows of mappings with Auto; nil: all rows go by
	// file.
	Calls contract.Calls
	// LandsWithin is how long after it was given up a call may still land.
	LandsWithin time.Duration
	// MaxWaiting is what records that wait for calls may take of memory, in bytes; 0:
	// any size.
	MaxWaiting int64
	// Records is asked for what is behind rows in error; nil: there are none.
	Records contract.Records
	// Floods is asked before they become dead letters.
	Floods contract.Floods
	// Paused reports whether a person has paused the mapping: no file of it, or of its
	// bundle, is sent; nil: none is.
	Paused func(mapping string) bool
	// Alone reports whether no other member has imports; nil: one may.
	Alone func() bool
	Log   *slog.Logger // nil: slog.Default()
}

// Batcher is the batch lane of one process. Its methods may be called from any
// goroutine.
type Batcher struct {
	cfg      Config
	segment  int
	atOnce   int // rows in error that are looked for in one reading
	spool    *spool.Dir
	importer contract.Importer
	ledger   contract.Ledger
	observer contract.Observer
	rnd      *rand.Rand
	byName   map[string]*member
	queues   []*tableQueue // in the order of the configuration
	waiting  atomic.Int64  // bytes of records that wait for calls
	noRoom   chan struct{} // the spool was found full

	executions said.Executions // that were awaited
}

// Notes are notes about a mapping's rows, which count as part of the spool.
func (b *Batcher) Notes(mapping string) *spool.Notes {
	return spool.NewNotes(b.spool, func() string { return spool.NewName(mapping, b.rnd) })
}

// New takes the spool directory over and opens the lane. What an earlier process
// left there is removed, except the files kept for a person to look at. Mappings
// of one bundle are given parents first. The batcher must be Run or Closed.
func New(cfg Config, mappings []files.Mapping, i contract.Importer, l contract.Ledger, o contract.Observer, rnd *rand.Rand) (*Batcher, error) {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	cfg.ApartAfter = cmp.Or(cfg.ApartAfter, time.Minute)
	b := &Batcher{
		cfg: cfg, segment: spool.SegmentSize, atOnce: rejects.AtOnce, importer: i, ledger: l, observer: o,
		rnd: retry.Shared(rnd), byName: map[string]*member{}, noRoom: make(chan struct{}, 1),
	}
	for _, m := range mappings {
		if err := b.add(m); err != nil {
			return nil, fmt.Errorf("mapping %s: %w", m.Name, err)
		}
	}
	for _, q := range b.queues {
		q.findParents()
	}
	var err error
	if b.spool, err = spool.Open(cfg.Dir); err != nil {
		return nil, err
	}
	return b, nil
}

// Append adds a write to the mapping's open file and holds the record's offset
// until the file is confirmed. Calls for one mapping are made one after the
// other, in the order in which the writes are to be applied.
//
// A *schemas.ValueError means that the write can never be a row; nothing was
// added or held. Any other error is the disk's: nothing was added or held, and
// the same call may be made again once there is room.
func (b *Batcher) Append(mapping string, w schemas.Write, p Partition, offset int64) error {
	m, ok := b.byName[mapping]
	if !ok {
		return unknown(mapping)
	}
	return m.append(&w, p, offset, false)
}

// Repeat is Append for a record of a partition that was set apart: its row may be in
// the table by now, in the place of a newer write of the other lane.
func (b *Batcher) Repeat(mapping string, w schemas.Write, p Partition, offset int64) error {
	m, ok := b.byName[mapping]
	if !ok {
		return unknown(mapping)
	}
	return m.append(&w, p, offset, true)
}

// Begin notes that the mapping's table is this process' from now on: records written before
// may have been rows of a file that another one had open.
func (b *Batcher) Begin(mapping string) {
	if m, ok := b.byName[mapping]; ok {
		m.queue.mu.Lock()
		defer m.queue.mu.Unlock()
		if m.queue.open == nil {
			m.queue.began = time.Now()
		}
	}
}

// HandOver forgets what mappings have open or on its way, and with it the rest of their
// bundles, because partitions of them go: open files are dropped, running imports are
// neither polled nor confirmed any more. Files kept after a halt stay on disk. A file that
// is being sent comes to its answer first, and its execution is written down, so that the
// next owner adopts it instead of sending it again. Until ctx ends, that is: what is on its
// way then is cut off, and not waited for. No other step is begun. Appending may go on at
// once, for new assignments.
func (b *Batcher) HandOver(ctx context.Context, mappings ...string) {
	var runs []*importRun
	for _, name := range mappings {
		if m, ok := b.byName[name]; ok {
			if r := m.queue.stop(); r != nil {
				runs = append(runs, r)
			}
		}
	}
	for _, r := range runs {
		select {
		case <-r.ended:
		case <-ctx.Done():
		}
		r.queue.cutOff(r)
	}
}

// Release lets a halted mapping, and with it its bundle, go on: its kept file is
// sent again, with as many tries as at first; or the output files of a loaded one
// are asked for once more. It is an operator's decision.
func (b *Batcher) Release(mapping string) error {
	m, ok := b.byName[mapping]
	if !ok {
		return unknown(mapping)
	}
	q := m.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running == nil || q.running.halted == "" {
		return fmt.Errorf("mapping %s: is not halted, there is nothing to release", mapping)
	}
	q.running.halted = "" // here and not by the import run, so that a second release finds nothing to do
	notify(q.running.released)
	return nil
}

func unknown(mapping string) error { return fmt.Errorf("mapping %s: has no batch lane", mapping) }

// Hint says that an execution of an ETL may have ended: its import is polled at once. An
// empty execution hints at all. One that belongs to no import, now or before, is given to the
// import of the ETL whose trigger was answered without an id, if there is exactly one: only
// a poll decides what became of it. An empty etl may be any, and names an import only where
// no other table, or no other member, has imports.
func (b *Batcher) Hint(execution, etl string) {
	var nameless []*importRun
	for _, q := range b.queues {
		q.mu.Lock()
		r := q.running
		known := r != nil && r.now.Execution != ""
		match := known && (execution == "" || r.now.Execution == execution)
		if match {
			r.hint(execution)
		}
		if r != nil && r.nameless() && (r.now.ETL == etl || etl == "" && (len(b.queues) == 1 || b.cfg.Alone != nil && b.cfg.Alone())) {
			nameless = append(nameless, r)
		}
		q.mu.Unlock()
		if match && execution != "" {
			return
		}
	}
	if len(nameless) == 1 && execution != "" && !b.executions.Has(execution) {
		nameless[0].nameExecution(execution)
	}
}

// Run rolls and imports until ctx ends and returns once everything it started
// has ended, at most Grace later plus the time an answer takes to be cut off.
// Open files are not sealed early; the spool is given up, as by Close.
func (b *Batcher) Run(ctx context.Context) error {
	send, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	var running sync.WaitGroup
	for _, q := range b.queues {
		running.Go(func() { q.run(ctx, send) })
		if q.auto() {
			running.Go(func() { q.call(ctx) })
			if q.anyDualLane() {
				running.Go(func() { q.confirmLanded(ctx) })
			}
		}
	}
	running.Go(func() { b.keepRoom(ctx) })
	if b.cfg.Peer != nil {
		running.Go(func() { b.follow(ctx) })
	}
	<-ctx.Done()
	late := time.AfterFunc(b.cfg.Grace, cut)
	defer late.Stop()
	running.Wait()
	return b.Close()
}

// Close drops the open files and gives up the spool directory. It is for a
// batcher that is not Run.
func (b *Batcher) Close() error {
	for _, q := range b.queues {
		if r := q.stop(); r != nil {
			q.cutOff(r)
		}
	}
	return b.spool.Close()
}
