package receipt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/retry"
)

// Writer produces receipts, each until Kafka has it. It may be used concurrently.
//
// A receipt is to cost a tenth of what its event costs. A row of a file costs two to three
// microseconds, and the client's own way of producing almost one for each record, whatever is
// in it. So receipts are gathered in lots here, and sent as whole batches.
type Writer struct {
	producer *producer
	log      *slog.Logger
	ctx      context.Context //nolint:containedctx // the writer's own life, ended by Close
	stop     context.CancelFunc
	work     sync.WaitGroup // of lots that are sealed
	random   *rand.Rand

	mu     sync.Mutex // of random and what follows
	open   *lot       // takes receipts; nil: none waits
	last   written    // of the receipt that was put last
	free   []*lot     // their room is used again
	timer  *time.Timer
	closed bool

	lastErr atomic.Pointer[error] // why the last ones were not acknowledged; nil: they were
}

// again are the waits after what Kafka has not acknowledged.
var again = retry.Backoff{Initial: 100 * time.Millisecond, Max: 30 * time.Second}

const (
	linger   = 50 * time.Millisecond // small batches cost more than their receipts
	lotSize  = 256 << 10             // bytes; then it is sent at once
	freeLots = 6                     // of which the room is kept, half a MiB each: as many are on their way at most
	patience = 10 * time.Second      // with what a new leader of a partition ends; then it shows
	// lookTimeout bounds the question whether the topic is there.
	lookTimeout = 10 * time.Second
)

// NewWriter returns a writer to the topic.
func NewWriter(connection []kgo.Opt, topic string, random *rand.Rand, log *slog.Logger) (*Writer, error) {
	producer, err := newProducer(connection, topic)
	if err != nil {
		return nil, fmt.Errorf("receipts producer: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	w := &Writer{producer: producer, log: log, ctx: ctx, stop: stop, random: random}
	w.timer = time.AfterFunc(linger, w.lingered)
	return w, nil
}

// Look warns if the topic does not exist or may not be seen.
func (w *Writer) Look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	found, err := kadm.NewClient(w.producer.client).ListTopics(ctx, w.producer.topic)
	if err == nil {
		err = found[w.producer.topic].Err
	}
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		w.log.Warn("the receipts topic does not exist: nothing is confirmed before it does; create it, or correct receipts.topic", "topic", w.producer.topic)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		w.log.Warn("the receipts topic cannot be seen: nothing is confirmed before; grant the login WRITE and DESCRIBE on it", "topic", w.producer.topic)
	}
}

// Waiter is told, from another goroutine, that Kafka has acknowledged n of its receipts. It must
// return quickly, and is compared with others: a pointer.
type Waiter interface{ Acknowledged(n int) }

// lot is some receipts that are sent together.
type lot struct {
	*places
	size int // of keys and values, in bytes

	compressed bytes.Buffer // room for what is made of them
}

// Send produces the receipt, which it keeps no hold of, and tells the waiter once Kafka has
// acknowledged it. What fails is tried again for as long as it takes. After Close no waiter is told.
func (w *Writer) Send(r *Receipt, waiter Waiter) {
	w.SendEach(1, r, func(int) bool { return false }, waiter)
}

// SendEach is Send for n receipts of one waiter. next makes r the i-th, and reports whether it is
// like the one before: all but offset, time written and the key's hash is the same. It must return quickly.
func (w *Writer) SendEach(n int, r *Receipt, next func(i int) (like bool), waiter Waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	for i := range n {
		w.put(r, next(i), waiter)
	}
}

// put puts a receipt into the open lot, with mu held. One that is like is like the one before.
func (w *Writer) put(r *Receipt, like bool, waiter Waiter) {
	if w.open == nil {
		w.open = w.newLot()
		w.timer.Reset(linger)
	}
	var key []byte
	if r.Key.ID != "" {
		key = r.Key.Hash[:]
	}
	w.last.take(r, like)
	size := w.last.size()
	w.open.size += len(key) + size
	to := w.open.place(key)
	to.begin(key, size, millis(r.Ended), waiter)
	to.records = w.last.append(to.records)
	to.end()
	if w.open.size >= lotSize {
		w.timer.Stop()
		w.seal()
	}
}

// lingered sends what is there, however little.
func (w *Writer) lingered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open != nil && !w.closed {
		w.seal()
	}
}

// seal sends the open lot, with mu held.
func (w *Writer) seal() {
	l := w.open
	w.open = nil
	w.work.Go(func() {
		if !w.deliver(l) {
			return // a request that was given up may still be written
		}
		l.size = 0
		for i := range l.batches {
			l.batches[i].empty()
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.free) < freeLots {
			w.free = append(w.free, l)
		}
	})
}

// newLot is one that is empty, with mu held.
func (w *Writer) newLot() (l *lot) {
	partitions := int(max(1, w.producer.partitions.Load()))
	if last := len(w.free) - 1; last >= 0 {
		l, w.free = w.free[last], w.free[:last]
	}
	if l == nil || len(l.batches) != partitions {
		l = &lot{places: newPlaces(w.producer.topic, partitions)}
	}
	return l
}

// deliver tries until Kafka has acknowledged all of the lot, or Close. It reports whether it did
// at once.
func (w *Writer) deliver(l *lot) (atOnce bool) {
	began := time.Now()
	left := l.filled()
	for attempt := 1; ; attempt++ {
		var err error
		left, err = w.producer.produce(w.ctx, left, &l.compressed, w.acknowledged)
		if err == nil || w.ctx.Err() != nil {
			return attempt == 1 && err == nil
		}
		w.mu.Lock()
		wait := again.Next(attempt, 0, w.random.Float64)
		w.mu.Unlock()
		if !passes(err) || time.Since(began) >= patience {
			w.refused(err, wait)
		}
		if retry.Sleep(w.ctx, wait) != nil {
			return false
		}
	}
}

// passes reports whether the error is likely to be gone soon: a broker is away, or the leader
// of a partition moves.
func passes(err error) bool {
	answer, is := errors.AsType[*kerr.Error](err)
	return !is || answer.Retriable && answer != kerr.UnknownTopicOrPartition
}

func (w *Writer) acknowledged(b *batch) {
	if w.lastErr.Load() != nil && w.lastErr.Swap(nil) != nil {
		w.log.Info("receipts are acknowledged again", "topic", w.producer.topic)
	}
	for _, waits := range b.waiters {
		waits.Acknowledged(waits.n)
	}
}

func (w *Writer) refused(err error, wait time.Duration) {
	if w.lastErr.Swap(&err) == nil {
		w.log.Warn("receipts were not acknowledged; nothing is confirmed without them; trying again", "topic", w.producer.topic, "wait", wait, "error", err)
	}
}

// Err is why the last receipts were not acknowledged, and wait; nil: they were.
func (w *Writer) Err() error {
	if err := w.lastErr.Load(); err != nil {
		return *err
	}
	return nil
}

// Close ends what is unfinished and waits for it. No Send may be running.
func (w *Writer) Close() {
	w.mu.Lock()
	w.closed = true
	w.timer.Stop()
	w.mu.Unlock()
	w.stop()
	w.work.Wait()
	w.producer.client.Close()
}

// Book is what lanes need to write receipts.
type Book struct {
	*Keys
	*Writer
}

// Hasher is that of Keys; nil where there are no receipts.
func (b *Book) Hasher() *Hasher {
	if b == nil {
		return nil
	}
	return b.Keys.Hasher()
}
