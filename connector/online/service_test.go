package online

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/check"
)

type kadmClient = kadm.Client

func newKadm(c *kgo.Client) *kadmClient { return kadm.NewClient(c) }

func compiled(t *testing.T, cfg *config.Config) *router.Router {
	t.Helper()
	r, problems := check.CompileUnfinished(cfg.Mappings)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return r
}

func TestTableAndEntityThatTheServiceDoesNotKnowFail(t *testing.T) {
	w := newWorld(t)
	w.cfg.Mappings[0].CustomTable = "ordres"
	w.expect("FAIL        table ordres of orders", "the service does not know it; correct customTable")
	w.cfg.Service.Entity = "acmee"
	w.expect("FAIL        entity acmee", "correct service.entity")
	w.cfg.Service.APIKey = config.NewSecret("wrong")
	w.expect("FAIL        token", "correct service.apiKeyFile or service.apiKey")
	w.expect("NOT CHECKED service", "there is no token")
}

// service is one whose answers to reading operations the test decides.
func (w *world) answer(status func(path string) (int, string)) {
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/auth/token") {
			fmt.Fprint(rw, `{"accessToken":"the-token","tokenType":"bearer","expiresIn":"900s"}`)
			return
		}
		if r.Method != http.MethodGet {
			w.t.Errorf("got %s %s, want operations that read", r.Method, r.URL.Path)
		}
		code, body := status(r.URL.Path)
		rw.WriteHeader(code)
		fmt.Fprint(rw, body)
	}))
	w.t.Cleanup(server.Close)
	w.cfg.Service.BaseURL, w.cfg.Service.AuthURL = server.URL, server.URL
}

func TestAnswersThatCannotBeToldApartAreNotChecked(t *testing.T) {
	const table, entity = "table orders of orders", "entity acme"
	for name, c := range map[string]struct {
		answer        func(path string) (int, string)
		table, entity string
	}{
		"the same of everything": {func(string) (int, string) { return 404, `{"error":"not found"}` }, "NOT CHECKED " + table, "NOT CHECKED " + entity},
		"the same but for the names and times": {func(p string) (int, string) {
			return 404, fmt.Sprintf(`{"path":%q,"at":"2026-11-23T10:00:0%dZ"}`, p, len(p)%10)
		}, "NOT CHECKED " + table, "NOT CHECKED " + entity},
		"an empty answer for what is in a table":     {emptyIn("/customTable/orders/"), "OK          " + table, "NOT CHECKED " + entity},
		"another status":                             {statusIn("/acme/"), "NOT CHECKED " + table, "OK          " + entity},
		"no right to read":                           {func(string) (int, string) { return 403, `{}` }, "NOT CHECKED " + table, "NOT CHECKED " + entity},
		"words about the table and no other to tell": {func(string) (int, string) { return 404, `{"error":"no such table"}` }, "FAIL        " + table, "NOT CHECKED " + entity},
		"words about record and table":               {func(string) (int, string) { return 404, `{"error":"no such record or table"}` }, "NOT CHECKED " + table, "NOT CHECKED " + entity},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.t = t
			w.answer(c.answer)
			w.expect(c.table, "")
			w.expect(c.entity, "")
		})
	}
}

func emptyIn(part string) func(string) (int, string) {
	return func(path string) (int, string) {
		if strings.Contains(path, part) {
			return 200, ""
		}
		return 404, `{"error":"not found"}`
	}
}

func statusIn(part string) func(string) (int, string) {
	return func(path string) (int, string) {
		if strings.Contains(path, part) {
			return 404, `{"error":"not found"}`
		}
		return 400, `{"error":"not found"}`
	}
}

func TestWrongAddressOfTheServiceSaysWhichKey(t *testing.T) {
	w := newWorld(t)
	page := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		http.Error(rw, "404 page not found", http.StatusNotFound)
	}))
	t.Cleanup(page.Close)
	auth := w.cfg.Service.AuthURL
	w.cfg.Service.AuthURL = page.URL
	w.expect("FAIL        token", "check service.authURL")
	w.cfg.Service.AuthURL, w.cfg.Service.BaseURL = auth, page.URL
	w.expect("FAIL        service", "check service.baseURL")
	w.expect("NOT CHECKED entity and tables", "the service does not answer")
	w.cfg.Service.BaseURL = "http://127.0.0.1:1"
	w.expect("FAIL        service", "connection refused; check service.baseURL, service.tls and service.proxy")
}

func TestAnswersAreComparedByStatusWhereEvenUnknownNamesDiffer(t *testing.T) {
	err := errors.New("x")
	a, b, c := answer{404, "a", err}, answer{404, "b", err}, answer{404, "c", err}
	if !a.like(b, c) || a.like(b, b) || !a.like(a, a) {
		t.Errorf("got %t %t %t, want true, false, true", a.like(b, c), a.like(b, b), a.like(a, a))
	}
}
