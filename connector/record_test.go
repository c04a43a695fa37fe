package connector

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

func TestRefusalLetterNamesCodeStatusAndAnswer(t *testing.T) {
	s, client := startService(t)
	for _, c := range []struct {
		answer int
		code   string
	}{
		{400, "rejected"},
		{404, "not_found"},
		{409, "conflict"},
		{413, "rejected"},
		{422, "rejected"},
		{405, "rejected"}, // given up
		{503, "rejected"}, // likewise
	} {
		s.Inject(sandbox.Fault{Match: sandbox.Match{Op: 5}, Count: 1, Answer: sandbox.Status(c.answer)})
		err := writes.Operations{Client: client}.Call(t.Context(), order(schemas.Patch, "PAID"), writes.Create{})
		l := writes.RefusalReason(fmt.Errorf("given up after 3 tries: %w", err))
		if l.Stage != deadletter.Delivering || l.Code != c.code || l.Status != c.answer {
			t.Errorf("%d: got %+v, want stage TASK_PUT, code %s and the status", c.answer, l, c.code)
		}
		if !strings.HasPrefix(l.Message, "given up after 3 tries: ") || !strings.Contains(l.Message, "injected fault") {
			t.Errorf("%d: message: got %q, want what happened and the answer's beginning", c.answer, l.Message)
		}
	}
}

func TestGatewaysAnswerThatIsGivenUpIsNoWordAboutTheRow(t *testing.T) {
	s, client := startService(t)
	for _, answer := range []sandbox.Answer{sandbox.Page(404), sandbox.Page(409), sandbox.Text(404, "default backend - 404")} {
		s.Inject(sandbox.Fault{Match: sandbox.Match{Op: 5}, Count: 1, Answer: answer})
		err := writes.Operations{Client: client}.Call(t.Context(), order(schemas.Patch, "PAID"), writes.Create{})
		if l := writes.RefusalReason(fmt.Errorf("given up after 3 tries: %w", err)); l.Code != "rejected" {
			t.Errorf("got %+v, want it rejected", l)
		}
	}
}

func TestGivenUpWriteOfWhichATryMayHaveLandedSaysSo(t *testing.T) {
	for _, unsure := range []bool{false, true} {
		l := writes.RefusalReason(&calls.GivenUp{After: time.Minute, Tries: 4, Unsure: unsure, Err: errors.New("no answer within 30s")})
		if l.MayBeInTable != unsure || strings.HasPrefix(l.Message, deadletter.MayBeInTable) != unsure {
			t.Errorf("unsure %v: got %+v", unsure, l)
		}
	}
}

func TestRefusalWithoutAnAnswerIsRejected(t *testing.T) {
	for _, err := range []error{writes.ErrNoCall, errors.New("given up")} {
		want := deadletter.Reason{Stage: deadletter.Delivering, Code: "rejected", Message: err.Error()}
		if got := writes.RefusalReason(err); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func TestRejectLetterTellsStageAndCode(t *testing.T) {
	for _, c := range []struct {
		err   error
		stage deadletter.Stage
		code  string
	}{
		{&router.Reject{Code: router.CodeValue, ValueError: schemas.ValueError{Field: "attributes.name", Rule: "at most 255 characters"}}, deadletter.Transforming, "value"},
		{&router.Reject{Code: router.CodeNoID, ValueError: schemas.ValueError{Field: "profileId", Rule: "a call needs it"}}, deadletter.Transforming, "no_id"},
		{&router.Reject{Code: router.CodeDecode, ValueError: schemas.ValueError{Field: "kafka key", Rule: "not valid UTF-8"}}, deadletter.Decoding, "decode"},
		{schemas.Invalid("S_tier", "has no column"), deadletter.Transforming, "value"}, // found by the batch lane
	} {
		want := deadletter.Reason{Stage: c.stage, Code: c.code, Message: c.err.Error()}
		if got := writes.RejectReason(c.err); got != want {
			t.Errorf("%v:\n got %+v\nwant %+v", c.err, got, want)
		}
	}
}

func TestLaneTakesWhatIsItsOwnRejectsLast(t *testing.T) {
	bad := &router.Reject{Code: router.CodeValue}
	routed := func(key string, lane schemas.Lane, err error) router.Routed {
		return router.Routed{Lane: lane, Write: schemas.Write{Key: key}, Err: err}
	}
	l := &lane{laneBase: &laneBase{which: schemas.Immediate}}
	all := []router.Routed{
		routed("r1", schemas.Immediate, bad), routed("w1", schemas.Immediate, nil), routed("x1", schemas.Batch, nil),
		routed("r2", schemas.Immediate, bad), routed("x2", schemas.Batch, bad), routed("w2", schemas.Immediate, nil),
	}
	keys := func(rs []router.Routed) string {
		var names []string
		for _, r := range rs {
			names = append(names, r.Write.Key)
		}
		return strings.Join(names, " ")
	}
	writes, rejects := l.mine(all)
	if got, want := keys(writes), "w1 w2"; got != want {
		t.Errorf("writes: got %s, want %s, in the order of the mappings", got, want)
	}
	if got, want := keys(rejects), "r1 r2"; got != want {
		t.Errorf("rejects: got %s, want %s", got, want)
	}
	if writes, rejects := l.mine([]router.Routed{routed("x1", schemas.Batch, nil)}); len(writes)+len(rejects) != 0 {
		t.Errorf("the other lane's: got %v, %v, want nothing", writes, rejects)
	}
}
