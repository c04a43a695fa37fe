package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
)

const (
	group    = "feedsink-test"
	session  = 2 * time.Second
	patience = 40 * time.Second // after which a condition counts as never met
)

// home is where the imports of customers are counted.
var home = []kafka.SlotPartition{{Topic: "a", Table: "customers", At: []time.Time{time.Now()}}}

// eventually waits until the condition is met; got describes what was seen instead.
func eventually(t *testing.T, what string, met func() (ok bool, got any)) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		ok, got := met()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %v; got %v", what, patience, got)
		}
		select {
		case <-t.Context().Done():
		case <-time.After(5 * time.Millisecond): // the broker is real, and so is its time
		}
	}
}

// broker is an in-process Kafka with a client that writes to chosen partitions.
type broker struct {
	*kfake.Cluster
	t      *testing.T
	client *kgo.Client
	admin  *kadm.Client

	mu     sync.Mutex
	frozen map[string]bool // member ids that the group hears nothing from
}

func newBroker(t *testing.T, partitions int32, topics ...string) *broker {
	t.Helper()
	return newBrokerOf(t, kfake.SeedTopics(partitions, topics...))
}

func newBrokerOf(t *testing.T, opts ...kfake.Opt) *broker {
	t.Helper()
	c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(100*time.Millisecond))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	b := &broker{Cluster: c, t: t, client: client, admin: kadm.NewClient(client), frozen: map[string]bool{}}
	c.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return nil, errors.New("frozen"), b.isFrozen(req)
	})
	return b
}

// freeze keeps the group from hearing from a member, as if it were stopped.
func (b *broker) freeze(member string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.frozen[member] = true
}

func (b *broker) thaw() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.frozen)
}

func (b *broker) isFrozen(req kmsg.Request) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch r := req.(type) {
	case *kmsg.HeartbeatRequest:
		return b.frozen[r.MemberID]
	case *kmsg.JoinGroupRequest:
		return b.frozen[r.MemberID]
	case *kmsg.SyncGroupRequest:
		return b.frozen[r.MemberID]
	case *kmsg.OffsetCommitRequest:
		return b.frozen[r.MemberID]
	case *kmsg.LeaveGroupRequest:
		return len(r.Members) > 0 && b.frozen[r.Members[0].MemberID]
	}
	return false
}

// produce writes n records to a partition.
func (b *broker) produce(topic string, partition int32, n int) {
	b.t.Helper()
	rs := make([]*kgo.Record, n)
	for i := range rs {
		rs[i] = &kgo.Record{Topic: topic, Partition: partition, Key: fmt.Append(nil, i), Value: []byte("{}")}
	}
	if err := b.client.ProduceSync(b.t.Context(), rs...).FirstErr(); err != nil {
		b.t.Fatalf("produce: %v", err)
	}
}

// committed is the group's commit of a partition; offset -1 if there is none.
func (b *broker) committed(topic string, partition int32) kfake.GroupCommit {
	if g := b.GroupInfo(group); g != nil {
		if c, ok := g.Commits[topic][partition]; ok {
			return c
		}
	}
	return kfake.GroupCommit{Offset: -1}
}

// ledger is the offset and ledger that the group has committed.
func (b *broker) ledger(topic string, partition int32) (int64, ack.Ledger) {
	b.t.Helper()
	c := b.committed(topic, partition)
	if c.Metadata == "" {
		b.t.Fatalf("%s[%d]: commit at %d has no ledger", topic, partition, c.Offset)
	}
	l, err := ack.Decode(c.Metadata, c.Offset)
	if err != nil {
		b.t.Fatalf("%s[%d]: commit at %d: %v", topic, partition, c.Offset, err)
	}
	return c.Offset, l
}

func (b *broker) awaitCommit(topic string, partition int32, offset int64) {
	b.t.Helper()
	eventually(b.t, fmt.Sprintf("%s[%d] is committed at %d", topic, partition, offset), func() (bool, any) {
		got := b.committed(topic, partition).Offset
		return got == offset, got
	})
}

