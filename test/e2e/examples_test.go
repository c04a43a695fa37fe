//go:build !image

package e2e_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr"

	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/connector/samples"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/check"
	"github.com/feedsink/feedsink/schemas"
	"github.com/feedsink/feedsink/test/certs"
)

const examplesDir = "../../deploy/examples"

// Each example does with its sample what it says, by the ETLs that etl create
// makes for it.
func TestEachExampleKeepsItsPromise(t *testing.T) {
	files, err := filepath.Glob(examplesDir + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			s := readSample(t, filepath.Join(examplesDir, "samples", filepath.Base(file)))
			x := newExample(t, file, s)
			x.runs()
			x.holds()
		})
	}
}

// readSample reads what stands in deploy/examples/samples: what the topics of an example
// hold, and what it promises to make of them.
func readSample(t *testing.T, file string) *samples.Samples {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: each example has a sample of the same name, which says what it makes of what", err)
	}
	s, err := samples.Read(text)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return s
}

// example is one of the files with the world that it needs.
type example struct {
	*world
	*samples.Samples
	cfg       *config.Config
	registry  *sr.Client
	authority *certs.Authority // of what the example is secured with
}

// newExample checks the file as a user does, and moves what it names to this
// test's own broker and service.
func newExample(t *testing.T, file string, s *samples.Samples) *example {
	t.Helper()
	secrets := t.TempDir()
	authority := certs.ExampleFiles(t, secrets, apiKey)
	t.Setenv("FEEDSINK_SECRETS", secrets)
	t.Setenv("FEEDSINK_API_KEY", apiKey)
	if out, code := execute(t, "check", "-c", file); code != 0 {
		t.Fatalf("check: got exit code %d: %s", code, out)
	}
	cfg, err := config.Load(file, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	x := &example{Samples: s, cfg: cfg, authority: authority}
	through, asItIs := wayOf(t, &cfg.Kafka, authority)
	x.world = newWorldThrough(t, through, func(c *sandbox.Config) { c.Tables, c.ETLs = s.ServiceTables(), nil })
	if cfg.Kafka.Brokers = x.brokers; !asItIs {
		way := x.config(head + mappings).Kafka
		cfg.Kafka.TLS, cfg.Kafka.SASL = way.TLS, way.SASL
	}
	cfg.Kafka.Group, cfg.Kafka.SessionTimeout = x.prefix+"sink", 10*time.Second
	cfg.Service.BaseURL, cfg.Service.AuthURL = x.url, x.url
	cfg.Spool.Dir, cfg.Admin.Listen, cfg.DLQ.Topic = filepath.Join(x.dir, "spool"), "127.0.0.1:0", x.topic("dlq")
	if !cfg.SchemaRegistry.URL.IsZero() {
		address := schemaRegistry(t)
		x.registry = registryAt(t, address)
		cfg.SchemaRegistry.URL = config.NewAddress(x.registryAddress(address))
	}
	x.secure()
	for i := range cfg.Mappings {
		m := &cfg.Mappings[i]
		for j := range m.Topics {
			m.Topics[j] = x.topic(m.Topics[j])
		}
		if _, _, auto := m.Routes[0].Auto(); auto {
			continue // calls bring its rows long before a file is due
		}
		m.Imports.Roll.Age, m.Imports.SlotsPerDay = 300*time.Millisecond, 1000 // a test cannot wait for hours
	}
	return x
}

// runs creates topics and ETLs, writes the events and runs the sink until it has
// committed them all.
func (x *example) runs() {
	x.t.Helper()
	for topic := range x.topics() {
		if topic == x.topic("customers") || topic == x.topic("orders") {
			continue // every world has them
		}
		x.createTopics(1, strings.TrimPrefix(topic, x.prefix))
	}
	x.createETLs()
	for _, e := range x.Events {
		x.produce(x.record(e))
	}
	sink := x.begin(x.cfg)
	x.until("both lanes have committed everything", func() bool {
		for topic, lanes := range x.topics() {
			for _, lane := range lanes {
				if x.lag(lane, strings.TrimPrefix(topic, x.prefix)) > 0 {
					return false
				}
			}
		}
		return true
	})
	x.guards(sink)
	sink.stop()
}

// topics are those that the mappings read, with the lanes that do.
func (x *example) topics() map[string][]string {
	x.t.Helper()
	r, problems := check.Compile(x.cfg.Mappings)
	if len(problems) > 0 {
		x.t.Fatal(problems)
	}
	lanes := map[string][]string{}
	for _, lane := range schemas.Lanes {
		for _, topic := range r.Topics(lane) {
			lanes[topic] = append(lanes[topic], lane.String())
		}
	}
	return lanes
}

// createETLs has the service make what the mappings' imports name. Imports that
// share an ETL in the file share it here.
func (x *example) createETLs() {
	x.t.Helper()
	client, err := build.NewService(x.cfg.Service)
	if err != nil {
		x.t.Fatal(err)
	}
	defer client.Close()
	made := map[string]string{}
	var loads []*router.Import
	for _, m := range x.cfg.Mappings {
		for op, load := range map[schemas.Op]*router.Import{
			schemas.Upsert: m.Imports.Upsert, schemas.Patch: m.Imports.Patch, schemas.Merge: m.Imports.Merge, schemas.Create: m.Imports.Create, schemas.Delete: m.Imports.Delete,
		} {
			if load == nil {
				continue
			}
			if loads = append(loads, load); made[load.ETL] != "" {
				continue
			}
			etls, err := ops.ETLs(x.cfg, m.Name, op)
			if err != nil {
				x.t.Fatal(err)
			}
			if err := etls[0].Create(x.t.Context(), client); err != nil {
				x.t.Fatal(err)
			}
			made[load.ETL] = etls[0].ID
		}
	}
	for _, load := range loads {
		load.ETL = made[load.ETL]
	}
}

// record is an event in the format of its topic.
func (x *example) record(e samples.Event) *kgo.Record {
	x.t.Helper()
	r := &kgo.Record{Topic: e.Topic, Timestamp: e.At}
	format, keyFormat := x.formats(x.topic(e.Topic))
	if e.Value != nil {
		r.Value = x.written(e.Topic+"-value", format, e.Value)
	}
	if text, is := e.Key.(string); is {
		r.Key = []byte(text)
	} else if e.Key != nil {
		r.Key = x.written(e.Topic+"-key", keyFormat, e.Key)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(e.Headers[name])})
	}
	return r
}

