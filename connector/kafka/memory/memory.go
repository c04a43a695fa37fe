// Package memory bounds what records take that are on their way.
package memory

import (
	"bytes"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/kafka/cluster"
)

// Memory bounds the bytes of records that are on their way one by one. The
// sources of one process share it. Half of it is taken in the order of requests, and of
// the other half each partition has an equal part: however long the records of
// some are not confirmed, there is room for the others'.
type Memory struct {
	limit      int64
	used       atomic.Int64
	partitions atomic.Int64 // that share it
}

// defaultPending is New's default.
const defaultPending = 64 << 20

// New returns room for so many bytes; 0: the default.
func New(limit int64) *Memory {
	if limit <= 0 {
		limit = defaultPending
	}
	return &Memory{limit: limit}
}

// Used is how many bytes are taken.
func (m *Memory) Used() int64 { return m.used.Load() }

// Fits reports whether one who holds so much may take more. A record that is
// larger than its partition's part may pass if it is the partition's only one: it
// can be the last to pass until others have ended.
func (m *Memory) Fits(more, held int64) bool {
	used := m.used.Load()
	return used+more <= m.limit/2 || held+more <= m.Part() || held == 0 && used < m.limit
}

// Part is that of a partition.
func (m *Memory) Part() int64 { return m.limit / 2 / max(m.Partitions(), 1) }

// Share has one partition more, or less, share it.
func (m *Memory) Share(partitions int64) { m.partitions.Add(partitions) }

// Partitions are how many share it.
func (m *Memory) Partitions() int64 { return m.partitions.Load() }

// Hold takes bytes, or gives them back.
func (m *Memory) Hold(bytes int64) { m.used.Add(bytes) }

// Own is a copy of the record that holds nothing of what was fetched with it.
func Own(r *kgo.Record) *kgo.Record {
	own := &kgo.Record{
		Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value), Headers: slices.Clone(r.Headers),
		Timestamp: r.Timestamp, Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, LeaderEpoch: r.LeaderEpoch, Attrs: r.Attrs,
	}
	for i := range own.Headers {
		h := &own.Headers[i]
		h.Key, h.Value = strings.Clone(h.Key), bytes.Clone(h.Value)
	}
	return own
}

// Held is what a record takes while it is pending: itself, and at most as
// much again for each write that it becomes.
func Held(r *kgo.Record, writes int) int64 {
	n := pendingBytes + len(r.Key) + len(r.Value)*(1+writes)
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return int64(n)
}

// sizeOf is what a record takes until the handler has it.
func sizeOf(r *kgo.Record) int64 {
	n := int64(len(r.Key)+len(r.Value)) + cluster.RecordBytes
	for i := range r.Headers {
		n += int64(len(r.Headers[i].Key) + len(r.Headers[i].Value))
	}
	return n
}

// pendingBytes is what a pending record takes beside its bytes.
const pendingBytes = 1 << 10

// SizeOfAll is what records take until the handler has them.
func SizeOfAll(records []*kgo.Record) (n int64) {
	for _, r := range records {
		n += sizeOf(r)
	}
	return n
}
