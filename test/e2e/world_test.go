package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/schemas"
)

const (
	apiKey     = "the-key-that-must-not-show"
	partitions = 4
	patience   = 3 * time.Minute
)

// world is everything around the sink: a broker with topics of this test's
// own, and the service.
type world struct {
	t       *testing.T
	service *sandbox.Sandbox
	url     string
	brokers []string
	own     []kgo.Opt // how the test's own clients reach the brokers
	through access    // how the sink does
	prefix  string    // of this test's topics and groups
	dir     string
	client  *kgo.Client
	admin   *kadm.Client
	logs    *logBuffer

	patience  time.Duration  // of until
	firstPoll time.Duration  // when the sinks first ask for an import's result
	lanes     []schemas.Lane // of the sinks that begin from now on; none: both
}

// tables are the service's: profiles in both lanes, records in the immediate one.
var tables = []sandbox.Table{
	{
		Name: "customers", Keys: []string{"customerNumber", "emailAddress"},
		Fields:   []sandbox.Field{{Name: "customerNumber"}, {Name: "emailAddress"}, {Name: "lastName"}, {Name: "seq", Type: sandbox.Integer}},
		Segments: []sandbox.Segment{{Name: "tier", Values: []string{"gold", "basic"}}},
	},
	{Name: "orders", Custom: true, Fields: []sandbox.Field{{Name: "seq", Type: sandbox.Number}, {Name: "status"}}},
}

func newWorld(t *testing.T, change func(*sandbox.Config)) *world {
	t.Helper()
	return newWorldThrough(t, usual(t), change)
}

func newWorldThrough(t *testing.T, through access, change func(*sandbox.Config)) *world {
	t.Helper()
	w := &world{t: t, brokers: through.brokers, own: through.own, through: through, dir: shared(t, t.TempDir()), logs: &logBuffer{}, patience: patience, firstPoll: 50 * time.Millisecond}
	w.prefix = fmt.Sprintf("%s-%d.", strings.ToLower(strings.ReplaceAll(t.Name(), "/", ".")), time.Now().UnixNano())
	c := sandbox.Config{
		Entity: "acme", APIKeys: []string{apiKey}, Tables: tables, Processing: 50 * time.Millisecond,
		KeepCalls: 200_000, Dir: t.TempDir(), SlotsPerDay: 1000,
		ETLs: []sandbox.ETL{
			{ID: "101", Loads: []sandbox.Load{{Table: "customers", Mode: sandbox.CreateOrUpdate, GenerateErrorFiles: true}}},
			{ID: "102", Loads: []sandbox.Load{{Table: "customers", Mode: sandbox.DeleteRows, GenerateErrorFiles: true}}},
		},
	}
	if change != nil {
		change(&c)
	}
	var err error
	if w.service, err = sandbox.New(c); err != nil {
		t.Fatal(err)
	}
	server, err := w.service.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.url = server.URL()
	// A broker that has much to do tells of a new topic late.
	late := kgo.UnknownTopicRetries(100)
	if w.client, err = kgo.NewClient(w.reach(late, kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), kgo.ProducerLinger(0))...); err != nil {
		t.Fatal(err)
	}
	w.admin = kadm.NewClient(w.client)
	t.Cleanup(func() {
		w.client.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := w.service.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the sink's log:\n%s", w.logs)
		}
	})
	w.createTopics(partitions, "customers", "orders")
	w.createTopics(1, "dlq")
	return w
}

// createTopics waits until the broker knows the topics: one that has much to do tells of them late.
func (w *world) createTopics(n int32, names ...string) {
	w.t.Helper()
	topics := make([]string, len(names))
	for i, name := range names {
		topics[i] = w.prefix + name
	}
	created, err := w.admin.CreateTopics(w.t.Context(), n, 1, nil, topics...)
	if err = errors.Join(err, created.Error()); err != nil {
		w.t.Fatal(err)
	}
	w.until("topics "+strings.Join(topics, ", "), func() bool {
		starts, err := w.admin.ListStartOffsets(w.t.Context(), topics...)
		return err == nil && starts.Error() == nil
	})
}

// withOrdersETL lets orders be loaded by files too.
func withOrdersETL(c *sandbox.Config) {
	c.ETLs = append(c.ETLs, sandbox.ETL{ID: "103", Loads: []sandbox.Load{{Table: "orders", Mode: sandbox.CreateOrUpdate, GenerateErrorFiles: true}}})
}

const head = `
kafka: {brokers: [${BROKERS}], group: ${PREFIX}sink, sessionTimeout: 10s}
service:
  baseURL: ${SERVICE}
  authURL: ${SERVICE}
  entity: acme
  apiKey: ${API_KEY}
  timeout: 2s
  breaker: {failures: 20, openFor: 300ms}
retry: {initial: 20ms, max: 300ms}
spool: {dir: ${DIR}}
admin: {listen: "127.0.0.1:0"}
`

