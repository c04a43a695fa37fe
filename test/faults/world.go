package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/testcontainers/testcontainers-go/log"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/test/kafka"
)

const (
	apiKey         = "the-key-of-the-suite"
	entity         = "acme"
	group          = "faults" // the lanes add their names
	immediateGroup = group + "-immediate"
	batchGroup     = group + "-batch"
	deadLetters    = "faults.dlq"
	partitions     = 4
	slotsPerDay    = 10_000                  // unless a fault makes them few
	processing     = 1500 * time.Millisecond // of an import
	patience       = 120 * time.Second       // for catching up
)

//go:embed feedsink.yaml
var configuration []byte

// world is everything around the judge.
type world struct {
	rnd     *rand.Rand
	dir     string
	broker  *kafka.Broker
	service *sandbox.Sandbox
	calls   *calls
	client  *kgo.Client
	admin   *kadm.Client
	diary   *diary
	clock   *dayClock // of the members and of the service
	members []*member
	guest   *member // comes and goes
	load    *load
	cables  map[string]*cable // by member

	absences []absence
	reset    time.Time // when another tool last took offsets back; zero once the judge knows
	seen     findings  // by a fault itself
}

// absence is since when the group has given up a member that ran on, or was to
// run on later.
type absence struct {
	member string
	since  time.Time
}

var memberNames = []string{"m1", "m2", "m3", "guest"}

// open builds the sink and starts everything; the load begins held.
func open(ctx context.Context, o options) (w *world, err error) {
	w = &world{rnd: rand.New(rand.NewPCG(o.seed, 1)), calls: &calls{}, diary: &diary{onRecord: map[string]bool{}}, cables: map[string]*cable{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close(context.WithoutCancel(ctx)))
		}
	}()
	if w.dir, err = os.MkdirTemp("", "feedsink-faults-"); err != nil {
		return w, err
	}
	for _, step := range []func(context.Context, options) error{w.build, w.openBroker, w.openService, w.openMembers} {
		if err := step(ctx, o); err != nil {
			return w, err
		}
	}
	g := newGenerator(o.seed, o.bothLanes)
	w.load = startLoad(ctx, w.client, g.next, o.rate)
	w.load.generator = g
	return w, w.until(ctx, "all members are ready", func() (bool, error) { return w.allReady(ctx), nil })
}

func (w *world) binary() string { return filepath.Join(w.dir, "feedsink") }

func (w *world) build(ctx context.Context, o options) error {
	if o.logs != "" {
		if err := os.MkdirAll(o.logs, 0o755); err != nil {
			return err
		}
	}
	out, err := exec.CommandContext(ctx, "go", "build", "-tags", "movedclock", "-o", w.binary(), "github.com/feedsink/feedsink/cmd/feedsink").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	w.clock = &dayClock{file: filepath.Join(w.dir, "clock")}
	return w.clock.advance(0)
}

func (w *world) openBroker(ctx context.Context, _ options) (err error) {
	log.SetDefault(log.NewNoopLogger()) // a page of container ids otherwise
	var fronts []string
	for _, name := range memberNames {
		var c *cable
		c, err = newCable(ctx, func() string { return w.broker.Behind(c.address()) })
		if err != nil {
			return err
		}
		w.cables[name], fronts = c, append(fronts, c.address())
	}
	if w.broker, err = kafka.Start(ctx, kafka.Options{Fronts: fronts}); err != nil {
		return err
	}
	w.client, err = kgo.NewClient(
		kgo.SeedBrokers(w.broker.Addr()),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.MetadataMinAge(100*time.Millisecond),
	)
	if err != nil {
		return err
	}
	w.admin = kadm.NewClient(w.client)
	topics := map[string]int32{deadLetters: 1, routesLetters: 1}
	for _, t := range routedTopics {
		topics[t] = partitions
	}
	for _, t := range tables {
		topics[t.name] = partitions
	}
	for topic, n := range topics {
		if _, err := w.admin.CreateTopic(ctx, n, 1, nil, topic); err != nil {
			return fmt.Errorf("create topic %s: %w", topic, err)
		}
	}
	return nil
}

