package tracing

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

func TestTracingIsOnOnlyIfACollectorIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		endpoint string
		env      map[string]string
		want     bool
	}{
		"nobody names one":        {"", nil, false},
		"the configuration":       {"http://127.0.0.1:1", nil, true},
		"the environment":         {"", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, true},
		"the traces' own":         {"", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1/t"}, true},
		"switched off":            {"http://127.0.0.1:1", map[string]string{"OTEL_SDK_DISABLED": "true"}, false},
		"another way for metrics": {"http://127.0.0.1:1", map[string]string{"OTEL_TRACES_EXPORTER": "none"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			tracer, err := New(t.Context(), Config{Endpoint: c.endpoint, Log: slog.New(slog.DiscardHandler)})
			if err != nil || (tracer != nil) != c.want {
				t.Errorf("got %v, %v, want one: %v", tracer, err, c.want)
			}
			tracer.Close()
		})
	}
}

func TestNothingIsTracedWhenItIsOff(t *testing.T) {
	var off *Tracer
	record := off.Record(off.Begin(), Place{Topic: "crm"}, propagation.MapCarrier{})
	record.End("confirmed")
	ctx, call := off.Call(t.Context(), "upsert", []*Record{record})
	call.End(nil, 200)
	imp := off.Import("import", nil)
	imp.End("FINISHED", true)
	if record != nil || call != nil || imp != nil || ctx != t.Context() || imp.Context(ctx) != ctx {
		t.Errorf("got %v, %v and %v, want nothing", record, call, imp)
	}
}

// remembering is a tracer whose spans a test can look at.
func remembering(t *testing.T, ratio float64) (*Tracer, *tracetest.InMemoryExporter) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans),
		sdktrace.WithSampler(linked{sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio))}))
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	return &Tracer{tracer: provider.Tracer("test"), provider: provider}, spans
}

func TestProducersDecisionCounts(t *testing.T) {
	tracer, _ := remembering(t, 0)
	const id = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-"
	for parent, want := range map[string]bool{
		id + "01": true, id + "00": false, "": false, "nonsense": false, id: false,
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": false,
	} {
		if got := tracer.Record(time.Now(), Place{}, propagation.MapCarrier{"traceparent": parent}) != nil; got != want {
			t.Errorf("%q: sampled: got %v, want %v", parent, got, want)
		}
	}
}

func TestImportIsTracedForTheSakeOfItsRecords(t *testing.T) {
	tracer, spans := remembering(t, 0)
	if imp := tracer.Import("import", nil); imp != nil {
		t.Error("without a record: got a span")
	}
	of := make([]trace.SpanContext, 2*maxLinks)
	for i := range of {
		of[i] = trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{byte(i), 1}, TraceFlags: trace.FlagsSampled})
	}
	tracer.Import("import", of).End("FAILED", false)
	got := spans.GetSpans()
	if len(got) != 1 || len(got[0].Links) != maxLinks || got[0].Parent.IsValid() || got[0].SpanContext.TraceID() == of[0].TraceID() {
		t.Errorf("got %+v, want one, a trace of its own with %d links", got, maxLinks)
	}
}

// heard is a transport that remembers what it was asked.
type heard struct{ requests []*http.Request }

func (h *heard) RoundTrip(r *http.Request) (*http.Response, error) {
	h.requests = append(h.requests, r)
	return &http.Response{Body: http.NoBody}, nil
}

func TestTransportLeavesSharedHeadersAlone(t *testing.T) {
	tracer, _ := remembering(t, 1)
	next := &heard{}
	transport := tracer.Transport(next)
	shared := http.Header{"Authorization": {"Bearer x"}}
	record := tracer.Record(time.Now(), Place{}, propagation.MapCarrier{})
	traced, call := tracer.Call(t.Context(), "upsert", []*Record{record})
	defer call.End(nil, 200)
	for _, ctx := range []context.Context{t.Context(), traced} {
		r := (&http.Request{Method: http.MethodGet, Header: shared}).WithContext(ctx)
		resp, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	if got := next.requests[0].Header.Get("Traceparent"); got != "" {
		t.Errorf("a call that is not traced: got traceparent %q", got)
	}
	if got := next.requests[1].Header.Get("Traceparent"); got == "" || len(shared) != 1 {
		t.Errorf("a traced call: got traceparent %q and shared headers %v, want one and none", got, shared)
	}
}
