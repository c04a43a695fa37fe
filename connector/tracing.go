package connector

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/tracing"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

func (p *process) openTracing(cfg config.Tracing) (err error) {
	p.tracer, err = tracing.New(context.Background(), tracing.Config{
		Endpoint: cfg.Endpoint, SampleRatio: cfg.SampleRatio, Version: p.opts.Version, Log: p.log,
	})
	if p.tracer != nil {
		p.closers.add("tracing", p.tracer.Close)
	}
	return err
}

func (s *pipeline) openImportSpans() error {
	if s.tracer != nil {
		s.imports = &importSpans{tracer: s.tracer, mappings: s.router.Mappings(), waiting: map[string][]row{}, running: map[string]*running{}}
		s.closers.add("spans of imports", s.imports.close)
	}
	return nil
}

// lineage is what a lane tells its traces; nothing if tracing is off.
type lineage struct {
	tracer  *tracing.Tracer
	imports *importSpans
	group   string
}

func (s *pipeline) lineage(which schemas.Lane) lineage {
	return lineage{tracer: s.tracer, imports: s.imports, group: s.group(which)}
}

// record begins the span of a record that is this lane's.
func (l lineage) record(begun time.Time, r *kafka.Record) *tracing.Record {
	if l.tracer == nil {
		return nil
	}
	return l.tracer.Record(begun, tracing.Place{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Group: l.group}, headers{r})
}

// headers carry a trace through Kafka. Of two with one name the last one counts.
type headers struct{ record *kafka.Record }

// Get is the header's value.
func (h headers) Get(name string) (value string) {
	for _, header := range h.record.Headers {
		if header.Key == name {
			value = string(header.Value)
		}
	}
	return value
}

// Set does nothing: a record that was read is not written.
func (headers) Set(string, string) {}

// Keys are the headers' names.
func (h headers) Keys() (names []string) {
	for _, header := range h.record.Headers {
		names = append(names, header.Key)
	}
	return names
}

// caller makes the calls of a lane; spend is told of each beyond the first of an attempt.
func (s *pipeline) caller(spend func()) calls.Caller {
	made := laneCalls{writes.Operations{Client: s.client, Spend: spend, Held: s.service.Held}}
	if s.tracer == nil {
		return made
	}
	return tracedCalls{made, s.tracer, s.router.Mappings()}
}

// tracedCalls is calls with a span for each.
type tracedCalls struct {
	laneCalls
	tracer   *tracing.Tracer
	mappings []*router.Compiled
}

// Call makes one attempt for the writes of these records.
func (c tracedCalls) Call(ctx context.Context, w *schemas.Write, retried bool, of []calls.Origin) error {
	var records []*tracing.Record
	for _, o := range of {
		if p, ok := o.(*part); ok && p.trace != nil {
			records = append(records, p.trace)
		}
	}
	if len(records) == 0 {
		return c.laneCalls.Call(ctx, w, retried, of)
	}
	table := router.LabelOf(c.mappings, w.Table)
	ctx, call := c.tracer.Call(ctx, w.Op.String()+" "+table, records,
		attribute.String("feedsink.table", table), attribute.String("feedsink.op", w.Op.String()),
		attribute.Int("feedsink.writes", len(of)), attribute.Bool("feedsink.retried", retried))
	err := c.laneCalls.Call(ctx, w, retried, of)
	call.End(err, statusOf(err))
	return err
}

// statusOf is the status of the answer that an error tells of; 0 without one.
func statusOf(err error) int {
	answered, ok := errors.AsType[interface {
		error
		Status() int
	}](err)
	if !ok {
		return 0
	}
	return answered.Status()
}

// importSpans tell of imports from their intent to their result. A nil one does
// nothing.
type importSpans struct {
	tracer   *tracing.Tracer
	mappings []*router.Compiled

	mu      sync.Mutex
	waiting map[string][]row    // by mapping: traced rows that are in no file known yet
	running map[string]*running // by mapping
}

// row is where a traced record is whose row waits.
type row struct {
	partition *kafka.Partition
	offset    int64
	span      trace.SpanContext
}

// running is the import of a mapping.
type running struct {
	file string
	rows []trace.SpanContext
	span *tracing.Import
}

// maxWaiting bounds the traced rows that are remembered for a mapping: the first
// ones of a file stand for all.
const maxWaiting = 256

// appended notes that a record has a row in the mapping's open file.
func (l lineage) appended(mapping string, p *kafka.Partition, offset int64, of *tracing.Record) {
	s := l.imports
	if s == nil || of == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if rows := s.waiting[mapping]; len(rows) < maxWaiting {
		s.waiting[mapping] = append(rows, row{p, offset, of.Link()})
	}
}

// intended begins the span of an import that is about to be sent, if a record of
// its file is traced. A further file of the same rows is about the same records.
func (l lineage) intended(imp batcher.Import, claims []*kafka.Claim) {
	s := l.imports
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.running[imp.Mapping]
	if r != nil && r.file == imp.File && r.span != nil {
		return // the commit is tried again
	}
	if r == nil || r.file != imp.File && imp.Part <= 1 {
		r = &running{}
		for _, load := range imp.Loads() {
			r.rows = append(r.rows, s.take(load.Mapping, claims)...)
		}
		s.running[imp.Mapping].end("abandoned")
		s.running[imp.Mapping] = r
	}
	r.file = imp.File
	table := router.LabelOf(s.mappings, imp.Table)
	r.span = s.tracer.Import("import "+table, r.rows,
		attribute.String("feedsink.mapping", imp.Mapping), attribute.String("feedsink.table", table),
		attribute.String("feedsink.import.mode", imp.Mode), attribute.String("feedsink.import.file", imp.File),
		attribute.Int64("feedsink.import.rows", imp.Rows), attribute.Int("feedsink.import.attempt", imp.Attempt))
}

func (r *running) end(status string) {
	if r != nil {
		r.span.End(status, false)
		r.span = nil
	}
}

// close ends what is on its way for the next owner to follow.
func (s *importSpans) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.running {
		r.end("left to the next owner")
	}
}

// take is the traced rows that the claims hold; those of assignments that have
// ended are forgotten.
func (s *importSpans) take(mapping string, claims []*kafka.Claim) (taken []trace.SpanContext) {
	kept := s.waiting[mapping][:0]
	for _, w := range s.waiting[mapping] {
		held := false
		for _, c := range claims {
			held = held || c.Holds(w.partition, w.offset)
		}
		switch {
		case held:
			taken = append(taken, w.span)
		case w.partition.Live():
			kept = append(kept, w)
		}
	}
	s.waiting[mapping] = kept
	return taken
}

// trigger begins the span of the request that sends a file.
func (l lineage) trigger(ctx context.Context, file string) (context.Context, *tracing.Call) {
	s := l.imports
	if s == nil {
		return ctx, nil
	}
	s.mu.Lock()
	var of *tracing.Import
	for _, r := range s.running {
		if r.file == file {
			of = r.span
		}
	}
	s.mu.Unlock()
	return l.tracer.Below(of.Context(ctx), "trigger import")
}

// ended ends the span of an import with its result. The service's reason is
// left out: it may quote rows.
func (s *importSpans) ended(imp batcher.Import, r batcher.Results) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if run := s.running[imp.Mapping]; run != nil && run.file == imp.File {
		what := []attribute.KeyValue{attribute.String("feedsink.import.execution", imp.Execution)}
		if r.InError >= 0 {
			what = append(what, attribute.Int64("feedsink.import.rows.in_error", r.InError))
		}
		run.span.End(string(r.Status), r.Status == batcher.Finished, what...)
		run.span = nil
	}
}
