package sandbox_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/dev/sandbox/csvfile"
)

// token asks for a token with a key.
func (v *service) askToken(key string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/auth/token", nil)
	r.Header.Set("Authorization", key)
	w := httptest.NewRecorder()
	v.ServeHTTP(w, r)
	return w
}

func TestTokensExpire(t *testing.T) {
	c := config()
	now := newClock(t, fixedTime)
	c.Now, c.TokenLifetime = now.Now, 3*time.Second
	v := newService(t, c)
	answer := v.askToken(apiKey).Body.String()
	for name, want := range map[string]string{"tokenType": "bearer", "expiresIn": "3s", "scope": "read write"} {
		if got := field(t, answer, name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	now.now = now.now.Add(3*time.Second - 1)
	v.profile(`{"attributes":{"customerNumber":"C1"}}`)
	now.now = now.now.Add(1)
	v.must(401, http.MethodPost, profiles, `{"attributes":{"customerNumber":"C1"}}`)
	v.login()
	v.profile(`{"attributes":{"customerNumber":"C1"}}`)
	if got := v.CallCount(14); got != 3 {
		t.Errorf("got %d token requests, want 3", got)
	}
}

func TestOnlyKnownTokensAreTaken(t *testing.T) {
	v := newService(t, config())
	good := v.token
	for _, token := range []string{"", "unknown", apiKey} {
		v.token = token
		v.must(401, http.MethodPost, profiles, `{}`)
	}
	v.token = good
	r := httptest.NewRequest(http.MethodPost, profiles, strings.NewReader(`{}`))
	r.Header.Set("Authorization", good) // without the scheme
	w := httptest.NewRecorder()
	v.ServeHTTP(w, r)
	if w.Code != 401 {
		t.Errorf("token without Bearer: got %d, want 401", w.Code)
	}
}

func TestRevokedKeysGetNoTokenAndLoseTheirs(t *testing.T) {
	v := newService(t, config())
	for _, key := range []string{"", "wrong", "Bearer " + apiKey} {
		if w := v.askToken(key); w.Code != 401 {
			t.Errorf("key %q: got %d, want 401", key, w.Code)
		}
	}
	v.RevokeKey(apiKey)
	v.must(401, http.MethodPost, profiles, `{}`)
	if w := v.askToken(apiKey); w.Code != 401 {
		t.Errorf("revoked key: got %d, want 401", w.Code)
	}
	v.AllowKey(apiKey)
	v.login()
	v.profile(`{"attributes":{"customerNumber":"C1"}}`)
	v.RevokeTokens()
	v.must(401, http.MethodPost, profiles, `{}`)
}

func TestKeysCallOnlyWhatTheyHaveTheRightTo(t *testing.T) {
	const refusal = `{"error":"the API key lacks the access right of this route","status":%d}`
	for _, status := range []int{0, 401, 404} {
		c := config()
		c.Shapes.Status.NoRight = status
		want := cmp.Or(status, 403)
		v := newService(t, c)
		v.AllowKey(apiKey, 1, 12)
		id := v.profile(`{"attributes":{"customerNumber":"C1"}}`)
		for _, call := range []struct{ method, path string }{
			{http.MethodPatch, profiles + "/" + id},
			{http.MethodDelete, profiles + "/" + id},
			{http.MethodPost, records},
			{http.MethodPut, records + "/o1"},
			{http.MethodGet, records + "/o1"},
			{http.MethodDelete, records + "/o1"},
			{http.MethodPost, massBase + "/etl-executions"},
			{http.MethodPost, massBase + "/etls"},
			{http.MethodPost, massBase + "/etls/up/trigger-execution"},
			{http.MethodGet, massBase + "/etl-executions/1/integration-results"},
			{http.MethodPost, "/webhooks/v4/entity/acme/webhookSubscription"},
		} {
			if got := v.must(want, call.method, call.path, ""); got != fmt.Sprintf(refusal, want) {
				t.Errorf("%s %s: got %s", call.method, call.path, got)
			}
		}
		v.AllowKey(apiKey, 3)
		v.must(204, http.MethodDelete, profiles+"/"+id, "") // with the token that it had
		v.must(want, http.MethodPost, profiles, `{}`)
		v.AllowKey(apiKey)
		v.profile(`{"attributes":{"customerNumber":"C1"}}`)
	}
}

func TestNoSecretIsKept(t *testing.T) {
	v := newService(t, config())
	v.askToken(apiKey + "x")
	v.profile(`{"attributes":{"customerNumber":"C1"}}`)
	v.load("up", "customerNumber\nC2\n")
	all, err := json.Marshal([]any{v.Calls(), v.Executions(), v.Faults(), v.Rows("customers")})
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{apiKey, v.token} {
		if strings.Contains(string(all)+fmt.Sprintf("%+v", v.Calls()), secret) {
			t.Errorf("a secret stands in what the sandbox tells")
		}
	}
}

func TestDeprecatedImportIsGone(t *testing.T) {
	v := newService(t, config())
	v.must(410, http.MethodPost, "/mass-imports/v4/entity/acme/table/customers/import", "")
}

func TestConfigurationsThatCannotWorkAreRefused(t *testing.T) {
	_, err := sandbox.New(sandbox.Config{
		Tables: []sandbox.Table{{Name: "a"}, {Name: "a"}},
		Shapes: sandbox.Shapes{Output: "tar"},
		ETLs: []sandbox.ETL{
			{ID: "1"},
			{ID: "2", Loads: []sandbox.Load{{Table: "none", Mode: sandbox.CreateOnly}}},
			{ID: "3", Loads: []sandbox.Load{{Table: "a", Mode: "UPSERT"}}},
			{ID: "4", Loads: []sandbox.Load{{Table: "a", Mode: sandbox.CreateOnly, CSV: csvfile.Format{Encoding: "EBCDIC-NO"}}}},
		},
	})
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{
		"entity", "apiKeys", "table a: a profile table needs", "table a: defined twice", "etl 1: loads no file",
		`etl 2: load 1: no table "none"`, `etl 3: load 1: no import mode "UPSERT"`, "etl 4: load 1: csvFormat.encoding",
		`shapes: output: one of gzip zip is expected, not "tar"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want it to name %q", err, want)
		}
	}
}
