package admin

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedsink/feedsink/connector/security"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/test/certs"
)

const token = "the-token"

// quiet is a sink with nothing to show.
type quiet struct{}

func (quiet) Unready() []string { return nil }

func (quiet) Status() any { return "status" }

// whole is everything the server may have, as it serves it.
func whole(a Access, d *oneImport, hint func(string, string)) http.Handler {
	if d == nil {
		d = new(oneImport)
	}
	mux := routes(quiet{}, prometheus.NewRegistry(), Imports(d), Mappings(d), Profiles(), LogLevel(d, slog.New(slog.DiscardHandler)), Reload(new(reloads)),
		Executions("X-Secret", func() (string, error) { return "s3cret", nil }, service.Ended, hint, Members{}),
		Members{}.Tables(a), OwnMembership(func() Membership { return Membership{} }), History(func([]string) any { return "none" }))
	a.Hosts = append(a.Hosts, "h", "example.com") // by which tests ask
	return asIs(a.named("", a.guard(bodiless(mux))))
}

func tokenIs(text string) func() (string, error) { return func() (string, error) { return text, nil } }

func TestTokenIsAskedForWhereItProtects(t *testing.T) {
	reads, changes := []string{"GET /", "GET /page/main.js", "GET /status", "GET /metrics", "GET /imports", "GET /imports/customers", "GET /log-level", "GET /history", "GET /members"}, []string{
		"POST /imports/customers/release", "POST /imports/customers/slots", "POST /imports/customers/roll", "POST /mappings/customers/pause", "POST /mappings/customers/resume", "POST /reload", "POST /log-level/debug", "GET /imports/customers/reason", "GET /debug/pprof/cmdline", "POST /nowhere", "DELETE /status",
	}
	always := []string{"GET /livez", "HEAD /readyz"}
	for name, c := range map[string]struct {
		access        Access
		free, guarded []string
	}{
		"no token":        {Access{}, append(append(always, reads...), changes...), nil},
		"a token":         {Access{Token: tokenIs(token)}, append(always, reads...), changes},
		"reads protected": {Access{Token: tokenIs(token), ProtectReads: true}, always, append(reads, changes...)},
	} {
		h := whole(c.access, &oneImport{}, func(string, string) {})
		for i, question := range append(c.free, c.guarded...) {
			method, path, _ := strings.Cut(question, " ")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
			if want := i >= len(c.free); (w.Code == http.StatusUnauthorized) != want {
				t.Errorf("%s: %s: got %d, want 401: %v", name, question, w.Code, want)
			}
		}
	}
}

func TestOnlyTheTokenOpens(t *testing.T) {
	basic := func(password string) string {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.SetBasicAuth("anybody", password)
		return r.Header.Get("Authorization")
	}
	unread := func() (string, error) { return token, errors.New("read secret") }
	for name, c := range map[string]struct {
		token  func() (string, error)
		header string
		status int
	}{
		"the token":               {tokenIs(token), "Bearer " + token, 202},
		"in small letters":        {tokenIs(token), "bearer " + token, 202},
		"as a browser's password": {tokenIs(token), basic(token), 202},
		"none":                    {tokenIs(token), "", 401},
		"a part of it":            {tokenIs(token), "Bearer " + token[:5], 401},
		"another scheme":          {tokenIs(token), "Digest " + token, 401},
		"a wrong password":        {tokenIs(token), basic("x"), 401},
		"none, none configured":   {tokenIs(""), "Bearer ", 401},
		"a file that is gone":     {unread, "Bearer " + token, 401},
	} {
		d := &oneImport{halted: true}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/imports/customers/release", nil)
		r.Header.Set("X-Feedsink", "imports")
		if c.header != "" {
			r.Header.Set("Authorization", c.header)
		}
		w := httptest.NewRecorder()
		whole(Access{Token: c.token}, d, nil).ServeHTTP(w, r)
		if w.Code != c.status || (d.released == 1) != (c.status == 202) {
			t.Errorf("%s: got %d and %d releases, want %d", name, w.Code, d.released, c.status)
		}
		if w.Code == 401 && (len(w.Header().Values("WWW-Authenticate")) != 2 || strings.Contains(w.Body.String(), token)) {
			t.Errorf("%s: got %v %q, want both schemes named and no token", name, w.Header(), w.Body)
		}
	}
}

func TestBodiesAreRefusedWhereNoneIsWanted(t *testing.T) {
	h := whole(Access{}, &oneImport{halted: true}, func(string, string) {})
	for _, question := range []string{"GET /status", "POST /imports/customers/release"} {
		method, path, _ := strings.Cut(question, " ")
		for name, body := range map[string]*http.Request{
			"a length":  httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader("{}")),
			"no length": httptest.NewRequestWithContext(t.Context(), method, path, struct{ *strings.Reader }{strings.NewReader("{}")}),
		} {
			body.Header.Set("X-Feedsink", "imports")
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, body); w.Code != http.StatusRequestEntityTooLarge {
				t.Errorf("%s, a body with %s: got %d, want 413", question, name, w.Code)
			}
		}
	}
}

