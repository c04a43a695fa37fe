package journeys

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	_ "time/tzdata" // for machines that have none

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

const apiKey = "the-key-of-this-world"

// settings are what stories change of the usual world.
type settings struct {
	partitions     int // of customers and of orders
	deadLetters    bool
	receipts       bool
	token, timeout time.Duration
	rollRows       int
	rollAge        time.Duration
	retryFailed    int
	breaker        int // failures in a row that open it
	slots, reserve int // imports of a table's day
}

func defaults() settings {
	return settings{
		partitions: 1, deadLetters: true, token: 15 * time.Minute, timeout: 5 * time.Second,
		rollRows: 1000, rollAge: 100 * time.Millisecond, retryFailed: 1, breaker: 10_000, slots: 1000,
	}
}

// world is everything around the sinks, and the sinks.
type world struct {
	settings
	configuration atomic.Pointer[string] // of commands and of the sinks that are run or reload it
	story         *story
	service       *sandbox.Sandbox
	url           string
	cluster       *kfake.Cluster
	brokers       []string
	spool         string
	receiptsKey   string // a file
	client        *kgo.Client
	admin         *kadm.Client
	sinks         map[string]*running
	sent          map[string]*kgo.Record // by where
	post          func()                 // lets dead letters through that are held back
	logs          logBuffer
}

// noon is a time zone in which it is about midday, so that no story runs into
// the next day's slots.
var noon = func() *time.Location {
	ahead := 12 - time.Now().UTC().Hour()
	zone, err := time.LoadLocation(fmt.Sprintf("Etc/GMT%+d", -ahead)) // POSIX: GMT-5 is five hours ahead
	if err != nil {
		panic(err)
	}
	return zone
}()

// lanesOf tells by which lanes each topic is read.
var lanesOf = map[string][]string{"customers": {"immediate", "batch"}, "orders": {"immediate"}}

func (s *story) open(d *datadriven.TestData) string {
	c := defaults()
	c.partitions = s.number(d, "partitions", c.partitions)
	c.deadLetters = text(d, "dlq", "on") == "on"
	c.receipts = text(d, "receipts", "off") == "on"
	c.token = s.duration(d, "token", c.token)
	c.timeout = s.duration(d, "timeout", c.timeout)
	c.rollRows = s.number(d, "roll-rows", c.rollRows)
	c.rollAge = s.duration(d, "roll-age", c.rollAge)
	c.retryFailed = s.number(d, "retry-failed", c.retryFailed)
	c.breaker = s.number(d, "breaker", c.breaker)
	c.slots = s.number(d, "slots", c.slots)
	c.reserve = s.number(d, "reserve", c.reserve)
	s.world = newWorld(s, c)
	return ""
}

func newWorld(s *story, c settings) *world {
	w := &world{settings: c, story: s, spool: s.t.TempDir(), sinks: map[string]*running{}, sent: map[string]*kgo.Record{}, post: func() {}}
	text := configuration
	w.configuration.Store(&text)
	w.receiptsKey = filepath.Join(s.t.TempDir(), "receipts-key")
	err := os.WriteFile(w.receiptsKey, []byte("a-secret\n"), 0o600)
	s.check(err)
	w.cluster, err = kfake.NewCluster(kfake.NumBrokers(1),
		kfake.SeedTopics(int32(c.partitions), "customers", "orders"), kfake.SeedTopics(1, "dlq", "receipts"))
	s.check(err)
	w.brokers = w.cluster.ListenAddrs()
	w.service, err = sandbox.New(sandbox.Config{
		Entity: "acme", APIKeys: []string{apiKey}, TokenLifetime: c.token, Tables: tables, ETLs: etls,
		Processing: 20 * time.Millisecond, KeepCalls: 10_000, Dir: s.t.TempDir(),
		SlotsPerDay: c.slots, Location: noon,
	})
	s.check(err)
	server, err := w.service.Start("127.0.0.1:0")
	s.check(err)
	w.url = server.URL()
	w.client, err = kgo.NewClient(kgo.SeedBrokers(w.brokers...), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), kgo.ProducerLinger(0))
	s.check(err)
	w.admin = kadm.NewClient(w.client)
	s.t.Cleanup(func() {
		w.client.Close()
		if err := errors.Join(server.Close(), w.service.Close()); err != nil {
			s.t.Error(err)
		}
		w.post() // a broker that holds requests back does not close
		w.cluster.Close()
		if s.t.Failed() || os.Getenv("SINKLOG") != "" { // SINKLOG=1 go test -v shows the log of a story that passes
			s.t.Logf("the sinks' log:\n%s", &w.logs)
		}
	})
	return w
}

// tables are the service's: profiles in both lanes, records in the immediate one.
var tables = []sandbox.Table{
	{
		Name: "customers", Keys: []string{"customerNumber", "emailAddress"},
		Fields:   []sandbox.Field{{Name: "customerNumber"}, {Name: "emailAddress"}, {Name: "name"}, {Name: "seq", Type: sandbox.Integer}},
		Segments: []sandbox.Segment{{Name: "tier", Values: []string{"gold", "basic"}}},
	},
	{Name: "orders", Custom: true, Fields: []sandbox.Field{{Name: "seq", Type: sandbox.Number}, {Name: "status"}}},
}

