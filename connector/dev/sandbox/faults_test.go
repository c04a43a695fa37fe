package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// online puts a service on a socket and returns a call that goes through it.
func (v *service) online() func(ctx context.Context, key string) (int, error) {
	v.t.Helper()
	srv, err := v.Start("127.0.0.1:0")
	if err != nil {
		v.t.Fatal(err)
	}
	return v.caller(srv.URL())
}

// caller returns a call to an address.
func (v *service) caller(base string) func(ctx context.Context, key string) (int, error) {
	client := &http.Client{Transport: &http.Transport{}}
	v.t.Cleanup(client.CloseIdleConnections)
	return func(ctx context.Context, key string) (int, error) {
		body := strings.NewReader(`{"attributes":{"customerNumber":"` + key + `"}}`)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+profiles, body)
		if err != nil {
			return 0, err
		}
		r.Header.Set("Authorization", "Bearer "+v.token)
		w, err := client.Do(r)
		if err != nil {
			return 0, err
		}
		_, err = io.Copy(io.Discard, w.Body)
		return w.StatusCode, errors.Join(err, w.Body.Close())
	}
}

func TestFaultsHaveTwoIndependentAxes(t *testing.T) {
	for _, apply := range []bool{false, true} {
		for name, c := range map[string]struct {
			answer sandbox.Answer
			status int
			err    error
		}{
			"status": {sandbox.Status(503), 503, nil},
			"reset":  {sandbox.Reset(), 0, syscall.ECONNRESET},
			"hang":   {sandbox.Hang(time.Millisecond), 0, syscall.ECONNRESET},
			"page":   {sandbox.Page(404), 404, nil},
			"login":  {sandbox.Page(200), 200, nil},
			"text":   {sandbox.Text(404, "default backend - 404"), 404, nil},
			"bare":   {sandbox.Text(404, ""), 404, nil},
		} {
			t.Run(fmt.Sprintf("%s applied %t", name, apply), func(t *testing.T) {
				v := newService(t, config())
				call := v.online()
				v.Inject(sandbox.Fault{Match: sandbox.Match{Op: 1}, Count: 1, Apply: apply, Answer: c.answer})
				status, err := call(t.Context(), "C1")
				if status != c.status || !errors.Is(err, c.err) {
					t.Errorf("got %d %v, want %d %v", status, err, c.status, c.err)
				}
				if _, applied := v.Row("customers", "C1"); applied != apply {
					t.Errorf("applied: got %t, want %t", applied, apply)
				}
				last := v.Calls()[len(v.Calls())-1]
				if last.Applied != apply || last.Status != c.status || !last.Fault || last.Key != "C1" {
					t.Errorf("log: got %+v", last)
				}
				if status, err := call(t.Context(), "C1"); status != 200 || err != nil {
					t.Errorf("after the fault: got %d %v, want 200", status, err)
				}
			})
		}
	}
}

func TestHangLastsUntilTheClientGivesUp(t *testing.T) {
	v := newService(t, config())
	srv := httptest.NewServer(v) // closing it waits for the call to end
	call := v.caller(srv.URL)
	v.Inject(sandbox.Fault{Apply: true, Answer: sandbox.Hang(0)})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	given := make(chan error, 1)
	go func() {
		_, err := call(ctx, "C1")
		given <- err
	}()
	v.await("C1")
	cancel()
	if err := <-given; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want it to end with its context", err)
	}
	srv.Close()
}

func TestCloseEndsWhatHangs(t *testing.T) {
	for name, slow := range map[string]func(v *service){
		"hang":    func(v *service) { v.Inject(sandbox.Fault{Apply: true, Answer: sandbox.Hang(0)}) },
		"latency": func(v *service) { v.SetLatency(1, time.Hour) },
	} {
		v := newService(t, config())
		call := v.online()
		slow(v)
		given := make(chan error, 1)
		go func() {
			_, err := call(context.Background(), "C1")
			given <- err
		}()
		for v.CallCount(1) == 0 {
			runtime.Gosched()
		}
		if err := v.Close(); err != nil {
			t.Error(err)
		}
		if err := <-given; err == nil {
			t.Errorf("%s: got an answer, want an error", name)
		}
	}
}

