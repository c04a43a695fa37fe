//go:build simulation

package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/schemas"
)

const (
	brokerAt  = "localhost:9092"
	serviceAt = "localhost:8090"
	group     = "sim"
	apiKey    = "the-api-key"
	timeout   = 10 * time.Second // service.timeout
	// stopTime is how long a member may take to stop: service.timeout, what its groups
	// wait for, and the last commits.
	stopTime = 2 * time.Minute
)

// world is everything that a seed decides, and everything around the members.
type world struct {
	seed      uint64
	dropped   map[int]bool // strikes that do not happen
	struck    int          // strikes so far
	strikes   []int        // those that did happen
	plan      plan
	rnd       *rand.Rand
	dir       string
	follow    bool   // the transcript is shown as it grows
	miscounts bool   // imports had more rows in error than there were, which no record stands for
	logs      string // folder for the members' logs; "": they are dropped
	begun     time.Time
	network   *network
	own       *host
	broker    *kfake.Cluster
	service   *sandbox.Sandbox
	disks     *disks
	witness   *witness
	server    *http.Server
	schemas   *http.Server
	registry  registry
	down      bool // the service
	slow      bool // the service
	skewed    bool // a clock has been wrong
	cuts      int  // how often the brokers have lost the ends of logs
	client    *kgo.Client
	admin     *kadm.Client
	members   []*member
	former    []process // killed, and not seen to have ended
	// unremovable are files of spools whose disk took no files for a time: one that was to
	// be removed then is left until the next start.
	unremovable map[string]bool

	refuseDeadLetters atomic.Bool
	answer            string // of the admin server that was asked last

	feeding    chan struct{} // has one while events are produced
	mu         sync.Mutex
	transcript []string
	wrong      []string
	partitions map[string]int32
	load       generator
}

// say adds a line to the transcript.
func (w *world) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	line := time.Now().UTC().Format("02 15:04:05.000 ") + fmt.Sprintf(format, args...)
	w.transcript = append(w.transcript, line)
	if w.follow {
		fmt.Fprintln(os.Stderr, line)
	}
}

func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// open makes the broker and the service.
func (w *world) open() error {
	latency := rand.New(rand.NewPCG(w.rnd.Uint64(), w.rnd.Uint64()))
	var mu sync.Mutex
	w.network = newNetwork(func(more time.Duration) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(latency.Int64N(int64(w.plan.latency+more)) + 1)
	})
	w.own, w.disks = w.network.host("world"), newDisks()
	open := make(chan struct{})
	close(open)
	err := w.startBroker(open)
	if err != nil {
		return err
	}
	for _, t := range w.plan.tables {
		w.partitions[t.topic] = w.plan.partitions
	}
	if w.client, err = kgo.NewClient(kgo.SeedBrokers(brokerAt), kgo.Dialer(w.own.Dial),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.MetadataMinAge(50*time.Millisecond)); err != nil {
		return err
	}
	w.admin = kadm.NewClient(w.client)
	conf := sandbox.Config{
		Entity: "acme", APIKeys: []string{apiKey}, Processing: w.plan.processing, SlotsPerDay: 1_000_000, Location: w.plan.zone, Dir: filepath.Join(w.dir, "service"),
		Tables: []sandbox.Table{
			{Name: "customers", Keys: []string{"customerNumber"}, Fields: []sandbox.Field{{Name: "seq", Type: sandbox.Integer}, {Name: "note"}}},
			{Name: "orders", Custom: true, Fields: []sandbox.Field{{Name: "seq", Type: sandbox.Number}, {Name: "note"}}},
		},
	}
	if w.follow {
		conf.KeepCalls = 1 << 20
	}
	for i, load := range loads {
		var bundled sandbox.ETL
		for _, t := range w.plan.tables {
			of := sandbox.Load{Table: t.name, Mode: load.mode, GenerateErrorFiles: true, Flags: sandbox.Flags{IgnoreEmptyValues: partial(load.op) || t.clears && load.op == "upsert"}}
			if t.bundled {
				of.FileNamePattern = t.name + ".csv"
				bundled.ID, bundled.Loads = etl(t, i), append(bundled.Loads, of)
				continue
			}
			conf.ETLs = append(conf.ETLs, sandbox.ETL{ID: etl(t, i), Loads: []sandbox.Load{of}})
		}
		if bundled.ID != "" {
			conf.ETLs = append(conf.ETLs, bundled)
		}
	}
	if err := os.MkdirAll(conf.Dir, 0o700); err != nil {
		return err
	}
	if w.schemas, err = w.listen(registryAt, &w.registry); err != nil {
		return err
	}
	if w.service, err = sandbox.New(conf); err != nil {
		return err
	}
	w.service.SetLatency(0, w.plan.callTime)
	if err := w.service.RejectRows(sandbox.Rejection{Column: "note", Match: "^refused "}); err != nil {
		return err
	}
	w.witness = &witness{calls: map[int64]int{}, service: w.service, latency: w.plan.latency, fail: w.fail, told: map[string]bool{}, asks: map[string][]ask{}, resting: map[string][]string{}, slow: map[string]time.Duration{}, carried: map[string]bool{}, away: map[string]bool{}}
	return w.serve()
}

