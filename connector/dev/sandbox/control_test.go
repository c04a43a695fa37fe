package sandbox_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
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

// get asks without a token, as a browser does.
func (v *service) get(path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	v.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

// overview is what the page gets.
func (v *service) overview() sandbox.Overview {
	v.t.Helper()
	var o sandbox.Overview
	if w := v.get("/_sandbox/overview"); json.Unmarshal(w.Body.Bytes(), &o) != nil || w.Code != 200 {
		v.t.Fatalf("overview: got %d %s", w.Code, w.Body)
	}
	return o
}

func TestPageNeedsNothingFromElsewhere(t *testing.T) {
	v := newService(t, config())
	if w := v.get("/"); w.Code != http.StatusFound || w.Header().Get("Location") != "/_sandbox/" {
		t.Errorf("bare address: got %d to %q, want the page", w.Code, w.Header().Get("Location"))
	}
	w := v.get("/_sandbox/")
	page := w.Body.String()
	if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") || !strings.HasPrefix(page, "<!doctype html>") {
		t.Fatalf("got %d %s", w.Code, w.Header())
	}
	if found := regexp.MustCompile(`https?://|//[a-z]|src=|@import|innerHTML|url\(`).FindAllString(page, -1); found != nil {
		t.Errorf("the page refers to something outside: %q", found)
	}
	script := page[strings.Index(page, "<script>")+len("<script>") : strings.Index(page, "</script>")]
	sum := sha256.Sum256([]byte(script))
	if hash := base64.StdEncoding.EncodeToString(sum[:]); !strings.Contains(w.Header().Get("Content-Security-Policy"), "script-src 'sha256-"+hash+"';") {
		t.Errorf("got policy %q, want it to let this script run alone", w.Header().Get("Content-Security-Policy"))
	}
	for _, secret := range []string{apiKey, v.token} {
		if strings.Contains(page+v.get("/_sandbox/overview").Body.String(), secret) {
			t.Error("a secret stands in the page")
		}
	}
}

func TestOverviewShowsEverythingOnce(t *testing.T) {
	v := newService(t, config())
	empty := v.overview()
	if len(empty.Tables) != 2 || empty.Tables[0].Rows != 0 || len(empty.Executions) != 0 || len(empty.Calls) != 1 || empty.Counts[14] != 1 {
		t.Errorf("nothing done: got %+v", empty)
	}
	for i := range 60 {
		v.profile(fmt.Sprintf(`{"attributes":{"customerNumber":"C%02d"}}`, i))
	}
	v.load("up", "customerNumber\nC98\nC99\n")
	v.Hold()
	v.push("change", "held.csv", []byte("customerNumber\nC99\n"))
	v.Inject(sandbox.Fault{Answer: sandbox.Status(503)}, sandbox.Fault{Match: sandbox.Match{Op: 2}, Count: 1, Answer: sandbox.Status(503)})
	o := v.overview()
	if o.Entity != "acme" || !o.Held || o.Faults != 2 || o.Counts[1] != 60 || o.Counts[10] != 2 {
		t.Errorf("got entity %s, held %t, %d faults, counts %v", o.Entity, o.Held, o.Faults, o.Counts)
	}
	if c := o.Tables[0]; c.Name != "customers" || c.Custom || c.Rows != 62 || c.SlotsUsed != 2 || c.SlotsPerDay != 12 {
		t.Errorf("customers: got %+v", c)
	}
	if len(o.Executions) != 2 || o.Executions[0].Status != sandbox.InProgress || o.Executions[1].Results.Inserted != 2 || o.Executions[1].Loads[0].Keys != nil {
		t.Errorf("executions, the newest first: got %+v", o.Executions)
	}
	if e, err := v.Execution(o.Executions[1].ID); err != nil || len(e.Loads[0].Keys) != 2 {
		t.Errorf("the execution itself lost its keys: %+v %v", e, err)
	}
	if len(o.Calls) != 63 || o.Calls[0].Op != 10 || o.Calls[62].Op != 14 {
		t.Errorf("calls, the newest first: got %d, %+v first", len(o.Calls), o.Calls[0])
	}
	if len(o.ETLs) != 5 || o.ETLs[0].ID != "up" || o.ETLs[0].Loads[0] != "customers CREATE_OR_UPDATE" {
		t.Errorf("ETLs, short ids first: got %+v", o.ETLs)
	}
	v.ClearFaults()
	v.Inject(sandbox.Fault{Match: sandbox.Match{Op: 2}, Count: 1, Answer: sandbox.Status(503)})
	v.must(503, http.MethodPatch, profiles+"/p1", `{}`)
	if got := v.overview().Faults; got != 0 {
		t.Errorf("used up: got %d faults, want none", got)
	}
}

func TestNewestRowsComeFirst(t *testing.T) {
	c := config()
	now := newClock(t, fixedTime)
	c.Now = now.Now
	v := newService(t, c)
	for _, i := range []int{3, 1, 4, 5, 2, 1} {
		now.now = now.now.Add(1e9)
		v.profile(fmt.Sprintf(`{"attributes":{"customerNumber":"C%d"}}`, i))
	}
	var rows map[string]sandbox.Row
	if err := json.Unmarshal(v.get("/_sandbox/tables/customers/rows?limit=3").Body.Bytes(), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 3 || rows["C1"].ID == "" || rows["C2"].ID == "" || rows["C5"].ID == "" {
		t.Errorf("got %v, want C1, C2 and C5", rows)
	}
	for path, want := range map[string]int{"customers/rows?limit=0": 400, "customers/rows?limit=x": 400, "nobody/rows?limit=1": 404, "orders/rows?limit=1": 200} {
		if w := v.get("/_sandbox/tables/" + path); w.Code != want {
			t.Errorf("%s: got %d %s, want %d", path, w.Code, w.Body, want)
		}
	}
}

func TestControlSteersKeysAndRejections(t *testing.T) {
	v := newService(t, config())
	steer := func(method, path, body string, want int) {
		t.Helper()
		w := httptest.NewRecorder()
		v.ServeHTTP(w, httptest.NewRequest(method, "/_sandbox/"+path, strings.NewReader(body)))
		if w.Code != want || strings.Contains(w.Body.String(), apiKey) {
			t.Errorf("%s %s %s: got %d %s, want %d", method, path, body, w.Code, w.Body, want)
		}
	}
	steer("POST", "keys", `{"key":"`+apiKey+`","operations":[10,12]}`, 200)
	v.must(403, http.MethodPost, profiles, `{}`)
	steer("POST", "rejections", `{"column":"customerNumber","match":"1$","reason":"ends with one"}`, 200)
	e := v.load("up", "customerNumber\nC1\nC2\n")
	if got := v.must(200, http.MethodGet, massBase+"/etl-executions/"+e.ID+"/output-files", ""); !strings.Contains(got, "C1,ends with one") {
		t.Errorf("got %s", got)
	}
	steer("DELETE", "rejections", ``, 200)
	if e := v.load("up", "customerNumber\nC1\nC2\n"); e.Results.InError != 0 {
		t.Errorf("got %+v, want no row in error", e.Results)
	}
	steer("DELETE", "tokens", ``, 200)
	v.must(401, http.MethodPost, profiles, `{}`)
	v.login()
	steer("POST", "keys", `{"key":"`+apiKey+`","revoked":true}`, 200)
	v.must(401, http.MethodPost, profiles, `{}`)
	steer("POST", "keys", `{"revoked":true}`, 400)
	steer("POST", "keys", `{"`+apiKey, 400)
	steer("POST", "rejections", `{"column":"a","match":"("}`, 400)
}
