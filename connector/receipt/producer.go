package receipt

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
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

// produce produces some entries of a lot once and gives those that Kafka has acknowledged to a
// function. What it has not is returned, with an error that says why of one of them.
func (p *producer) produce(ctx context.Context, l *lot, entries []int32, acknowledged func(*lot, []int32)) (left []int32, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	to, err := p.locate(ctx)
	if err != nil {
		return entries, err
	}
	batches := p.batches(l, entries, len(to.leaders))
	var requests sync.WaitGroup
	for leader, of := range byLeader(batches, to) {
		requests.Go(func() { p.request(ctx, to, leader, of) })
	}
	requests.Wait()
	var large []int32
	for i := range batches {
		b := &batches[i]
		switch {
		case b.err == nil:
			acknowledged(l, b.entries)
		case tooLarge(b.err) && len(b.entries) > 1:
			large = append(large, b.entries...)
		default:
			left, err = append(left, b.entries...), b.err
		}
	}
	if err != nil {
		l.wire = nil // a request that was given up may still be written
		p.mu.Lock()
		p.layout = nil // a partition may have moved
		p.mu.Unlock()
	}
	for half := range slices.Chunk(large, max(1, (len(large)+1)/2)) {
		unacknowledged, failed := p.produce(ctx, l, half, acknowledged)
		left, err = append(left, unacknowledged...), cmp.Or(failed, err)
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
	return l, nil
}

// batch is what goes to a partition.
type batch struct {
	partition int32
	entries   []int32 // of the lot
	wire      []byte  // in Kafka's format
	err       error   // why it is not acknowledged
}

// batches are those of some entries of a lot.
func (p *producer) batches(l *lot, entries []int32, partitions int) []batch {
	all := p.place(l, entries, partitions)
	l.wire = l.wire[:0]
	for i := range all {
		all[i].seal(l, p.compressor)
	}
	return all
}

// place places entries as the producers of Kafka do: by key, and those without one together.
func (p *producer) place(l *lot, entries []int32, partitions int) (all []batch) {
	if l.place == nil { // to make one takes long
		l.place = kgo.StickyKeyPartitioner(nil).ForTopic(p.topic)
	}
	var record kgo.Record
	ends := make([]int, partitions)
	l.places = slices.Grow(l.places[:0], 2*len(entries))[:2*len(entries)]
	to, sorted := l.places[:len(entries)], l.places[len(entries):]
	for n, i := range entries {
		record.Key = l.key(i)
		to[n] = int32(l.place.Partition(&record, partitions))
		ends[to[n]]++
	}
	from := 0
	for partition, n := range ends {
		if n > 0 {
			all = append(all, batch{partition: int32(partition), entries: sorted[from : from+n]})
		}
		ends[partition], from = from, from+n
	}
	for n, i := range entries {
		end := &ends[to[n]]
		sorted[*end] = i
		*end++
	}
	return all
}

// key is the key of an entry's record; nil: none.
func (l *lot) key(i int32) []byte {
	if e := &l.entries[i]; e.keyed {
		return l.text[e.from : e.from+HashSize]
	}
	return nil
}

// append appends the record of an entry in Kafka's format.
func (l *lot) append(dst []byte, i int32, delta int, first int64) []byte {
	e := &l.entries[i]
	key := l.key(i)
	value := l.text[int(e.from)+len(key) : e.to]
	const fixed = 2 // bytes: attributes, and how many headers there are
	size := fixed + kbin.VarlongLen(e.at-first) + kbin.VarintLen(int32(delta)) + kbin.VarintLen(HashSize) + len(key) +
		kbin.VarintLen(int32(len(value))) + len(value)
	dst = appendLong(dst, int64(size))
	dst = append(dst, 0)
	dst = appendLong(dst, e.at-first)
	dst = appendLong(dst, int64(delta))
	if key == nil {
		dst = appendLong(dst, -1) // a byte, too
	} else {
		dst = append(appendLong(dst, HashSize), key...)
	}
	dst = append(appendLong(dst, int64(len(value))), value...)
	return append(dst, 0)
}

// Where the batch's length and the checksum of what is behind it stand, and where these begin to count.
const (
	lengthAt, lengthOf     = 8, 12
	checksumAt, checksumOf = 17, 21
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal makes the whole batch.
func (b *batch) seal(l *lot, compressor kgo.Compressor) {
	first := l.entries[b.entries[0]].at
	last := first
	l.records = l.records[:0]
	for delta, i := range b.entries {
		l.records = l.append(l.records, i, delta, first)
		last = max(last, l.entries[i].at)
	}
	records, codec := compressor.Compress(&l.compressed, l.records)
	of := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, Attributes: int16(codec),
		LastOffsetDelta: int32(len(b.entries) - 1), FirstTimestamp: first, MaxTimestamp: last,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		NumRecords: int32(len(b.entries)), Records: records,
	}
	from := len(l.wire)
	l.wire = of.AppendTo(l.wire)
	b.wire = l.wire[from:]
	binary.BigEndian.PutUint32(b.wire[lengthAt:], uint32(len(b.wire)-lengthOf))
	binary.BigEndian.PutUint32(b.wire[checksumAt:], crc32.Checksum(b.wire[checksumOf:], castagnoli))
}

// byLeader are the batches that go to a broker; those without one have their error.
func byLeader(batches []batch, to *layout) map[int32][]*batch {
	all := map[int32][]*batch{}
	for i := range batches {
		b := &batches[i]
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
