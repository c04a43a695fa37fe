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

	"github.com/twmb/franz-go/pkg/kadm"
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

// Why a record cannot become a dead letter, and what to do about it, in sentences for a person.
const (
	NoTopic  = "no dead-letter topic is configured (dlq.topic)"
	SetTopic = "Set dlq.topic and run feedsink reload"
)

// OpenTopic is what to do about a topic that refuses the record: a reload of a file that has
// not changed does nothing.
func OpenTopic(refused error) string {
	setting := "max.message.bytes"
	switch {
	case errors.Is(refused, kerr.InvalidTimestamp):
		setting = "message.timestamp.before.max.ms and message.timestamp.after.max.ms, before Kafka 3.6 message.timestamp.difference.max.ms: the record keeps its timestamp"
	case errors.Is(refused, kerr.InvalidRecord):
		setting = "cleanup.policy: one that is compacted takes no record without a key; the broker's log may have another reason"
	}
	return "Make the dead-letter topic take it (its " + setting + ") and restart feedsink"
}

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
// what is safe to show anywhere.
func (l *Reason) Plain() string {
	if l.Stage != Delivering {
		return l.Message
	}
	answered := strings.TrimSpace(strconv.Itoa(l.Status) + " " + http.StatusText(l.Status))
	ours, _, found := strings.Cut(l.Message, answered)
	switch {
	case l.Status == 0:
	case found:
		return ours + answered
	default:
		return "the service answered " + answered
	}
	if l.Execution != "" { // of a row in an error file
		ours = "its row was in error in execution " + l.Execution
		if l.MayBeInTable {
			ours = MayBeInTable + ": " + ours
		}
		return ours
	}
	return l.Message
}

// MayBeInTable begins the message of a dead letter that may have been applied.
const MayBeInTable = "it may already be in the table"

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

	mu       sync.Mutex
	lastErrs map[string]error // by lane
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
	return &Post{many: many, one: one, topic: topic, connector: connector, log: log, ctx: ctx, stop: stop, lastErrs: map[string]error{}}, nil
}

// lookTimeout bounds the question whether the topic is there.
const lookTimeout = 10 * time.Second

// Look warns if the topic does not exist or may not be seen, which shows otherwise only
// with the first dead letter. Brokers that do not answer are not its business.
func (p *Post) Look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	found, err := kadm.NewClient(p.one).ListTopics(ctx, p.topic)
	if err == nil {
		err = found[p.topic].Err
	}
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		p.log.Warn("the dead-letter topic does not exist: records that can never be applied will wait for it; create it, or correct dlq.topic", "topic", p.topic)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		p.log.Warn("the dead-letter topic cannot be seen: records that can never be applied will wait; grant the login WRITE and DESCRIBE on it", "topic", p.topic)
	}
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
		record: r, done: done, wait: firstWait, lane: l.Lane,
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
	lane    string
}

// Err is why the last dead letter of a lane was not acknowledged, and waits; nil: it was.
func (p *Post) Err(lane string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lastErrs[lane]
}

func (p *Post) note(lane string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastErrs[lane] = err
}

