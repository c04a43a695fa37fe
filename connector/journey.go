package connector

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/tracing"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// recordState is a record between its poll and its confirmation, where it has to
// be waited for on its own. It has one part for each mapping that it concerns
// in this lane, and is confirmed when the last of them has ended.
type recordState struct {
	entry     ack.Entry
	partition *kafka.Partition
	record    atomic.Pointer[kafka.Record]
	lane      *lane
	left      atomic.Int32 // parts that have not ended
	dead      atomic.Bool  // some part ended as a dead letter
	trace     *tracing.Record
}

// part is the record's way through one mapping.
type part struct {
	*recordState
	mapping *router.Compiled // nil: the record could not even be decoded
	op      schemas.Op
	passed  bool   // the batch lane had confirmed what came before the record, when it was last asked
	tried   uint32 // of a create: when it was tried first, in seconds of Unix; 0: never
}

// creating is what is known of earlier tries of a create that is tried now.
func (p *part) creating(unsure bool) writes.Create {
	if p.tried == 0 {
		p.tried = uint32(time.Now().Unix())
	}
	return writes.Create{
		Written: p.record.Load().Timestamp, Assigned: assignedAt(p.partition, p.record.Load()),
		Tried: time.Unix(int64(p.tried), 0), Unsure: unsure,
	}
}

// begin makes the record pending, to be ended by that many parts.
func (l *lane) begin(p *kafka.Partition, r *kafka.Record, parts int) *recordState {
	j := &recordState{partition: p, lane: l, trace: l.trace}
	j.record.Store(r)
	j.entry.Bytes = kafka.HeldBytes(r, parts)
	l.trace = nil // its end is the journey's
	j.left.Store(int32(parts))
	p.Track(&j.entry, r.Offset)
	return j
}

// reject ends the parts that never became a write.
func (j *recordState) reject(rejects []router.Routed) {
	for i := range rejects {
		(&part{recordState: j, mapping: rejects[i].Mapping, op: rejects[i].Write.Op}).deadLetter(writes.RejectReason(rejects[i].Err), rejects[i].Err)
	}
}

// end ends one part; with the last the record is confirmed.
func (j *recordState) end() {
	if j.left.Add(-1) > 0 {
		return
	}
	outcome := outcomeConfirmed
	switch {
	case !j.partition.Confirm(&j.entry):
		outcome = outcomeIgnored
	case j.dead.Load():
		outcome = outcomeDeadLetter
	}
	j.trace.End(outcome)
	j.lane.metrics.cached.records.of(recordsKey{j.partition.Topic, outcome}).Inc()
}

// Confirm ends the part: the service said yes.
func (p *part) Confirm(outcome calls.Outcome) {
	p.count(outcome.String())
	p.lane.floods.gates[p.mapping.Index].confirmed()
	p.end()
}

// Hold implements immediate.Holder: nearly all of the mapping's writes are refused
// alike, so that this one waits.
func (p *part) Hold(err error) bool { return p.lane.floods.gates[p.mapping.Index].answer(err) }

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
	p.lane.metrics.cached.writes.of(writesKey{p.mapping.Name, p.lane.which, p.op, outcome}).Inc()
}

// deadLetter sends the record to the dead-letter topic and ends the part once Kafka
// has it. Without such a topic, or if it refuses the record, the partition
// halts: nothing is dropped. cause is why in words that may be shown anywhere,
// which the letter's message may not.
func (p *part) deadLetter(l deadletter.Reason, cause error) {
	if !p.partition.Live() {
		p.end() // the record is the next owner's, and so is its letter
		return
	}
	l.Lane = p.lane.which.String()
	if p.mapping != nil {
		l.Mapping, l.Table = p.mapping.Name, p.mapping.Label
	}
	if p.lane.post == nil {
		p.halt(l, cause, noTopic, setTopic)
		return
	}
	record := p.record.Load()
	p.lane.unacknowledged.add()
	p.lane.post.Send(record, l, func(err error) {
		defer p.lane.unacknowledged.done()
		if err != nil {
			p.halt(l, cause, err.Error(), openTopic)
			return
		}
		p.dead.Store(true)
		p.lane.metrics.deadLetters.WithLabelValues(record.Topic, l.Code).Inc()
		p.lane.noteDeadLetter(record, l)
		p.end()
	})
}

// Why a record cannot become a dead letter, and what to do about it.
const (
	noTopic   = "no dead-letter topic is configured (dlq.topic)"
	setTopic  = "Set dlq.topic"
	openTopic = "Make the dead-letter topic take it (its max.message.bytes)"
)

// halt stops the partition: its record can neither be applied nor put aside.
func (p *part) halt(l deadletter.Reason, cause error, why, advice string) {
	r, what := p.record.Load(), l.Code
	if l.Mapping != "" {
		what = "mapping " + l.Mapping + ": " + l.Code
	}
	reason := fmt.Sprintf("%s[%d] offset %d: %s: %v. There is no other place for the record: %s. "+
		"The partition waits at it. %s or fix the cause, then restart feedsink: the record is tried again",
		r.Topic, r.Partition, r.Offset, what, cause, why, advice)
	p.partition.HaltAtRecord(reason)
	p.lane.log.Error("partition halted", "topic", r.Topic, "partition", r.Partition, "offset", r.Offset,
		"mapping", l.Mapping, "code", l.Code, "cause", cause, "why", why)
}

// assignedAt is when the record's partition was assigned; now where the other lane,
// which has or had other routes for the record, may have carried the create out since.
func assignedAt(p *kafka.Partition, r *kafka.Record) time.Time {
	if p.OtherRouted(r.Offset, r.Timestamp) {
		return time.Now()
	}
	return p.Assigned()
}
