package connector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/flood"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/kafka/memory"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/outbox"
	"github.com/feedsink/feedsink/connector/receipt"
	"github.com/feedsink/feedsink/connector/tracing"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// laneBase is what all parts of a lane need.
type laneBase struct {
	which          schemas.Lane
	router         *router.Router
	source         *kafka.Source
	post           *deadletter.Post // nil: no dead-letter topic
	receipts       *receipt.Book    // nil: no receipts topic
	floods         *flood.Gates
	pauses         *pauses
	missing        *missing    // nil: of the batch lane
	calls          *calls.Lane // nil: of the batch lane
	metrics        *observe.Metrics
	recent         *observe.History
	tracing        tracing.Lane
	spans          *tracing.Imports // nil: tracing is off
	log            *slog.Logger
	unacknowledged outbox.Outbox // dead letters and receipts
	whyNot         func() string // they are not acknowledged, and what to do; "": not known
}

// recordState is a record between its poll and its confirmation, where it has to
// be waited for on its own. It has one part for each mapping that it concerns
// in this lane, and is confirmed when the last of them has ended.
type recordState struct {
	entry     ack.Entry
	partition *kafka.Partition
	record    atomic.Pointer[kafka.Record]
	lane      *laneBase
	parts     atomic.Pointer[part] // the latest; freshness looks at them
	left      atomic.Int32         // parts that have not ended
	dead      atomic.Bool          // some part ended as a dead letter
	outcome   string               // of a record of which nothing is written; "": of any other
	trace     *tracing.Record
}

// part is the record's way through one mapping.
type part struct {
	*recordState
	mapping *router.Compiled // nil: the record could not even be decoded
	before  *part            // the record's part before it; nil: none
	op      schemas.Op
	route   int    // of the mapping, as router.Routed has it
	passed  int    // tries since the batch lane is known to have passed the record
	tried   uint32 // of a create: when it was tried first, in seconds of Unix; 0: never
	ended   atomic.Bool
	same    bool             // its write said what the key's last call had said: none was made
	told    func(stays bool) // once it has ended, or has no other place; nil: it is not asked for
	merged  bool             // its call is that of a newer write
	asked   *missed          // whether the log has a row for a patch of nothing; nil: not asked yet
	receipt *opened          // nil: there are none
}

// part begins that part of the record that one of its mappings makes.
func (j *recordState) part(w *router.Routed) *part {
	p := &part{recordState: j, mapping: w.Mapping, op: w.Write.Op, route: w.Route, before: j.parts.Load()}
	j.parts.Store(p)
	return p
}

// noMapping stands for a record that no mapping writes, or that could not even be decoded.
var noMapping router.Routed

// creating is what is known of earlier tries of a create that is tried now.
func (p *part) creating(unsure bool) writes.Create {
	if p.tried == 0 {
		p.tried = uint32(time.Now().Unix())
	}
	return writes.Create{
		Written: p.record.Load().Timestamp, Assigned: p.partition.AssignedFor(p.record.Load()),
		Tried: time.Unix(int64(p.tried), 0), Unsure: unsure,
	}
}

// begin makes the record pending, to be ended by that many parts.
func (l *laneBase) begin(p *kafka.Partition, r *kafka.Record, parts int, trace *tracing.Record) *recordState {
	j := &recordState{partition: p, lane: l, trace: trace}
	j.record.Store(r)
	j.entry.Bytes, j.entry.Of = memory.Held(r, parts), j
	j.left.Store(int32(parts))
	p.Track(&j.entry, r.Offset)
	return j
}

// reject ends the parts that never became a write.
func (j *recordState) reject(rejects []router.Routed, parts int) {
	for i := range rejects {
		p := j.part(&rejects[i])
		p.opens(&rejects[i].Write, rejects[i].Part, parts)
		j.lane.mayBeWritten(p, &rejects[i])
		p.deadLetter(writes.RejectReason(rejects[i].Err), rejects[i].Err)
	}
}

// mayBeWritten notes that a record becomes a dead letter without a call: it may be replayed
// later, so that what the lane knows of its key does not hold. w is nil, or without a key, where it does not say whose
// it is: then that is so for its whole partition.
func (l *laneBase) mayBeWritten(p *part, w *router.Routed) {
	if l.calls == nil || w != nil && w.Mapping.Unchanged() == 0 {
		return
	}
	var named schemas.Write
	if w != nil {
		if bad, ok := errors.AsType[*router.Reject](w.Err); ok {
			named.Table, named.Key = w.Mapping.Table, bad.Key()
		}
	}
	l.calls.Forget(&named, p)
}

