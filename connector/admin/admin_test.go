package admin_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedsink/feedsink/connector/admin"
)

// sink is what a test wants to be shown.
type sink struct {
	unready []string
	status  func() any
}

func (s sink) Unready() []string { return s.unready }

func (s sink) Status() any { return s.status() }

var rested = sink{status: func() any { return map[string]any{"ready": true} }}

func registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	calls := prometheus.NewCounter(prometheus.CounterOpts{Name: "calls_total", Help: "Calls."})
	calls.Add(3)
	r.MustRegister(calls)
	return r
}

// listen opens a server on a free port.
func listen(t *testing.T, s admin.Sink) *admin.Server {
	t.Helper()
	server, err := admin.Listen("127.0.0.1:0", admin.Access{}, s, registry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server
}

// serve runs a server until the test ends; stop does so earlier and returns
// what Run did.
func serve(t *testing.T, s admin.Sink) (server *admin.Server, stop func() error) {
	t.Helper()
	server = listen(t, s)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	var stopped bool
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return server, stop
}

func ask(t *testing.T, server *admin.Server, method, path string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+server.Address()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestEveryPageShowsWhatItIsFor(t *testing.T) {
	server, _ := serve(t, rested)
	for path, want := range map[string]struct{ kind, body string }{
		"/livez":   {"text/plain; charset=utf-8", "ok\n"},
		"/readyz":  {"text/plain; charset=utf-8", "ok\n"},
		"/status":  {"application/json", "{\n  \"ready\": true\n}\n"},
		"/metrics": {"text/plain; version=0.0.4", "# HELP calls_total Calls.\n# TYPE calls_total counter\ncalls_total 3\n"},
	} {
		resp, body := ask(t, server, http.MethodGet, path)
		if resp.StatusCode != http.StatusOK || body != want.body {
			t.Errorf("%s: got %d %q, want 200 %q", path, resp.StatusCode, body, want.body)
		}
		if got := resp.Header.Get("Content-Type"); !strings.HasPrefix(got, want.kind) {
			t.Errorf("%s: content type: got %q, want %q", path, got, want.kind)
		}
		if resp, body := ask(t, server, http.MethodHead, path); resp.StatusCode != http.StatusOK || body != "" {
			t.Errorf("HEAD %s: got %d %q, want 200 and no body", path, resp.StatusCode, body)
		}
	}
}

func TestUnreadySinkListsEveryReason(t *testing.T) {
	server, _ := serve(t, sink{unready: []string{"one", "two"}})
	resp, body := ask(t, server, http.MethodGet, "/readyz")
	if resp.StatusCode != http.StatusServiceUnavailable || body != "one\ntwo\n" {
		t.Errorf("/readyz: got %d %q, want 503 and both reasons", resp.StatusCode, body)
	}
	// A process that is not ready is alive all the same: restarting it helps nobody.
	if resp, _ := ask(t, server, http.MethodGet, "/livez"); resp.StatusCode != http.StatusOK {
		t.Errorf("/livez: got %d, want 200", resp.StatusCode)
	}
}

func TestPagesAreOnlyRead(t *testing.T) {
	server, _ := serve(t, rested)
	for _, path := range []string{"/livez", "/readyz", "/status", "/metrics"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			resp, _ := ask(t, server, method, path)
			if got, want := resp.Header.Get("Allow"), "GET, HEAD"; resp.StatusCode != http.StatusMethodNotAllowed || got != want {
				t.Errorf("%s %s: got %d, Allow %q, want 405, %q", method, path, resp.StatusCode, got, want)
			}
		}
	}
	for _, path := range []string{"/status/", "/livez/x", "/secrets", "/debug/pprof/", "/metrics.json"} {
		if resp, _ := ask(t, server, http.MethodGet, path); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: got %d, want 404", path, resp.StatusCode)
		}
	}
}

