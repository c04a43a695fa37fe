package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// oneImport is an API with one mapping, customers, and a mapping that breaks.
type oneImport struct {
	oneLevel // of the log, beside it

	asked    []string // mappings, as they came
	released int
	taken    int
	halted   bool
	rolled   []string // mapping and whether the reserve may be taken
	paused   []PauseRequest
}

type shown struct {
	Mapping string `json:"mapping"`
	Rows    int    `json:"rows"`
}

func (d *oneImport) Imports() any { return []shown{{"customers", 7}} }

func (d *oneImport) Import(mapping string) (any, error) {
	d.asked = append(d.asked, mapping)
	switch mapping {
	case "customers":
		return shown{mapping, 7}, nil
	case "broken":
		return nil, errors.New("the disk is gone")
	}
	return nil, &Refusal{Status: http.StatusNotFound, Message: "mapping " + mapping + ": is not there"}
}

func (d *oneImport) Release(mapping string) (any, error) {
	if _, err := d.Import(mapping); err != nil {
		return nil, err
	}
	if !d.halted {
		return nil, &Refusal{Status: http.StatusConflict, Message: "mapping customers: is not halted"}
	}
	d.halted = false
	d.released++
	return shown{mapping, 7}, nil
}

func (d *oneImport) Roll(_ context.Context, mapping string, reserve bool) (any, error) {
	d.rolled = append(d.rolled, fmt.Sprint(mapping, " ", reserve))
	return d.Import(mapping)
}

func (d *oneImport) Pause(_ context.Context, mapping string, asked PauseRequest) (any, error) {
	d.paused = append(d.paused, asked)
	return d.Import(mapping)
}

func (d *oneImport) Resume(ctx context.Context, mapping, lane string) (any, error) {
	return d.Pause(ctx, mapping, PauseRequest{Lane: lane})
}

func (d *oneImport) Reason(_ context.Context, mapping string) (any, error) { return d.Import(mapping) }

func (d *oneImport) TakeSlot(_ context.Context, mapping string) (any, error) {
	if _, err := d.Import(mapping); err != nil {
		return nil, err
	}
	d.taken++
	return shown{mapping, 7}, nil
}

// serve is a server with nothing but the API's endpoints.
func (d *oneImport) serve(t *testing.T) string {
	mux := http.NewServeMux()
	Imports(d)(mux)
	Mappings(d)(mux)
	server := httptest.NewServer(asIs(mux))
	t.Cleanup(server.Close)
	return server.URL
}

// request sends one without the client, with these headers: name, value, …
func request(t *testing.T, method, url string, headers ...string) (status int, body string) {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, url, nil)
	req.RequestURI = ""
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var b strings.Builder
	if err := resp.Write(&b); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, b.String()
}

func TestReleaseNeedsTheHeaderNoForeignPageCanSend(t *testing.T) {
	d := &oneImport{halted: true}
	url := d.serve(t) + "/imports/customers/release"
	for name, headers := range map[string][]string{
		"none": nil, "another value": {"X-Feedsink", "yes"}, "a form's": {"Content-Type", "application/x-www-form-urlencoded"},
	} {
		if status, body := request(t, http.MethodPost, url, headers...); status != http.StatusForbidden || !strings.Contains(body, "X-Feedsink: imports") {
			t.Errorf("header %s: got %d, %q, want 403 and the header's name", name, status, body)
		}
	}
	if status, _ := request(t, http.MethodGet, url, "X-Feedsink", "imports"); status != http.StatusMethodNotAllowed {
		t.Errorf("GET: got %d, want 405: reading changes nothing", status)
	}
	if d.released != 0 || len(d.asked) != 0 {
		t.Errorf("the API was asked for %q and released %d times, want neither", d.asked, d.released)
	}
	if status, body := request(t, http.MethodPost, url, "X-Feedsink", "imports"); status != http.StatusAccepted || d.released != 1 {
		t.Errorf("with the header: got %d, %q and %d releases, want 202 and 1", status, body, d.released)
	}
}

func TestEveryRefusalKeepsItsStatusAndWords(t *testing.T) {
	base := (&oneImport{}).serve(t)
	for _, c := range []struct {
		method, path string
		status       int
		words        string
	}{
		{http.MethodGet, "/imports/nobody", 404, "mapping nobody: is not there"},
		{http.MethodPost, "/imports/nobody/release", 404, "mapping nobody: is not there"},
		{http.MethodPost, "/imports/nobody/slots", 404, "mapping nobody: is not there"},
		{http.MethodPost, "/imports/customers/slots", 202, `"rows": 7`},
		{http.MethodPost, "/imports/customers/release", 409, "mapping customers: is not halted"},
		{http.MethodPost, "/imports/nobody/roll", 404, "mapping nobody: is not there"},
		{http.MethodGet, "/imports/broken", 500, "the disk is gone"},
	} {
		status, body := request(t, c.method, base+c.path, "X-Feedsink", "imports")
		if status != c.status || !strings.Contains(body, c.words) {
			t.Errorf("%s %s: got %d, %q, want %d, %q", c.method, c.path, status, body, c.status, c.words)
		}
	}
}

func TestServerHasThePartsItIsGiven(t *testing.T) {
	server := httptest.NewServer(asIs(routes(nil, nil, Imports(&oneImport{}))))
	t.Cleanup(server.Close)
	if status, body := request(t, http.MethodGet, server.URL+"/imports"); status != http.StatusOK || !strings.Contains(body, `"rows": 7`) {
		t.Errorf("/imports: got %d, %q, want 200 and the list", status, body)
	}
}
