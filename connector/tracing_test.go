package connector

import (
	"testing"

	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/tracing"
)

func TestTracingThatIsOffCostsNoAllocation(t *testing.T) {
	l, r := &laneBase{}, &kafka.Record{Topic: "crm", Offset: 7}
	got := testing.AllocsPerRun(100, func() {
		begun := l.tracing.tracer.Begin()
		trace := l.tracing.record(begun, r)
		l.tracing.appended("customers", nil, r.Offset, trace)
		trace.End("in a file")
	})
	if got != 0 {
		t.Errorf("allocations per record: got %v, want 0", got)
	}
}

func TestHeadersCarryTheLastOfAName(t *testing.T) {
	r := &kafka.Record{}
	for _, value := range []string{"first", "last"} {
		r.Headers = append(r.Headers, struct {
			Key   string
			Value []byte
		}{"traceparent", []byte(value)})
	}
	if got := (headers{r}).Get("traceparent"); got != "last" {
		t.Errorf("got %q, want the last one", got)
	}
	if got := (headers{r}).Get("tracestate"); got != "" {
		t.Errorf("a header that is not there: got %q", got)
	}
}

func TestTransportThatIsNotTracedIsItself(t *testing.T) {
	var off *tracing.Tracer
	if got := off.Transport(nil); got != nil {
		t.Errorf("got %v, want the transport as it came", got)
	}
}
