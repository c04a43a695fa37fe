package main

import (
	"bytes"
	"context"
	_ "embed" // its configuration
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/pprof"
	"text/template"
	"time"

	"github.com/feedsink/feedsink/connector"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/schemas"
)

// newSink is the role of the sink: what `feedsink run` does.
func newSink(s settings) *role {
	sink := must(connector.New(must(config.Load(s.Config, os.LookupEnv)), connector.Options{
		Lanes:       s.Lanes,
		Log:         slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		CommitEvery: 200 * time.Millisecond,
		FirstPoll:   50 * time.Millisecond,
	}))
	if s.Profile == "" {
		return &role{run: sink.Run}
	}
	return &role{run: func(ctx context.Context) error { return profiled(ctx, s.Profile, sink.Run) }}
}

// profiled writes NAME.cpu.pprof of what runs and, at its end, NAME.allocs.pprof: what
// was allocated since the process started.
func profiled(ctx context.Context, name string, run func(context.Context) error) error {
	cpu, allocs := must(os.Create(name+".cpu.pprof")), must(os.Create(name+".allocs.pprof"))
	try(pprof.StartCPUProfile(cpu))
	err := run(ctx)
	pprof.StopCPUProfile()
	return errors.Join(err, pprof.Lookup("allocs").WriteTo(allocs, 0), allocs.Close(), cpu.Close())
}

// sinkConfig is what differs between the sink's configurations.
type sinkConfig struct {
	Topic          string
	Start, Highest int            // calls in flight
	Visits         schemas.Format // of the events; empty: canonical ones
	Rows           int            // of a file of the batch lane; 0: the immediate lane
	Whole          bool           // the last rows go, too
	Soak           bool           // both lanes
	Bulk           string         // topic beside it; empty: none
	Auto           bool           // its route is auto

	Broker, Registry, Service, Group, Dir string // which the bench fills in
	Receipts, ReceiptsKey                 string // topic and file; empty: none
}

//go:embed sink.yaml
var configuration string

var sinkTemplate = template.Must(template.New("sink.yaml").Parse(configuration))

// configure writes the configuration of the next sink, in a group of its own.
func (b *bench) configure(c sinkConfig) (path string) {
	b.sinks++
	c.Broker, c.Registry, c.Group, c.Dir = b.broker, b.registry.URL(), b.name(), filepath.Join(b.dir, b.name())
	if b.receipts {
		c.Receipts, c.ReceiptsKey = receiptsTopic, filepath.Join(b.dir, "receipts.key")
	}
	var text bytes.Buffer
	try(sinkTemplate.Execute(&text, c))
	try(os.WriteFile(c.Dir+".yaml", text.Bytes(), 0o600))
	return c.Dir + ".yaml"
}

// name is the last sink's: of its group, configuration and spool.
func (b *bench) name() string { return fmt.Sprintf("sink-%d", b.sinks) }

// group is the last sink's group of a lane.
func (b *bench) group(lane schemas.Lane) string { return b.name() + "-" + lane.String() }

// sink is a sink with the service that it brings a topic to.
type sink struct {
	*child
	service *service
	done    counter // of its first lane
}

// sink starts a sink of a service with these lanes.
func (b *bench) sink(ctx context.Context, service *service, c sinkConfig, lanes ...schemas.Lane) sink {
	c.Service = service.address
	s := settings{Config: b.configure(c), Lanes: lanes}
	if b.profile != "" {
		s.Profile = filepath.Join(b.profile, fmt.Sprintf("%s.%d", c.Topic, b.sinks))
	}
	return sink{b.start(ctx, "sink", s), service, b.committed(b.group(lanes[0]), c.Topic)}
}
