package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/schemas"
)

// growth is whether a record costs more when more of them wait: CPU and memory
// at each backlog. The batch lane works records off while the backlog is filled
// up again behind it, so that each backlog has as much time to show what it
// takes; the immediate lane makes its first calls, a few seconds each, which are
// repeated. The backlogs are measured there and back, and what is compared are means:
// a machine that gets slower meanwhile does not look like growth.
func growth(ctx context.Context, b *bench, o options) (found []finding) {
	// With one and the same backlog everywhere, single trips differed by -2 to 24 %:
	// processors that others share have slow spells about as long as a few calls take.
	backlogs, trips := []int64{1e6, 10e6, 50e6}, series{9, 12, readProcessors}
	if o.quick {
		backlogs, trips = []int64{1e6, 3e6}, repetitions(true)
	}
	try(b.produce(ctx, endlessTopic, recurring(1_000_000, 500_000, canonical())))
	for _, l := range []struct {
		lane    schemas.Lane
		series  series
		measure func(ctx context.Context, backlog int64) sample
	}{
		{schemas.Batch, repetitions(true), func(ctx context.Context, backlog int64) sample {
			// Even a short one until the sink's memory is where it stays.
			return b.workOff(ctx, backlog, max(backlog*3/4, backlogs[len(backlogs)-1]/5))
		}},
		{schemas.Immediate, trips, b.firstCalls},
	} {
		all, counted := repeat(b, l.series, func(int) []sample {
			return b.thereAndBack(backlogs, func(backlog int64) sample { return l.measure(ctx, backlog) })
		})
		found = append(append(found, grown(l.lane, backlogs, all)...), note(l.lane.String()+", repetitions that count", "%v", counted))
	}
	return found
}

// thereAndBack measures each backlog but the last twice. What it returns are means.
func (b *bench) thereAndBack(backlogs []int64, measure func(backlog int64) sample) []sample {
	means := make([]sample, len(backlogs))
	last := len(backlogs) - 1
	for step := range 2*last + 1 {
		i, share := min(step, 2*last-step), 0.5
		if i == last {
			share = 1
		}
		b.backlog.stretch(backlogs[i])
		s, m := apart(b, func() sample { return measure(backlogs[i]) }), &means[i]
		m.CPU, m.RSS, m.Rate = m.CPU+share*s.CPU, m.RSS+share*s.RSS, m.Rate+share*s.Rate
	}
	return means
}

// grown takes, of each trip there and back, what a record cost at each backlog.
func grown(lane schemas.Lane, backlogs []int64, trips [][]sample) (found []finding) {
	for i, backlog := range backlogs {
		of := func(figure func(sample) float64) spread {
			return over(trips, func(trip []sample) float64 { return figure(trip[i]) })
		}
		found = append(found, note(fmt.Sprintf("%v, backlog of %d million", lane, backlog/1e6),
			"%s CPU-s per million, peak RSS %.0f MB, %.0f/s", of(func(s sample) float64 { return s.CPU }).text(2, ""),
			of(func(s sample) float64 { return s.RSS }).median()/1e6, of(func(s sample) float64 { return s.Rate }).median()))
	}
	for _, figure := range []struct {
		what string
		of   func(sample) float64
	}{
		{"CPU per record", func(s sample) float64 { return s.CPU }},
		{"peak RSS", func(s sample) float64 { return s.RSS }},
	} {
		more := over(trips, func(trip []sample) float64 { return 100 * (figure.of(trip[len(trip)-1])/figure.of(trip[0]) - 1) })
		// What gets less is no failure.
		found = append(found, check(more.median() <= 10, fmt.Sprintf("%v, growth of %s from the shortest to the longest", lane, figure.what), "≤ 10 %",
			"%s", more.text(1, " %")))
	}
	return found
}

// workOff has the batch lane make files of a backlog, which is filled up again
// until so many records have been worked off. What is too little for a last file
// stays open.
func (b *bench) workOff(ctx context.Context, backlog, records int64) sample {
	sink := b.sink(ctx, b.serve(0, false), sinkConfig{Topic: endlessTopic, Start: 1, Highest: 1, Rows: 100_000}, schemas.Batch)
	length := backlog
	return sink.window(ctx, 1, records, func(ctx context.Context) int64 {
		done := sink.done(ctx)
		if done < records && done >= length-backlog/4 {
			length = done + backlog
			b.backlog.stretch(length)
		}
		return done
	})
}

// firstCalls has the immediate lane make a number of calls, with the backlog
// behind them.
func (b *bench) firstCalls(ctx context.Context, _ int64) sample {
	sink := b.sink(ctx, b.serve(0, false), sinkConfig{Topic: endlessTopic, Start: 64, Highest: 64}, schemas.Immediate)
	return sink.most(ctx, 100_000, sink.service.done)
}