func (x *example) formats(topic string) (value, key string) {
	x.t.Helper()
	for _, m := range x.cfg.Mappings {
		if slices.Contains(m.Topics, topic) {
			return m.Format, m.KafkaKey
		}
	}
	x.t.Fatalf("no mapping reads the topic %s", topic)
	return "", ""
}

func (x *example) written(subject, format string, value any) []byte {
	x.t.Helper()
	text := jsonOf(x.t, value)
	schema := x.Schemas[subject]
	register := func(typ sr.SchemaType) int { return x.registered(x.registry, x.prefix+subject, schema, typ) }
	switch schemas.Format(format) {
	case schemas.FormatAvro:
		return framed(register(sr.TypeAvro), avroOf(x.t, schema, text))
	case schemas.FormatProtobuf:
		return framed(register(sr.TypeProtobuf), protoOf(x.t, schema, text))
	case schemas.FormatJSONSchema:
		return framed(register(sr.TypeJSON), text)
	}
	return text
}

// holds compares the tables, the ways that rows took and the dead letters with
// what the sample promises.
func (x *example) holds() {
	x.t.Helper()
	got := x.ResultOf(x.service)
	for _, letter := range x.dead() {
		said := map[string]string{}
		for _, h := range letter.Headers {
			said[strings.TrimPrefix(h.Key, "__connect.errors.")] = string(h.Value)
		}
		got.DeadLetters = append(got.DeadLetters, strings.TrimPrefix(said["topic"], x.prefix)+": "+said["exception.class.name"])
		x.t.Logf("dead letter: %s", said["exception.message"])
	}
	for _, d := range x.Compare(got) {
		x.t.Error(d)
	}
}