// endNothing ends a record of which nothing is written: at once, or with its receipt.
func (l *lane) endNothing(p *kafka.Partition, r *kafka.Record, in *reading) {
	outcome := l.nothing(r, in)
	otherLane := l.Router.Reads(r.Topic, schemas.Immediate) && l.which == schemas.Batch
	if l.receipts == nil || otherLane {
		l.count(r, outcome)
		return
	}
	j := l.begin(p, r, 1, l.tracing.Record(in.begun, r))
	j.outcome = outcome
	part := j.part(&noMapping)
	part.opens(nil, 0, 1)
	part.endWith(receipt.Skipped, 0)
}

func (l *lane) count(r *kafka.Record, outcome string) {
	l.metrics.RecordsEnded(r.Topic, outcome, 1)
}

// end ends the part; with the last the record is confirmed.
func (p *part) end() {
	p.ended.Store(true)
	j := p.recordState
	if j.left.Add(-1) > 0 {
		return
	}
	outcome := observe.OutcomeConfirmed
	switch {
	case !j.partition.Confirm(&j.entry):
		outcome = observe.OutcomeIgnored
	case j.dead.Load():
		outcome = observe.OutcomeDeadLetter
	case j.outcome != "":
		outcome = j.outcome
	case p.same && j.allSame():
		outcome = observe.OutcomeUnchanged
	}
	j.trace.End(outcome)
	j.lane.metrics.RecordsEnded(j.partition.Topic, outcome, 1)
}

// allSame reports whether no call was made for any part of the record.
func (j *recordState) allSame() bool {
	for p := j.parts.Load(); p != nil; p = p.before {
		if !p.same {
			return false
		}
	}
	return true
}

// Confirm ends the part: the service has confirmed it, or had confirmed before what it says.
func (p *part) Confirm(outcome calls.Outcome) {
	p.count(outcome.String())
	p.delivered()
	if p.same = outcome == calls.Unchanged; p.same { // which says nothing of the service
		p.endWith(receipt.Skipped, 0)
		return
	}
	p.endCalled(outcome.String())
}

// endCalled ends the part whose call has landed.
func (p *part) endCalled(outcome string) {
	if outcome != calls.AbsentAlready.String() { // which may be said of each where the entity is wrong
		p.lane.floods.Confirmed(p.mapping)
	}
	switch {
	case outcome == calls.AbsentAlready.String():
		p.endWith(receipt.Absent, http.StatusNotFound)
	case p.merged:
		p.endWith(receipt.Merged, 0)
	default:
		p.endWith(receipt.Called, 0)
	}
}

// Merged notes that the write went out with that of a newer record.
func (p *part) Merged() { p.merged = true }

// opens prepares the part's receipt: which of the record's parts it is. w is nil where
// there is no write.
func (p *part) opens(w *schemas.Write, part, parts int) {
	if p.lane.receipts == nil {
		return
	}
	p.receipt = &opened{part: part, parts: parts}
	if w != nil {
		p.receipt.key = p.lane.receipts.Of(w)
	}
}

// opened is what is known of a receipt before its part has ended.
type opened struct {
	part, parts int
	key         receipt.Key
	outcome     receipt.Outcome
}

// endWith ends the part once Kafka has its receipt. Of a partition that is gone there is
// none: the record is the next owner's.
func (p *part) endWith(outcome receipt.Outcome, status int) {
	if p.receipt == nil || !p.partition.Live() {
		p.end()
		p.tell(false)
		return
	}
	of := p.record.Load()
	r := receipt.Receipt{
		Topic: p.partition.Topic, Partition: p.partition.ID, Offset: of.Offset, Part: p.receipt.part, Parts: p.receipt.parts, Lane: p.lane.which,
		Op: p.op, Outcome: outcome, Status: status, Written: of.Timestamp, Assigned: p.partition.Assigned(), Ended: time.Now(), Key: p.receipt.key,
	}
	if p.mapping != nil {
		r.Mapping = p.mapping.Name
	}
	p.receipt.outcome = outcome
	p.lane.unacknowledged.Add(1)
	p.lane.receipts.Send(&r, p)
}

