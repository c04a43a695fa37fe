package waits_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/waits"
)

func TestAWaitIsOneLineWhenItBeginsAndOneWhenItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		var now atomic.Pointer[[]observe.Wait]
		now.Store(&[]observe.Wait{})
		ctx, end := context.WithCancel(t.Context())
		go waits.Log(ctx, slog.New(slog.NewTextHandler(&out, nil)), waits.LookEvery, func() []observe.Wait { return *now.Load() })
		after := func(d time.Duration, set ...observe.Wait) {
			synctest.Wait()
			now.Store(&set)
			time.Sleep(d)
		}
		throttled := observe.Wait{Cause: waits.Throttled, Lane: "immediate", Why: "the service answered 429", Until: time.Now()}
		later := throttled
		later.Until = time.Now().Add(time.Hour)
		after(time.Minute, throttled, observe.Wait{Cause: waits.Breaker, Lane: "immediate", Why: "its turns are logged"})
		after(6*time.Second, observe.Wait{Cause: waits.Slot, Lane: "batch", Mapping: "customers", Why: "no slot"}) // between two tries
		after(time.Minute, later)
		after(time.Minute)
		end()
		synctest.Wait()
		got := regexp.MustCompile(`time=\S+ | since=\S+| until=\S+`).ReplaceAllString(out.String(), "")
		want := `level=WARN msg=waiting cause=throttled lane=immediate why="the service answered 429"
level=INFO msg=waiting cause=slot lane=batch mapping=customers why="no slot"
level=INFO msg="waiting no more" cause=slot lane=batch mapping=customers after=4s
level=INFO msg="waiting no more" cause=throttled lane=immediate after=2m4s
`
		if got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		if strings.Count(out.String(), "until=") != 1 {
			t.Errorf("got\n%swant the time until which it is throttled", out.String())
		}
	})
}

func TestLedgerWithoutRoomIsToldOf(t *testing.T) {
	for _, c := range []struct {
		tables []string
		full   bool
		want   string
	}{
		{nil, false, ""},
		{nil, true, "none is taken while the ledger"},
		{[]string{"profile/a", "profile/b"}, true, "the next import of profile/a, profile/b must not begin while the ledger"},
	} {
		if got := waits.LacksRoom(c.tables, c.full); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%v, full %v: got %q, want %q", c.tables, c.full, got, c.want)
		}
	}
}

// answered is an error of the service's client.
type answered struct{ status int }

func (answered) Error() string { return "get results of execution 17: the answer is not JSON" }
func (a answered) Status() int { return a.status }

func TestWhyAStepOfAnImportIsTriedAgainIsTold(t *testing.T) {
	for want, trouble := range map[string]error{
		"importing: 1 of 3 rows": contract.PublicError("1 of 3 rows"),
		"importing: get results of execution 17: the answer is not JSON; it is asked again": answered{200},
		"importing: the service answered 502; it is asked again":                            answered{502},
		"importing: the last try came to nothing; it is tried again, and the log says more": errors.New("a customer's value"),
	} {
		if _, got := waits.OfImport(&contract.ImportStatus{Step: contract.Importing, LastErr: trouble}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
