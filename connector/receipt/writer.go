package receipt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Writer produces receipts, each until Kafka has it. It may be used concurrently.
type Writer struct {
	client *kgo.Client
	topic  string
	log    *slog.Logger
	work   sync.WaitGroup // of receipts that are not acknowledged
	stop   context.CancelFunc
	ctx    context.Context //nolint:containedctx // the writer's own life, ended by Close

	envelopes       sync.Pool
	trouble         atomic.Pointer[error] // why the last one was not acknowledged; nil: it was
	receipts, bytes atomic.Int64          // acknowledged
}

// Sent is what was acknowledged.
type Sent struct{ Receipts, Bytes int64 }

const (
	linger    = 20 * time.Millisecond // small batches cost more than their receipts
	tries     = 8                     // of the client, within some 10 s; then it shows and starts again
	firstWait = time.Second
	maxWait   = 30 * time.Second
	// lookTimeout bounds the question whether the topic is there.
	lookTimeout = 10 * time.Second
)

// NewWriter returns a writer to the topic.
func NewWriter(connection []kgo.Opt, topic string, log *slog.Logger) (*Writer, error) {
	client, err := kgo.NewClient(slices.Concat(connection, []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(kgo.SnappyCompression(), kgo.NoCompression()),
		kgo.RecordRetries(tries),
		kgo.ProducerLinger(linger),
		kgo.MaxBufferedRecords(1 << 16),
		kgo.MetadataMinAge(time.Second), // a topic that is missing may be made at any time
	})...)
	if err != nil {
		return nil, fmt.Errorf("receipts producer: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	w := &Writer{client: client, topic: topic, log: log, ctx: ctx, stop: stop}
	w.envelopes.New = w.newEnvelope
	return w, nil
}

// Look warns if the topic does not exist or may not be seen.
func (w *Writer) Look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	found, err := kadm.NewClient(w.client).ListTopics(ctx, w.topic)
	if err == nil {
		err = found[w.topic].Err
	}
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		w.log.Warn("the receipts topic does not exist: nothing is confirmed before it does; create it, or correct receipts.topic", "topic", w.topic)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		w.log.Warn("the receipts topic cannot be seen: nothing is confirmed before; grant the login WRITE and DESCRIBE on it", "topic", w.topic)
	}
}

// Waiter is told, from another goroutine, that Kafka has acknowledged its receipt. It must return
// quickly.
type Waiter interface{ Acknowledged() }

// Send produces the receipt, which it keeps no hold of, and tells the waiter once Kafka has
// acknowledged it. What fails is tried again for as long as it takes. After Close no waiter is told.
func (w *Writer) Send(r *Receipt, waiter Waiter) {
	e := w.envelopes.Get().(*envelope)
	e.record = kgo.Record{Topic: w.topic, Value: r.Append(e.value[:0]), Timestamp: r.Ended}
	if e.key = r.Key.Hash; r.Key.ID != "" {
		e.record.Key = e.key[:]
	}
	w.work.Add(1)
	e.send(waiter, firstWait)
}

// envelope is a receipt as Kafka gets it, in one piece of memory. There is one for each event: it
// is used again once Kafka has acknowledged what is in it.
type envelope struct {
	record  kgo.Record
	key     [HashSize]byte
	value   [160]byte // enough for most
	writer  *Writer
	waiter  Waiter
	wait    time.Duration            // before the next try
	promise func(*kgo.Record, error) // produced
}

func (w *Writer) newEnvelope() any {
	e := &envelope{writer: w}
	e.promise = e.produced
	return e
}

func (e *envelope) send(waiter Waiter, wait time.Duration) {
	e.waiter, e.wait = waiter, wait
	e.writer.client.Produce(e.writer.ctx, &e.record, e.promise)
}

// produced ends a try: the client has done with the record.
func (e *envelope) produced(_ *kgo.Record, err error) {
	w, waiter := e.writer, e.waiter
	switch {
	case err == nil:
		w.acknowledged(len(e.record.Key) + len(e.record.Value))
		e.record, e.waiter = kgo.Record{}, nil
		w.envelopes.Put(e)
		waiter.Acknowledged()
	case w.ctx.Err() == nil:
		w.refused(err, e.wait)
		go w.later(e, err)
		return
	}
	w.work.Done()
}

func (w *Writer) acknowledged(bytes int) {
	w.receipts.Add(1)
	w.bytes.Add(int64(bytes))
	if w.trouble.Load() != nil && w.trouble.Swap(nil) != nil {
		w.log.Info("receipts are acknowledged again", "topic", w.topic)
	}
}

func (w *Writer) refused(err error, wait time.Duration) {
	if w.trouble.Swap(&err) == nil {
		w.log.Warn("a receipt was not acknowledged; nothing is confirmed without one; trying again", "topic", w.topic, "wait", wait, "error", err)
	}
}

// later tries again after a wait.
func (w *Writer) later(failed *envelope, err error) {
	select {
	case <-w.ctx.Done():
		w.work.Done()
		return
	case <-time.After(failed.wait):
	}
	if errors.Is(err, kerr.UnknownTopicID) {
		// The topic was deleted and created again; the client knows the old one.
		w.client.PurgeTopicsFromProducing(w.topic)
	}
	// Made anew: the client has put its own notes into the former one.
	e, r := w.newEnvelope().(*envelope), &failed.record
	e.record = kgo.Record{Topic: w.topic, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp}
	e.send(failed.waiter, min(2*failed.wait, maxWait))
}

// Trouble is why the last receipt was not acknowledged, and waits; nil: it was.
func (w *Writer) Trouble() error {
	if err := w.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// Sent is how many receipts were acknowledged, and what their keys and values take.
func (w *Writer) Sent() Sent { return Sent{w.receipts.Load(), w.bytes.Load()} }

// Close ends what is unfinished and waits for it. No Send may be running.
func (w *Writer) Close() {
	w.stop()
	w.client.Close()
	w.work.Wait()
}

// Book is what lanes need to write receipts.
type Book struct {
	*Keys
	*Writer
}
