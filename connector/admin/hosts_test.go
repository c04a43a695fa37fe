package admin

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedsink/feedsink/connector/service"
)

// serving is a server as it runs, with everything that it may have.
func serving(t *testing.T, listen string, access Access, d *oneImport, hint func(string, string)) http.Handler {
	t.Helper()
	server, err := Listen(listen, access, quiet{}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler), Imports(d), Profiles(),
		LogLevel(d, slog.New(slog.DiscardHandler)), Executions("X-Secret", tokenIs("s3cret"), service.Ended, hint, Members{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server.server.Handler
}

// asPage asks as a page of the same site does, which browsers let set any header.
func asPage(t *testing.T, h http.Handler, method, host, path string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	r.Host = host
	r.Header.Set("Origin", "http://"+host)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("X-Feedsink", strings.Split(path, "/")[1])
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestPageOfAnotherNameReadsAndChangesNothing(t *testing.T) {
	d := &oneImport{halted: true, oneLevel: oneLevel{"info"}}
	h := serving(t, "127.0.0.1:0", Access{}, d, func(string, string) {})
	for _, host := range []string{"evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "evil.localhost:1", "feedsink"} {
		for _, question := range []string{
			"GET /", "GET /page/main.js", "GET /status", "GET /metrics", "GET /livez", "GET /readyz", "GET /imports", "GET /imports/customers", "GET /imports/customers/reason",
			"GET /log-level", "GET /debug/pprof/cmdline", "POST /imports/customers/release", "POST /imports/customers/slots", "POST /log-level/debug",
			"OPTIONS /status", "GET /nowhere", "POST //webhooks/executions",
		} {
			method, path, _ := strings.Cut(question, " ")
			w := asPage(t, h, method, host, path)
			if w.Code != http.StatusMisdirectedRequest || !strings.Contains(w.Body.String(), "admin.hosts") {
				t.Errorf("%s as %s: got %d %q, want 421 and what to do", question, host, w.Code, w.Body)
			}
		}
	}
	if len(d.asked)+d.released+d.taken != 0 || d.level != "info" {
		t.Errorf("got %q asked, %d releases, %d slots, level %s; want nothing", d.asked, d.released, d.taken, d.level)
	}
}

func TestServerIsAskedByItsOwnNames(t *testing.T) {
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	h := serving(t, "localhost:0", Access{Hosts: []string{"feedsink", "Feedsink.CRM.svc"}}, &oneImport{}, func(string, string) {})
	for _, host := range []string{
		"127.0.0.1:8080", "10.1.2.3", "[::1]:8080", "[fd00::1]", "localhost", "LOCALHOST:8080", "localhost.", own, own + ":8080",
		"feedsink:8080", "feedsink.crm.svc", "FEEDSINK.crm.svc.:8080", "", // as an old prober asks, by HTTP/1.0
	} {
		for _, path := range []string{"/livez", "/status", "/metrics"} {
			if w := asPage(t, h, http.MethodGet, host, path); w.Code != http.StatusOK {
				t.Errorf("%s as %q: got %d %q, want 200", path, host, w.Code, w.Body)
			}
		}
	}
}

// The service calls by a public name that only the ingress knows.
func TestWebhookIsGuardedByItsSecretWhateverItsName(t *testing.T) {
	hinted := ""
	h := serving(t, "127.0.0.1:0", Access{}, &oneImport{}, func(id, _ string) { hinted = id })
	for secret, want := range map[string]int{"s3cret": http.StatusAccepted, "": http.StatusForbidden, "s3cre": http.StatusForbidden} {
		hinted = ""
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, webhookPath, strings.NewReader(`{"id":7}`))
		r.Host = "hooks.example.com"
		r.Header.Set("X-Secret", secret)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if body, _ := io.ReadAll(w.Body); w.Code != want || (hinted == "7") != (want == http.StatusAccepted) {
			t.Errorf("secret %q: got %d %s, hint %q; want %d", secret, w.Code, body, hinted, want)
		}
	}
}