func TestWebhookTakesWhatItCannotReadForAHintWithoutAnID(t *testing.T) {
	for _, c := range []struct {
		header, value string
		id            string
	}{
		{"Content-Type", "application/json", "7"},
		{"Content-Type", "text/plain; charset=utf-8", "7"},
		{"Content-Type", "application/x-www-form-urlencoded; charset=utf-8", ""},
		{"Content-Type", "Multipart/Form-Data; boundary=x", ""},
		{"Content-Encoding", "identity", "7"},
		{"Content-Encoding", "gzip", ""},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, webhookPath, strings.NewReader(`{"id":"7"}`))
		r.Header.Set("X-Secret", "s3cret")
		r.Header.Set(c.header, c.value)
		w, hint := httptest.NewRecorder(), "none"
		if whole(Access{}, nil, func(id, _ string) { hint = id }).ServeHTTP(w, r); w.Code != http.StatusAccepted || hint != c.id {
			t.Errorf("%s: %s: got %d, hint %q, want 202, %q", c.header, c.value, w.Code, hint, c.id)
		}
	}
}

// certificate writes one for 127.0.0.1 and the authority that signed it.
func certificate(t *testing.T, dir, name string) (caFile, certFile, keyFile string) {
	t.Helper()
	authority := certs.NewAuthority(t, name)
	pair := authority.Issue(t, name, "127.0.0.1")
	caFile, certFile, keyFile = filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certs.Write(t, caFile, authority.PEM)
	certs.Write(t, certFile, pair.Cert)
	certs.Write(t, keyFile, pair.Key)
	return caFile, certFile, keyFile
}

// served is what a server shows of two files.
func served(t *testing.T, certFile, keyFile string) *security.TLSServer {
	t.Helper()
	s, err := security.NewTLSServer(security.TLSFiles{CertFile: certFile, KeyFile: keyFile}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestServerShowsItsCertificateAndTheClientItsToken(t *testing.T) {
	caFile, certFile, keyFile := certificate(t, t.TempDir(), "server")
	d := &oneImport{halted: true}
	access := Access{Token: tokenIs(token), ProtectReads: true, Certificate: served(t, certFile, keyFile)}
	server, err := Listen("127.0.0.1:0", access, quiet{}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler), Imports(d))
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Run(t.Context()) }()
	ask := func(c Credentials) error {
		client, err := NewClient("https://"+server.Address(), c)
		if err != nil {
			t.Fatal(err)
		}
		var one shown
		return client.Release(t.Context(), "customers", &one)
	}
	if err := ask(Credentials{Token: tokenIs(token)}); err == nil || d.released != 0 {
		t.Errorf("a certificate nobody vouches for: got %v and %d releases, want an error", err, d.released)
	}
	if refusal, ok := errors.AsType[*Refusal](ask(Credentials{CAFile: certFile})); !ok || refusal.Status != http.StatusUnauthorized {
		t.Errorf("without the token: got %+v, want 401", refusal)
	}
	if err := ask(Credentials{CAFile: caFile, Token: tokenIs(token)}); err != nil || d.released != 1 {
		t.Errorf("with both: got %v and %d releases, want 1", err, d.released)
	}
	plain, err := NewClient("http://"+server.Address(), Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	if refusal, ok := errors.AsType[*Refusal](plain.Imports(t.Context(), new(any))); !ok || refusal.Status != http.StatusBadRequest {
		t.Errorf("plain HTTP: got %+v, want 400", refusal)
	}
	if _, err := NewClient("https://"+server.Address(), Credentials{CAFile: keyFile}); err == nil {
		t.Error("a CA file without a certificate: got no error")
	}
}

func TestCertificateIsReadAgainWhenItChanges(t *testing.T) {
	dir := t.TempDir()
	_, certFile, keyFile := certificate(t, dir, "first")
	log := slog.New(slog.DiscardHandler)
	server, err := Listen("127.0.0.1:0", Access{Certificate: served(t, certFile, keyFile)}, quiet{}, prometheus.NewRegistry(), log)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for _, name := range []string{"first", "second"} {
		certificate(t, dir, name)
		got, err := server.server.TLSConfig.GetCertificate(nil)
		if err != nil || got.Leaf.Subject.CommonName != name {
			t.Errorf("got %+v, %v, want the %s", got, err, name)
		}
	}
}

func TestClientTakesItsTokenNowhereElse(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect} {
		server := httptest.NewServer(http.RedirectHandler(other.URL, status))
		c, err := NewClient(server.URL, Credentials{Token: tokenIs(token)})
		if err != nil {
			t.Fatal(err)
		}
		var one shown
		err = c.Release(t.Context(), "customers", &one)
		server.Close()
		if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Status != status {
			t.Errorf("a redirect: got %v, want it as a refusal", err)
		}
	}
	if got := elsewhere.Load(); got != 0 {
		t.Errorf("followed %d redirects, want none", got)
	}
}
