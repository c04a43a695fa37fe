package replay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

const (
	topic   = "dlq"
	profile = "customers"
	custom  = "orders"
	batch   = "visits" // profiles, by imports only
	shared  = "carts"  // read by the mappings left and right
	divided = "sales"  // read by called, with calls alone, and filed, with files alone
)

// world is a broker, dead letters, and a service that is nothing but its tables.
type world struct {
	t       *testing.T
	cluster *kfake.Cluster
	client  *kgo.Client
	admin   *kadm.Client
	reader  *cluster.Reader
	post    *deadletter.Post
	router  *router.Router
	waits   []time.Duration // of the runs
	waiting func()          // meanwhile
	tables
}

// late is how long calls without an answer may take.
const late = time.Hour

// wait notes how long a run waits, and lets it go on.
func (w *world) wait(_ context.Context, d time.Duration) error {
	w.waits = append(w.waits, d)
	if w.waiting != nil {
		w.waiting()
	}
	return nil
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t}
	w.rows = map[string]map[string]any{}
	var err error
	if w.cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic, profile, custom, batch, shared, divided)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.cluster.Close)
	w.client, err = kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.ProducerLinger(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.client.Close)
	w.admin = kadm.NewClient(w.client)
	if w.reader, err = cluster.NewReader(cluster.Connection{Brokers: w.cluster.ListenAddrs()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.reader.Close)
	w.post, err = deadletter.New([]kgo.Opt{kgo.SeedBrokers(w.cluster.ListenAddrs()...)}, topic, "sink", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.post.Close)
	w.router = mappings(t)
	return w
}

// withRecords is a world in which these have been written, and read by both lanes.
func withRecords(t *testing.T, rs ...*kgo.Record) *world {
	t.Helper()
	w := newWorld(t)
	w.produce(rs...)
	w.caughtUp()
	return w
}

// withLetter is the same, and the first of them was refused.
func withLetter(t *testing.T, rs ...*kgo.Record) *world {
	t.Helper()
	w := withRecords(t, rs...)
	w.deadLetter(rs[0], refused)
	return w
}

