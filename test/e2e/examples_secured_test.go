//go:build !image

package e2e_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/feedsink/feedsink/test/certs"
)

// behind serves what is at an address by TLS, to who may enter.
func behind(t *testing.T, authority *certs.Authority, address string, want tls.ClientAuthType, enters func(*http.Request) bool) string {
	t.Helper()
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !enters(r) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{authority.Issue(t, "server", "127.0.0.1").TLS(t)},
		ClientCAs:    authority.Pool, ClientAuth: want, MinVersion: tls.VersionTLS12,
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

// secure puts service and registry behind what the example says of them.
func (x *example) secure() {
	x.t.Helper()
	if service := &x.cfg.Service; service.TLS.CAFile != "" {
		want := tls.NoClientCert
		if service.TLS.CertFile != "" {
			want = tls.RequireAndVerifyClientCert
		}
		address := behind(x.t, x.authority, service.BaseURL, want, func(*http.Request) bool { return true })
		service.BaseURL, service.AuthURL = address, address
	}
}

// registryAddress is where the example finds the registry that is at an address.
func (x *example) registryAddress(address string) string {
	x.t.Helper()
	if x.cfg.SchemaRegistry.TLS.CAFile == "" {
		return address
	}
	return behind(x.t, x.authority, address, tls.NoClientCert, func(r *http.Request) bool {
		user, password, _ := r.BasicAuth()
		return user == x.cfg.SchemaRegistry.Username && password == apiKey
	})
}

// guards asks the sink's admin server with and without what the example wants.
func (x *example) guards(sink *running) {
	x.t.Helper()
	if x.cfg.Admin.TLS.CertFile == "" {
		return
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: x.authority.Pool, MinVersion: tls.VersionTLS12}}}
	defer client.CloseIdleConnections()
	for token, want := range map[string]int{"": http.StatusUnauthorized, "wrong": http.StatusUnauthorized, apiKey: http.StatusOK} {
		req, err := http.NewRequestWithContext(x.t.Context(), http.MethodGet, "https://"+sink.AdminAddress()+"/status", nil)
		if err != nil {
			x.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := client.Do(req)
		if err != nil {
			x.t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			x.t.Errorf("/status with token %q: got %d, want %d", token, resp.StatusCode, want)
		}
	}
}