func (w *world) openService(context.Context, options) (err error) {
	c := sandbox.Config{
		Entity: entity, APIKeys: []string{apiKey}, Processing: processing, SlotsPerDay: slotsPerDay, Dir: filepath.Join(w.dir, "service"),
		Now: w.clock.now,
	}
	for _, t := range tables {
		st := sandbox.Table{Name: t.name, Custom: t.custom}
		if t.custom {
			st.Fields = []sandbox.Field{{Name: "seq", Type: sandbox.Number}, {Name: "status"}, {Name: "total"}}
		} else {
			st.Keys = []string{"customerNumber"}
			st.Fields = []sandbox.Field{{Name: "customerNumber"}, {Name: "seq", Type: sandbox.Integer}, {Name: "note"}}
			st.Segments = []sandbox.Segment{{Name: "tier", Values: []string{"gold", "basic"}}}
		}
		c.Tables = append(c.Tables, st)
	}
	for id, l := range map[string]sandbox.Load{
		"101": {Table: "customers", Mode: sandbox.CreateOrUpdate}, "102": {Table: "customers", Mode: sandbox.DeleteRows},
		"202": {Table: "prospects", Mode: sandbox.DeleteRows},
		"301": {Table: "partners", Mode: sandbox.CreateOrUpdate}, "302": {Table: "partners", Mode: sandbox.DeleteRows},
		"401": {Table: "baskets", Mode: sandbox.CreateOrUpdate}, "402": {Table: "baskets", Mode: sandbox.DeleteRows},
		"403": {Table: "baskets", Mode: sandbox.UpdateOnly},
		"501": {Table: "invoices", Mode: sandbox.CreateOrUpdate}, "502": {Table: "invoices", Mode: sandbox.CreateOnly},
	} {
		l.GenerateErrorFiles, l.GenerateResultFiles = true, true
		l.IgnoreEmptyValues = l.Mode == sandbox.UpdateOnly
		c.ETLs = append(c.ETLs, sandbox.ETL{ID: id, Loads: []sandbox.Load{l}})
	}
	c.ETLs = append(c.ETLs, sandbox.ETL{ID: "201", Loads: []sandbox.Load{
		{Table: "prospects", Mode: sandbox.CreateOrUpdate, FileNamePattern: "prospects.csv", GenerateErrorFiles: true, GenerateResultFiles: true},
		{Table: "visits", Mode: sandbox.CreateOrUpdate, FileNamePattern: "visits.csv", GenerateErrorFiles: true, GenerateResultFiles: true},
	}})
	routed, etls := routedTablesOf()
	c.Tables, c.ETLs = append(c.Tables, routed...), append(c.ETLs, etls...)
	if err := os.Mkdir(c.Dir, 0o755); err != nil {
		return err
	}
	w.service, err = sandbox.New(c)
	return err
}

func (w *world) openMembers(ctx context.Context, o options) error {
	if err := w.route(conditions[0]); err != nil {
		return err
	}
	for _, name := range memberNames {
		door, err := newDoor(name, w.service, w.calls)
		if err != nil {
			return err
		}
		log, err := newLog(o.logs, name)
		if err != nil {
			return errors.Join(err, door.close())
		}
		m := &member{name: name, binary: w.binary(), config: w.config(), lane: "all", door: door, cable: w.cables[name], diary: w.diary, log: log}
		m.env = []string{
			w.clock.env(), "BROKERS=" + m.cable.address(), "SERVICE=" + door.url, "API_KEY=" + apiKey, "SPOOL=" + filepath.Join(w.dir, name),
		}
		if name == "guest" {
			w.guest = m
			continue
		}
		w.members = append(w.members, m)
		if err := m.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// close ends everything, in whatever state it is.
func (w *world) close(ctx context.Context) (err error) {
	if w.load != nil {
		w.load.end()
	}
	for _, m := range append(slices.Clone(w.members), w.guest) {
		if m != nil {
			m.kill()
			err = errors.Join(err, m.door.close(), m.log.Close())
		}
	}
	for _, c := range w.cables {
		err = errors.Join(err, c.close())
	}
	if w.client != nil {
		w.client.Close()
	}
	if w.service != nil {
		err = errors.Join(err, w.service.Close())
	}
	if w.broker != nil {
		err = errors.Join(err, w.broker.Close(ctx))
	}
	return errors.Join(err, os.RemoveAll(w.dir))
}

func (w *world) anyMember() *member { return w.members[w.rnd.IntN(len(w.members))] }

func (w *world) allReady(ctx context.Context) bool {
	return !slices.ContainsFunc(w.members, func(m *member) bool { return !m.ready(ctx) })
}

// until waits for a condition, looking again at short intervals.
func (w *world) until(ctx context.Context, what string, holds func() (bool, error)) error {
	return w.within(ctx, patience, what, holds)
}

// within is until, for so long.
func (w *world) within(ctx context.Context, long time.Duration, what string, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, long, fmt.Errorf("waited %v in vain until %s", long, what))
	defer cancel()
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for {
		met, err := holds()
		if met {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-look.C:
		}
	}
}
