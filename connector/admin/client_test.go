package admin

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func client(t *testing.T, server string) *Client {
	t.Helper()
	c, err := NewClient(server, Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestClientAsksAndReleases(t *testing.T) {
	d := &oneImport{halted: true}
	c := client(t, d.serve(t))
	var list []shown
	if err := c.Imports(t.Context(), &list); err != nil || len(list) != 1 || list[0] != (shown{"customers", 7}) {
		t.Fatalf("list: got %v, %v, want customers with 7 rows", list, err)
	}
	var one shown
	if err := c.Import(t.Context(), "customers", &one); err != nil || one != list[0] {
		t.Errorf("one: got %v, %v, want %v", one, err, list[0])
	}
	var released shown
	if err := c.Release(t.Context(), "customers", &released); err != nil || d.released != 1 || released.Mapping != "customers" {
		t.Errorf("release: got %v, %v after %d releases, want customers after 1", released, err, d.released)
	}
	refusal, ok := errors.AsType[*Refusal](c.Release(t.Context(), "customers", &released))
	if !ok || refusal.Status != http.StatusConflict || refusal.Error() != "mapping customers: is not halted" {
		t.Errorf("second release: got %+v, want 409 and the server's words", refusal)
	}
}

func TestClientEscapesTheMapping(t *testing.T) {
	d := &oneImport{}
	c := client(t, d.serve(t)+"/")
	const odd = "ä b/c?d=%2F#e"
	if err := c.Import(t.Context(), odd, new(shown)); err == nil {
		t.Error("got no error, want that it is not there")
	}
	if len(d.asked) != 1 || d.asked[0] != odd {
		t.Errorf("the server was asked for %q, want %q", d.asked, odd)
	}
}

func TestClientAsksForNothingElseThanTheMapping(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the server was asked: %s %s", r.Method, r.URL)
	}))
	defer server.Close()
	c, into := client(t, server.URL), new(shown)
	for _, name := range []string{"", ".", ".."} {
		for what, err := range map[string]error{
			"import": c.Import(t.Context(), name, into), "reason": c.Reason(t.Context(), name, into), "release": c.Release(t.Context(), name, into),
			"roll": c.Roll(t.Context(), name, false, into), "slots": c.TakeSlot(t.Context(), name, into),
			"pause": c.Pause(t.Context(), name, PauseRequest{}, into), "resume": c.Resume(t.Context(), name, "", into),
		} {
			if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Status != http.StatusNotFound || refusal.Message != "mapping "+name+": is not in the configuration" {
				t.Errorf("%s %q: got %v, want that there is none", what, name, err)
			}
		}
		if refusal, ok := errors.AsType[*Refusal](c.SetLogLevel(t.Context(), name, into)); !ok || refusal.Status != http.StatusBadRequest {
			t.Errorf("log level %q: got %v, want that there is none", name, refusal)
		}
	}
}

func TestClientTellsAnotherServerFromASink(t *testing.T) {
	for _, c := range []struct {
		status     int
		kind, body string
		sink       bool
		want       string
	}{
		{200, "text/html", "<html>a proxy's page</html>", false, "200 OK: " + noSink},
		{200, "application/json", `[{"mapping":"UP"}]`, false, "200 OK: " + noSink},
		{302, "text/html", "", false, "302 Found, to https://login.example.com/: " + noSink},
		{404, "text/html", "<html>not found</html>", false, "404 Not Found: " + noSink},
		{404, "text/plain; charset=utf-8", "404 page not found\n", false, "404 Not Found: " + noSink},
		{502, "text/html", "<html>bad gateway</html>", false, "502 Bad Gateway: " + noSink},
		{400, "", "Client sent an HTTP request to an HTTPS server.\n", false, "400 Bad Request: the server there speaks TLS; write https://"},
		{200, "application/json", `[{"mapping":`, true, "is not a sink's"},
		{200, "application/json", `{"rows":"many"}`, true, "is not a sink's"},
		{500, "text/plain; charset=utf-8", "", true, "500 Internal Server Error"},
		{404, "text/plain; charset=utf-8", "404 page not found\n", true, "404 page not found"},
		{500, "text/plain", strings.Repeat("never ", 1<<20), true, "never"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if c.sink {
				w.Header().Set(changeHeader, sinksValue)
			}
			if c.status == http.StatusFound {
				w.Header().Set("Location", "https://u:p@login.example.com/?next=secret")
			}
			w.Header().Set("Content-Type", c.kind)
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body)) // the client may stop reading
		}))
		err := client(t, server.URL).Imports(t.Context(), new([]shown))
		server.Close()
		if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 2*maxRefusal {
			t.Errorf("%d %s: got %.200v, want %q", c.status, c.kind, err, c.want)
		}
		if refusal, ok := errors.AsType[*Refusal](err); ok != (c.status != 200) || ok && refusal.Status != c.status {
			t.Errorf("%d %s: got refusal %+v, want one with this status if it is no 200", c.status, c.kind, refusal)
		}
	}
}

func TestClientTakesAddressesOnly(t *testing.T) {
	for _, server := range []string{"", "localhost:8080", "127.0.0.1", "ftp://localhost", "http://", "http://a b", "/imports"} {
		if _, err := NewClient(server, Credentials{}); err == nil || !strings.Contains(err.Error(), "http://HOST:PORT") {
			t.Errorf("%q: got %v, want an error that shows the form", server, err)
		}
	}
}
