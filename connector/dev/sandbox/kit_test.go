package sandbox_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

const (
	apiKey    = "very-secret-key"
	profiles  = "/profiles/v5/entities/acme/profile-tables/customers/profiles"
	records   = "/custom-data/v4/entity/acme/customTable/orders/record"
	massBase  = "/mass-imports/v5/entities/acme"
	fixedTime = "2026-11-21T10:00:00Z"
)

// config is a service with one table of each kind.
func config() sandbox.Config {
	return sandbox.Config{
		Entity:  "acme",
		APIKeys: []string{apiKey},
		Tables: []sandbox.Table{{
			Name: "customers",
			Keys: []string{"customerNumber", "emailAddress"},
			Fields: []sandbox.Field{
				{Name: "customerNumber"},
				{Name: "emailAddress", Format: sandbox.Email},
				{Name: "firstName", MaxLength: 10},
				{Name: "age", Type: sandbox.Integer},
				{Name: "score", Type: sandbox.Number},
				{Name: "adult", Type: sandbox.Boolean},
				{Name: "birthDate", Type: sandbox.Date},
				{Name: "lastLogin", Type: sandbox.Timestamp},
				{Name: "languages", Multi: true, Format: sandbox.Language},
				{Name: "phone", Format: sandbox.Phone},
				{Name: "country", Format: sandbox.Country},
				{Name: "sex", Format: sandbox.Sex},
				{Name: "title", Format: sandbox.Title},
				{Name: "home", Format: sandbox.UTM},
				{Name: "note"},
			},
			Subscriptions: []string{"newsletter"},
			Segments:      []sandbox.Segment{{Name: "vip"}, {Name: "tier", Values: []string{"gold", "silver"}}},
		}, {
			Name:   "orders",
			Custom: true,
			Fields: []sandbox.Field{
				{Name: "total", Type: sandbox.Number},
				{Name: "status"},
				{Name: "paid", Type: sandbox.Boolean},
				{Name: "placed", Type: sandbox.Timestamp},
			},
		}},
		ETLs: []sandbox.ETL{
			etl("up", sandbox.CreateOrUpdate), etl("new", sandbox.CreateOnly),
			etl("change", sandbox.UpdateOnly), etl("drop", sandbox.DeleteRows),
			{ID: "orders", Loads: []sandbox.Load{{Table: "orders", Mode: sandbox.CreateUpdate, GenerateErrorFiles: true}}},
		},
		KeepCalls: 10000,
	}
}

func etl(id string, mode sandbox.Mode) sandbox.ETL {
	return sandbox.ETL{ID: id, Loads: []sandbox.Load{{Table: "customers", Mode: mode, GenerateErrorFiles: true}}}
}

// service calls a sandbox without a socket, as one client with one token.
type service struct {
	*sandbox.Sandbox
	t     *testing.T
	token string
}

func newService(t *testing.T, c sandbox.Config) *service {
	t.Helper()
	s, err := sandbox.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	v := &service{Sandbox: s, t: t}
	v.login()
	return v
}

func (v *service) login() {
	v.t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/auth/token", nil)
	r.Header.Set("Authorization", apiKey)
	w := httptest.NewRecorder()
	v.ServeHTTP(w, r)
	var body struct{ AccessToken string }
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != http.StatusOK {
		v.t.Fatalf("token: %d %s", w.Code, w.Body)
	}
	v.token = body.AccessToken
}

// call sends a JSON body given as text and returns what was answered.
func (v *service) call(method, path, body string) (int, string) {
	v.t.Helper()
	w := v.send(method, path, "application/json", strings.NewReader(body))
	return w.Code, strings.TrimSpace(w.Body.String())
}

func (v *service) send(method, path, contentType string, body io.Reader) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, body)
	r.Header.Set("Authorization", "Bearer "+v.token)
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	v.ServeHTTP(w, r)
	return w
}

// must sends a call that has to be answered with a status and returns the body.
func (v *service) must(status int, method, path, body string) string {
	v.t.Helper()
	got, answer := v.call(method, path, body)
	if got != status {
		v.t.Fatalf("%s %s: got %d %s, want %d", method, path, got, answer, status)
	}
	return answer
}

// profile creates or replaces a profile and returns its id.
func (v *service) profile(body string) string {
	v.t.Helper()
	return field(v.t, v.must(http.StatusOK, http.MethodPost, profiles, body), "id")
}

// push triggers an ETL with a file and returns the answer.
func (v *service) push(etl, name string, content []byte) *httptest.ResponseRecorder {
	v.t.Helper()
	kind, body := form(v.t, map[string][]byte{"inputFile": content}, name)
	return v.send(http.MethodPost, massBase+"/etls/"+etl+"/trigger-execution", kind, body)
}

// load pushes a CSV, waits for its end and returns the execution.
func (v *service) load(etl, csv string) sandbox.Execution {
	v.t.Helper()
	return v.finish(v.push(etl, "file.csv", []byte(csv)))
}

// finish ends the execution that an answer speaks of.
func (v *service) finish(w *httptest.ResponseRecorder) sandbox.Execution {
	v.t.Helper()
	if w.Code != http.StatusOK {
		v.t.Fatalf("execution: got %d %s, want 200", w.Code, w.Body)
	}
	id := field(v.t, w.Body.String(), "id")
	if err := v.Finish(id); err != nil {
		v.t.Fatal(err)
	}
	e, err := v.Execution(id)
	if err != nil {
		v.t.Fatal(err)
	}
	return e
}

// form is a multipart body and its content type.
func form(t *testing.T, parts map[string][]byte, fileName string) (string, *bytes.Buffer) {
	t.Helper()
	var body bytes.Buffer
	m := multipart.NewWriter(&body)
	for name, content := range parts {
		kind := map[string]string{"oneshotEtl": "application/json"}[name]
		w, err := m.CreatePart(textproto.MIMEHeader{
			"Content-Disposition": {multipart.FileContentDisposition(name, fileName)},
			"Content-Type":        {cmp.Or(kind, "text/csv")},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	return m.FormDataContentType(), &body
}

// field reads one text field of a JSON object.
func field(t *testing.T, body, name string) string {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(body), &object); err != nil {
		t.Fatalf("not an object: %s", body)
	}
	text, ok := object[name].(string)
	if !ok {
		t.Fatalf("no text %s in %s", name, body)
	}
	return text
}

// wantRow compares a row's values as text.
func (v *service) wantRow(table, key string, want map[string]string) {
	v.t.Helper()
	row, ok := v.Row(table, key)
	if !ok {
		v.t.Fatalf("table %s has no row %s", table, key)
	}
	got := map[string]string{}
	for name := range row.Values {
		got[name] = row.Text(name)
	}
	if !maps.Equal(got, want) {
		v.t.Errorf("row %s of %s:\n got %v\nwant %v", key, table, got, want)
	}
}

// clock is a settable Config.Now.
type clock struct{ now time.Time }

func newClock(t *testing.T, at string) *clock {
	t.Helper()
	now, err := time.Parse(time.RFC3339, at)
	if err != nil {
		t.Fatal(err)
	}
	return &clock{now}
}

func (c *clock) Now() time.Time { return c.now }
