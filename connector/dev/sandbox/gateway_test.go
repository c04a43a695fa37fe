package sandbox_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

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