// endless is a topic that seems to hold far more records than it does: the broker
// hands out what was produced again and again, at ever higher offsets. A backlog
// of any length then costs neither memory nor time to make. It works because a
// batch's checksum leaves its base offset out.
type endless struct {
	cluster *kfake.Cluster
	id      [16]byte // of the topic

	mu     sync.Mutex
	length int64 // records of each partition, as they seem; 0: as they are
	held   [partitions]held
}

// endlessTopic is the topic's name.
const endlessTopic = "endless"

// held is what was produced to one partition.
type held struct {
	batches []batch
	records int64
}

type batch struct {
	from, to int64 // offsets
	data     []byte
}

// newEndless creates the topic and answers for it from now on.
func newEndless(c *kfake.Cluster) *endless {
	try(c.CreateTopic(endlessTopic, partitions, nil))
	e := &endless{cluster: c, id: c.TopicInfo(endlessTopic).TopicID}
	for key, answer := range map[kmsg.Key]func(kmsg.Request) kmsg.Response{kmsg.Produce: e.record, kmsg.ListOffsets: e.list, kmsg.Fetch: e.fetch} {
		c.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			resp := answer(req)
			return resp, nil, resp != nil
		})
	}
	return e
}

// record keeps what is produced to the topic, and lets the broker answer.
func (e *endless) record(req kmsg.Request) kmsg.Response {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, t := range req.(*kmsg.ProduceRequest).Topics {
		if t.Topic != endlessTopic && t.TopicID != e.id {
			continue
		}
		for _, p := range t.Partitions {
			held := &e.held[p.Partition]
			for data := p.Records; len(data) > 0; {
				size := 12 + int(binary.BigEndian.Uint32(data[8:]))
				n := int64(binary.BigEndian.Uint32(data[23:])) + 1 // it holds the last offset's delta
				held.batches = append(held.batches, batch{held.records, held.records + n, bytes.Clone(data[:size])})
				held.records += n
				data = data[size:]
			}
		}
	}
	return nil
}

// stretch makes the topic seem that long.
func (e *endless) stretch(records int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.length = records / partitions
}

// list answers for the topic's ends; nil: it was not asked about.
func (e *endless) list(request kmsg.Request) kmsg.Response {
	req := request.(*kmsg.ListOffsetsRequest)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.length == 0 || len(req.Topics) != 1 || req.Topics[0].Topic != endlessTopic {
		return nil
	}
	t := kmsg.NewListOffsetsResponseTopic()
	t.Topic = endlessTopic
	for _, asked := range req.Topics[0].Partitions {
		p := kmsg.NewListOffsetsResponseTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch = asked.Partition, e.length, 0
		if asked.Timestamp == -2 { // the earliest
			p.Offset = 0
		}
		t.Partitions = append(t.Partitions, p)
	}
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	resp.Topics = append(resp.Topics, t)
	return resp
}

// fetch answers with what the partitions hold at the offsets asked for; nil: it
// was not asked about the topic.
func (e *endless) fetch(request kmsg.Request) kmsg.Response {
	req := request.(*kmsg.FetchRequest)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.length == 0 || len(req.Topics) != 1 || req.Topics[0].Topic != endlessTopic && req.Topics[0].TopicID != e.id {
		return nil
	}
	t := kmsg.NewFetchResponseTopic()
	t.Topic, t.TopicID = req.Topics[0].Topic, req.Topics[0].TopicID
	idle := true
	for _, asked := range req.Topics[0].Partitions {
		p := kmsg.NewFetchResponseTopicPartition()
		p.Partition = asked.Partition
		p.HighWatermark, p.LastStableOffset, p.LogStartOffset = e.length, e.length, 0
		p.RecordBatches = e.held[asked.Partition].read(asked.FetchOffset, e.length, int(asked.PartitionMaxBytes))
		idle = idle && len(p.RecordBatches) == 0
		t.Partitions = append(t.Partitions, p)
	}
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	resp.Topics = append(resp.Topics, t)
	if idle { // as a broker waits for records
		e.mu.Unlock()
		e.cluster.SleepControl(func() { time.Sleep(100 * time.Millisecond) })
		e.mu.Lock()
	}
	return resp
}

// read returns whole batches from the one that holds the offset on, at least one
// unless the partition ends.
func (t *held) read(offset, end int64, most int) (out []byte) {
	if t.records == 0 {
		return nil
	}
	round, i := offset/t.records*t.records, 0
	for i < len(t.batches) && round+t.batches[i].to <= offset {
		i++
	}
	for ; round+t.batches[i].from < end; i++ {
		b := t.batches[i]
		if len(out) > 0 && len(out)+len(b.data) > most {
			break
		}
		out = append(out, b.data...)
		binary.BigEndian.PutUint64(out[len(out)-len(b.data):], uint64(round+b.from)) //nolint:gosec // an offset is not negative
		if i == len(t.batches)-1 {
			round, i = round+t.records, -1
		}
	}
	return out
}