var etls = []sandbox.ETL{
	{ID: "101", Loads: []sandbox.Load{{Table: "customers", Mode: sandbox.CreateOrUpdate, GenerateErrorFiles: true}}},
	{ID: "102", Loads: []sandbox.Load{{Table: "customers", Mode: sandbox.DeleteRows, GenerateErrorFiles: true}}},
}

const configuration = `
kafka: {brokers: [${BROKERS}], group: sink, sessionTimeout: 6s}
service:
  baseURL: ${SERVICE}
  authURL: ${SERVICE}
  entity: acme
  apiKey: ${API_KEY}
  timeout: ${TIMEOUT}
  breaker: {failures: ${BREAKER}, openFor: 100ms}
retry: {initial: 20ms, max: 50ms}
dlq: {topic: "${DLQ:-}"}
spool: {dir: "${SPOOL}"}
admin: {listen: "127.0.0.1:0"}
mappings:
  - name: customers
    topics: [customers]
    profileTable: customers
    key: customerNumber
    routes: [{when: 'segments.tier == "gold"', lane: immediate}, {lane: batch}]
    imports:
      upsert: {etl: "101", mode: CREATE_OR_UPDATE}
      delete: {etl: "102", mode: DELETE}
      columns: [customerNumber, emailAddress, name, seq, S_tier]
      roll: {rows: ${ROLL_ROWS}, bytes: 1MiB, age: ${ROLL_AGE}}
      retryFailed: ${RETRY_FAILED}
      slotsPerDay: ${SLOTS}
      reserve: ${RESERVE}
      timezone: ${ZONE}
  - name: orders
    topics: [orders]
    customTable: orders
    key: businessKey
    routes: [{lane: immediate}]
receipts: {topic: "${RECEIPTS:-}", keyFile: "${RECEIPTS_KEY:-}"}
`

func (w *world) env(spool string) func(string) (string, bool) {
	values := map[string]string{
		"BROKERS": strings.Join(w.brokers, ","), "SERVICE": w.url, "API_KEY": apiKey, "SPOOL": spool,
		"TIMEOUT": w.timeout.String(), "ROLL_ROWS": strconv.Itoa(w.rollRows), "ROLL_AGE": w.rollAge.String(),
		"RETRY_FAILED": strconv.Itoa(w.retryFailed), "BREAKER": strconv.Itoa(w.breaker),
		"SLOTS": strconv.Itoa(w.slots), "RESERVE": strconv.Itoa(w.reserve), "ZONE": noon.String(),
	}
	if w.deadLetters {
		values["DLQ"] = "dlq"
	}
	if w.receipts {
		values["RECEIPTS"], values["RECEIPTS_KEY"] = "receipts", w.receiptsKey
	}
	return func(name string) (string, bool) {
		v, ok := values[name]
		return v, ok
	}
}

// running is a sink at work.
type running struct {
	*connector.Sink
	name string
	tell func()       // to stop, as SIGTERM does
	stop func() error // the same; returns when the sink has stopped
}

// start starts a sink with a spool of its own, which it finds again when it is
// started again.
func (w *world) start(name string) (*running, error) {
	load := func() (*config.Config, error) {
		return config.Parse("feedsink.yaml", []byte(*w.configuration.Load()), w.env(w.spool+"/"+name))
	}
	cfg, err := load()
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(&w.logs, &slog.HandlerOptions{Level: slog.LevelDebug})).With("sink", name)
	sink, err := connector.New(cfg, connector.Options{
		Log: log, Load: load, Version: "test", Rand: rand.New(rand.NewPCG(1, 1)),
		CommitEvery: 20 * time.Millisecond, FirstPoll: 20 * time.Millisecond,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- sink.Run(ctx) }()
	r := &running{Sink: sink, name: name, tell: cancel, stop: sync.OnceValue(func() error {
		cancel()
		return <-ended
	})}
	w.sinks[name] = r
	w.story.t.Cleanup(func() {
		if err := r.stop(); err != nil {
			w.story.t.Errorf("sink %s ended with: %v", name, err)
		}
	})
	return r, nil
}

// offsets sums up, for a topic and lane, what its log holds and what the lane
// has committed.
func (w *world) offsets(lane, topic string) (committed, end int64, err error) {
	ctx := w.story.t.Context()
	ends, err := w.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return 0, 0, err
	}
	have, err := w.admin.FetchOffsets(ctx, "sink-"+lane)
	if err != nil {
		return 0, 0, err
	}
	ends.Each(func(e kadm.ListedOffset) {
		o, _ := have.Lookup(e.Topic, e.Partition)
		committed += max(o.At, 0)
		end += e.Offset
	})
	return committed, end, nil
}

func where(topic string, partition int32, offset int64) string {
	return fmt.Sprintf("%s[%d]@%d", topic, partition, offset)
}

// logBuffer keeps what the sinks logged.
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
