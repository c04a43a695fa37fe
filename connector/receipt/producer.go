package receipt

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// producer sends batches of records to the leaders of a topic's partitions.
type producer struct {
	client     *kgo.Client
	topic      string
	compressor kgo.Compressor

	mu     sync.Mutex
	layout *layout   // nil: to be asked for
	asked  time.Time // when

	partitions atomic.Int32 // as of the last layout; 0: there was none
}

// layout is where a topic's partitions are.
type layout struct {
	id      [16]byte
	leaders []int32 // by partition; below 0: none
}

const (
	layoutAge      = 5 * time.Minute // then partitions may have been added
	answerTimeout  = 10 * time.Second
	requestTimeout = 30 * time.Second
)

func newProducer(connection []kgo.Opt, topic string) (*producer, error) {
	compressor, err := kgo.DefaultCompressor(kgo.SnappyCompression())
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(slices.Concat(connection, []kgo.Opt{kgo.RequiredAcks(kgo.AllISRAcks())})...)
	return &producer{client: client, topic: topic, compressor: compressor}, err
}

// produce produces batches once and gives those that Kafka has acknowledged to a function. What
// it has not is returned, with an error that says why of one of them.
func (p *producer) produce(ctx context.Context, batches []*batch, room *bytes.Buffer, acknowledged func(*batch)) (left []*batch, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	to, err := p.locate(ctx)
	if err != nil {
		return batches, err
	}
	batches = p.placed(batches, len(to.leaders))
	for _, b := range batches {
		b.seal(p.compressor, room)
	}
	var requests sync.WaitGroup
	for leader, of := range byLeader(batches, to) {
		requests.Go(func() { p.request(ctx, to, leader, of) })
	}
	requests.Wait()
	var halves [2][]*batch // a partition has one batch in a request
	for _, b := range batches {
		switch {
		case b.err == nil:
			acknowledged(b)
		case tooLarge(b.err) && b.n > 1:
			first, second := b.halves()
			halves[0], halves[1] = append(halves[0], first), append(halves[1], second)
		default:
			left, err = append(left, b), b.err
		}
	}
	if err != nil {
		p.mu.Lock()
		p.layout = nil // a partition may have moved
		p.mu.Unlock()
	}
	for _, half := range halves {
		if len(half) > 0 {
			unacknowledged, failed := p.produce(ctx, half, room, acknowledged)
			left, err = append(left, unacknowledged...), cmp.Or(failed, err)
		}
	}
	return left, err
}

// tooLarge reports whether the topic takes smaller batches or segments only.
func tooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}

// locate finds the topic's partitions, which are asked for anew after an error.
func (p *producer) locate(ctx context.Context) (*layout, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.layout != nil && time.Since(p.asked) < layoutAge {
		return p.layout, nil
	}
	request := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = new(p.topic)
	request.Topics = append(request.Topics, topic)
	answer, err := request.RequestWith(ctx, p.client)
	if err != nil {
		return nil, fmt.Errorf("ask where its partitions are: %w", err)
	}
	if len(answer.Topics) != 1 {
		return nil, kerr.UnknownTopicOrPartition
	}
	found := &answer.Topics[0]
	if err := kerr.ErrorForCode(found.ErrorCode); err != nil {
		return nil, err
	}
	if len(found.Partitions) == 0 {
		return nil, kerr.UnknownTopicOrPartition
	}
	l := &layout{id: found.TopicID, leaders: make([]int32, len(found.Partitions))}
	for _, of := range found.Partitions {
		if of.Partition < 0 || int(of.Partition) >= len(l.leaders) {
			return nil, kerr.UnknownTopicOrPartition // some are missing
		}
		l.leaders[of.Partition] = of.Leader
	}
	p.layout, p.asked = l, time.Now()
	p.partitions.Store(int32(len(l.leaders)))
	return l, nil
}

// placed are the batches, placed anew if the topic has other partitions than it had, and halves.
func (p *producer) placed(batches []*batch, partitions int) []*batch {
	if !slices.ContainsFunc(batches, func(b *batch) bool { return b.of != partitions }) {
		return batches
	}
	to := newPlaces(p.topic, partitions)
	for _, b := range batches {
		b.each(func(_ int, r *kmsg.Record, waiter Waiter) {
			to.place(r.Key).again(r, b.first+r.TimestampDelta64, waiter)
		})
	}
	return to.filled()
}

// places are where records go: to their keys' partitions, as with other producers of Kafka, and
// those without a key together.
type places struct {
	batches     []batch // by partition
	partitioner kgo.TopicPartitioner
	record      kgo.Record
	key         []byte // room for the record's
}

func newPlaces(topic string, partitions int) *places {
	p := &places{batches: make([]batch, partitions), partitioner: kgo.StickyKeyPartitioner(nil).ForTopic(topic)}
	for i := range p.batches {
		p.batches[i].partition, p.batches[i].of = int32(i), partitions
	}
	return p
}

func (p *places) place(key []byte) *batch {
	p.record.Key = nil
	if key != nil { // a copy: the receipt may stay on its caller's stack
		p.key = append(p.key[:0], key...)
		p.record.Key = p.key
	}
	return &p.batches[p.partitioner.Partition(&p.record, len(p.batches))]
}

// filled are the batches that have records.
func (p *places) filled() (all []*batch) {
	for i := range p.batches {
		if p.batches[i].n > 0 {
			all = append(all, &p.batches[i])
		}
	}
	return all
}

