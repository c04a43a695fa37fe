package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"

	"github.com/feedsink/feedsink/connector"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/schemas"
)

// What the sink's configuration and the floor agree on.
const (
	entity = "acme"
	table  = "customers"
)

// sinkSettings are the role's.
type sinkSettings struct {
	Config  string         `json:"config"`  // path
	Lanes   []schemas.Lane `json:"lanes"`   // none: both
	Profile string         `json:"profile"` // beginning of the profiles' paths, "" for none
}

// playSink is the role of the sink: what `feedsink run` does.
func playSink(ctx context.Context, w *wire) (err error) {
	var s sinkSettings
	if err := w.settings(&s); err != nil {
		return err
	}
	cfg, err := config.Load(s.Config, os.LookupEnv)
	if err != nil {
		return err
	}
	sink, err := connector.New(cfg, connector.Options{
		Lanes:       s.Lanes,
		Log:         slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		CommitEvery: 200 * time.Millisecond,
		FirstPoll:   50 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	if s.Profile != "" {
		stop, err := startProfile(s.Profile)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	return w.serve(ctx, answer{}, nil, sink.Run)
}

// startProfile writes NAME.cpu.pprof and, at the end, NAME.allocs.pprof: what was
// allocated since the start.
func startProfile(name string) (stop func() error, err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		return nil, err
	}
	cpu, err := os.Create(name + ".cpu.pprof")
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, errors.Join(err, cpu.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		allocs, err := os.Create(name + ".allocs.pprof")
		if err != nil {
			return errors.Join(err, cpu.Close())
		}
		return errors.Join(pprof.Lookup("allocs").WriteTo(allocs, 0), allocs.Close(), cpu.Close())
	}, nil
}

// sinkFile is what differs between the sink's configurations.
type sinkFile struct {
	topic    string
	service  string // address
	registry string // address, "" for none
	start    int    // calls in flight
	highest  int
	mapping  string // lines of the mapping
}

// startSink starts a sink in a group of its own.
func (f *field) startSink(ctx context.Context, s sinkFile, lanes ...schemas.Lane) (c *child, group string, err error) {
	f.runs++
	group = fmt.Sprintf("sink-%d", f.runs)
	settings := sinkSettings{Lanes: lanes, Config: filepath.Join(f.dir, group+".yaml")}
	text := fmt.Sprintf(configurationText, f.broker.address, group, s.service, entity, s.start, s.highest,
		filepath.Join(f.dir, group), s.topic, table, s.mapping, s.registry)
	if err := os.WriteFile(settings.Config, []byte(text), 0o600); err != nil {
		return nil, "", err
	}
	if f.profile != "" {
		settings.Profile = filepath.Join(f.profile, fmt.Sprintf("%s.%d", s.topic, f.runs))
	}
	c, err = start(ctx, "sink", settings)
	return c, group, err
}

const configurationText = `
kafka: {brokers: [%q], group: %s}
service:
  baseURL: %[3]s
  authURL: %[3]s
  entity: %[4]s
  apiKey: bench
  concurrency: {start: %[5]d, max: %[6]d}
schemaRegistry: {url: %[11]q}
spool: {dir: %[7]q}
admin: {listen: "127.0.0.1:0"}
mappings:
  - name: customers
    topics: [%[8]s]
    profileTable: %[9]s
    key: customerNumber
%[10]s`

const immediateMapping = `
    routes: [{lane: immediate}]
`

// soakMapping sends every second event each way, so that keys use both lanes, and
// makes a file a minute.
const soakMapping = `
    routes: [{when: 'attributes.points % 2 == 0', lane: immediate}, {lane: batch}]
    imports:
      upsert: {etl: "101", mode: CREATE_OR_UPDATE}
      columns: [customerNumber, firstName, lastName, points]
      roll: {rows: 100000, age: 60s}
      slotsPerDay: 1000000
`

const batchMapping = `
    routes: [{lane: batch}]
    imports:
      upsert: {etl: "101", mode: CREATE_OR_UPDATE}
      columns: [customerNumber, emailAddress, firstName, lastName, languages, points, lastVisit,
        "subscriptions#newsletter", S_vip, S_tier]
      roll: {rows: %d}
      slotsPerDay: 1000000
`
