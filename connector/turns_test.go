package connector

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/logs"
	"github.com/feedsink/feedsink/schemas"
)

// TestTurnsAreLoggedInTheirOrder: none is held back as a repetition and written when it is
// over.
func TestTurnsAreLoggedInTheirOrder(t *testing.T) {
	var out bytes.Buffer
	log, err := logs.New(&out, logs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	sink := assembled(t, Options{Log: log.Logger, Lanes: []schemas.Lane{schemas.Immediate}})
	s := sink.now()
	m := s.router.Mapping("orders")
	of := pauseOf(m, schemas.Immediate)
	for range 2 {
		s.pauses.known.Say(ack.Pause{Mapping: of.Mapping, Batch: of.Batch})
		s.applyPauses()
		s.pauses.known.Say(ack.Pause{Mapping: of.Mapping, Batch: of.Batch, Resumed: true})
		s.applyPauses()
		for range 2 { // a call that is tried fails
			observer{s}.BreakerTurned(m.Table, calls.Open, errors.New("503"))
		}
		observer{s}.BreakerTurned(m.Table, calls.Closed, nil)
	}
	log.Close()
	var got []string
	for _, line := range regexp.MustCompile(`msg="[^";:,]*`).FindAllString(out.String(), -1) {
		if strings.HasPrefix(line, `msg="mapping`) || strings.HasPrefix(line, `msg="calls`) {
			got = append(got, strings.TrimPrefix(line, `msg="`))
		}
	}
	turns := "mapping paused, mapping resumed, calls for the table fail, calls for the table are answered again and go on"
	if strings.Join(got, ", ") != turns+", "+turns {
		t.Errorf("got %q, want twice: %s", got, turns)
	}
	if strings.Contains(out.String(), "until=") {
		t.Errorf("got\n%s\nwant no end of a pause that has none", out.String())
	}
}
