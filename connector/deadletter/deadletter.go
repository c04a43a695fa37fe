// Package deadletter keeps what cannot be processed: it produces the original
// record, byte for byte, to the dead-letter topic, with headers that say where
// it came from and why it is there. And it reads such dead letters again.
//
// It knows records and reasons. It knows nothing about mappings at work, lanes
// or the service.
package deadletter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Record is the record that could not be processed. One without a topic came from
// none: its dead letter has no coordinates.
type Record = kgo.Record

// Stage is where processing ended, in Kafka Connect's words.
type Stage string

// The stages: decoding; routing, mapping and values; the service's refusal.
const (
	Decoding     Stage = "VALUE_CONVERTER"
	Transforming Stage = "TRANSFORMATION"
	Delivering   Stage = "TASK_PUT"
)

// Reason is the reason beside the record. Message names fields and rules, never
// values, unless the service's answer is part of it: see Plain. What does not apply is left zero and not written.
type Reason struct {
	Stage     Stage
	Code      string // decode, value, no_id, conflict, not_found, rejected, import_row
	Message   string
	Mapping   string
	Table     string
	Lane      string
	Status    int // HTTP
	Execution string
	Attempts  int // replays after which the record was here again
	// MayBeInTable says that the record may have been applied all the same: a
	// create after a crash or a lost answer whose row cannot be told.
	MayBeInTable bool
}

// Plain is the message without the service's own words, which may quote values:
// what is safe to show anywhere. It is empty if nothing else is known.
func (l *Reason) Plain() string {
	if l.Stage != Delivering {
		return l.Message
	}
	answered := strconv.Itoa(l.Status) + " " + http.StatusText(l.Status)
	if ours, _, found := strings.Cut(l.Message, answered); found && l.Status > 0 {
		return ours + answered
	}
	if l.Execution != "" { // of a row in an error file
		if l.MayBeInTable {
			return mayBeInTable
		}
		return ""
	}
	return l.Message
}

const (
	attemptsHeader     = "feedsink.replay.attempts"
	mayBeInTableHeader = "feedsink.may.be.in.table"
	mayBeInTable       = "it may already be in the table"
)

// Post sends dead letters, each to its end: a dead letter is posted, or its topic
// refuses it for good. It may be used concurrently.
type Post struct {
	many      *kgo.Client // dead letters share batches
	one       *kgo.Client // each dead letter is a batch, and may be large
	topic     string
	connector string
	log       *slog.Logger
	work      sync.WaitGroup // sendings that have not ended
	stop      context.CancelFunc
	ctx       context.Context //nolint:containedctx // the post's own life, ended by Close
}

const (
	largest   = 64 << 20 // bytes of a dead letter that are left to the topic to refuse, and of all that share batches
	tries     = 8        // of the client, within some 10 s; then it shows in the log and starts again
	firstWait = time.Second
	maxWait   = 30 * time.Second
)

