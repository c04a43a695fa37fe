package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/bufbuild/protocompile"
	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/decode"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/samples"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/connector/words"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/check"
	"github.com/feedsink/feedsink/schemas"
)

// Tested is what a configuration made of sample events.
type Tested struct {
	Events      int                  `json:"events"`
	Differences []samples.Difference `json:"differences"`
	Got         samples.Result       `json:"got"`
	DeadLetters []TestedDeadLetter   `json:"deadLetters"` // in the order of the events
}

// Text is what came about, for a terminal; update says that the file expects it now.
func (t *Tested) Text(file string, update bool) string {
	rows := 0
	for _, table := range t.Got.Rows {
		rows += len(table)
	}
	summary := fmt.Sprintf("%s became %s and %s", words.Counted(t.Events, "event"), words.Counted(rows, "row"), words.Counted(len(t.DeadLetters), "dead letter"))
	if len(t.Differences) == 0 {
		return fmt.Sprintf("%s: %s, as expected", file, summary)
	}
	var text words.Lines
	for _, d := range t.Differences {
		text.Add("%s", d)
	}
	for i, l := range t.DeadLetters {
		if i == 0 {
			text.Add("")
		}
		mapping := ""
		if l.Mapping != "" {
			mapping = l.Mapping + ", "
		}
		text.Add("dead letter of event %d (%s): %s%s: %s", l.Event, l.Topic, mapping, l.Reason, words.OneLine(l.Message))
	}
	after := "not as expected"
	if update {
		after = "which the file expects now"
	}
	text.Add("\n%s: %s, %s", file, summary, after)
	return text.Text()
}

