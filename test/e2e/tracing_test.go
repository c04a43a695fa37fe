//go:build !image

package e2e_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// receiver is a collector that keeps what it is sent.
type receiver struct {
	mu    sync.Mutex
	spans []*spans.Span
	from  map[string]string // attributes of the resource
}

func newReceiver(t *testing.T) (*receiver, string) {
	r := &receiver{from: map[string]string{}}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	return r, server.URL
}

func (c *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil && r.Header.Get("Content-Encoding") == "gzip" {
		var unzipped *gzip.Reader
		if unzipped, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, err = io.ReadAll(unzipped)
		}
	}
	var request collector.ExportTraceServiceRequest
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &request) != nil {
		http.Error(w, "no spans", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range request.GetResourceSpans() {
		for _, a := range of.GetResource().GetAttributes() {
			c.from[a.GetKey()] = a.GetValue().GetStringValue()
		}
		for _, scope := range of.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
}

// named are the spans of a name, in the order of their beginning.
func (c *receiver) named(name string) (found []*spans.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.GetName() == name {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b *spans.Span) int { return int(a.GetStartTimeUnixNano()) - int(b.GetStartTimeUnixNano()) })
	return found
}

func attribute(s *spans.Span, name string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == name {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

// listenIn stands between the sink and the service and counts the calls that belong
// to a trace.
func (w *world) listenIn() (calls func(trace string) int) {
	w.t.Helper()
	var mu sync.Mutex
	var heard []string
	w.between(func(service http.Handler) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			mu.Lock()
			heard = append(heard, r.Header.Get("traceparent"))
			mu.Unlock()
			service.ServeHTTP(rw, r)
		}
	})
	return func(trace string) (n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, parent := range heard {
			if strings.Contains(parent, trace) {
				n++
			}
		}
		return n
	}
}

// openMetrics are the metrics as Prometheus asks for them.
func openMetrics(t *testing.T, address string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const producerTrace, producerSpan = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"

// traced is a record whose producer sampled it.
func traced(r *kgo.Record) *kgo.Record {
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: "traceparent", Value: []byte("00-" + producerTrace + "-" + producerSpan + "-01")})
	return r
}

func TestTraceLeadsFromTheProducerToTheCallAndTheImport(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	to, address := newReceiver(t)
	passedOn := w.listenIn()
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4, Key: "secret-key"}, Count: 1, Answer: sandbox.Status(503)})
	sink := w.start(head + deadLetters + mappings + "tracing: {endpoint: \"" + address + "\", sampleRatio: 0}\n")
	w.produce(traced(order("secret-key", "PAID", 1)), order("o2", "PAID", 2), traced(customer("C1", "basic", 1)), customer("C2", "basic", 2))
	w.settled()
	var metrics string
	w.until("all deliveries are counted, which is behind their commits", func() bool {
		metrics = openMetrics(t, sink.AdminAddress())
		return strings.Contains(metrics, `feedsink_delivery_seconds_count{lane="batch",mapping="customers"} 2`)
	})
	sink.stop()

	orders := to.named("process " + w.topic("orders"))
	if len(orders) != 1 || fmt.Sprintf("%x %x", orders[0].GetTraceId(), orders[0].GetParentSpanId()) != producerTrace+" "+producerSpan ||
		attribute(orders[0], "feedsink.outcome") != "confirmed" {
		t.Fatalf("spans of orders: got %v, want one, confirmed, below the producer's: the other record is not sampled", orders)
	}
	for _, below := range []struct {
		name string
		n    int
	}{{"decode and route", 2}, {"upsert orders", 2}} {
		found := to.named(below.name)
		if len(found) != below.n || below.name == "upsert orders" && !bytes.Equal(found[0].GetParentSpanId(), orders[0].GetSpanId()) {
			t.Errorf("%s: got %v, want %d", below.name, found, below.n)
		}
	}
	tries := to.named("upsert orders")
	if len(tries) == 2 && (tries[0].GetStatus().GetCode() != spans.Status_STATUS_CODE_ERROR || tries[1].GetStatus().GetCode() == spans.Status_STATUS_CODE_ERROR) {
		t.Errorf("the tries: got %v and %v, want an error and then none", tries[0].GetStatus(), tries[1].GetStatus())
	}
	customers, imports := to.named("process "+w.topic("customers")), to.named("import customers")
	if len(customers) != 1 || len(imports) != 1 || len(imports[0].GetLinks()) != 1 ||
		!bytes.Equal(imports[0].GetLinks()[0].GetSpanId(), customers[0].GetSpanId()) || attribute(imports[0], "feedsink.import.status") != "FINISHED" {
		t.Errorf("imports: got %v, want one, FINISHED, that links to the one sampled record of %v", imports, customers)
	}
	if triggers := to.named("trigger import"); len(triggers) != 1 || len(imports) == 1 && !bytes.Equal(triggers[0].GetParentSpanId(), imports[0].GetSpanId()) {
		t.Errorf("triggers: got %v, want one below the import", triggers)
	}
	if got := passedOn(producerTrace); got != 2 {
		t.Errorf("calls that carry on the producer's trace: got %d, want the 2 tries of the order", got)
	}
	if len(imports) == 1 {
		for lane, trace := range map[string]string{"immediate": producerTrace, "batch": fmt.Sprintf("%x", imports[0].GetTraceId())} {
			exemplar := regexp.MustCompile(`feedsink_delivery_seconds_bucket{lane="` + lane + `",mapping="[a-z]+",le="[^"]+"} [0-9.]+ # {trace_id="` + trace + `"}`)
			if !exemplar.MatchString(metrics) {
				t.Errorf("exemplars of the %s lane: got none with trace %s in\n%s", lane, trace, metrics)
			}
		}
	}
	if to.from["service.name"] != "feedsink" || to.from["service.version"] != "test" {
		t.Errorf("resource: got %v", to.from)
	}
	to.mu.Lock()
	defer to.mu.Unlock()
	for _, s := range to.spans {
		if strings.Contains(s.String(), "secret-key") || strings.Contains(s.String(), "PAID") {
			t.Errorf("a span tells customers' data: %v", s)
		}
	}
}

func TestTracingStaysOffUnlessSomebodyNamesACollector(t *testing.T) {
	w := newWorld(t, nil)
	to, address := newReceiver(t)
	sink := w.start(head + deadLetters + mappings)
	w.produce(traced(order("o1", "PAID", 1)))
	w.settled()
	sink.stop()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
	sink = w.start(head + deadLetters + mappings)
	w.produce(traced(order("o2", "PAID", 2)))
	w.settled()
	sink.stop()
	if got := to.named("process " + w.topic("orders")); len(got) != 1 {
		t.Errorf("spans of orders: got %v, want one, of the time when the environment named a collector", got)
	}
}
