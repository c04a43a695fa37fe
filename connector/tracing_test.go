package connector

import (
	"testing"

	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/tracing"
)

func TestTracingThatIsOffCostsNoAllocation(t *testing.T) {
	l, r := &laneBase{}, &kafka.Record{Topic: "crm", Offset: 7}
	got := testing.AllocsPerRun(100, func() {
		begun := l.tracing.Begin()
		trace := l.tracing.Record(begun, r)
		l.spans.Appended("customers", nil, r.Offset, trace)
		trace.End("in a file")
	})
	if got != 0 {
		t.Errorf("allocations per record: got %v, want 0", got)
	}
}

func TestTransportThatIsNotTracedIsItself(t *testing.T) {
	var off *tracing.Tracer
	if got := off.Transport(nil); got != nil {
		t.Errorf("got %v, want the transport as it came", got)
	}
}
