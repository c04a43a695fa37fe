package deadletter_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/deadletter"
)

const (
	topic     = "feedsink.dlq"
	connector = "feedsink"
	patience  = time.Minute
)

func newCluster(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func newClient(t *testing.T, c *kfake.Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...), kgo.MetadataMinAge(50 * time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// makeTopic creates the dead-letter topic with one configuration.
func makeTopic(t *testing.T, c *kfake.Cluster, key, value string) {
	t.Helper()
	if _, err := kadm.NewClient(newClient(t, c)).CreateTopic(t.Context(), 1, 1, map[string]*string{key: &value}, topic); err != nil {
		t.Fatal(err)
	}
}

// logs collects what a post logs.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logs) await(t *testing.T, words string) {
	t.Helper()
	for deadline := time.Now().Add(patience); !strings.Contains(l.String(), words); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("log: not %q after %v; got %s", words, patience, l)
		}
	}
}

func newPost(t *testing.T, c *kfake.Cluster) (*deadletter.Post, *logs) {
	t.Helper()
	out := &logs{}
	p, err := deadletter.New([]kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}, topic, connector, slog.New(slog.NewTextHandler(out, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p, out
}

// outcome is what done was called with.
type outcome chan error

func send(p *deadletter.Post, r *deadletter.Record, l deadletter.Reason) outcome {
	end := make(outcome, 10)
	p.Send(r, l, func(err error) { end <- err })
	return end
}

func (o outcome) await(t *testing.T) error {
	t.Helper()
	select {
	case err := <-o:
		return err
	case <-time.After(patience):
		t.Fatalf("the letter has no end after %v", patience)
		return nil
	}
}

// read returns the first n dead letters of the topic.
func read(t *testing.T, c *kfake.Cluster, n int) []*kgo.Record {
	t.Helper()
	client := newClient(t, c, kgo.ConsumeTopics(topic))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var rs []*kgo.Record
	for len(rs) < n {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("letters in the topic: got %d, want %d", len(rs), n)
		}
		rs = append(rs, fetches.Records()...)
	}
	return rs
}
