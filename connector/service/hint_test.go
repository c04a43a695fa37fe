package service_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/feedsink/feedsink/connector/service"
)

func TestHintNamesTheSettingThatIsWrong(t *testing.T) {
	status := http.StatusUnauthorized
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	ask := func(address string) string {
		client, err := service.New(service.Config{
			BaseURL: address, AuthURL: address, Entity: "acme", Timeout: 5e9,
			APIKey: func() (service.Secret, error) { return service.NewSecret("key"), nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		return service.Hint(client.Authenticate(t.Context()), "service.authURL")
	}
	for _, c := range []struct {
		status        int
		address, want string
	}{
		{0, "http://127.0.0.1:1", "check service.authURL, service.tls and service.proxy"},
		{401, server.URL, "correct service.apiKeyFile or service.apiKey"},
		{404, server.URL, ""}, // the error names the setting
		{429, server.URL, "it has too much to do: try again later"},
		{500, server.URL, "try again later, and check service.authURL if it stays so"},
	} {
		status = c.status
		if got := ask(c.address); got != c.want {
			t.Errorf("%d: got %q, want %q", c.status, got, c.want)
		}
	}
	if got := service.Hint(errors.New("x"), "service.authURL"); got != "" {
		t.Errorf("another error: got %q, want none", got)
	}
}
