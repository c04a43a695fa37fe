package connector

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/observe"
)

func TestDeadLetterThatTheServiceDidNotSeeHasNoStatusInTheLog(t *testing.T) {
	var log bytes.Buffer
	l := &laneBase{recent: observe.NewHistory(), log: slog.New(slog.NewTextHandler(&log, nil))}
	l.noteDeadLetter(&deadletter.Record{Topic: "shop.orders"}, deadletter.Reason{Mapping: "orders", Code: "value"})
	if strings.Contains(log.String(), "status=") {
		t.Errorf("a value: got %s, want no status", log.String())
	}
	l.noteDeadLetter(&deadletter.Record{Topic: "shop.orders"}, deadletter.Reason{Mapping: "orders", Code: "conflict", Status: 409})
	if !strings.Contains(log.String(), "status=409") {
		t.Errorf("a conflict: got %s, want its status", log.String())
	}
}