func mappings(t *testing.T) *router.Router {
	t.Helper()
	both := []router.Route{{When: `segments.tier == "gold"`, Lane: "immediate"}, {Lane: "batch"}}
	imports := router.Imports{
		Upsert: &router.Import{ETL: "1", Mode: "CREATE_OR_UPDATE"}, Patch: &router.Import{ETL: "2", Mode: "UPDATE_ONLY", IgnoresEmpty: true},
		Merge: &router.Import{ETL: "4", Mode: "CREATE_OR_UPDATE", IgnoresEmpty: true}, Delete: &router.Import{ETL: "3", Mode: "DELETE"},
		Columns: []router.Column{{Name: "number"}, {Name: "name"}}, CSV: router.CSV{Separator: ",", Enclosing: `"`, Encoding: "UTF-8", Compression: "GZIP"},
		Roll: router.Roll{Rows: 10, Bytes: 1 << 20, Age: time.Hour}, SlotsPerDay: 12, Timezone: "UTC",
	}
	r, problems := router.Compile([]router.Mapping{
		{Name: profile, Topics: []string{profile}, ProfileTable: profile, Key: "number", Routes: both, Imports: imports},
		{Name: custom, Topics: []string{custom}, CustomTable: custom, Key: "businessKey", Routes: []router.Route{{Lane: "immediate"}}},
		{Name: "left", Topics: []string{shared}, CustomTable: "left", Key: "businessKey", Routes: []router.Route{{Lane: "immediate"}}},
		{Name: "right", Topics: []string{shared}, CustomTable: "right", Key: "businessKey", Routes: []router.Route{{Lane: "immediate"}}},
		{Name: "called", Topics: []string{divided}, When: `properties.file == nil`, CustomTable: "called", Key: "businessKey", Routes: []router.Route{{Lane: "immediate"}}},
		{Name: "filed", Topics: []string{divided}, When: `properties.file != nil`, CustomTable: "filed", Key: "businessKey", Routes: []router.Route{{Lane: "batch"}}, Imports: imports},
		{Name: batch, Topics: []string{batch}, ProfileTable: batch, Key: "number", Routes: []router.Route{{Lane: "batch"}}, Imports: imports},
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return r
}

// produce appends records and returns them with their offsets.
func (w *world) produce(rs ...*kgo.Record) []*kgo.Record {
	w.t.Helper()
	if err := w.client.ProduceSync(w.t.Context(), rs...).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
	return rs
}

func order(key, op, properties string) *kgo.Record {
	return &kgo.Record{Topic: custom, Key: []byte(key), Value: fmt.Appendf(nil, `{"op":%q,"businessKey":%q,"properties":%s}`, op, key, properties)}
}

func customer(key, op, id, attributes string) *kgo.Record {
	return &kgo.Record{Topic: profile, Key: []byte(key), Value: fmt.Appendf(nil,
		`{"op":%q,"key":{"number":%q},"profileId":%q,"attributes":%s,"segments":{"tier":"gold"}}`, op, key, id, attributes)}
}

// deadLetter posts a dead letter for a record that was produced.
func (w *world) deadLetter(rec *kgo.Record, l deadletter.Reason) {
	w.t.Helper()
	posted := make(chan error, 1)
	if l.Mapping == "" && l.Code != "decode" {
		l.Mapping = rec.Topic
	}
	w.post.Send(rec, l, func(err error) { posted <- err })
	if err := <-posted; err != nil {
		w.t.Fatal(err)
	}
}

var refused = deadletter.Reason{Stage: deadletter.Delivering, Code: "rejected", Message: "not today", Lane: "immediate"}

// endedBy is the command that ends the only dead letter.
func (w *world) endedBy(tried bool) (command string) {
	w.t.Helper()
	w.run(func(r *replay.Replay) {
		var err error
		if command, err = r.EndedBy(w.t.Context(), w.letters()[0], tried); err != nil {
			w.t.Fatal(err)
		}
		r.DryRun = true
	})
	return command
}

func (w *world) discard(d replay.Discard) replay.DiscardReport {
	w.t.Helper()
	d.Topic, d.Connector, d.Reader, d.Log = topic, "sink", w.reader, slog.New(slog.DiscardHandler)
	report, err := d.Run(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

// discarded is why each dead letter was, "" for the others.
func (w *world) discarded() (reasons []string) {
	w.t.Helper()
	marks := w.marks()
	for _, l := range w.letters() {
		_, reason := marks.State(l)
		reasons = append(reasons, reason)
	}
	return reasons
}

func (w *world) marks() *replay.Marks {
	w.t.Helper()
	marks, err := replay.LoadMarks(w.t.Context(), w.reader, topic, "sink", slog.New(slog.DiscardHandler))
	if err != nil {
		w.t.Fatal(err)
	}
	return marks
}

// caughtUp has both groups commit everything that the topics hold.
func (w *world) caughtUp() {
	w.t.Helper()
	topics, err := w.admin.ListTopics(w.t.Context(), profile, custom, batch, shared, divided)
	if err != nil {
		w.t.Fatal(err)
	}
	for name, is := range topics {
		if is.Err != nil {
			delete(topics, name)
		}
	}
	spans, err := w.reader.Spans(w.t.Context(), topics.Names()...)
	if err != nil {
		w.t.Fatal(err)
	}
	commits := map[cluster.TopicPartition]cluster.Commit{}
	for p, s := range spans {
		commits[p] = cluster.Commit{Offset: s.To}
	}
	for _, group := range []string{"sink-immediate", "sink-batch"} {
		if err := w.reader.Commit(w.t.Context(), group, commits); err != nil {
			w.t.Fatal(err)
		}
	}
}

// letters reads the dead-letter topic.
func (w *world) letters() (all []*deadletter.Received) {
	w.t.Helper()
	spans, err := w.reader.Spans(w.t.Context(), topic)
	if err != nil {
		w.t.Fatal(err)
	}
	err = w.reader.Between(w.t.Context(), spans, func(rec *deadletter.Record) error {
		l, err := deadletter.Open(rec)
		all = append(all, l)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// replay runs once, as change wants it.
func (w *world) replay(change func(*replay.Replay)) (report replay.Report, err error) {
	w.t.Helper()
	w.with(func(run *replay.Replay) {
		if change != nil {
			change(run)
		}
		report, err = run.Run(w.t.Context())
	})
	return report, err
}

// with lends a replay whose calls are made meanwhile.
func (w *world) with(use func(*replay.Replay)) {
	w.t.Helper()
	lane := calls.New(calls.Config{
		Concurrency: calls.Concurrency{Start: 8, Max: 8}, Breaker: calls.Breaker{Failures: 1000, OpenFor: time.Millisecond},
		Retry: calls.Retry{Initial: time.Millisecond, Max: time.Millisecond, GiveUpAfter: time.Second},
	}, &w.tables, observer{}, rand.New(rand.NewPCG(1, 1)))
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = lane.Run(ctx)
	}()
	defer func() {
		cancel()
		<-ended
	}()
	decoder := schemas.NewJSON()
	run := &replay.Replay{
		Config: replay.Config{Topic: topic, Connector: "sink", MaxAttempts: 3, GiveUp: 10 * time.Second, Round: 100, Late: late},
		Wait:   w.wait, Reader: w.reader, Post: w.post, Service: service{lane, &w.tables}, Router: w.router, Log: slog.New(slog.DiscardHandler),
		Decode: func(r *deadletter.Record) (*router.Record, error) {
			d := &router.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Tombstone: r.Value == nil}
			var err error
			if !d.Tombstone {
				d.Value, err = decoder.Decode(r.Value)
			}
			return d, err
		},
		Rejected: func(err error) deadletter.Reason {
			return deadletter.Reason{Stage: deadletter.Transforming, Code: "value", Message: err.Error()}
		},
		Refused: func(err error) deadletter.Reason {
			return deadletter.Reason{Stage: deadletter.Delivering, Code: "rejected", Message: err.Error()}
		},
	}
	use(run)
}

// run is replay for runs that must end well.
func (w *world) run(change func(*replay.Replay)) replay.Report {
	w.t.Helper()
	report, err := w.replay(change)
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

type observer struct{}

func (observer) Called(calls.Attempt)                                   {}
func (observer) BreakerTurned(schemas.Table, calls.BreakerState, error) {}

func (observer) NotRepeated(string) {}

type service struct {
	*calls.Lane
	tables *tables
}

func (s service) ProfileID(w *schemas.Write) string { return s.tables.id(w) }

func (s service) Unsure(w *schemas.Write) bool {
	s.tables.mu.Lock()
	defer s.tables.mu.Unlock()
	defer delete(s.tables.unsure, w.Key)
	return s.tables.unsure[w.Key]
}

// tables are the service: each row is its values by name, and the calls that
// were made are kept in words.
type tables struct {
	mu     sync.Mutex
	rows   map[string]map[string]any // by key
	calls  []string
	before func(w *schemas.Write) error // of each call; an error is its answer
	lost   bool                         // answers do not arrive
	held   bool                         // nor does the service get to the calls before land
	late   []schemas.Write              // such calls
	made   map[string]int               // how often a key's row was made
	silent bool                         // the service tells no ids
	unsure map[string]bool              // keys with an attempt that came to no answer
}

// land applies the calls that were held.
func (s *tables) land() {
	for i := range s.late {
		s.apply(&s.late[i])
	}
	s.late = nil
}

// Call applies a write, as the service would.
func (s *tables) Call(ctx context.Context, w *schemas.Write, try calls.Try) error {
	if try.Retried {
		s.mu.Lock()
		if s.unsure == nil {
			s.unsure = map[string]bool{}
		}
		s.unsure[w.Key] = true
		s.mu.Unlock()
	}
	if s.held {
		s.mu.Lock()
		kept := *w
		kept.Cells = slices.Clone(w.Cells)
		s.late = append(s.late, kept)
		s.mu.Unlock()
		<-ctx.Done()
		return ctx.Err()
	}
	if s.before != nil {
		if err := s.before(w); err != nil {
			return err
		}
	}
	s.apply(w)
	if s.lost {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (s *tables) apply(w *schemas.Write) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := w.Op.String() + " " + w.Key
	row := s.rows[w.Key]
	if w.Op == schemas.Delete && !w.Table.Custom && w.ProfileID != "" && s.made[w.Key] > 1 && w.ProfileID != s.idOf(w.Key) {
		s.calls = append(s.calls, line+" absent")
		return
	}
	if row == nil {
		if s.made == nil {
			s.made = map[string]int{}
		}
		s.made[w.Key]++
	}
	if row == nil || w.Op == schemas.Upsert && !w.Table.Custom {
		row = map[string]any{}
	}
	for _, c := range w.Cells {
		row[c.Name] = plain(c.Value)
		if c.Section == schemas.Properties || c.Section == schemas.Attributes && c.Name != "number" {
			line += fmt.Sprintf(" %s=%v", c.Name, row[c.Name])
		}
	}
	s.calls = append(s.calls, line)
	if s.rows[w.Key] = row; w.Op == schemas.Delete {
		delete(s.rows, w.Key)
	}
}

func plain(v schemas.Value) (out any) {
	_ = json.Unmarshal(v.AppendJSON(nil), &out)
	return out
}

func (s *tables) id(w *schemas.Write) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows[w.Key] == nil || s.silent {
		return ""
	}
	return s.idOf(w.Key)
}

// idOf is the id of a key's profile; one that was made anew has another.
func (s *tables) idOf(key string) string {
	if s.made[key] > 1 {
		return fmt.Sprintf("id-%s-%d", key, s.made[key])
	}
	return "id-" + key
}

func (s *tables) value(key, name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows[key] == nil {
		return "no row"
	}
	switch v := s.rows[key][name].(type) {
	case nil:
		return "nothing"
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}

// no is what a service answers that will not take a write, or cannot now.
type no struct {
	status    int
	transient bool
}

func (n no) Error() string           { return "answer " + strconv.Itoa(n.status) }
func (n no) Transient() bool         { return n.transient }
func (no) Overload() bool            { return false }
func (no) NoToken() bool             { return false }
func (no) Shared() bool              { return false }
func (no) RetryAfter() time.Duration { return 0 }
func (no) Unknown() bool             { return true }
func (n no) Status() int             { return n.status }

// remove deletes a topic.
func (w *world) remove(topic string) {
	w.t.Helper()
	if _, err := w.admin.DeleteTopic(w.t.Context(), topic); err != nil {
		w.t.Fatal(err)
	}
}

// recreate deletes a topic and creates it again with other records.
func (w *world) recreate(topic string, records ...*kgo.Record) {
	w.t.Helper()
	w.remove(topic)
	if _, err := w.admin.CreateTopic(w.t.Context(), 1, 1, nil, topic); err != nil {
		w.t.Fatal(err)
	}
	w.client.PurgeTopicsFromClient(topic)
	w.produce(records...)
}