// produced refuses dead letters while that is so.
func (w *world) produced(request kmsg.Request) (kmsg.Response, error, bool) { //nolint:revive // the signature is kfake's
	w.broker.KeepControl()
	r := request.(*kmsg.ProduceRequest)
	if !w.refuseDeadLetters.Load() || len(r.Topics) == 0 || w.isLoad(r.Topics[0].Topic, r.Topics[0].TopicID) {
		return nil, nil, false
	}
	answer := r.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range r.Topics {
		refused := kmsg.NewProduceResponseTopic()
		refused.Topic, refused.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			one := kmsg.NewProduceResponseTopicPartition()
			one.Partition, one.ErrorCode = p.Partition, kerr.TopicAuthorizationFailed.Code
			refused.Partitions = append(refused.Partitions, one)
		}
		answer.Topics = append(answer.Topics, refused)
	}
	return answer, nil, true
}

// isLoad reports whether a topic is not the dead-letter topic.
func (w *world) isLoad(name string, id [16]byte) bool {
	if name == "" {
		info := w.broker.TopicInfo("dlq")
		return info == nil || info.TopicID != id
	}
	return name != "dlq"
}

// serve has the service listen, as after an outage.
func (w *world) serve() (err error) {
	w.server, err = w.listen(serviceAt, w.witness)
	return err
}

// listen serves an address until the server is closed.
func (w *world) listen(at string, handler http.Handler) (*http.Server, error) {
	l, err := w.network.Listen("tcp", at)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: handler, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	go func() { _ = server.Serve(l) }() // ends with Close
	return server, nil
}

// close ends what open has begun.
func (w *world) close() {
	if w.client != nil {
		w.client.Close()
	}
	if w.server != nil {
		_ = w.server.Close()
	}
	if w.schemas != nil {
		_ = w.schemas.Close()
	}
	if w.service != nil {
		if err := w.service.Close(); err != nil {
			w.fail("the service: %v", err)
		}
	}
	if w.broker != nil {
		w.broker.Close()
	}
}

// process is one life of a member.
type process struct {
	name  string
	sink  *connector.Sink
	host  *host
	stop  context.CancelFunc
	ended chan error // has Run's result
	log   io.Closer
	clock *atomic.Int64 // how far its machine's clock is off
}

// member is a sink with a spool, which may be stopped, killed and started again.
type member struct {
	w      *world
	name   string
	lanes  []schemas.Lane // none: both
	starts int
	spool  string
	on     bool
	process
}

