package imports

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/service"
)

// inProcess hands a request to the service without a network.
type inProcess struct{ service http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	p.service.ServeHTTP(answer, r)
	return answer.Result(), nil
}

// startService is the service with an ETL 101 into customers, and its client.
func startService(t *testing.T) (*sandbox.Sandbox, *service.Client) {
	t.Helper()
	return serviceAt(t, func(s *sandbox.Sandbox) (string, http.RoundTripper) {
		server := httptest.NewServer(s)
		t.Cleanup(server.Close)
		return server.URL, nil
	})
}

// startInBubble is startService without a network, for virtual time. It takes no files.
func startInBubble(t *testing.T) (*sandbox.Sandbox, *service.Client) {
	t.Helper()
	return serviceAt(t, func(s *sandbox.Sandbox) (string, http.RoundTripper) { return "http://service", inProcess{s} })
}

func serviceAt(t *testing.T, listen func(*sandbox.Sandbox) (url string, transport http.RoundTripper)) (*sandbox.Sandbox, *service.Client) {
	t.Helper()
	s, err := sandbox.New(sandbox.Config{
		Entity: "acme", APIKeys: []string{"key"}, Dir: t.TempDir(),
		Tables: []sandbox.Table{
			{Name: "customers", Keys: []string{"customerNumber"}, Fields: []sandbox.Field{{Name: "name"}}},
			{Name: "orders", Custom: true, Fields: []sandbox.Field{{Name: "status"}}},
		},
		ETLs: []sandbox.ETL{{ID: "101", Loads: []sandbox.Load{{Table: "customers", Mode: sandbox.CreateOrUpdate, GenerateErrorFiles: true}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	url, transport := listen(s)
	client, err := service.New(service.Config{
		BaseURL: url, AuthURL: url, Entity: "acme", Timeout: time.Minute, Transport: transport,
		APIKey: func() (service.Secret, error) { return service.NewSecret("key"), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, client
}
