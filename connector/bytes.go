package connector

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/kafka"
)

// maxPending is how many records of a lane may be on their way one by one: a
// third of a second's worth of the fastest service. What they take is bounded in
// bytes, by memory.pending.
const maxPending = 4096

// brokers is how a lane reaches the cluster. What is fetched ahead its lanes share.
func (s *Sink) brokers() kafka.Connection {
	c := build.KafkaConnection(s.cfg.Kafka, s.log)
	c.Fetched = int64(s.cfg.Memory.Fetched) / int64(len(s.opts.Lanes))
	return c
}

// Wait is called when the write will be tried again later, and may outlast all
// records that were fetched with its own by hours. A fetched record holds
// everything that came in the same answer: so from here on it has memory of its own.
func (p *part) Wait() {
	r := p.record.Load()
	own := &kafka.Record{
		Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value), Headers: slices.Clone(r.Headers),
		Timestamp: r.Timestamp, Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, LeaderEpoch: r.LeaderEpoch, Attrs: r.Attrs,
	}
	for i := range own.Headers {
		h := &own.Headers[i]
		h.Key, h.Value = strings.Clone(h.Key), bytes.Clone(h.Value)
	}
	p.record.CompareAndSwap(r, own)
}

// deadLetterBytes is what dead letters of rows in error may take that Kafka has not
// acknowledged: their records are read again by the thousand.
const deadLetterBytes = 16 << 20

// byteLimit bounds the dead letters on their way; one that is larger goes alone.
type byteLimit struct {
	limit int64

	mu    sync.Mutex
	used  int64
	freed chan struct{} // closed when some are acknowledged; nil: none is waiting
}

// take returns once there is room for so many bytes, or with ctx.
func (l *byteLimit) take(ctx context.Context, bytes int64) error {
	for {
		l.mu.Lock()
		if l.used == 0 || l.used+bytes <= l.limit {
			l.used += bytes
			l.mu.Unlock()
			return nil
		}
		if l.freed == nil {
			l.freed = make(chan struct{})
		}
		freed := l.freed
		l.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// free gives back what take has taken.
func (l *byteLimit) free(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used -= bytes
	if l.freed != nil {
		close(l.freed)
		l.freed = nil
	}
}
