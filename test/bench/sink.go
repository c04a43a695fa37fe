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
	Config  string       `json:"config"` // path
	Lane    schemas.Lane `json:"lane"`
	Profile string       `json:"profile"` // beginning of the profiles' paths, "" for none
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
		Lanes:       []schemas.Lane{s.Lane},
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
	return w.serve(ctx, "", nil, sink.Run)
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

// configuration writes the sink's file for one run and returns its path.
func (f *field) configuration(l *line, topic, group, service string) (string, error) {
	inFlight, routed := 1, immediateMapping
	if l.calling != nil {
		inFlight = l.calling.inFlight
	} else {
		routed = fmt.Sprintf(batchMapping, l.batch.rows)
		if l.batch.format == schemas.FormatAvro {
			routed = "    format: avro\n" + visitFieldsText() + routed
		}
	}
	text := fmt.Sprintf(configurationText, f.broker.address, group, service, entity, inFlight,
		filepath.Join(f.dir, group), topic, table, routed, f.schemas.URL())
	path := filepath.Join(f.dir, group+".yaml")
	return path, os.WriteFile(path, []byte(text), 0o600)
}

const configurationText = `
kafka: {brokers: [%q], group: %s}
service:
  baseURL: %[3]s
  authURL: %[3]s
  entity: %[4]s
  apiKey: bench
  concurrency: {start: %[5]d, max: %[5]d}
spool: {dir: %[6]q}
schemaRegistry: {url: %[10]q}
admin: {listen: "127.0.0.1:0"}
mappings:
  - name: customers
    topics: [%[7]s]
    profileTable: %[8]s
    key: customerNumber
%[9]s`

const immediateMapping = `
    routes: [{lane: immediate}]
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