func (b *broker) awaitDone(topic string, partition int32, want string) {
	b.t.Helper()
	eventually(b.t, fmt.Sprintf("%s[%d] has done %s in its ledger", topic, partition, want), func() (bool, any) {
		c := b.committed(topic, partition)
		l, err := ack.Decode(c.Metadata, c.Offset)
		return err == nil && fmt.Sprint(l.Done) == want, fmt.Sprint(l.Done, err)
	})
}

func (b *broker) awaitMembers(n int) *kfake.GroupInfo {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	g, err := b.WaitGroupStable(ctx, group, n)
	if err != nil {
		b.t.Fatalf("group of %d members is not stable: %v", n, err)
	}
	return g
}

// owner is the member id to which the group has assigned a partition.
func (b *broker) owner(topic string, partition int32) string {
	g := b.GroupInfo(group)
	for i := range g.Members {
		if slices.Contains(g.Members[i].Assignment[topic], partition) {
			return g.Members[i].MemberID
		}
	}
	return ""
}

// kick throws a member out, as the broker does with one that misses a rebalance.
func (b *broker) kick(member string) {
	b.t.Helper()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = group
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID = member
	req.Members = append(req.Members, m)
	if _, err := req.RequestWith(b.t.Context(), b.client); err != nil {
		b.t.Fatalf("kick: %v", err)
	}
}

// logs collects what a source logs.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) has(words string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.buf.String(), words)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// member is a running source with its lane.
type member struct {
	*kafka.Source
	*lane
	logs *logs
	stop func()     // leaves the group; returns when all has ended
	err  chan error // of Run; the test fails if it does not take one
}

// join starts a source in the group; change adapts its configuration.
func (b *broker) join(l *lane, change ...func(*kafka.Config)) *member {
	b.t.Helper()
	out := &logs{}
	cfg := kafka.Config{
		Connection:     cluster.Connection{Brokers: b.ListenAddrs()},
		Group:          group,
		Subscription:   kafka.Subscription{Topics: b.topics()},
		SessionTimeout: session,
		CommitEvery:    20 * time.Millisecond,
		Log:            slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
	for _, c := range change {
		c(&cfg)
	}
	s, err := kafka.New(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	m := &member{Source: s, lane: l, logs: out, stop: func() { cancel(); running.Wait() }, err: make(chan error, 1)}
	running.Go(func() { m.err <- s.Run(ctx, l) })
	b.t.Cleanup(func() {
		b.thaw()
		m.stop()
		select {
		case err := <-m.err:
			if err != nil {
				b.t.Errorf("run: %v", err)
			}
		default:
		}
		if b.t.Failed() {
			b.t.Logf("log of a member:\n%s", out)
		}
	})
	return m
}

// records has the member put an import's step on record.
func (m *member) records(im ack.Import, homes []kafka.SlotPartition, claims ...*kafka.Claim) {
	m.t.Helper()
	if err := m.RecordImport(m.t.Context(), im, homes, claims); err != nil {
		m.t.Fatalf("record %+v: %v", im, err)
	}
}

func (m *member) confirms(table string, claims ...*kafka.Claim) {
	m.t.Helper()
	if err := m.ConfirmImport(m.t.Context(), table, claims); err != nil {
		m.t.Fatalf("confirm: %v", err)
	}
}

func (m *member) startsOver(im ack.Import, claims ...*kafka.Claim) {
	m.t.Helper()
	if err := m.StartOver(m.t.Context(), im, claims, false); err != nil {
		m.t.Fatalf("start over: %v", err)
	}
}

// assignment is the member's present assignment of a partition.
func (m *member) assignment(topic string, partition int32) *kafka.Partition {
	m.t.Helper()
	for _, p := range m.Partitions() {
		if p.Topic == topic && p.ID == partition {
			return p
		}
	}
	m.t.Fatalf("%s is not assigned to the member", name(topic, partition))
	return nil
}

func (b *broker) topics() []string {
	b.t.Helper()
	topics, err := b.admin.ListTopics(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return topics.Names()
}
