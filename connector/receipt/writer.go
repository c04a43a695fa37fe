package receipt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
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

	mu      sync.Mutex
	trouble error // why the last one was not acknowledged; nil: it was
	sent    Sent
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
	return &Writer{client: client, topic: topic, log: log, ctx: ctx, stop: stop}, nil
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

// Send produces the receipt, which it keeps no hold of, and calls done from another
// goroutine once Kafka has acknowledged it. What fails is tried again for as long as it
// takes. done must return quickly. After Close it is not called any more.
func (w *Writer) Send(r *Receipt, done func()) {
	e := &envelope{key: r.Key.Hash}
	e.record = kgo.Record{Topic: w.topic, Value: r.Append(e.value[:0]), Timestamp: r.Ended}
	if r.Key.ID != "" {
		e.record.Key = e.key[:]
	}
	w.work.Add(1)
	w.try(&e.record, done, firstWait)
}

// envelope is a receipt as Kafka gets it, in one piece of memory: there is one for each event.
type envelope struct {
	record kgo.Record
	key    [HashSize]byte
	value  [160]byte // enough for most
}

func (w *Writer) try(r *kgo.Record, done func(), wait time.Duration) {
	w.client.Produce(w.ctx, r, func(_ *kgo.Record, err error) {
		if err != nil && w.ctx.Err() == nil {
			w.refused(err, wait)
			go w.later(r, done, wait, err)
			return
		}
		if err == nil {
			w.acknowledged(len(r.Key) + len(r.Value))
			done()
		}
		w.work.Done()
	})
}

func (w *Writer) acknowledged(bytes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.trouble != nil {
		w.log.Info("receipts are acknowledged again", "topic", w.topic)
	}
	w.trouble = nil
	w.sent.Receipts++
	w.sent.Bytes += int64(bytes)
}

func (w *Writer) refused(err error, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.trouble == nil {
		w.log.Warn("a receipt was not acknowledged; nothing is confirmed without one; trying again", "topic", w.topic, "wait", wait, "error", err)
	}
	w.trouble = err
}

// later tries again after a wait.
func (w *Writer) later(r *kgo.Record, done func(), wait time.Duration, err error) {
	select {
	case <-w.ctx.Done():
		w.work.Done()
		return
	case <-time.After(wait):
	}
	if errors.Is(err, kerr.UnknownTopicID) {
		// The topic was deleted and created again; the client knows the old one.
		w.client.PurgeTopicsFromProducing(w.topic)
	}
	// Made anew: the client has put its own notes into the former one.
	w.try(&kgo.Record{Topic: w.topic, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp}, done, min(2*wait, maxWait))
}

// Trouble is why the last receipt was not acknowledged, and waits; nil: it was.
func (w *Writer) Trouble() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trouble
}

// Sent is how many receipts were acknowledged, and what their keys and values take.
func (w *Writer) Sent() Sent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

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