// Acknowledged ends the part: Kafka has its receipt.
func (p *part) Acknowledged(int) {
	defer p.lane.unacknowledged.Done(1)
	p.lane.metrics.Receipts(p.receipt.outcome.String(), 1)
	p.end()
	p.tell(false)
}

// delivered counts how long the record took to here from when it was written.
func (p *part) delivered() {
	if p.mapping != nil {
		age := time.Since(kafka.WrittenAt(p.record.Load()))
		p.lane.metrics.Delivered(p.mapping.Name, p.lane.which, age, 1, p.trace.ID())
		p.lane.metrics.Judged(p.mapping.Objective(p.route), age, 1)
	}
}

// Hold implements calls.Holder: nearly all of the mapping's writes are refused
// alike, so that this one waits.
func (p *part) Hold(err error) bool { return p.lane.floods.Refused(p.mapping, err) }

var _ calls.Holder = (*part)(nil)

// Reject ends the part as a dead letter: the service said no for good.
func (p *part) Reject(err error) {
	p.count(calls.Rejected.String())
	if p.lane.missing.take(p, err) {
		return
	}
	p.deadLetter(writes.RefusalReason(err), err)
}

func (p *part) count(outcome string) {
	p.lane.metrics.WritesEnded(p.mapping.Name, p.lane.which, p.op, outcome, 1)
}

// deadLetter sends the record to the dead-letter topic and ends the part once Kafka
// has it. Without such a topic, or if it refuses the record, the partition
// halts: nothing is dropped. cause is why in words that may be shown anywhere,
// which the dead letter's message may not.
func (p *part) deadLetter(l deadletter.Reason, cause error) {
	if !p.partition.Live() {
		defer p.tell(false)
		p.end() // the record is the next owner's, and so is its dead letter
		return
	}
	l.Lane = p.lane.which.String()
	if p.mapping != nil {
		l.Mapping, l.Table = p.mapping.Name, p.mapping.Label
	}
	if p.lane.post == nil {
		p.halt(l, cause, deadletter.NoTopic, deadletter.SetTopic)
		return
	}
	record := p.record.Load()
	p.lane.unacknowledged.Add(1)
	p.lane.post.Send(record, l, func(err error) {
		defer p.lane.unacknowledged.Done(1)
		if err != nil {
			p.halt(l, cause, err.Error(), deadletter.OpenTopic(err))
			return
		}
		p.dead.Store(true)
		p.partition.Refused(record.Offset, p.before == nil && p.parts.Load() == p)
		p.lane.metrics.DeadLetter(record.Topic, l.Code)
		p.lane.recent.LogDeadLetter(p.lane.log, record, l)
		p.delivered()
		p.endWith(receipt.DeadLetter, l.Status)
	})
}

// tell tells who asked that the part has ended, or that it stays.
func (p *part) tell(stays bool) {
	if p.told != nil {
		p.told(stays)
	}
}

// halt stops the partition: its record can neither be applied nor put aside.
func (p *part) halt(l deadletter.Reason, cause error, why, advice string) {
	r, what := p.record.Load(), l.Code
	if l.Mapping != "" {
		what = "mapping " + l.Mapping + ": " + l.Code
	}
	reason := fmt.Sprintf("%s[%d] offset %d: %s: %v. There is no other place for the record: %s. "+
		"The partition waits at it. %s, or fix the cause and restart feedsink: the record is tried again",
		r.Topic, r.Partition, r.Offset, what, cause, why, advice)
	defer p.tell(true)
	p.partition.HaltAtRecord(reason)
	p.lane.log.Error("partition halted", "topic", r.Topic, "partition", r.Partition, "offset", r.Offset,
		"mapping", l.Mapping, "code", l.Code, "cause", cause, "why", why)
}

// quietly is how long Kafka may take to acknowledge what a lane waits for before the log
// says that it waits.
const quietly = time.Second

