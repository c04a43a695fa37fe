//go:build kafka

package kafka_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/test/kafka"
)

func TestBrokerKeepsDataAndAddressOverStopAndKill(t *testing.T) {
	b := kafka.ForTest(t, kafka.Options{})
	createTopic(t, b, "letters")
	produce(t, b, "letters", "a:1\nb:2\nc:3\n")
	want := []string{"a:1", "b:2", "c:3"}
	expect(t, b, "letters", want)

	for _, down := range []struct {
		name string
		how  func(context.Context) error
	}{{"stop", b.Stop}, {"kill", b.Kill}} {
		if err := down.how(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := ping(t, b, time.Second); err == nil {
			t.Errorf("after %s the broker still answers", down.name)
		}
		if err := b.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		expect(t, b, "letters", want)
	}
	produce(t, b, "letters", "d:4\n")
	expect(t, b, "letters", append(want, "d:4"))
}

// One broker for what does not stop it: starting one takes five seconds.
func TestRunningBroker(t *testing.T) {
	const front = "127.0.0.1:7001"
	b := kafka.ForTest(t, kafka.Options{Config: map[string]string{"offset.metadata.max.bytes": "8"}, Fronts: []string{front}})
	createTopic(t, b, "letters")
	produce(t, b, "letters", "a:1\nb:2\nc:3\n")
	admin := kadm.NewClient(connect(t, b))

	t.Run("obeys Config", func(t *testing.T) {
		for metadata, want := range map[string]bool{"12345678": true, "123456789": false} {
			err := commit(t, admin, "writers", metadata)
			if got := err == nil; got != want {
				t.Errorf("commit with %d bytes of metadata: accepted = %t (%v), want %t", len(metadata), got, err, want)
			}
		}
	})

	t.Run("sends clients of a front back to it", func(t *testing.T) {
		for seed, want := range map[string]string{b.Behind(front): front, b.Addr(): b.Addr()} {
			client, err := kgo.NewClient(kgo.SeedBrokers(seed))
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			brokers, err := kadm.NewClient(client).ListBrokers(t.Context())
			if err != nil || len(brokers) != 1 {
				t.Fatalf("brokers known at %s: got %v, %v, want one", seed, brokers, err)
			}
			if got := net.JoinHostPort(brokers[0].Host, strconv.Itoa(int(brokers[0].Port))); got != want {
				t.Errorf("the broker met at %s: advertises %s, want %s", seed, got, want)
			}
		}
	})

	t.Run("shows a commit to Kafka's own tool", func(t *testing.T) {
		if err := commit(t, admin, "readers", ""); err != nil {
			t.Fatal(err)
		}
		got, err := b.Exec(t.Context(), nil, "kafka-consumer-groups.sh",
			"--bootstrap-server", b.Addr(), "--describe", "--group", "readers")
		if err != nil {
			t.Fatal(err)
		}
		// GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG …
		want := []string{"readers", "letters", "0", "2", "3", "1"}
		for line := range strings.Lines(got) {
			if fields := strings.Fields(line); len(fields) >= len(want) && slices.Equal(fields[:len(want)], want) {
				return
			}
		}
		t.Errorf("kafka-consumer-groups.sh printed\n%s\nwant a line %q", got, want)
	})

	t.Run("reports what a failing tool said", func(t *testing.T) {
		_, err := b.Exec(t.Context(), nil, "kafka-topics.sh", "--bootstrap-server", b.Addr(), "--describe", "--topic", "nothing")
		if err == nil || !strings.Contains(err.Error(), "'nothing' does not exist") {
			t.Errorf("describing a missing topic: error %v, want the tool's own words", err)
		}
	})

	t.Run("leaves a tool that does not end at the deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := b.Exec(ctx, nil, "kafka-console-consumer.sh", "--bootstrap-server", b.Addr(), "--topic", "letters")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the deadline's", err)
		}
	})

	t.Run("is silent while paused and answers after Resume", func(t *testing.T) {
		if err := b.Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := ping(t, b, time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a paused broker answered %v, want silence until the deadline", err)
		}
		if err := b.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := ping(t, b, 20*time.Second); err != nil {
			t.Errorf("a resumed broker does not answer: %v", err)
		}
	})
}

func TestStartSaysWhyABrokerDied(t *testing.T) {
	_, err := kafka.Start(t.Context(), kafka.Options{Config: map[string]string{"log.retention.ms": "soon"}})
	if err == nil || !strings.Contains(err.Error(), "soon") {
		t.Errorf("start with an impossible property: error %v, want the broker's own words", err)
	}
}

// createTopic makes a topic of one partition with Kafka's own tool.
func createTopic(t *testing.T, b *kafka.Broker, topic string) {
	t.Helper()
	_, err := b.Exec(t.Context(), nil, "kafka-topics.sh",
		"--bootstrap-server", b.Addr(), "--create", "--topic", topic, "--partitions", "1")
	if err != nil {
		t.Fatal(err)
	}
}

// produce sends lines of key:value with Kafka's own console producer.
func produce(t *testing.T, b *kafka.Broker, topic, lines string) {
	t.Helper()
	_, err := b.Exec(t.Context(), strings.NewReader(lines), "kafka-console-producer.sh",
		"--bootstrap-server", b.Addr(), "--topic", topic,
		"--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
	if err != nil {
		t.Fatal(err)
	}
}

// commit moves the group to offset 2 of the topic letters.
func commit(t *testing.T, admin *kadm.Client, group, metadata string) error {
	t.Helper()
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: "letters", At: 2, LeaderEpoch: -1, Metadata: metadata})
	return admin.CommitAllOffsets(t.Context(), group, offsets)
}

// expect reads the topic from its start until it has len(want) records.
func expect(t *testing.T, b *kafka.Broker, topic string, want []string) {
	t.Helper()
	reader := connect(t, b, kgo.ConsumeTopics(topic), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var got []string
	for len(got) < len(want) {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read %s: %v; got %q so far, want %q", topic, err, got, want)
		}
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Key)+":"+string(r.Value)) })
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s holds %q, want %q", topic, got, want)
	}
}

// ping asks a fresh connection for an answer.
func ping(t *testing.T, b *kafka.Broker, timeout time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	return connect(t, b).Ping(ctx)
}

func connect(t *testing.T, b *kafka.Broker, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	kafka, err := kgo.NewClient(append(options, kgo.SeedBrokers(b.Addr()), kgo.MetadataMinAge(50*time.Millisecond))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	return kafka
}
