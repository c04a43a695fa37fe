// Package deadletter keeps what cannot be processed: it produces the original
// record, byte for byte, to the dead-letter topic, with headers that say where
// it came from and why it is there.
//
// It knows records and reasons. It knows nothing about mappings at work, lanes
// or the service.
package deadletter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Record is the record that could not be processed.
type Record = kgo.Record

// Stage is where processing ended, in Kafka Connect's words.
type Stage string

// The stages: decoding; routing, mapping and values; the service's refusal.
const (
	Decoding     Stage = "VALUE_CONVERTER"
	Transforming Stage = "TRANSFORMATION"
	Delivering   Stage = "TASK_PUT"
)

// Letter is the reason beside the record. Message names fields and rules,
// never values. What does not apply is left zero and not written.
type Letter struct {
	Stage     Stage
	Code      string // decode, value, no_id, conflict, not_found, rejected, import_row
	Message   string
	Mapping   string
	Table     string
	Lane      string
	Status    int // HTTP
	Execution string
}

// Post sends letters, each to its end: a letter is posted, or its topic
// refuses it for good. It may be used concurrently.
type Post struct {
	client    *kgo.Client
	topic     string
	connector string
	log       *slog.Logger
	work      sync.WaitGroup
	stop      context.CancelFunc
	ctx       context.Context //nolint:containedctx // the post's own life, ended by Close
}

// New returns a post for the topic. connector names this deployment in the
// headers: the configured consumer group.
func New(connection []kgo.Opt, topic, connector string, log *slog.Logger) (*Post, error) {
	client, err := kgo.NewClient(append(connection,
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(kgo.SnappyCompression(), kgo.NoCompression()),
		kgo.ProducerLinger(5*time.Millisecond),
		kgo.UnknownTopicRetries(-1), // a topic that is not there may be made at any time
	)...)
	if err != nil {
		return nil, fmt.Errorf("dead-letter producer: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	return &Post{client: client, topic: topic, connector: connector, log: log, ctx: ctx, stop: stop}, nil
}

// ErrRefused says that the dead-letter topic will never take this record, for
// example because it is too large for it.
var ErrRefused = errors.New("the dead-letter topic refuses the record")

// Send posts the record and then calls done, from another goroutine: with nil
// once Kafka has acknowledged it, or with an error that wraps ErrRefused. What
// passes is tried again for as long as it takes. After Close done is not
// called any more.
func (p *Post) Send(r *Record, l Letter, done func(error)) {
	letter := &kgo.Record{
		Topic: p.topic, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp,
		Headers: append(r.Headers[:len(r.Headers):len(r.Headers)], p.headers(r, l)...),
	}
	p.work.Add(1)
	p.try(letter, r, time.Second, done)
}

func (p *Post) try(letter, r *Record, wait time.Duration, done func(error)) {
	p.client.Produce(p.ctx, letter, func(_ *kgo.Record, err error) {
		switch {
		case err == nil:
			done(nil)
		case p.ctx.Err() != nil:
		case permanent(err):
			done(fmt.Errorf("%s: %w: %w", p.topic, ErrRefused, err))
		default:
			p.log.Warn("a dead letter was not acknowledged; trying again", "topic", r.Topic, "partition", r.Partition,
				"offset", r.Offset, "deadLetterTopic", p.topic, "wait", wait, "error", err)
			go p.later(letter, r, wait, done)
			return // still at work
		}
		p.work.Done()
	})
}

func (p *Post) later(letter, r *Record, wait time.Duration, done func(error)) {
	select {
	case <-p.ctx.Done():
		p.work.Done()
	case <-time.After(wait):
		// Made anew: the client has put its own notes into the old one.
		again := &kgo.Record{Topic: letter.Topic, Key: letter.Key, Value: letter.Value, Timestamp: letter.Timestamp, Headers: letter.Headers}
		p.try(again, r, min(2*wait, 30*time.Second), done)
	}
}

func permanent(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge) ||
		errors.Is(err, kerr.InvalidRecord) || errors.Is(err, kerr.InvalidTimestamp)
}

// Close ends what is unfinished and waits for it.
func (p *Post) Close() {
	p.stop()
	p.work.Wait()
	p.client.Close()
}

func (p *Post) headers(r *Record, l Letter) []kgo.RecordHeader {
	hs := make([]kgo.RecordHeader, 0, 12)
	add := func(key, value string) {
		if value != "" {
			hs = append(hs, kgo.RecordHeader{Key: key, Value: []byte(value)})
		}
	}
	add("__connect.errors.topic", r.Topic)
	add("__connect.errors.partition", strconv.Itoa(int(r.Partition)))
	add("__connect.errors.offset", strconv.FormatInt(r.Offset, 10))
	add("__connect.errors.connector.name", p.connector)
	add("__connect.errors.stage", string(l.Stage))
	add("__connect.errors.exception.class.name", l.Code)
	add("__connect.errors.exception.message", l.Message)
	add("feedsink.mapping", l.Mapping)
	add("feedsink.table", l.Table)
	add("feedsink.lane", l.Lane)
	if l.Status != 0 {
		add("feedsink.http.status", strconv.Itoa(l.Status))
	}
	add("feedsink.execution", l.Execution)
	return hs
}
