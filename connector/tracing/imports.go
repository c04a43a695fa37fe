package tracing

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/router"
)

// Imports are the spans of imports, from their intent to their result. A nil one does
// nothing.
type Imports struct {
	tracer   *Tracer
	mappings []*router.Compiled

	mu      sync.Mutex
	waiting map[string][]row    // by mapping: traced rows that are in no file known yet
	running map[string]*running // by mapping
}

// NewImports makes the spans of imports into the tables of mappings; nil without a tracer.
func NewImports(tracer *Tracer, mappings []*router.Compiled) *Imports {
	if tracer == nil {
		return nil
	}
	return &Imports{tracer: tracer, mappings: mappings, waiting: map[string][]row{}, running: map[string]*running{}}
}

// row is where a traced record is whose row waits.
type row struct {
	partition *kafka.Partition
	offset    int64
	span      trace.SpanContext
}

// running is the import of a mapping.
type running struct {
	file  string
	rows  []trace.SpanContext
	span  *Import
	trace string // of the span, also when that has ended; "": none
}

// maxWaiting bounds the traced rows that are remembered for a mapping: the first
// ones of a file stand for all.
const maxWaiting = 256

// Appended notes that a record has a row in the mapping's open file.
func (s *Imports) Appended(mapping string, p *kafka.Partition, offset int64, of *Record) {
	if s == nil || of == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if rows := s.waiting[mapping]; len(rows) < maxWaiting {
		s.waiting[mapping] = append(rows, row{p, offset, of.Link()})
	}
}

// Intended begins the span of an import that is about to be sent, if a record of
// its file is traced. A further file of the same rows is about the same records.
func (s *Imports) Intended(imp contract.Import, claims []*kafka.Claim) {
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
	if r.trace = ""; r.span != nil {
		r.trace = idOf(r.span.span)
	}
}

// TraceOf is the id of the trace that tells of an import; "" if it is not sampled.
func (s *Imports) TraceOf(imp contract.Import) string {
	if s == nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.running[imp.Mapping]; r != nil && r.file == imp.File {
		return r.trace
	}
	return ""
}

func (r *running) end(status string) {
	if r != nil {
		r.span.End(status, false)
		r.span = nil
	}
}

// Close ends what is on its way for the next owner to follow.
func (s *Imports) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.running {
		r.end("left to the next owner")
	}
}

// take is the traced rows that the claims hold; those of assignments that have
// ended are forgotten.
func (s *Imports) take(mapping string, claims []*kafka.Claim) (taken []trace.SpanContext) {
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

// Trigger begins the span of the request that sends a file.
func (s *Imports) Trigger(ctx context.Context, file string) (context.Context, *Call) {
	if s == nil {
		return ctx, nil
	}
	s.mu.Lock()
	var of *Import
	for _, r := range s.running {
		if r.file == file {
			of = r.span
		}
	}
	s.mu.Unlock()
	return s.tracer.Below(of.Context(ctx), "trigger import")
}

// Ended ends the span of an import with its result. The service's reason is
// left out: it may quote rows.
func (s *Imports) Ended(imp contract.Import, r contract.Results) {
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
		run.span.End(string(r.Status), r.Status == contract.Finished, what...)
		run.span = nil
	}
}