func (p *Post) try(s sending) {
	client := p.many
	if s.alone {
		client = p.one
	}
	// Made anew for each try: the client puts its own notes into it.
	record := &kgo.Record{
		Topic: p.topic, Key: s.record.Key, Value: s.record.Value, Timestamp: s.record.Timestamp, Headers: s.headers,
	}
	client.Produce(p.ctx, record, func(_ *kgo.Record, err error) {
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
		p.note(s.lane, nil)
		s.done(nil)
	case p.ctx.Err() != nil:
	case tooLarge(err) && !s.alone:
		// That may be said of the batch, or by the client.
		s.alone = true
		return func() { p.try(s) }
	case permanent(err):
		s.done(fmt.Errorf("%s: %w: %w", p.topic, ErrRefused, err))
	default:
		p.note(s.lane, err)
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
		add(topicHeader, r.Topic)
		add(partitionHeader, strconv.Itoa(int(r.Partition)))
		add(offsetHeader, strconv.FormatInt(r.Offset, 10))
	}
	add(connectorHeader, p.connector)
	for _, h := range l.headers() {
		switch v := h.value.(type) {
		case *string:
			add(h.key, *v)
		case *int:
			if *v != 0 {
				add(h.key, strconv.Itoa(*v))
			}
		case *bool:
			if *v {
				add(h.key, strconv.FormatBool(true))
			}
		}
	}
	return hs
}

// topicHeader opens the headers that a post appends, connectorHeader those of a
// dead letter without coordinates.
const (
	topicHeader     = "__connect.errors.topic"
	partitionHeader = "__connect.errors.partition"
	offsetHeader    = "__connect.errors.offset"
	connectorHeader = "__connect.errors.connector.name"
)

// header is one of a reason's: its value is a *string, an *int or a *bool.
type header struct {
	key   string
	value any
}

// headers are those of the reason, in the order in which they are written.
func (l *Reason) headers() [10]header {
	return [...]header{
		{"__connect.errors.stage", (*string)(&l.Stage)},
		{"__connect.errors.exception.class.name", &l.Code},
		{"__connect.errors.exception.message", &l.Message},
		{"feedsink.mapping", &l.Mapping},
		{"feedsink.table", &l.Table},
		{"feedsink.lane", &l.Lane},
		{"feedsink.http.status", &l.Status},
		{"feedsink.execution", &l.Execution},
		{"feedsink.replay.attempts", &l.Attempts},
		{"feedsink.may.be.in.table", &l.MayBeInTable},
	}
}

// Received is a dead letter as it lies in the dead-letter topic.
type Received struct {
	Reason
	// Record is the one that could not be processed, as it was: its bytes, and
	// the topic, partition and offset it came from; see NoRecord.
	Record    *Record
	Connector string // the deployment that posted it: its configured consumer group
	Partition int32  // where the dead letter itself lies
	Offset    int64
}

// ErrForeign says that a record of the dead-letter topic is no dead letter of feedsink.
var ErrForeign = errors.New("not a dead letter of feedsink")

// What is said of records of the dead-letter topic that others wrote.
const (
	ForeignOne  = "record of the topic is no letter of this connector"
	ForeignMany = "records of the topic are no letters of this connector"
)

// NoRecord reports whether the dead letter is of no record: it is a row of an import that
// the service put in error and that matches no record.
func (l *Received) NoRecord() bool { return l.Record.Topic == "" }

// Open reads a record of the dead-letter topic. Only the headers at its end are
// the dead letter's: a record that had been a dead letter elsewhere before keeps what
// it came with. The only error is ErrForeign. The result shares r's memory.
func Open(r *Record) (*Received, error) {
	at := len(r.Headers) - 1
	for at >= 0 && r.Headers[at].Key != topicHeader {
		at--
	}
	if at < 0 && len(r.Headers) > 0 && r.Headers[0].Key == connectorHeader {
		at = 0
	}
	if at < 0 {
		return nil, ErrForeign
	}
	l := &Received{Partition: r.Partition, Offset: r.Offset, Record: &kgo.Record{
		Key: r.Key, Value: r.Value, Timestamp: r.Timestamp, Headers: r.Headers[:at:at],
	}}
	for _, h := range r.Headers[at:] {
		if !l.read(h.Key, string(h.Value)) {
			return nil, ErrForeign
		}
	}
	if l.NoRecord() && (l.Connector == "" || l.Execution == "") {
		return nil, ErrForeign
	}
	return l, nil
}

// read takes one of the dead letter's headers; false if it says what no dead letter says.
func (l *Received) read(key, value string) bool {
	number := func(bits int) int64 {
		n, err := strconv.ParseInt(value, 10, bits)
		if err != nil || n < 0 {
			return -1
		}
		return n
	}
	switch key {
	case topicHeader:
		l.Record.Topic = value
		return value != ""
	case partitionHeader:
		l.Record.Partition = int32(number(32))
		return l.Record.Partition >= 0
	case offsetHeader:
		l.Record.Offset = number(64)
		return l.Record.Offset >= 0
	case connectorHeader:
		l.Connector = value
		return true
	}
	for _, h := range l.headers() {
		if h.key != key {
			continue
		}
		switch v := h.value.(type) {
		case *string:
			*v = value
		case *int:
			*v = int(max(number(32), 0))
		case *bool:
			*v = value == strconv.FormatBool(true)
		}
		return true
	}
	// Others are of a newer version.
	return strings.HasPrefix(key, "feedsink.") || strings.HasPrefix(key, "__connect.errors.")
}
