package tracing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Config says where spans go. What it leaves out, the environment variables that
// OpenTelemetry names may say: endpoint, headers, certificates, resource
// attributes, limits, batching, and with OTEL_TRACES_SAMPLER the sampling.
type Config struct {
	Endpoint    string  // the collector's address for OTLP over HTTP; without a path, /v1/traces is asked
	SampleRatio float64 // of records that begin a trace; 0 to 1
	Version     string  // of this program
	Log         *slog.Logger
}

// Tracer makes spans and sends them. Its methods may be called from any goroutine.
type Tracer struct {
	tracer   trace.Tracer
	provider *sdktrace.TracerProvider
}

// New opens tracing, or returns nil if neither the configuration nor the
// environment names a collector. Nothing is sent yet; a collector that is away
// later costs spans, never records.
func New(ctx context.Context, cfg Config) (*Tracer, error) {
	if !wanted(cfg.Endpoint) {
		return nil, nil //nolint:nilnil // a nil Tracer is the one that does nothing
	}
	var to []otlptracehttp.Option
	if cfg.Endpoint != "" {
		address, err := url.Parse(cfg.Endpoint)
		if err != nil {
			return nil, fmt.Errorf("tracing.endpoint: %w", err)
		}
		if strings.Trim(address.Path, "/") == "" {
			address = address.JoinPath("v1", "traces")
		}
		to = append(to, otlptracehttp.WithEndpointURL(address.String()))
	}
	exporter, err := otlptracehttp.New(ctx, to...)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	what, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "feedsink"), attribute.String("service.version", cfg.Version)),
		resource.WithTelemetrySDK(),
		resource.WithFromEnv()) // the last one counts
	if err != nil {
		return nil, fmt.Errorf("tracing: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	opts := []sdktrace.TracerProviderOption{sdktrace.WithBatcher(exporter), sdktrace.WithResource(what)}
	if os.Getenv("OTEL_TRACES_SAMPLER") == "" {
		opts = append(opts, sdktrace.WithSampler(linked{sdktrace.ParentBased(sdktrace.TraceIDRatioBased(cfg.SampleRatio))}))
	}
	// The library speaks through the process' own two outlets only.
	otel.SetLogger(logr.FromSlogHandler(cfg.Log.Handler()))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		cfg.Log.Warn("spans are lost on their way to the collector; records are not affected", "error", err)
	}))
	provider := sdktrace.NewTracerProvider(opts...)
	return &Tracer{tracer: provider.Tracer("github.com/feedsink/feedsink"), provider: provider}, nil
}

// linked samples what links to something sampled: an import is a trace of its own,
// and it is worth one if a record in it is.
type linked struct{ sdktrace.Sampler }

// ShouldSample decides about one span.
func (s linked) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	for _, l := range p.Links {
		if l.SpanContext.IsSampled() {
			return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample, Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
		}
	}
	return s.Sampler.ShouldSample(p)
}

// wanted reports whether a collector is named, and none of the variables has switched
// tracing off.
func wanted(endpoint string) bool {
	endpoint = cmp.Or(endpoint, os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	return endpoint != "" && !strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") && os.Getenv("OTEL_TRACES_EXPORTER") != "none"
}

// closeFor bounds how long the end of the process waits for the collector.
const closeFor = 3 * time.Second

// Close sends what is left, as far as the collector takes it in a few seconds.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeFor)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		otel.Handle(err)
	}
}

// Begin is when something began of which Record may tell later; zero if nothing will.
func (t *Tracer) Begin() time.Time {
	if t == nil {
		return time.Time{}
	}
	return time.Now()
}

// Place is where a record is in Kafka, and who reads it.
type Place struct {
	Topic     string
	Partition int32
	Offset    int64
	Group     string
}

// w3c reads and writes traceparent and tracestate. Baggage is not passed on: what
// is in it is not ours to pass on.
var w3c = propagation.TraceContext{}

// Record begins the span of a record whose headers are carried by from; nil if
// the record is not sampled.
func (t *Tracer) Record(begun time.Time, at Place, from propagation.TextMapCarrier) *Record {
	if t == nil {
		return nil
	}
	ctx, span := t.tracer.Start(w3c.Extract(context.Background(), from), "process "+at.Topic,
		trace.WithTimestamp(begun), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
			attribute.String("messaging.system", "kafka"),
			attribute.String("messaging.operation.type", "process"),
			attribute.String("messaging.destination.name", at.Topic),
			attribute.Int("messaging.destination.partition.id", int(at.Partition)),
			attribute.Int64("messaging.kafka.offset", at.Offset),
			attribute.String("messaging.consumer.group.name", at.Group),
		))
	if !span.IsRecording() {
		return nil
	}
	_, decoding := t.tracer.Start(ctx, "decode and route", trace.WithTimestamp(begun))
	decoding.End()
	return &Record{span: span}
}

// StatusOf is the status of the answer that an error tells of; 0 without one.
func StatusOf(err error) int {
	answered, ok := errors.AsType[interface {
		error
		Status() int
	}](err)
	if !ok {
		return 0
	}
	return answered.Status()
}