// start runs the member with the newest routes.
func (m *member) start() {
	if m.on {
		return
	}
	m.starts++
	w, name := m.w, fmt.Sprintf("%s.%d", m.name, m.starts)
	if m.spool == "" {
		m.spool = filepath.Join(w.dir, name)
	}
	spool := m.spool
	load := func() (*config.Config, error) {
		return config.Parse("feedsink.yaml", []byte(w.plan.yaml()), func(variable string) (string, bool) {
			return spool, variable == "SPOOL"
		})
	}
	cfg, err := load()
	if err != nil {
		w.fail("configuration: %v", err)
		return
	}
	var to io.WriteCloser = nopCloser{io.Discard}
	level := slog.LevelInfo
	if w.logs != "" || w.plan.debug {
		level = slog.LevelDebug
	}
	if w.logs != "" {
		if to, err = os.Create(filepath.Join(w.logs, name+".log")); err != nil {
			w.fail("%v", err)
			return
		}
	}
	p := process{name: name, host: w.network.host(name), ended: make(chan error, 1), log: to, clock: new(atomic.Int64)}
	p.sink, err = connector.New(cfg, connector.Options{
		Lanes: m.lanes, Log: slog.New(slog.NewTextHandler(&reader{to: to, w: w, name: name}, &slog.HandlerOptions{Level: level})), Version: "simulated", Load: load,
		Rand: rand.New(rand.NewPCG(w.rnd.Uint64(), w.rnd.Uint64())), Dial: p.host.Dial, Listen: w.network.Listen,
		Wall:         func() time.Time { return time.Now().Add(time.Duration(p.clock.Load())) },
		FetchMaxWait: w.plan.fetchWait(), CommitEvery: w.plan.commitEvery, LookEvery: w.plan.lookEvery,
	})
	if err != nil {
		w.fail("%s does not start: %v", name, err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	m.process, m.on = p, true
	w.say("%s starts, routes %d", name, w.plan.routes)
	go func() { p.ended <- p.sink.Run(ctx) }()
}

// reader reads what a member logs: neither a secret nor a customer's value may be in it.
type reader struct {
	to   io.Writer
	w    *world
	name string
}

func (r *reader) Write(line []byte) (int, error) {
	for _, kept := range []string{apiKey, "Bearer ", "note 1", "note 2", "-key-", "xxxxxxxx"} {
		if bytes.Contains(line, []byte(kept)) {
			r.w.fail("%s logs %q: %s", r.name, kept, line)
		}
	}
	return r.to.Write(line)
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// reload gives the running member the newest routes. Where its network is slow that is tried again,
// as the error asks for.
func (m *member) reload() {
	w := m.w
	w.say("%s reloads, routes %d", m.process.name, w.plan.routes)
	// While the brokers do not answer, its lanes take a session to find out.
	ctx, cancel := context.WithTimeout(context.Background(), stopTime+w.plan.session+w.disks.patience())
	defer cancel()
	for {
		_, err := m.sink.Reload(ctx)
		if err == nil {
			return
		}
		if retry.Sleep(ctx, 5*time.Second) != nil || !strings.Contains(err.Error(), "try again") {
			w.fail("%s does not reload: %v", m.process.name, err)
			return
		}
	}
}

// follow gives the member the newest routes: as it runs, which it cannot where they use other
// lanes, or by a restart.
func (m *member) follow(running bool) {
	if running {
		m.reload()
		return
	}
	m.end()
	m.start()
}

// end stops the member as SIGTERM does.
func (m *member) end() {
	if !m.on {
		return
	}
	m.on = false
	m.w.say("%s is told to stop", m.process.name)
	m.stop()
	m.w.awaitEnd(m.process)
}

// awaitEnd waits for the process, which has been told to stop.
func (w *world) awaitEnd(p process) {
	begun, patience := time.Now(), stopTime+w.disks.patience()
	select {
	case err := <-p.ended:
		if err != nil {
			w.fail("%s ended with: %v", p.name, err)
		}
		if took := time.Since(begun); took > 0 {
			w.say("%s has stopped, after %v", p.name, took.Round(time.Millisecond))
		}
	case <-time.After(patience):
		w.fail("%s has not stopped after %v", p.name, patience)
		w.former = append(w.former, p)
		return
	}
	_ = p.log.Close()
}

// kill ends the member as SIGKILL does: from this moment on it reaches nothing, and
// the next one finds the spool as it is now.
func (m *member) kill(arrives bool) {
	if !m.on {
		return
	}
	synctest.Wait() // none is in the middle of a write
	next := filepath.Join(m.w.dir, fmt.Sprintf("%s.%d", m.name, m.starts+1))
	if err := os.CopyFS(next, os.DirFS(m.spool)); err != nil && !errors.Is(err, fs.ErrNotExist) { // no files, no spool
		m.w.fail("copy the spool: %v", err)
	}
	power := m.w.rnd.IntN(2) == 0
	if power {
		m.w.losePower(m.spool, next)
	}
	if err := m.w.disks.holds(next); err != nil {
		m.w.fail("copy the spool: %v", err)
	}
	m.host.kill(arrives)
	m.stop() // what is left of it ends at some time
	m.on, m.spool = false, next
	m.w.former = append(m.w.former, m.process)
	m.w.say("%s is killed; what it has sent arrives: %v; with its power: %v", m.process.name, arrives, power)
}

// lag is how many records of the tables the groups have not committed, by group and topic.
func (w *world) lag(ctx context.Context, tables ...*table) (n int64, where []string) {
	for _, t := range tables {
		ends, err := w.admin.ListEndOffsets(ctx, t.topic)
		if err != nil {
			return 1, []string{err.Error()}
		}
		for _, lane := range schemas.Lanes {
			if !w.plan.uses(t, lane) {
				continue
			}
			committed, _ := w.admin.FetchOffsets(ctx, group+"-"+lane.String()) // none is nothing committed
			ends.Each(func(end kadm.ListedOffset) {
				o, _ := committed.Lookup(end.Topic, end.Partition)
				if missing := end.Offset - max(o.At, 0); missing > 0 || end.Err != nil {
					n += max(missing, 1)
					where = append(where, fmt.Sprintf("%s %s/%d: %d of %d", lane, end.Topic, end.Partition, o.At, end.Offset))
				}
			})
		}
	}
	slices.Sort(where)
	return n, where
}

// deadLetters reads the dead-letter topic.
func (w *world) deadLetters(ctx context.Context) (records []*kgo.Record, err error) {
	ends, err := w.admin.ListEndOffsets(ctx, "dlq")
	if err != nil {
		return nil, err
	}
	end, _ := ends.Lookup("dlq", 0)
	if end.Offset == 0 {
		return nil, end.Err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(brokerAt), kgo.Dialer(w.own.Dial),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"dlq": {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for int64(len(records)) < end.Offset {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		records = append(records, fetches.Records()...)
	}
	return records, nil
}

// release has halted mappings go on, as a person does.
func (w *world) release() {
	for _, m := range w.members {
		for _, t := range w.plan.tables {
			if !t.byCall() && w.ask(m, "imports", "/imports/"+t.name+"/release") {
				w.say("%s is released at %s", t.name, m.process.name)
			}
		}
	}
}

// ask has the member's admin server do something; false: it does not.
func (w *world) ask(m *member, header, path string) bool {
	if !m.on {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+m.sink.AdminAddress()+path, http.NoBody)
	if err != nil {
		w.fail("%s: %v", path, err)
		return false
	}
	r.Header.Set("X-Feedsink", header)
	answer, err := (&http.Transport{DialContext: w.own.Dial, DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		w.answer = err.Error()
		return false
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 300)) // what can be read of it
	_ = answer.Body.Close()
	w.answer = answer.Status + " " + string(text)
	return answer.StatusCode == http.StatusAccepted
}