// batch is what goes to a partition.
type batch struct {
	partition   int32
	of          int     // partitions; 0: it is half of what was too large
	records     []byte  // in Kafka's format
	n           int     // of them
	first, last int64   // the first's and the latest's time, in milliseconds since 1970
	waiters     []waits // in the order of the records
	wire        []byte  // the whole in Kafka's format; empty: it is to be sealed
	err         error   // why it is not acknowledged
}

// waits is a waiter for n records that follow each other.
type waits struct {
	Waiter
	n int
}

// begin appends a record up to its value, of so many bytes. A key of nil is none.
func (b *batch) begin(key []byte, value int, at int64, waiter Waiter) {
	if b.n == 0 {
		b.first, b.last = at, at
	}
	b.last = max(b.last, at)
	const fixed = 2 // bytes: attributes, and how many headers there are
	size := fixed + kbin.VarlongLen(at-b.first) + kbin.VarintLen(int32(b.n)) + kbin.VarintLen(int32(len(key))) + len(key) +
		kbin.VarintLen(int32(value)) + value // without a key a byte, too
	dst := appendLong(b.records, int64(size))
	dst = append(dst, 0)
	dst = appendLong(dst, at-b.first)
	dst = appendLong(dst, int64(b.n))
	if key == nil {
		dst = appendLong(dst, -1)
	} else {
		dst = append(appendLong(dst, int64(len(key))), key...)
	}
	b.records = appendLong(dst, int64(value))
	b.n++
	if last := len(b.waiters) - 1; last < 0 || b.waiters[last].Waiter != waiter {
		b.waiters = append(b.waiters, waits{waiter, 0})
	}
	b.waiters[len(b.waiters)-1].n++
}

// end ends the record, its value being appended.
func (b *batch) end() { b.records = append(b.records, 0) }

// again appends a record of another batch.
func (b *batch) again(r *kmsg.Record, at int64, waiter Waiter) {
	b.begin(r.Key, len(r.Value), at, waiter)
	b.records = append(b.records, r.Value...)
	b.end()
}

// each gives the records to a function, which may keep their keys and values, with who waits.
func (b *batch) each(f func(i int, r *kmsg.Record, waiter Waiter)) {
	rest, i := b.records, 0
	for _, w := range b.waiters {
		for range w.n {
			length, prefix := kbin.Varint(rest)
			var r kmsg.Record
			if err := r.ReadFrom(rest[:prefix+int(length)]); err != nil {
				panic(err) // it is ours
			}
			f(i, &r, w.Waiter)
			rest, i = rest[prefix+int(length):], i+1
		}
	}
}

// halves divides the batch.
func (b *batch) halves() (first, second *batch) {
	first, second = new(batch), new(batch)
	b.each(func(i int, r *kmsg.Record, waiter Waiter) {
		to := first
		if i >= b.n/2 {
			to = second
		}
		to.again(r, b.first+r.TimestampDelta64, waiter)
	})
	return first, second
}

// empty lets the room of what was sent be used again.
func (b *batch) empty() {
	clear(b.waiters)
	*b = batch{partition: b.partition, of: b.of, records: b.records[:0], waiters: b.waiters[:0], wire: b.wire[:0]}
}

// Where the batch's length and the checksum of what is behind it stand, and where these begin to count.
const (
	lengthAt, lengthOf     = 8, 12
	checksumAt, checksumOf = 17, 21
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal makes the whole batch, unless it is made.
func (b *batch) seal(compressor kgo.Compressor, room *bytes.Buffer) {
	if len(b.wire) > 0 {
		return
	}
	records, codec := compressor.Compress(room, b.records)
	whole := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, Attributes: int16(codec),
		LastOffsetDelta: int32(b.n - 1), FirstTimestamp: b.first, MaxTimestamp: b.last,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		NumRecords: int32(b.n), Records: records,
	}
	b.wire = whole.AppendTo(b.wire[:0])
	binary.BigEndian.PutUint32(b.wire[lengthAt:], uint32(len(b.wire)-lengthOf))
	binary.BigEndian.PutUint32(b.wire[checksumAt:], crc32.Checksum(b.wire[checksumOf:], castagnoli))
}

// byLeader are the batches that go to a broker; those without one have their error.
func byLeader(batches []*batch, to *layout) map[int32][]*batch {
	all := map[int32][]*batch{}
	for _, b := range batches {
		leader := to.leaders[b.partition]
		if leader < 0 {
			b.err = kerr.LeaderNotAvailable
			continue
		}
		all[leader] = append(all[leader], b)
	}
	return all
}

// request sends batches to their leader and notes how each ended.
func (p *producer) request(ctx context.Context, to *layout, leader int32, batches []*batch) {
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic, topic.TopicID = p.topic, to.id
	for _, b := range batches {
		partition := kmsg.NewProduceRequestTopicPartition()
		partition.Partition, partition.Records = b.partition, b.wire
		topic.Partitions = append(topic.Partitions, partition)
		b.err = errUnanswered
	}
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis, request.Topics = -1, int32(answerTimeout.Milliseconds()), append(request.Topics, topic)
	answer, err := request.RequestWith(ctx, p.client.Broker(int(leader)))
	if err != nil {
		for _, b := range batches {
			b.err = err
		}
		return
	}
	for _, t := range answer.Topics {
		for _, of := range t.Partitions {
			for _, b := range batches {
				if b.partition == of.Partition {
					b.err = kerr.ErrorForCode(of.ErrorCode)
				}
			}
		}
	}
}

var errUnanswered = errors.New("the broker's answer does not tell of the partition")
