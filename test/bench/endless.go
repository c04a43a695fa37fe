package main

import (
	"bytes"
	"encoding/binary"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// endless is a topic that seems to hold far more records than it does: the broker
// hands out what was produced again and again, at ever higher offsets. A backlog
// of any length then costs neither memory nor time to make. It works because a
// batch's checksum leaves its base offset out.
type endless struct {
	id [16]byte // of the topic

	mu     sync.Mutex
	length int64 // records of each partition, as they seem; 0: as they are
	tape   [partitions]tape
}

// endlessTopic is the topic's name.
const endlessTopic = "endless"

// tape is what was produced to one partition.
type tape struct {
	batches []batch
	records int64
}

type batch struct {
	from, to int64 // offsets
	data     []byte
}

// newEndless creates the topic and answers for it from now on.
func newEndless(c *kfake.Cluster) (*endless, error) {
	if err := c.CreateTopic(endlessTopic, partitions, nil); err != nil {
		return nil, err
	}
	e := &endless{id: c.TopicInfo(endlessTopic).TopicID}
	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		e.record(req.(*kmsg.ProduceRequest))
		return nil, nil, false
	})
	c.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := e.list(req.(*kmsg.ListOffsetsRequest))
		if resp == nil {
			return nil, nil, false
		}
		return resp, nil, true
	})
	c.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp, idle := e.fetch(req.(*kmsg.FetchRequest))
		if resp == nil {
			return nil, nil, false
		}
		if idle { // as a broker waits for records
			c.SleepControl(func() { time.Sleep(100 * time.Millisecond) })
		}
		return resp, nil, true
	})
	return e, nil
}

// record keeps what is produced to the topic.
func (e *endless) record(req *kmsg.ProduceRequest) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, t := range req.Topics {
		if t.Topic != endlessTopic && t.TopicID != e.id {
			continue
		}
		for _, p := range t.Partitions {
			tape := &e.tape[p.Partition]
			for data := p.Records; len(data) > 0; {
				size := 12 + int(binary.BigEndian.Uint32(data[8:]))
				n := int64(binary.BigEndian.Uint32(data[23:])) + 1 // it holds the last offset's delta
				tape.batches = append(tape.batches, batch{tape.records, tape.records + n, bytes.Clone(data[:size])})
				tape.records += n
				data = data[size:]
			}
		}
	}
}

// stretch makes the topic seem that long.
func (e *endless) stretch(records int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.length = records / partitions
}

// list answers for the topic's ends; nil: it was not asked about.
func (e *endless) list(req *kmsg.ListOffsetsRequest) *kmsg.ListOffsetsResponse {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.length == 0 || len(req.Topics) != 1 || req.Topics[0].Topic != endlessTopic {
		return nil
	}
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
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
	resp.Topics = append(resp.Topics, t)
	return resp
}

// fetch answers with what the partitions hold at the offsets asked for; nil: it
// was not asked about the topic.
func (e *endless) fetch(req *kmsg.FetchRequest) (resp *kmsg.FetchResponse, idle bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.length == 0 || len(req.Topics) != 1 || req.Topics[0].Topic != endlessTopic && req.Topics[0].TopicID != e.id {
		return nil, false
	}
	resp = req.ResponseKind().(*kmsg.FetchResponse)
	t := kmsg.NewFetchResponseTopic()
	t.Topic, t.TopicID = req.Topics[0].Topic, req.Topics[0].TopicID
	idle = true
	for _, asked := range req.Topics[0].Partitions {
		p := kmsg.NewFetchResponseTopicPartition()
		p.Partition = asked.Partition
		p.HighWatermark, p.LastStableOffset, p.LogStartOffset = e.length, e.length, 0
		p.RecordBatches = e.tape[asked.Partition].read(asked.FetchOffset, e.length, int(asked.PartitionMaxBytes))
		idle = idle && len(p.RecordBatches) == 0
		t.Partitions = append(t.Partitions, p)
	}
	resp.Topics = append(resp.Topics, t)
	return resp, idle
}

// read returns whole batches from the one that holds the offset on, at least one
// unless the partition ends.
func (t *tape) read(offset, end int64, most int) (out []byte) {
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