// awaitAcknowledged waits for dead letters and receipts of partitions that go, until ctx ends.
// It may be the stop of the process that waits: so it says for what, and how long.
func (l *laneBase) awaitAcknowledged(ctx context.Context) {
	first, cancel := context.WithTimeout(ctx, quietly)
	err := l.unacknowledged.Wait(first)
	cancel()
	if err != nil && ctx.Err() == nil {
		facts := []any{"waiting_for", l.unacknowledged.Open()}
		if by, ok := ctx.Deadline(); ok {
			facts = append(facts, "at_most", time.Until(by).Round(time.Second))
		}
		if why := l.whyNot(); why != "" {
			facts = append(facts, "why", why)
		}
		l.log.Warn("partitions are given back once their dead letters and receipts are acknowledged; after that time they go without. "+
			"See that the dead-letter topic (dlq.topic) and the receipts topic exist and can be written", facts...)
		err = l.unacknowledged.Wait(ctx)
	}
	if err != nil {
		l.log.Warn("partitions go while dead letters or receipts are not acknowledged; they may be sent twice", "error", err)
	}
}

// maxPending is how many records of a lane may be on their way one by one: a
// third of a second's worth of the fastest service. Beyond, the immediate lane takes only
// records of partitions that hold less than their parts (partsOf). What they take is bounded in
// bytes, by memory.pending.
const maxPending = 4096

// brokers is how a lane reaches the cluster. What is fetched ahead its lanes share.
func (s *pipeline) brokers() cluster.Connection {
	c := build.KafkaConnection(s.cfg.Kafka, s.log)
	c.Dial = s.opts.Dial
	c.Fetched = int64(s.cfg.Memory.Fetched) / int64(len(s.opts.Lanes))
	return c
}

// Wait is called when the write will be tried again later, and may outlast all
// records that were fetched with its own by hours. A fetched record holds
// everything that came in the same answer: so from here on it has memory of its own.
func (p *part) Wait() {
	r := p.record.Load()
	p.record.CompareAndSwap(r, memory.Own(r))
}

// sentAgain is the keys of which records are sent once more after a restart, as bits
// of their hashes: a bit that two keys share has a record sent once more for nothing.
type sentAgain [1 << 14]uint64

func (s *sentAgain) bit(w *schemas.Write) (word *uint64, mask uint64) {
	key := w.Key
	if key == "" {
		key = w.ProfileID
	}
	hash := xxhash.Sum64String(key)*31 + xxhash.Sum64String(w.Table.Name)
	if w.Table.Custom {
		hash++
	}
	return &s[hash>>6%uint64(len(s))], 1 << (hash & 63)
}

// sendsAgain decides about a record of those of which some were confirmed before a
// restart and some were not. It reports true for one that is done and has to be sent
// once more all the same, behind an older one of its key that was not confirmed; of
// its writes those of such keys are left then.
func (l *lane) sendsAgain(p *kafka.Partition, r *kafka.Record, routed []router.Routed, done bool) (left []router.Routed, again bool) {
	mine := func(w *router.Routed) bool { return w.Lane == l.which || w.Taken }
	keyed := func(w *router.Routed) bool {
		return mine(w) && w.Err == nil && (w.Write.Key != "" || w.Write.ProfileID != "") && !l.delivery.covers(p, w, r.Offset)
	}
	keys := l.again[p]
	if !done {
		for i := range routed {
			w := &routed[i]
			if !keyed(w) {
				continue
			}
			if keys == nil {
				keys = new(sentAgain)
				if l.again == nil {
					l.again = map[*kafka.Partition]*sentAgain{}
				}
				l.again[p] = keys
			}
			word, mask := keys.bit(&w.Write)
			*word |= mask
			p.SendAgain(r.Offset)
		}
		return routed, false
	}
	older := func(w *router.Routed) bool {
		if keys == nil || !keyed(w) {
			return false
		}
		word, mask := keys.bit(&w.Write)
		return *word&mask != 0
	}
	if !slices.ContainsFunc(routed, func(w router.Routed) bool { return older(&w) }) {
		return routed, false
	}
	return slices.DeleteFunc(routed, func(w router.Routed) bool { return mine(&w) && !older(&w) }), true
}

// restored forgets what sendsAgain knows of a partition that was read on to next, if
// nothing of what follows was confirmed before the restart.
func (l *lane) restored(p *kafka.Partition, next int64) {
	if l.again[p] == nil {
		return
	}
	if _, restored := p.Stands(next); !restored {
		delete(l.again, p)
	}
}
