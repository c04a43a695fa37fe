package tracing

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// maxLinks bounds the records that a span of many tells of.
const maxLinks = 128

// Record is the span of one record. A nil one is not sampled.
type Record struct{ span trace.Span }

// End ends the record's span with what became of it, a word of ours.
func (r *Record) End(outcome string) {
	if r == nil {
		return
	}
	r.span.SetAttributes(attribute.String("feedsink.outcome", outcome))
	if outcome == "dead_letter" {
		r.span.SetStatus(codes.Error, outcome)
	}
	r.span.End()
}

// Link names the record's span for others; not valid if it is not sampled.
func (r *Record) Link() trace.SpanContext {
	if r == nil {
		return trace.SpanContext{}
	}
	return r.span.SpanContext()
}

// ID is that of the record's trace; "" if it is not sampled.
func (r *Record) ID() string {
	if r == nil {
		return ""
	}
	return idOf(r.span)
}

func idOf(span trace.Span) string {
	if of := span.SpanContext(); of.IsSampled() {
		return of.TraceID().String()
	}
	return ""
}

// Call is the span of one attempt of a call. A nil one is not sampled.
type Call struct{ span trace.Span }

// Call begins a call's span below that of the first record it is made for, with
// links to the others. The context carries it to Transport. Without a sampled
// record there is none, and the context is returned as it came.
func (t *Tracer) Call(ctx context.Context, name string, records []*Record, what ...attribute.KeyValue) (context.Context, *Call) {
	if t == nil || len(records) == 0 {
		return ctx, nil
	}
	var others []trace.Link
	for _, r := range records[1:min(len(records), maxLinks+1)] {
		others = append(others, trace.Link{SpanContext: r.Link()})
	}
	ctx, span := t.tracer.Start(trace.ContextWithSpan(ctx, records[0].span), name,
		trace.WithSpanKind(trace.SpanKindClient), trace.WithLinks(others...), trace.WithAttributes(what...))
	return ctx, &Call{span}
}

// Below begins a call's span below that of the import that ctx carries.
func (t *Tracer) Below(ctx context.Context, name string) (context.Context, *Call) {
	if t == nil || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, nil
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient))
	return ctx, &Call{span}
}

// End ends the call's span. The error's words may be shown anywhere. status is
// that of the answer, 0 if there is none to tell.
func (c *Call) End(err error, status int) {
	if c == nil {
		return
	}
	if status != 0 {
		c.span.SetAttributes(attribute.Int("http.response.status_code", status))
	}
	if err != nil {
		c.span.SetStatus(codes.Error, err.Error())
	}
	c.span.End()
}

// Import is the span of an import, from its intent to its result. A nil one is
// not traced.
type Import struct{ span trace.Span }

// Import begins an import's span, a trace of its own that links to records of
// which rows are in its file. Without any it is not traced.
func (t *Tracer) Import(name string, of []trace.SpanContext, what ...attribute.KeyValue) *Import {
	if t == nil || len(of) == 0 {
		return nil
	}
	links := make([]trace.Link, 0, min(len(of), maxLinks))
	for _, sc := range of[:cap(links)] {
		links = append(links, trace.Link{SpanContext: sc})
	}
	_, span := t.tracer.Start(context.Background(), name, trace.WithLinks(links...), trace.WithAttributes(what...))
	if !span.IsRecording() {
		return nil
	}
	return &Import{span}
}

// Context carries the import's span to what is done for it.
func (i *Import) Context(ctx context.Context) context.Context {
	if i == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, i.span)
}

// End ends the import's span with its status, a word of the service or ours.
func (i *Import) End(status string, fine bool, what ...attribute.KeyValue) {
	if i == nil {
		return
	}
	i.span.SetAttributes(attribute.String("feedsink.import.status", status))
	i.span.SetAttributes(what...)
	if !fine {
		i.span.SetStatus(codes.Error, status)
	}
	i.span.End()
}

// Transport passes the trace on in the headers of requests whose context carries
// a span. Off, it is next itself.
func (t *Tracer) Transport(next http.RoundTripper) http.RoundTripper {
	if t == nil {
		return next
	}
	return &transport{next}
}

type transport struct{ http.RoundTripper }

// RoundTrip adds the headers to a copy: the request's own are shared.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if ctx := r.Context(); trace.SpanContextFromContext(ctx).IsValid() {
		r = r.Clone(ctx)
		w3c.Inject(ctx, propagation.HeaderCarrier(r.Header))
	}
	return t.RoundTripper.RoundTrip(r)
}

// CloseIdleConnections passes the wish on.
func (t *transport) CloseIdleConnections() {
	if idle, ok := t.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		idle.CloseIdleConnections()
	}
}