// await returns once a profile exists.
func (v *service) await(key string) {
	for applied := false; !applied; _, applied = v.Row("customers", key) {
		runtime.Gosched()
	}
}

func TestFaultsFindTheirCalls(t *testing.T) {
	for name, c := range map[string]struct {
		fault sandbox.Fault
		want  string // statuses of: C1, C2, C1, order o1, C1
	}{
		"key":       {sandbox.Fault{Match: sandbox.Match{Key: "C1"}}, "503 200 503 200 503"},
		"count":     {sandbox.Fault{Match: sandbox.Match{Key: "C1"}, Count: 2}, "503 200 503 200 200"},
		"nth":       {sandbox.Fault{Match: sandbox.Match{Op: 1, Nth: 3}}, "200 200 503 200 200"},
		"table":     {sandbox.Fault{Match: sandbox.Match{Table: "orders"}}, "200 200 200 503 200"},
		"operation": {sandbox.Fault{Match: sandbox.Match{Op: 4}}, "200 200 200 503 200"},
		"all":       {sandbox.Fault{}, "503 503 503 503 503"},
	} {
		v := newService(t, config())
		c.fault.Answer = sandbox.Status(503)
		v.Inject(c.fault)
		var got []string
		for _, key := range []string{"C1", "C2", "C1", "o1", "C1"} {
			path, body := profiles, `{"attributes":{"customerNumber":"`+key+`"}}`
			if key == "o1" {
				path, body = upsert, `{"businessKey":"o1","properties":[]}`
			}
			status, _ := v.call(http.MethodPost, path, body)
			got = append(got, fmt.Sprint(status))
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestTokenRequestsCanFailToo(t *testing.T) {
	v := newService(t, config())
	v.Inject(sandbox.Fault{Match: sandbox.Match{Op: 14}, Answer: sandbox.StatusAfter(503, 1500*time.Millisecond)})
	w := v.askToken(apiKey)
	if got := fmt.Sprint(w.Code, w.Header()["Retry-After"]); got != "503 [2]" {
		t.Errorf("got %s, want 503 [2]", got)
	}
	v.ClearFaults()
	v.login()
}

func TestChaosRepeatsItselfWithItsSeed(t *testing.T) {
	run := func(seed uint64) string {
		v := newService(t, config())
		v.Chaos(seed,
			sandbox.Fault{Match: sandbox.Match{Probability: 0.3}, Answer: sandbox.Status(503)},
			sandbox.Fault{Match: sandbox.Match{Probability: 0.3}, Apply: true, Answer: sandbox.Status(504)})
		var story strings.Builder
		for range 200 {
			status, _ := v.call(http.MethodPost, profiles, `{"attributes":{"customerNumber":"C1"}}`)
			fmt.Fprintln(&story, status)
		}
		states := v.Faults()
		if a, b := states[0].Fired, states[1].Fired; a < 35 || a > 85 || b < 20 || b > 65 {
			t.Errorf("seed %d: fired %d and %d times of 200, want about 60 and 42", seed, a, b)
		}
		return story.String()
	}
	seven := run(7)
	if again := run(7); again != seven {
		t.Error("the same seed told two stories")
	}
	if run(8) == seven {
		t.Error("two seeds told the same story")
	}
}

func TestLatencyDelaysBeforeAnythingIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newService(t, config())
		v.SetLatency(0, 10*time.Millisecond)
		v.SetLatency(1, 20*time.Millisecond)
		v.Inject(sandbox.Fault{Match: sandbox.Match{Op: 1}, Delay: time.Second, Answer: sandbox.AsIs()})
		for _, c := range []struct {
			method, path, body string
			want               time.Duration
		}{
			{http.MethodPost, profiles, `{"attributes":{"customerNumber":"C1"}}`, 1030 * time.Millisecond},
			{http.MethodPost, upsert, `{"businessKey":"o1","properties":[]}`, 10 * time.Millisecond},
		} {
			start := time.Now()
			v.must(200, c.method, c.path, c.body)
			if got := time.Since(start); got != c.want {
				t.Errorf("%s: got %v, want %v", c.path, got, c.want)
			}
		}
	})
}

