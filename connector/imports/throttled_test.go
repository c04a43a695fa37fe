package imports

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/service"
)

// importRequests are what a sink asks of operations 10, 11 and 12.
func importRequests(t *testing.T, client *service.Client, known *calls.Service) map[string]func() error {
	noon := time.FixedZone("noon", (12-time.Now().UTC().Hour())*60*60) // no time that is named reaches past the day
	i := Importer{Client: client, Known: known, Zones: map[string]*time.Location{"101": noon}, Leased: func() bool { return true }}
	open := func() (io.ReadCloser, int64, error) {
		return io.NopCloser(strings.NewReader("customerNumber\nC1\n")), 18, nil
	}
	return map[string]func() error{
		"10": func() error { _, err := i.Trigger(t.Context(), "101", "customers-1.upsert.csv", open); return err },
		"11": func() error { _, err := i.Results(t.Context(), "17"); return err },
		"12": func() error { return i.OutputFiles(t.Context(), "17", io.Discard) },
	}
}

var importOps = map[string]sandbox.Match{"10": {Op: 10}, "11": {Op: 11}, "12": {Op: 12}}

// What an import was told means calls, too: 429 is the service's, not the table's.
func TestRetryAfterOfAnImportHoldsAllCalls(t *testing.T) {
	for _, status := range []int{429, 503} {
		for op, match := range importOps {
			s, client := startService(t)
			var known calls.Service
			s.Inject(sandbox.Fault{Match: match, Answer: sandbox.StatusAfter(status, 10*time.Minute)})
			if err := importRequests(t, client, &known)[op](); err == nil {
				t.Errorf("operation %s: got no error, want the refusal", op)
			}
			if got := known.Held(); got < 9*time.Minute {
				t.Errorf("operation %s, %d: calls are held for: got %v, want the time that the service named", op, status, got)
			}
		}
	}
}

func TestTableWithoutASlotHoldsNoCalls(t *testing.T) {
	s, client := startService(t)
	var known calls.Service
	s.Inject(sandbox.Fault{Match: sandbox.Match{Op: 10}, Answer: sandbox.StatusAfter(429, 30*time.Hour)})
	err := importRequests(t, client, &known)["10"]()
	if f, ok := errors.AsType[contract.Failure](err); !ok || !f.NoSlot() {
		t.Fatalf("got %v, want that no slot is left", err)
	}
	if got := known.Held(); got != 0 {
		t.Errorf("calls are held for: got %v, want 0: it is about the table's imports of the day", got)
	}
}

func TestNoImportRequestIsMadeBeforeTheServiceWantsCalls(t *testing.T) {
	s, client := startService(t)
	var known calls.Service
	known.Heard(throttled{})
	for op, request := range importRequests(t, client, &known) {
		err := request()
		f, ok := errors.AsType[contract.Failure](err)
		if !ok || !f.Transient() || f.Unknown() || f.NoSlot() || f.RetryAfter() < 20*time.Second {
			t.Errorf("operation %s: got %v, want one to be made again at the time that the service named", op, err)
		}
	}
	former := Former{Client: client, Known: &known}
	if ended, err := former.Ended(t.Context(), "17"); err == nil || ended {
		t.Errorf("operation 11 for a former lane: got %t, %v, want an error", ended, err)
	}
	if got := s.CallCount(10) + s.CallCount(11) + s.CallCount(12); got != 0 {
		t.Errorf("requests: got %d, want none", got)
	}
}

// The request waits for a token when another one is answered with a time.
func TestImportIsNotSentBehindATokenBeforeTheServiceWantsCalls(t *testing.T) {
	var known calls.Service
	s, client := serviceAt(t, func(s *sandbox.Sandbox) (string, http.RoundTripper) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			known.Heard(throttled{})
			s.ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		return server.URL, nil
	})
	err := importRequests(t, client, &known)["10"]()
	if f, ok := errors.AsType[contract.Failure](err); !ok || f.Unknown() || f.RetryAfter() < 20*time.Second || s.CallCount(10) != 0 {
		t.Errorf("got %v and %d requests, want none before the time that the service named", err, s.CallCount(10))
	}
}

// refused is a gate that is open until the service has refused an import for the day.
type refused bool

func (r *refused) Refused(string, time.Time) time.Duration {
	*r = true
	return 0
}

func (r *refused) Wait(string, *contract.Import, bool) time.Duration {
	if *r {
		return 24 * time.Hour
	}
	return 0
}

func TestNoFileIsSealedBeforeTheServiceWantsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var known calls.Service
		gate := HeldGate{new(refused), &known}
		if got := gate.Wait("customers", nil, false); got != 0 {
			t.Errorf("nothing is held: got %v, want no wait", got)
		}
		known.Heard(throttled{})
		if got := gate.Wait("customers", nil, false); got != 30*time.Second {
			t.Errorf("got %v, want the 30s that the service named", got)
		}
		gate.Refused("customers", time.Time{})
		if got := gate.Wait("customers", nil, true); got != 24*time.Hour {
			t.Errorf("without a slot, too: got %v, want 24h", got)
		}
	})
}