// New returns a post for the topic. connector names this deployment in the
// headers: the configured consumer group.
func New(connection []kgo.Opt, topic, connector string, log *slog.Logger) (*Post, error) {
	opts := slices.Concat(connection, []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(kgo.SnappyCompression(), kgo.NoCompression()),
		kgo.RecordRetries(tries),
		kgo.MetadataMinAge(time.Second), // a topic that is missing may be made at any time
	})
	many, err := kgo.NewClient(slices.Concat(opts, []kgo.Opt{
		kgo.ProducerLinger(5 * time.Millisecond),
		kgo.MaxBufferedRecords(1 << 16), kgo.MaxBufferedBytes(largest),
	})...)
	if err != nil {
		return nil, fmt.Errorf("dead-letter producer: %w", err)
	}
	one, err := kgo.NewClient(slices.Concat(opts, []kgo.Opt{
		kgo.ProducerLinger(0), kgo.MaxBufferedRecords(1), kgo.ProducerBatchMaxBytes(largest),
	})...)
	if err != nil {
		many.Close()
		return nil, fmt.Errorf("dead-letter producer: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	return &Post{many: many, one: one, topic: topic, connector: connector, log: log, ctx: ctx, stop: stop}, nil
}

// ErrRefused says that the dead-letter topic will never take this record, for
// example because it is too large for it.
var ErrRefused = errors.New("the dead-letter topic refuses the record")

// Send posts the record and then calls done, from another goroutine: with nil
// once Kafka has acknowledged it, or with an error that wraps ErrRefused. What
// passes is tried again for as long as it takes. done must return quickly and
// not send. After Close it is not called any more. While very many dead letters are
// on their way, Send waits.
func (p *Post) Send(r *Record, l Reason, done func(error)) {
	p.work.Add(1)
	p.try(sending{
		record: r, done: done, wait: firstWait,
		headers: slices.Concat(r.Headers, p.headers(r, l)),
	})
}

// sending is a dead letter on its way.
type sending struct {
	record  *Record
	headers []kgo.RecordHeader
	done    func(error)
	alone   bool          // in a batch of its own
	wait    time.Duration // before the next try
}

func (p *Post) try(s sending) {
	client := p.many
	if s.alone {
		client = p.one
	}
	// Made anew for each try: the client puts its own notes into it.
	letter := &kgo.Record{
		Topic: p.topic, Key: s.record.Key, Value: s.record.Value, Timestamp: s.record.Timestamp, Headers: s.headers,
	}
	client.Produce(p.ctx, letter, func(_ *kgo.Record, err error) {
		if next := p.answered(s, err); next != nil {
			go next()
			return
		}
		p.work.Done()
	})
}

// answered ends a sending or returns how it goes on.
func (p *Post) answered(s sending, err error) (next func()) {
	switch {
	case err == nil:
		s.done(nil)
	case p.ctx.Err() != nil:
	case tooLarge(err) && !s.alone:
		// That may be said of the batch, or by the client.
		s.alone = true
		return func() { p.try(s) }
	case permanent(err):
		s.done(fmt.Errorf("%s: %w: %w", p.topic, ErrRefused, err))
	default:
		p.log.Warn("a dead letter was not acknowledged; trying again", "topic", s.record.Topic, "partition", s.record.Partition,
			"offset", s.record.Offset, "deadLetterTopic", p.topic, "wait", s.wait, "error", err)
		return func() { p.later(s, err) }
	}
	return nil
}

func (p *Post) later(s sending, err error) {
	select {
	case <-p.ctx.Done():
		p.work.Done()
		return
	case <-time.After(s.wait):
	}
	if errors.Is(err, kerr.UnknownTopicID) {
		// The topic was deleted and created again; the client knows the old one.
		p.many.PurgeTopicsFromProducing(p.topic)
		p.one.PurgeTopicsFromProducing(p.topic)
	}
	s.wait = min(2*s.wait, maxWait)
	p.try(s)
}

func tooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}

func permanent(err error) bool {
	return tooLarge(err) || errors.Is(err, kerr.InvalidRecord) || errors.Is(err, kerr.InvalidTimestamp)
}

// Close ends what is unfinished and waits for it. No Send may be running.
func (p *Post) Close() {
	p.stop()
	p.many.Close()
	p.one.Close()
	p.work.Wait()
}

func (p *Post) headers(r *Record, l Reason) []kgo.RecordHeader {
	hs := make([]kgo.RecordHeader, 0, 14)
	add := func(key, value string) {
		if value != "" {
			hs = append(hs, kgo.RecordHeader{Key: key, Value: []byte(value)})
		}
	}
	if r.Topic != "" {
		add(firstHeader, r.Topic)
		add("__connect.errors.partition", strconv.Itoa(int(r.Partition)))
		add("__connect.errors.offset", strconv.FormatInt(r.Offset, 10))
	}
	add(connectorHeader, p.connector)
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
	if l.Attempts != 0 {
		add(attemptsHeader, strconv.Itoa(l.Attempts))
	}
	if l.MayBeInTable {
		add(mayBeInTableHeader, strconv.FormatBool(true))
	}
	return hs
}