func TestEveryAnswerIsTakenAsItIsAndKeptByNobody(t *testing.T) {
	server, _ := serve(t, rested)
	for _, question := range []string{"GET /livez", "GET /readyz", "GET /status", "GET /metrics", "POST /status", "GET /nowhere"} {
		method, path, _ := strings.Cut(question, " ")
		resp, _ := ask(t, server, method, path)
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "X-Feedsink": "sink"} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s: %s: got %q, want %q", question, name, got, want)
			}
		}
	}
}

func TestStatusThatIsNoJSONIsAnError(t *testing.T) {
	server, _ := serve(t, sink{status: func() any { return func() {} }})
	resp, body := ask(t, server, http.MethodGet, "/status")
	if resp.StatusCode != http.StatusInternalServerError || !strings.HasPrefix(body, "status: ") {
		t.Errorf("got %d %q, want 500 and why", resp.StatusCode, body)
	}
}

func TestOversizedHeadersAreRefused(t *testing.T) {
	server, _ := serve(t, rested)
	resp, _ := ask(t, server, http.MethodGet, "/livez", "X-Long", strings.Repeat("x", 64<<10))
	if got, want := resp.StatusCode, http.StatusRequestHeaderFieldsTooLarge; got != want {
		t.Errorf("64 KiB of headers: got %d, want %d", got, want)
	}
	if resp, _ := ask(t, server, http.MethodGet, "/livez", "X-Long", strings.Repeat("x", 8<<10)); resp.StatusCode != http.StatusOK {
		t.Errorf("8 KiB of headers: got %d, want 200", resp.StatusCode)
	}
}

func TestRunFinishesTheAnswersItBegan(t *testing.T) {
	asked, goOn := make(chan struct{}), make(chan struct{})
	server, stop := serve(t, sink{status: func() any {
		close(asked)
		<-goOn
		return "whole"
	}})
	var body bytes.Buffer
	answered := make(chan error, 1)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+server.Address()+"/status", nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_, err = body.ReadFrom(resp.Body)
			_ = resp.Body.Close()
		}
		answered <- err
	}()
	<-asked
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	gone(t, server) // nothing new is taken
	select {
	case err := <-stopped:
		t.Fatalf("Run returned %v while an answer was being given", err)
	default:
	}
	close(goOn)
	if err := <-answered; err != nil || body.String() != "\"whole\"\n" {
		t.Errorf("the answer: got %q, %v, want it whole", body.String(), err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Run: got %v, want nil", err)
	}
}

// gone returns once the server's address refuses connections.
func gone(t *testing.T, server *admin.Server) {
	t.Helper()
	var d net.Dialer
	for {
		conn, err := d.DialContext(t.Context(), "tcp", server.Address())
		if t.Context().Err() != nil {
			t.Fatal("the server still takes connections")
		}
		if err != nil {
			return
		}
		_ = conn.Close() // it was only to see
	}
}

func TestServerThatNeverRanGivesItsAddressBack(t *testing.T) {
	first := listen(t, rested)
	address := first.Address()
	if _, err := admin.Listen(address, admin.Access{}, rested, registry(), slog.New(slog.DiscardHandler)); err == nil || !strings.HasPrefix(err.Error(), "admin.listen: ") {
		t.Errorf("an address in use: got %v, want an error that names the key", err)
	}
	first.Close()
	second, err := admin.Listen(address, admin.Access{}, rested, registry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("after Close: %v", err)
	}
	second.Close()
	second.Close() // once more does no harm
}

func TestRunSaysThatItCannotServe(t *testing.T) {
	server := listen(t, rested)
	server.Close()
	if err := server.Run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "admin server: ") {
		t.Errorf("got %v, want an error as a path", err)
	}
}

func TestListenWantsAnAddress(t *testing.T) {
	for _, address := range []string{"localhost", "127.0.0.1:port", ":99999"} {
		server, err := admin.Listen(address, admin.Access{}, rested, registry(), slog.New(slog.DiscardHandler))
		if err == nil {
			server.Close()
		}
		if err == nil || !strings.HasPrefix(fmt.Sprint(err), "admin.listen: ") {
			t.Errorf("%s: got %v, want an error that names the key", address, err)
		}
	}
}
