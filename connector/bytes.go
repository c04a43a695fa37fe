package connector

import (
	"bytes"
	"slices"
	"strings"

	"github.com/feedsink/feedsink/connector/source"
)

// maxPending is how many records of a lane may be on their way one by one: a
// third of a second's worth of the fastest service. What they take is bounded in
// bytes, by memory.pending.
const maxPending = 4096

// Wait is called when the write will be tried again later, and may outlast all
// records that were fetched with its own by hours. A fetched record holds
// everything that came in the same answer: so from here on it has memory of its own.
func (p *part) Wait() {
	r := p.record.Load()
	own := &source.Record{
		Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value), Headers: slices.Clone(r.Headers),
		Timestamp: r.Timestamp, Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, LeaderEpoch: r.LeaderEpoch, Attrs: r.Attrs,
	}
	for i := range own.Headers {
		h := &own.Headers[i]
		h.Key, h.Value = strings.Clone(h.Key), bytes.Clone(h.Value)
	}
	p.record.CompareAndSwap(r, own)
}
