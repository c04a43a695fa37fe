// Package dev is a whole world in one process: a broker, the service,
// sample events and a model of what the tables must hold in the end. It is what
// `feedsink dev` plays in, and what end-to-end tests and benchmarks build on.
//
// It knows how to run and to compare. Of the sink it knows the status alone: who
// plays starts one with the configuration that is given.
package dev

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/schemas"
)

// The topics, each with this many partitions.
const (
	Customers   = "crm.customers" // profiles, both lanes
	Orders      = "shop.orders"   // table records, immediate lane
	DeadLetters = "feedsink.dlq"
	Partitions  = 6
)

// Group is the consumer group of the configuration, without the lane.
const Group = "feedsink-dev"

//go:embed feedsink.yaml
var configuration string

// Playground is a running broker and service.
type Playground struct {
	Service *sandbox.Sandbox
	Brokers []string
	URL     string // of the service

	dir     string
	cluster *kfake.Cluster // nil: the broker is somebody else's
	server  *sandbox.Server
	client  *kgo.Client
	admin   *kadm.Client
}

// apiKey opens the playground's service and nothing else.
const apiKey = "playground-key"

// Start opens broker and service below dir, which is the caller's to remove.
func Start(ctx context.Context, dir string) (*Playground, error) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(Partitions, Customers, Orders), kfake.SeedTopics(1, DeadLetters))
	if err != nil {
		return nil, fmt.Errorf("embedded broker: %w", err)
	}
	p, err := StartWith(ctx, dir, cluster.ListenAddrs())
	if err != nil {
		cluster.Close()
		return nil, err
	}
	p.cluster = cluster
	return p, nil
}

// StartWith opens the service beside brokers that run elsewhere; topics that
// are missing there are made.
func StartWith(ctx context.Context, dir string, brokers []string) (*Playground, error) {
	p := &Playground{dir: dir, Brokers: brokers}
	err := os.MkdirAll(filepath.Join(dir, "service"), 0o700)
	if err != nil {
		return nil, fmt.Errorf("embedded service: %w", err)
	}
	if p.Service, err = sandbox.New(service(dir)); err != nil {
		return nil, fmt.Errorf("embedded service: %w", err)
	}
	if p.server, err = p.Service.Start("127.0.0.1:0"); err != nil { //nolint:contextcheck // it lives until Close
		return nil, fmt.Errorf("embedded service: %w", err)
	}
	p.URL = p.server.URL()
	p.client, err = kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ProducerLinger(2*time.Millisecond))
	if err != nil {
		return nil, fmt.Errorf("producer: %w", err)
	}
	p.admin = kadm.NewClient(p.client)
	return p, p.makeTopics(ctx)
}

func (p *Playground) makeTopics(ctx context.Context) error {
	for topic, partitions := range map[string]int32{Customers: Partitions, Orders: Partitions, DeadLetters: 1} {
		have, err := p.admin.ListTopics(ctx, topic)
		if err != nil {
			return fmt.Errorf("list topics: %w", err)
		}
		if have.Has(topic) {
			continue
		}
		if _, err := p.admin.CreateTopic(ctx, partitions, 1, nil, topic); err != nil {
			return fmt.Errorf("create topic %s: %w", topic, err)
		}
	}
	return nil
}

// service is the embedded service: one profile table, one custom table.
func service(dir string) sandbox.Config {
	return sandbox.Config{
		Entity:     "acme",
		APIKeys:    []string{apiKey},
		Processing: 2 * time.Second,
		Dir:        filepath.Join(dir, "service"),
		KeepCalls:  1000,
		// A day's imports are few. The playground's day is short.
		SlotsPerDay: 10_000,
		Tables: []sandbox.Table{
			{
				Name: "customers", Keys: []string{"customerNumber"},
				Fields: []sandbox.Field{
					{Name: "customerNumber"},
					{Name: "emailAddress", Format: sandbox.Email},
					{Name: "firstName"},
					{Name: "lastName"},
					{Name: "languages", Multi: true, Format: sandbox.Language},
					{Name: "points", Type: sandbox.Integer},
				},
				Subscriptions: []string{"newsletter"},
				Segments:      []sandbox.Segment{{Name: "vip"}, {Name: "tier", Values: []string{"gold", "silver", "basic"}}},
			},
			{Name: "orders", Custom: true, Fields: []sandbox.Field{{Name: "customer"}, {Name: "orderTotal", Type: sandbox.Number}, {Name: "status"}}},
		},
		ETLs: []sandbox.ETL{
			{ID: "101", Loads: []sandbox.Load{{Table: "customers", Mode: sandbox.CreateOrUpdate, GenerateErrorFiles: true}}},
			{ID: "102", Loads: []sandbox.Load{{Table: "customers", Mode: sandbox.DeleteRows, GenerateErrorFiles: true}}},
		},
	}
}

// Configuration writes the sink's configuration file and returns its path and
// the environment it refers to.
func (p *Playground) Configuration() (path string, env func(string) (string, bool), err error) {
	path = filepath.Join(p.dir, "feedsink.yaml")
	if err := os.WriteFile(path, []byte(configuration), 0o600); err != nil {
		return "", nil, fmt.Errorf("write configuration: %w", err)
	}
	values := map[string]string{
		"BROKERS": strings.Join(p.Brokers, ","), "SERVICE": p.URL, "API_KEY": apiKey, "SPOOL": filepath.Join(p.dir, "spool"),
	}
	return path, func(name string) (string, bool) {
		v, ok := values[name]
		return v, ok
	}, nil
}

// Progress is how far the sink is, as the broker sees it.
type Progress struct {
	Produced  int64 // records in the topics
	Confirmed int64 // of these, below the committed offsets of every lane that reads them
	Dead      int64 // records in the dead-letter topic
}

// Done reports whether every lane has committed everything.
func (p Progress) Done() bool { return p.Confirmed == p.Produced }

// lanes are the groups that read each topic.
var lanes = map[string][]string{
	Customers: {schemas.Immediate.Group(Group), schemas.Batch.Group(Group)},
	Orders:    {schemas.Immediate.Group(Group)},
}

// Progress asks the broker.
func (p *Playground) Progress(ctx context.Context) (pr Progress, err error) {
	ends, err := p.admin.ListEndOffsets(ctx, Customers, Orders, DeadLetters)
	if err != nil {
		return pr, fmt.Errorf("list offsets: %w", err)
	}
	committed := map[string]kadm.OffsetResponses{}
	for _, group := range lanes[Customers] {
		// A group that no member has joined yet does not exist.
		if committed[group], err = p.admin.FetchOffsets(ctx, group); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			return pr, fmt.Errorf("fetch offsets of %s: %w", group, err)
		}
	}
	ends.Each(func(end kadm.ListedOffset) {
		if end.Topic == DeadLetters {
			pr.Dead += end.Offset
			return
		}
		least := end.Offset
		for _, group := range lanes[end.Topic] {
			o, _ := committed[group].Lookup(end.Topic, end.Partition)
			least = min(least, max(o.At, 0))
		}
		pr.Produced += end.Offset
		pr.Confirmed += least
	})
	return pr, nil
}

// Close ends broker and service.
func (p *Playground) Close() {
	p.client.Close()
	_ = p.server.Close()  // nothing is served any more either way
	_ = p.Service.Close() // its folder goes with dir
	if p.cluster != nil {
		p.cluster.Close()
	}
}
