package ops

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/receipt"
	"github.com/feedsink/feedsink/connector/why"
	"github.com/feedsink/feedsink/connector/words"
)

// clocks is how much later a record's producer may believe it to be than the sink does
// that writes the receipt.
const clocks = time.Hour

// receiptsTopic is what the topic held when it was opened.
type receiptsTopic struct {
	reader *cluster.Reader
	spans  map[cluster.TopicPartition]cluster.Span // of all partitions
}

// openReceipts finds those written since then; zero: all.
func openReceipts(ctx context.Context, reader *cluster.Reader, topic string, since time.Time) (*receiptsTopic, error) {
	spans, err := reader.Spans(ctx, topic)
	if err != nil {
		return nil, err
	}
	var after map[cluster.TopicPartition]int64
	if !since.IsZero() {
		if after, err = reader.After(ctx, since, topic); err != nil {
			return nil, err
		}
	}
	for p, span := range spans {
		spans[p] = cluster.Span{From: max(span.From, after[p]), To: span.To}
	}
	return &receiptsTopic{reader, spans}, nil
}

// read reads the partitions that are wanted. What is no receipt of this version is passed
// over.
func (t *receiptsTopic) read(ctx context.Context, wanted func(partition int32) bool, each func(*receipt.Receipt, time.Time)) error {
	spans := maps.Clone(t.spans)
	maps.DeleteFunc(spans, func(p cluster.TopicPartition, _ cluster.Span) bool { return !wanted(p.Partition) })
	return t.reader.Between(ctx, spans, func(r *kafka.Record) error {
		if opened, err := receipt.Open(r.Key, r.Value); err == nil {
			each(&opened, r.Timestamp)
		}
		return nil
	})
}

// receiptsAdvice is what to do about an error of the receipts topic.
func receiptsAdvice(topic string, err error) string {
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return "create the topic, or correct receipts.topic"
	case cluster.Denied(err):
		return "grant the login READ and DESCRIBE on the topic " + topic
	}
	return cluster.Advice(err)
}

// receipts reads those of the found records. If that fails it is noted: the rest of the
// answer needs none.
func (q *question) receipts(ctx context.Context, s *why.State, found []why.Found) error {
	topic := q.cfg.Receipts.Topic
	if topic == "" || len(found) == 0 {
		return nil
	}
	err := q.readReceipts(ctx, s, topic, found)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		s.Receipts = nil
		q.note("what the receipts in %s say is not known: %v; %s", topic, err, receiptsAdvice(topic, err))
		return nil
	}
	without := 0
	for i := range found {
		if f := &found[i]; f.Write.Op != 0 && s.Ended(f) && s.Receipt(f) == nil {
			without++
		}
	}
	if without > 0 {
		q.note("%s that a lane has committed without a receipt in %s: from before receipts.topic was set, or the receipt is deleted, or it names a mapping that is not configured and its hash is not this key's", words.Counted(without, "record"), topic)
	}
	return nil
}

// readReceipts reads the partitions that the records' hashed keys lead to; the others only
// if a record that has ended has no receipt there. A receipt has another place if it has no
// key, or was written with another secret or while the topic had fewer partitions.
func (q *question) readReceipts(ctx context.Context, s *why.State, topic string, found []why.Found) error {
	earliest := found[0].Timestamp
	s.Receipts = make(map[cluster.RecordPlace][]receipt.Receipt, len(found))
	for i := range found {
		s.Receipts[cluster.PlaceOf(found[i].Record)] = nil
		if found[i].Timestamp.Before(earliest) {
			earliest = found[i].Timestamp
		}
	}
	t, err := openReceipts(ctx, q.reader, topic, earliest.Add(-clocks))
	if err != nil {
		return err
	}
	take := func(r *receipt.Receipt, _ time.Time) {
		at := cluster.RecordPlace{TopicPartition: cluster.TopicPartition{Topic: r.Topic, Partition: r.Partition}, Offset: r.Offset}
		if of, wanted := s.Receipts[at]; wanted {
			s.Receipts[at] = append(of, *r)
		}
	}
	likely := q.receiptPartitions(found, len(t.spans))
	if err := t.read(ctx, func(p int32) bool { return likely[p] }, take); err != nil {
		return err
	}
	for i := range found {
		if f := &found[i]; s.Ended(f) && s.Receipt(f) == nil {
			return t.read(ctx, func(p int32) bool { return !likely[p] }, take)
		}
	}
	return nil
}

// receiptPartitions hashes the records' keys, and tells where their receipts are, if the
// secret of the hashes is at hand; it need not be where a person asks.
func (q *question) receiptPartitions(found []why.Found, of int) map[int32]bool {
	likely := map[int32]bool{}
	keys, err := build.ReceiptKeys(q.cfg, q.Log)
	for i := 0; err == nil && i < len(found); i++ {
		f := &found[i]
		hashed := keys.Of(&f.Write)
		if f.Write.Op == 0 {
			hashed = keys.Hash(q.mapping.Table, f.Key)
		}
		if hashed.ID != "" {
			likely[cluster.PartitionOf(hashed.Hash[:], of)], f.Hashed = true, hashed
		}
	}
	return likely
}
