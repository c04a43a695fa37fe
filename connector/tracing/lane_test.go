package tracing

import (
	"testing"

	"github.com/feedsink/feedsink/connector/kafka"
)

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
