package observe

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/deadletter"
)

func TestDeadLetterThatTheServiceDidNotSeeHasNoStatusInTheLog(t *testing.T) {
	var log bytes.Buffer
	h, to := NewHistory(), slog.New(slog.NewTextHandler(&log, nil))
	h.LogDeadLetter(to, &deadletter.Record{Topic: "shop.orders"}, deadletter.Reason{Mapping: "orders", Code: "value"})
	if strings.Contains(log.String(), "status=") {
		t.Errorf("a value: got %s, want no status", log.String())
	}
	h.LogDeadLetter(to, &deadletter.Record{Topic: "shop.orders"}, deadletter.Reason{Mapping: "orders", Code: "conflict", Status: 409})
	if !strings.Contains(log.String(), "status=409") {
		t.Errorf("a conflict: got %s, want its status", log.String())
	}
}