const deadLetters = `
dlq: {topic: ${PREFIX}dlq}
`

// mappings route gold customers and all orders to the immediate lane.
const mappings = `
mappings:
  - name: customers
    topics: ["${PREFIX}customers"]
    profileTable: customers
    key: customerNumber
    routes: [{when: 'segments.tier == "gold"', lane: immediate}, {lane: batch}]
    imports:
      upsert: {etl: "101", mode: CREATE_OR_UPDATE}
      delete: {etl: "102", mode: DELETE}
      columns: [customerNumber, emailAddress, lastName, seq, S_tier]
      roll: {rows: 500, bytes: 1MiB, age: 500ms}
      slotsPerDay: 1000
  - name: orders
    topics: ["${PREFIX}orders"]
    customTable: orders
    key: businessKey
    routes: [{lane: immediate}]
`

func (w *world) env(name string) (string, bool) {
	v, ok := map[string]string{
		"BROKERS": strings.Join(w.brokers, ","), "PREFIX": w.prefix, "SERVICE": w.url, "API_KEY": apiKey, "DIR": w.dir + "/spool",
	}[name]
	return v, ok
}

// running is a sink that runs.
type running struct {
	sink
	stop func() // as SIGTERM does; returns when the sink has stopped
}

// sink is what tests ask of a running one.
type sink interface {
	AdminAddress() string
	Unready() []string // why not
}

func (w *world) topic(name string) string { return w.prefix + name }

func (w *world) produce(records ...*kgo.Record) {
	w.t.Helper()
	for _, r := range records {
		r.Topic = w.topic(r.Topic)
	}
	if err := w.client.ProduceSync(w.t.Context(), records...).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

func event(topic, key, value string) *kgo.Record {
	return &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value)}
}

func customer(key, tier string, seq int) *kgo.Record {
	return event("customers", key, fmt.Sprintf(`{"op":"upsert","key":{"customerNumber":%q},"attributes":{"customerNumber":%q,"seq":%d},"segments":{"tier":%q}}`, key, key, seq, tier))
}

func order(key, status string, seq int) *kgo.Record {
	return event("orders", key, fmt.Sprintf(`{"op":"upsert","businessKey":%q,"properties":{"seq":%d,"status":%q}}`, key, seq, status))
}

// until waits for a condition, looking again at short intervals.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), w.patience)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			w.t.Fatalf("waited %v in vain: %s", w.patience, what)
		case <-look.C:
		}
	}
}

// lag is how many records of the topic a lane's group has not committed.
func (w *world) lag(lane, topic string) (n int64) {
	w.t.Helper()
	ends, err := w.admin.ListEndOffsets(w.t.Context(), w.topic(topic))
	if err != nil {
		w.t.Fatal(err)
	}
	committed, err := w.admin.FetchOffsets(w.t.Context(), w.prefix+"sink-"+lane)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) && !kerr.IsRetriable(err) { // nobody has joined it yet
		w.t.Fatal(err)
	}
	ends.Each(func(end kadm.ListedOffset) {
		if end.Err != nil {
			n++ // nobody knows; not at its end
			return
		}
		o, _ := committed.Lookup(end.Topic, end.Partition)
		n += end.Offset - max(o.At, 0)
	})
	return n
}

// settled waits until every lane has committed everything it reads.
func (w *world) settled() {
	w.t.Helper()
	w.until("both groups are at the end of the log", func() bool {
		return w.lag("immediate", "customers")+w.lag("immediate", "orders")+w.lag("batch", "customers") == 0
	})
}

// dead reads the dead-letter topic.
func (w *world) dead() (letters []*kgo.Record) {
	w.t.Helper()
	var end kadm.ListedOffset
	w.until("the broker tells where the dead letters end", func() bool {
		ends, err := w.admin.ListEndOffsets(w.t.Context(), w.topic("dlq"))
		var found bool
		end, found = ends.Lookup(w.topic("dlq"), 0)
		return err == nil && found && end.Err == nil
	})
	if end.Offset == 0 {
		return nil
	}
	client, err := kgo.NewClient(w.reach(kgo.ConsumeTopics(w.topic("dlq")))...)
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	for int64(len(letters)) < end.Offset {
		fetches := client.PollFetches(w.t.Context())
		if err := fetches.Err(); err != nil {
			w.t.Fatal(err)
		}
		letters = append(letters, fetches.Records()...)
	}
	return letters
}

// logBuffer keeps what the sink logged.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