func TestCallsWithoutAGoodTokenSpendNoFault(t *testing.T) {
	v := newService(t, config())
	v.Inject(sandbox.Fault{Match: sandbox.Match{Op: 1}, Count: 1, Answer: sandbox.Status(503)})
	v.RevokeTokens()
	body := `{"attributes":{"customerNumber":"C1"}}`
	v.must(401, http.MethodPost, profiles, body)
	v.login()
	v.must(503, http.MethodPost, profiles, body)
	v.must(200, http.MethodPost, profiles, body)
}

// TestLateCallIsAppliedAfterItsClientHasGone, over what later calls said meanwhile.
func TestLateCallIsAppliedAfterItsClientHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newService(t, config())
		v.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4, Nth: 1}, Late: 5 * time.Second})
		first, giveUp := context.WithTimeout(t.Context(), 2*time.Second)
		defer giveUp()
		r := httptest.NewRequest(http.MethodPost, upsert, strings.NewReader(`{"businessKey":"o1","properties":[{"name":"status","value":"OLD"}]}`)).WithContext(first)
		r.Header.Set("Authorization", "Bearer "+v.token)
		func() {
			defer func() { _ = recover() }() // the connection is reset
			v.ServeHTTP(httptest.NewRecorder(), r)
		}()
		if v.Len("orders") != 0 {
			t.Error("the late call was applied at once")
		}
		v.must(200, http.MethodPost, upsert, `{"businessKey":"o1","properties":[{"name":"status","value":"NEW"}]}`)
		time.Sleep(4 * time.Second) // virtual
		synctest.Wait()
		row, _ := v.Row("orders", "o1")
		if got, landed := row.Text("status"), v.Faults()[0].Landed; got != "OLD" || landed != 1 {
			t.Errorf("after five seconds: got %q, %d landed, want the late call's OLD", got, landed)
		}
	})
}

func TestGatewaysAnswerLooksLikeOne(t *testing.T) {
	v := newService(t, config())
	srv := httptest.NewServer(v)
	t.Cleanup(srv.Close)
	for _, c := range []struct {
		answer          sandbox.Answer
		kind, beginning string
	}{
		{sandbox.Page(200), "text/html; charset=utf-8", "<!DOCTYPE html>"},
		{sandbox.Page(404), "text/html; charset=utf-8", "<!DOCTYPE html>"},
		{sandbox.Text(404, "404 page not found"), "text/plain; charset=utf-8", "404 page not found"},
		{sandbox.Text(405, ""), "", ""},
	} {
		v.ClearFaults()
		v.Inject(sandbox.Fault{Match: sandbox.Match{Op: 14}, Answer: c.answer})
		r, err := http.Get(srv.URL + "/auth/token")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		if r.Header.Get("Content-Type") != c.kind || !strings.HasPrefix(string(body), c.beginning) || c.beginning == "" && len(body) > 0 || err != nil {
			t.Errorf("got %q %q, %v; want %q that begins with %q", r.Header.Get("Content-Type"), body, err, c.kind, c.beginning)
		}
		if err := r.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestSwitchKeepsTheConnectionWithoutAWord(t *testing.T) {
	v := newService(t, config())
	srv := httptest.NewServer(v)
	t.Cleanup(srv.Close) // waits for what hangs
	v.Inject(sandbox.Fault{Match: sandbox.Match{Op: 14}, Answer: sandbox.Switch()})
	r, err := http.Get(srv.URL + "/auth/token")
	if err != nil {
		t.Fatal(err)
	}
	if r.StatusCode != http.StatusSwitchingProtocols {
		t.Errorf("got %d, want 101", r.StatusCode)
	}
	if err := r.Body.Close(); err != nil { // the client gives up
		t.Error(err)
	}
}
