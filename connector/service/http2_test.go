package service

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// TestHTTP2IsUsedWhereOffered: over TLS the protocol is agreed upon, and calls
// share connections where it is HTTP/2.
func TestHTTP2IsUsedWhereOffered(t *testing.T) {
	for _, offered := range []bool{true, false} {
		var mu sync.Mutex
		protocols, peers := map[string]int{}, map[string]bool{}
		s := &service{calls: func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			protocols[r.Proto]++
			peers[r.RemoteAddr] = true
			mu.Unlock()
			if string(body) != string(benchBody) {
				http.Error(w, "another body", http.StatusBadRequest)
				return
			}
			_, _ = io.WriteString(w, `{"id":"p1"}`)
		}}
		server := httptest.NewUnstartedServer(s)
		server.EnableHTTP2 = offered
		server.StartTLS()
		t.Cleanup(server.Close)
		transport := newTransport(Config{Timeout: testTimeout})
		transport.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		transport.TLSClientConfig.NextProtos = nil // for the transport to say
		c := newClient(t, Config{BaseURL: server.URL, AuthURL: server.URL, Transport: transport})
		if err := c.Authenticate(t.Context()); err != nil {
			t.Fatal(err)
		}
		var calls sync.WaitGroup
		for range 16 {
			calls.Go(func() {
				for range 5 {
					if _, err := c.UpsertProfile(t.Context(), "customers", benchBody); err != nil {
						t.Errorf("offered %v: %v", offered, err)
					}
				}
			})
		}
		calls.Wait()
		want := map[bool]string{true: "HTTP/2.0", false: "HTTP/1.1"}[offered]
		if protocols[want] != 80 {
			t.Errorf("offered %v: got calls by protocol %v, want 80 of %s", offered, protocols, want)
		}
		if offered && len(peers) != 1 {
			t.Errorf("got %d connections, want one for all calls", len(peers))
		}
	}
}