// TestedDeadLetter is an event, or what one mapping made of it, that became a dead letter.
type TestedDeadLetter struct {
	Event   int    `json:"event"` // counted from 1
	Topic   string `json:"topic"`
	Mapping string `json:"mapping,omitempty"` // "": it cannot be decoded
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// SampleError says that the samples do not fit the configuration.
type SampleError struct{ error }

func (e *SampleError) Unwrap() error { return e.error }

func sampleErrorf(format string, args ...any) error { return &SampleError{fmt.Errorf(format, args...)} }

// Test sends sample events to the service in process, as the sink would send them to the
// real one, and compares what it holds then. Each write is sent alone and in the order of
// the events, a row of a file in a file of its own: the table ends as if it had been merged
// with others. It needs no broker and reads no secrets. An error is a *SampleError
// where the samples are to blame.
func Test(ctx context.Context, cfg *config.Config, s *samples.Samples) (result Tested, err error) {
	r, err := first(check.CompileUnfinished(cfg.Mappings))
	if err != nil {
		return result, err
	}
	if err := fits(r, s); err != nil {
		return result, err
	}
	const key = "test"
	played, err := sandbox.New(sandbox.Config{Entity: cfg.Service.Entity, APIKeys: []string{key}, Tables: s.ServiceTables(), KeepCalls: 1})
	if err != nil {
		return result, sampleErrorf("tables: %w", err)
	}
	defer func() { err = errors.Join(err, played.Close()) }()
	server, err := played.Start("127.0.0.1:0") //nolint:contextcheck // it is closed below
	if err != nil {
		return result, err
	}
	client, err := service.New(service.Config{
		BaseURL: server.URL(), AuthURL: server.URL(), Entity: cfg.Service.Entity, Timeout: cfg.Service.Timeout,
		APIKey: func() (service.Secret, error) { return service.NewSecret(key), nil },
	})
	if err != nil {
		return result, err
	}
	defer client.Close()
	t := &test{router: r, samples: s, sandbox: played, calls: writes.Operations{Client: client}}
	own := *cfg
	defer t.openRegistry(&own)()
	if err := t.run(ctx, &own); err != nil {
		return result, err
	}
	t.result.Events, t.result.Got = len(s.Events), s.ResultOf(played)
	for _, l := range t.result.DeadLetters {
		t.result.Got.DeadLetters = append(t.result.Got.DeadLetters, l.Topic+": "+l.Reason)
	}
	slices.Sort(t.result.Got.DeadLetters)
	t.result.Differences = append([]samples.Difference{}, s.Compare(t.result.Got)...)
	return t.result, nil
}

// fits refuses samples whose events no mapping reads, or whose tables are not those that
// the mappings write.
func fits(r *router.Router, s *samples.Samples) error {
	var errs []error
	for _, e := range s.Events {
		read := false
		for _, m := range r.Mappings() {
			if !slices.Contains(m.Config.Topics, e.Topic) {
				continue
			}
			read = true
			if table, known := s.Tables[m.Table.Name]; !known || table.Custom != m.Table.Custom {
				kind := map[bool]string{true: "custom", false: "profile"}[m.Table.Custom]
				errs = append(errs, fmt.Errorf("tables: define the %s table %s, which mapping %s writes", kind, m.Table.Name, m.Name))
			}
		}
		if !read {
			errs = append(errs, fmt.Errorf("events: no mapping reads the topic %q", e.Topic))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	errs = slices.CompactFunc(errs, func(a, b error) bool { return a.Error() == b.Error() })
	if len(errs) == 0 {
		return nil
	}
	return &SampleError{errors.Join(errs...)}
}

// test is one run.
type test struct {
	router   *router.Router
	samples  *samples.Samples
	sandbox  *sandbox.Sandbox
	calls    writes.Operations
	registry *srfake.Registry // nil: the configuration names none
	result   Tested
}

// openRegistry puts a registry in process in place of the configuration's.
func (t *test) openRegistry(cfg *config.Config) (end func()) {
	if cfg.SchemaRegistry.URL.IsZero() {
		return func() {}
	}
	t.registry = srfake.New()
	cfg.SchemaRegistry = config.SchemaRegistry{URL: config.NewAddress(t.registry.URL()), Validate: cfg.SchemaRegistry.Validate}
	return t.registry.Close
}

func (t *test) run(ctx context.Context, cfg *config.Config) error {
	t.result.DeadLetters = []TestedDeadLetter{}
	read, stop, err := decode.NewDecoder(ctx, cfg, t.router, rand.New(rand.NewPCG(1, 1)), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer stop()
	offsets := map[string]int64{}
	for i, e := range t.samples.Events {
		record, err := t.record(ctx, e)
		if err != nil {
			return sampleErrorf("event %d: %w", i+1, err)
		}
		record.Offset = offsets[e.Topic]
		offsets[e.Topic]++
		decoded, err := read(record)
		if errors.Is(err, schemas.ErrSchemaUnavailable) {
			return err
		}
		if err != nil {
			t.deadLetter(i, "", "decode", err.Error())
			continue
		}
		for _, routed := range router.WithoutSkipped(t.router.Route(nil, decoded)) {
			code, message, err := t.send(ctx, &routed)
			if err != nil {
				return fmt.Errorf("event %d: mapping %s: %w", i+1, routed.Mapping.Name, err)
			}
			if code != "" {
				t.deadLetter(i, routed.Mapping.Name, code, message)
			}
		}
	}
	return nil
}

func (t *test) deadLetter(event int, mapping, code, message string) {
	t.result.DeadLetters = append(t.result.DeadLetters, TestedDeadLetter{event + 1, t.samples.Events[event].Topic, mapping, code, message})
}

// send brings a write to its end. A code says that it became a dead letter.
func (t *test) send(ctx context.Context, routed *router.Routed) (code, message string, err error) {
	w := &routed.Write
	if routed.Err != nil {
		why := writes.RejectReason(routed.Err)
		return why.Code, why.Message, nil //nolint:nilerr // the dead letter says it
	}
	if routed.Lane == schemas.Batch {
		rows, err := build.BatchMapping(routed.Mapping).Rows()
		if err != nil {
			return "", "", err
		}
		if _, spare, auto := routed.Mapping.Auto(routed.Route); !auto || !spare || !routed.Mapping.Callable(w) || !rows.Callable(w) {
			return t.load(ctx, routed.Mapping, rows, w)
		}
		if w.Table.Custom { // as in a sink: a profile's call says all of the record
			said := rows.Stated(w)
			w = &said
		}
	}
	err = t.calls.Call(ctx, w, writes.Create{})
	failed, ok := errors.AsType[*service.Error](err)
	switch {
	case err == nil, ok && failed.Kind() == service.NotFound && w.Op == schemas.Delete:
		return "", "", nil
	case ctx.Err() != nil, ok && failed.Transient():
		return "", "", err
	}
	why := writes.RefusalReason(err)
	return why.Code, why.Message, nil
}

// load imports a row as a file.
func (t *test) load(ctx context.Context, m *router.Compiled, rows *spool.Rows, w *schemas.Write) (code, message string, err error) {
	preview := spool.NewPreview(rows)
	if err := preview.Add(w); err != nil {
		return router.CodeValue, err.Error(), nil //nolint:nilerr // likewise
	}
	file := strings.Join(preview.Files(1)[0].Lines, "\n") + "\n"
	definition := service.OneShotETL{Load: fileLoad(m, w.Op, m.FileColumns(w.Op))}
	execution, err := t.calls.Client.OneShot(ctx, definition, service.File{
		Name: m.Name + ".csv",
		Open: func() (io.ReadCloser, int64, error) {
			return io.NopCloser(strings.NewReader(file)), int64(len(file)), nil
		},
	}, nil)
	if err != nil {
		return "", "", fmt.Errorf("import: %w", withServiceReason(err))
	}
	if err := t.sandbox.Finish(execution.ID); err != nil {
		return "", "", err
	}
	ended, err := t.sandbox.Execution(execution.ID)
	switch {
	case err != nil:
		return "", "", err
	case ended.Status != sandbox.Finished:
		return "", "", fmt.Errorf("the import ended %s, which halts the mapping: %s", ended.Status, ended.Error)
	case ended.Results.InError > 0:
		return writes.CodeImportRow, "the import refused the row: " + t.rowError(ctx, execution.ID), nil
	}
	return "", "", nil
}

// rowError is what the service says of the only row of an import.
func (t *test) rowError(ctx context.Context, execution string) string {
	var file strings.Builder
	if _, err := t.calls.Client.OutputFiles(ctx, execution, &file); err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(file.String()), "\n")
	return lines[len(lines)-1]
}

// withServiceReason adds the service's own words: here they are about samples.
func withServiceReason(err error) error {
	if e, ok := errors.AsType[*service.Error](err); ok && e.Reason() != "" {
		return fmt.Errorf("%w: %s", err, e.Reason())
	}
	return err
}

// record is an event as it is on its topic.
func (t *test) record(ctx context.Context, e samples.Event) (*kafka.Record, error) {
	r := &kafka.Record{Topic: e.Topic, Timestamp: e.At}
	if r.Timestamp.IsZero() {
		r.Timestamp = time.Now()
	}
	var m router.Mapping
	for _, c := range t.router.Mappings() {
		if slices.Contains(c.Config.Topics, e.Topic) {
			m = c.Config
		}
	}
	var err error
	if e.Value != nil {
		if r.Value, err = t.written(ctx, e.Topic+"-value", m.ValueFormat(), e.Value); err != nil {
			return nil, fmt.Errorf("value: %w", err)
		}
	}
	if text, is := e.Key.(string); is {
		r.Key = []byte(text)
	} else if e.Key != nil {
		if r.Key, err = t.written(ctx, e.Topic+"-key", m.KeyFormat(), e.Key); err != nil {
			return nil, fmt.Errorf("key: %w", err)
		}
	}
	r.Headers = slices.Grow(r.Headers, len(e.Headers))[:len(e.Headers)]
	for i, name := range slices.Sorted(maps.Keys(e.Headers)) {
		r.Headers[i].Key, r.Headers[i].Value = name, []byte(e.Headers[name])
	}
	return r, nil
}

// written is a value in its format, with a schema behind its id.
func (t *test) written(ctx context.Context, subject, format string, value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	kind := sr.TypeJSON
	encode := func(context.Context, string, []byte) ([]byte, error) { return text, nil }
	switch schemas.Format(format) {
	case schemas.FormatAvro:
		kind, encode = sr.TypeAvro, avroOf
	case schemas.FormatProtobuf:
		kind, encode = sr.TypeProtobuf, protobufOf
	case schemas.FormatJSONSchema:
	default:
		return text, nil
	}
	schema, known := t.samples.Schemas[subject]
	if !known {
		return nil, fmt.Errorf("schemas: write the schema of the subject %s", subject)
	}
	id, _, err := t.registry.RegisterSchema(subject, sr.Schema{Schema: schema, Type: kind})
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", subject, err)
	}
	payload, err := encode(ctx, schema, text)
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", subject, err)
	}
	return append([]byte{0, byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)}, payload...), nil
}

// avroOf writes JSON in Avro. Texts stand for decimals, dates and timestamps.
func avroOf(_ context.Context, schema string, text []byte) ([]byte, error) {
	parsed, err := avro.Parse(schema)
	if err != nil {
		return nil, err
	}
	var value any
	numbers := json.NewDecoder(strings.NewReader(string(text)))
	numbers.UseNumber()
	if err := numbers.Decode(&value); err != nil {
		return nil, err
	}
	return parsed.Encode(value)
}

// protobufOf writes JSON as the first message of a schema.
func protobufOf(ctx context.Context, schema string, text []byte) ([]byte, error) {
	const name = "sample.proto"
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(map[string]string{name: schema}),
	})}
	files, err := compiler.Compile(ctx, name)
	if err != nil {
		return nil, err
	}
	if files[0].Messages().Len() == 0 {
		return nil, errors.New("it has no message")
	}
	m := dynamicpb.NewMessage(files[0].Messages().Get(0))
	if err := protojson.Unmarshal(text, m); err != nil {
		return nil, err
	}
	data, err := proto.Marshal(m)
	return append([]byte{0}, data...), err // the index of the file's first message
}
