package sandbox_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

func TestOutageKeepsTablesAndTokens(t *testing.T) {
	v := newService(t, config())
	first, err := v.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	v.profile(`{"attributes":{"customerNumber":"C1"}}`)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := http.Get(first.URL() + "/_sandbox/health"); err == nil {
		t.Error("got an answer during the outage")
	}
	again, err := v.Start(strings.TrimPrefix(first.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := http.Get(again.URL() + "/_sandbox/tables/customers/rows")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	var rows map[string]sandbox.Row
	if err := json.NewDecoder(w.Body).Decode(&rows); err != nil || rows["C1"].Text("customerNumber") != "C1" {
		t.Errorf("got %v %v, want C1", rows, err)
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Start("127.0.0.1:0"); err == nil {
		t.Error("a closed sandbox started")
	}
}

func TestControlSteersFromOutside(t *testing.T) {
	v := newService(t, config())
	steer := func(method, path, body string) (int, string) {
		w := httptest.NewRecorder()
		v.ServeHTTP(w, httptest.NewRequest(method, "/_sandbox/"+path, strings.NewReader(body)))
		return w.Code, w.Body.String()
	}
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "health", "", 200, `"status":"ok"`},
		{"POST", "hold", "", 200, ""},
		{"POST", "faults", `{"op":1,"key":"C1","count":1,"apply":true,"answer":"status","status":503,"retryAfter":"2s","delay":"1ms"}`, 200, ""},
		{"POST", "faults", `{"answer":"hang","hold":"soon"}`, 400, "hold: a duration"},
		{"POST", "faults", `{"op":13,"answer":"page","status":200}`, 200, ""},
		{"POST", "faults", `{"op":13,"answer":"text","status":404,"text":"no route"}`, 200, ""},
		{"POST", "faults", `{"op":13,"answer":"switch"}`, 200, ""},
		{"POST", "faults", `{"answer":"page"}`, 400, "status: 0"},
		{"POST", "faults", `{"answer":"shrug"}`, 400, "answer: as-is, status"},
		{"POST", "faults", `{"answer":"status"}`, 400, "status: 0"},
		{"POST", "faults", `{"anwser":"reset"}`, 400, "unknown field"},
		{"GET", "tables/none/rows", "", 404, "no such table"},
		{"POST", "executions/77/finish", "", 404, "no such execution"},
	} {
		if status, got := steer(c.method, c.path, c.body); status != c.status || !strings.Contains(got, c.want) {
			t.Errorf("%s %s %s: got %d %s, want %d %s", c.method, c.path, c.body, status, got, c.status, c.want)
		}
	}
	if w := v.send(http.MethodPost, profiles, "", strings.NewReader(`{"attributes":{"customerNumber":"C1"}}`)); w.Code != 503 || w.Header().Get("Retry-After") != "2" {
		t.Errorf("injected: got %d %v", w.Code, w.Header())
	}
	v.push("up", "file.csv", []byte("customerNumber\nC2\n"))
	for path, want := range map[string]string{
		"executions": `"status":"IN_PROGRESS"`, "tables/customers/rows": `"C1"`, "calls": `"fault":true`,
		"counts": `"10":1`, "tables/customers/slots": `:1}`,
	} {
		if status, got := steer("GET", path, ""); status != 200 || !strings.Contains(got, want) {
			t.Errorf("%s: got %d %s, want %s", path, status, got, want)
		}
	}
	if status, got := steer("POST", "executions/1001/finish", ""); status != 200 || !strings.Contains(got, `"status":"FINISHED"`) {
		t.Errorf("finish: got %d %s", status, got)
	}
	steer("POST", "release", "")
	if status, _ := steer("DELETE", "faults", ""); status != 200 || len(v.Faults()) != 0 {
		t.Errorf("faults left: %v", v.Faults())
	}
}

// BenchmarkUpsert is the cost of one call inside the service, no log kept.
func BenchmarkUpsert(b *testing.B) {
	c := config()
	c.KeepCalls = 0
	s, err := sandbox.New(c)
	if err != nil {
		b.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/auth/token", nil)
	r.Header.Set("Authorization", apiKey)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	var token struct{ AccessToken string }
	if err := json.Unmarshal(w.Body.Bytes(), &token); err != nil {
		b.Fatal(err)
	}
	body := []byte(`{"attributes":{"customerNumber":"C000123","emailAddress":"a@example.com","languages":["fr","en"],"age":40},"subscriptions":{"newsletter":true},"segments":{"vip":true,"tier":"gold"}}`)
	for b.Loop() {
		r := httptest.NewRequest(http.MethodPost, profiles, bytes.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token.AccessToken)
		s.ServeHTTP(httptest.NewRecorder(), r)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}
