package build

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/schemas"
	"github.com/feedsink/feedsink/test/certs"
)

// tokens answers as the token endpoint does, and remembers who asked.
type tokens struct {
	asked  atomic.Int32
	caller atomic.Pointer[string]
	life   string
}

func (s *tokens) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	caller := r.Header.Get("Proxy-Authorization")
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		caller = r.TLS.PeerCertificates[0].Subject.CommonName
	}
	s.caller.Store(&caller)
	_ = json.NewEncoder(w).Encode(map[string]string{"accessToken": "t", "tokenType": "bearer", "expiresIn": s.life})
}

func serviceAt(url string) config.Service {
	return config.Service{
		BaseURL: url, AuthURL: url, Entity: "acme", APIKey: config.NewSecret("key"), Timeout: 5 * time.Second,
	}
}

func TestServiceIsReachedWithCertificatesOfNow(t *testing.T) {
	dir := t.TempDir()
	files := config.Certificates{
		CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem"),
	}
	var side atomic.Pointer[tls.Config]
	// agree has both sides take certificates of a new authority.
	agree := func(name string) {
		authority := certs.NewAuthority(t, name)
		pair := authority.Issue(t, name)
		certs.Write(t, files.CAFile, authority.PEM)
		certs.Write(t, files.CertFile, pair.Cert)
		certs.Write(t, files.KeyFile, pair.Key)
		side.Store(&tls.Config{
			Certificates: []tls.Certificate{authority.Issue(t, "service", "127.0.0.1").TLS(t)}, ClientCAs: authority.Pool,
			ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
		})
	}
	agree("first")
	answers := &tokens{life: "0s"} // so that each call asks
	server := httptest.NewUnstartedServer(answers)
	server.Config.SetKeepAlivesEnabled(false)
	server.TLS = &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return side.Load(), nil },
	}
	server.StartTLS()
	defer server.Close()
	cfg := serviceAt(server.URL)
	if err := authenticate(t, cfg); err == nil {
		t.Error("without certificates: got no error")
	}
	cfg.TLS = files
	for _, name := range []string{"first", "second"} {
		if name != "first" {
			agree(name)
		}
		if err := authenticate(t, cfg); err != nil || *answers.caller.Load() != name {
			t.Errorf("%s: got %v as %q", name, err, *answers.caller.Load())
		}
	}
	cfg.TLS.CAFile = files.KeyFile
	if _, err := NewService(cfg); err == nil || !strings.HasPrefix(err.Error(), "service.tls.caFile: ") {
		t.Errorf("a key for an authority: got %v, want an error that names the key", err)
	}
}

func authenticate(t *testing.T, cfg config.Service) error {
	t.Helper()
	client, err := NewService(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	return client.Authenticate(t.Context())
}

func TestServiceIsReachedThroughTheProxy(t *testing.T) {
	proxy := &tokens{life: "900s"} // it answers in the service's place
	server := httptest.NewServer(proxy)
	defer server.Close()
	cfg := serviceAt("http://service.invalid")
	cfg.Proxy = config.NewAddress(strings.Replace(server.URL, "http://", "http://me:s3cret@", 1))
	if err := authenticate(t, cfg); err != nil {
		t.Fatal(err)
	}
	if got := *proxy.caller.Load(); got != "Basic bWU6czNjcmV0" {
		t.Errorf("login at the proxy: got %q, want that of the address", got)
	}
	server.Close()
	if err := authenticate(t, cfg); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a proxy that is away: got %v, want an error without the password", err)
	}
}

func TestCallsFollowNoRedirect(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		auth := &tokens{life: "900s"}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/auth/token") {
				auth.ServeHTTP(w, r)
				return
			}
			http.Redirect(w, r, other.URL, status)
		}))
		client, err := NewService(serviceAt(server.URL))
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.UpsertRecord(t.Context(), "orders", service.JSON(`{}`), true)
		if failed, ok := errors.AsType[*service.Error](err); !ok || failed.Status() != status || !failed.Transient() {
			t.Errorf("%d: got %v, want it as a failure that may pass", status, err)
		}
		client.Close()
		server.Close()
	}
	if got := elsewhere.Load(); got != 0 {
		t.Errorf("followed %d redirects, want none", got)
	}
}

func TestRegistrysLoginGoesNowhereElse(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/here/subjects/s/versions":
			_, _ = w.Write([]byte("[1, 2]"))
		case strings.HasPrefix(r.URL.Path, "/here/"):
			_, _ = w.Write([]byte(`{"subject":"s","version":2,"id":2,"schema":"\"int\""}`))
		case strings.Contains(r.URL.Path, "/s/"), strings.Contains(r.URL.Path, "/schemas/"):
			http.Redirect(w, r, "/here"+r.URL.Path, http.StatusFound)
		default:
			http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
		}
	}))
	defer server.Close()
	cfg := &config.Config{SchemaRegistry: config.SchemaRegistry{URL: config.NewAddress(strings.Replace(server.URL, "http://", "http://me:s3cret@", 1))}}
	registry, err := NewRegistry(cfg, nil, nil, schemas.RegistryConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer registry.Close()
	if got, err := registry.Subject(t.Context(), "s"); err != nil || got.Versions != 2 {
		t.Errorf("a redirect on the same host: got %+v, %v, want 2", got, err)
	}
	if _, err := registry.Subject(t.Context(), "away"); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a redirect to another host: got %v, want an error without the password", err)
	}
	if got := elsewhere.Load(); got != 0 {
		t.Errorf("followed %d redirects to another host, want none", got)
	}
}

func TestConnectionTakesWhatTheMechanismNeeds(t *testing.T) {
	dir := t.TempDir()
	certs.Write(t, filepath.Join(dir, "secret"), []byte("one\n"))
	c := KafkaConnection(config.Kafka{
		Brokers: []string{"localhost:9092"},
		SASL: config.SASL{Mechanism: "OAUTHBEARER", OAuth: config.OAuth{
			TokenFile: filepath.Join(dir, "secret"), Extensions: []string{"logicalCluster=lkc-1", "identityPoolId=a=b"},
		}},
	}, nil)
	for _, want := range []string{"one", "two"} {
		certs.Write(t, filepath.Join(dir, "secret"), []byte(want))
		if got, err := c.SASL.Token(t.Context()); err != nil || got != want {
			t.Errorf("token: got %q, %v, want %s", got, err, want)
		}
	}
	if got := c.SASL.Extensions; len(got) != 2 || got["logicalCluster"] != "lkc-1" || got["identityPoolId"] != "a=b" {
		t.Errorf("extensions: got %v", got)
	}
}

func TestAdminServersCertificateMustFit(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		certs.Write(t, path, content)
		return path
	}
	ours, other := certs.NewAuthority(t, "a").Issue(t, "ours"), certs.NewAuthority(t, "b").Issue(t, "other")
	cfg := config.Admin{TLS: config.Certificate{CertFile: file("tls.crt", ours.Cert), KeyFile: file("tls.key", ours.Key)}}
	if a, err := AdminAccess(cfg, nil); err != nil || a.Certificate == nil {
		t.Errorf("a pair: got %v, want a certificate to show", err)
	}
	cfg.TLS.KeyFile = file("other.key", other.Key)
	if _, err := AdminAccess(cfg, nil); err == nil || !strings.HasPrefix(err.Error(), "admin.tls.certFile: ") {
		t.Errorf("another's key: got %v, want an error that names the configuration's key", err)
	}
}
