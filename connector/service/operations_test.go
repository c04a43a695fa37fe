package service

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// seen is one request as it arrived.
type seen struct{ method, address, contentType, body string }

// example is a call, the request it must make and a fitting answer.
type example struct {
	name  string
	call  func() error
	want  seen
	reply string
}

func operations(ctx context.Context, c *Client, body JSON) []example {
	const profiles = "/profiles/v5/entities/acme/profile-tables/cust%2Fomers/profiles"
	const records = "/custom-data/v4/entity/acme/customTable/orders/record"
	const imports = "/mass-imports/v5/entities/acme"
	const asJSON = "application/json"
	return []example{
		{
			"1", func() error { _, err := c.UpsertProfile(ctx, "cust/omers", body); return err },
			seen{"POST", profiles, asJSON, string(body)},
			`{"id":"7"}`,
		},
		{
			"2", func() error { _, err := c.PatchProfile(ctx, "cust/omers", "a b", body); return err },
			seen{"PATCH", profiles + "/a%20b", asJSON, string(body)},
			`{"id":"7"}`,
		},
		{
			"3", func() error { return c.DeleteProfile(ctx, "cust/omers", "ü?#%") },
			seen{"DELETE", profiles + "/%C3%BC%3F%23%25", "", ""},
			"",
		},
		{
			"4", func() error { _, err := c.UpsertRecord(ctx, "orders", body, true); return err },
			seen{"POST", records + "?allowUpdate=true", asJSON, string(body)},
			`{"businessKey":"k"}`,
		},
		{
			"4 create", func() error { _, err := c.UpsertRecord(ctx, "orders", body, false); return err },
			seen{"POST", records + "?allowUpdate=false", asJSON, string(body)},
			`{"businessKey":"k"}`,
		},
		{
			"5", func() error { _, err := c.UpdateRecord(ctx, "orders", "../k", body); return err },
			seen{"PUT", records + "/..%2Fk", asJSON, string(body)},
			"",
		},
		{
			"6", func() error { _, err := c.GetRecord(ctx, "orders", "k"); return err },
			seen{"GET", records + "/k", "", ""},
			`{"businessKey":"k","properties":[]}`,
		},
		{
			"7", func() error { return c.DeleteRecord(ctx, "orders", "k") },
			seen{"DELETE", records + "/k", "", ""},
			"",
		},
		{
			"8 remote", func() error { _, err := c.OneShotRemote(ctx, remoteETL(), nil); return err },
			seen{"POST", imports + "/etl-executions", asJSON, string(raw(remoteETL()))},
			`{"id":1}`,
		},
		{
			"9", func() error { _, err := c.CreateETL(ctx, triggeredETL()); return err },
			seen{"POST", imports + "/etls", asJSON, string(raw(triggeredETL()))},
			`{"id":1}`,
		},
		{
			"10 remote", func() error { _, err := c.TriggerRemote(ctx, "101", nil); return err },
			seen{"POST", imports + "/etls/101/trigger-execution", "", ""},
			`{"id":1}`,
		},
		{
			"11", func() error { _, err := c.Results(ctx, "9"); return err },
			seen{"GET", imports + "/etl-executions/9/integration-results", "", ""},
			`{"status":"FINISHED"}`,
		},
		{
			"12", func() error { _, err := c.OutputFiles(ctx, "9", io.Discard); return err },
			seen{"GET", imports + "/etl-executions/9/output-files", "", ""},
			"a,b\n",
		},
		{
			"13", func() error { _, err := c.CreateWebhook(ctx, webhook()); return err },
			seen{"POST", "/webhooks/v4/entity/acme/webhookSubscription", asJSON, compact(wantWebhook)},
			"",
		},
	}
}

func compact(text string) string {
	var b bytes.Buffer
	_ = json.Compact(&b, []byte(text))
	return b.String()
}

func TestEveryOperationCallsItsAddress(t *testing.T) {
	var last seen
	status, reply := http.StatusOK, ""
	s := &service{calls: func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		last = seen{r.Method, r.RequestURI, r.Header.Get("Content-Type"), string(body)}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, reply)
	}}
	c := s.start(t)
	for _, tc := range operations(t.Context(), c, []byte(`{"attributes":{}}`)) {
		status, reply = http.StatusOK, tc.reply
		if err := tc.call(); err != nil {
			t.Errorf("operation %s: got %v, want success", tc.name, err)
		}
		if last != tc.want {
			t.Errorf("operation %s: got request %+v, want %+v", tc.name, last, tc.want)
		}
		status, reply = http.StatusConflict, "already there"
		e := errorOf(t, tc.call())
		if e.Status() != http.StatusConflict || e.Reason() != "already there" || e.Unknown() {
			t.Errorf("operation %s: got %v (reason %q, unknown %v), want a refusal with its reason",
				tc.name, e, e.Reason(), e.Unknown())
		}
	}
	if n := s.fetches.Load(); n != 1 {
		t.Errorf("got %d token requests, want 1 for all operations", n)
	}
}

func TestBaseAddressKeepsItsPath(t *testing.T) {
	var got string
	s := &service{}
	s.calls = func(_ http.ResponseWriter, r *http.Request) { got = r.RequestURI }
	first := s.start(t)
	c := newClient(t, Config{
		BaseURL: "http://" + first.base.Host + "/api%2Fx/", AuthURL: "http://" + first.base.Host,
	})
	if err := c.DeleteRecord(t.Context(), "orders", "k"); err != nil {
		t.Fatal(err)
	}
	if want := "/api%2Fx/custom-data/v4/entity/acme/customTable/orders/record/k"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestKeysThatChangeTheAddressAreRejectedUnsent(t *testing.T) {
	s := &service{calls: func(http.ResponseWriter, *http.Request) { t.Error("something was sent") }}
	c := s.start(t)
	for _, key := range []string{"", ".", ".."} {
		e := errorOf(t, c.DeleteProfile(t.Context(), "customers", key))
		if e.Kind() != Rejected || e.Transient() || e.Unknown() {
			t.Errorf("key %q: got %v (%v), want a rejection", key, e, e.Kind())
		}
	}
}

func TestWriteSucceedsWhateverItsAnswerHolds(t *testing.T) {
	replies := map[string]http.HandlerFunc{
		"text":    func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "done") },
		"no body": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"endless": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2<<20)) },
		"cut short": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"id":`)
		},
	}
	for name, reply := range replies {
		c := (&service{calls: reply}).start(t)
		ref, err := c.UpsertProfile(t.Context(), "customers", JSON(`{}`))
		if err != nil || ref.ID() != "" || ref.Href() != "" {
			t.Errorf("%s: got id %q, link %q, error %v; want success without id", name, ref.ID(), ref.Href(), err)
		}
	}
}

func TestReferencesAreRead(t *testing.T) {
	s := &service{calls: func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"id":"p1","_links":{"self":{"href":"/x/profiles/p1"}},"businessKey":"a/b c"}`)
	}}
	c := s.start(t)
	profile, err := c.UpsertProfile(t.Context(), "customers", JSON(`{}`))
	if err != nil || profile.ID() != "p1" || profile.Href() != "/x/profiles/p1" {
		t.Errorf("got id %q, link %q, error %v", profile.ID(), profile.Href(), err)
	}
	record, err := c.UpsertRecord(t.Context(), "orders", JSON(`{}`), false)
	if err != nil || record.BusinessKey() != "a/b c" {
		t.Errorf("got key %q, error %v; want %q", record.BusinessKey(), err, "a/b c")
	}
}

func TestGetRecordKeepsEveryDigit(t *testing.T) {
	s := &service{calls: func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"businessKey":"k","properties":[{"name":"n","value":12345678901234567890.10}]}`)
	}}
	r, err := s.start(t).GetRecord(t.Context(), "orders", "k")
	if err != nil || len(r.Properties) != 1 || string(r.Properties[0].Value) != "12345678901234567890.10" {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestPropertiesOfARecordWithoutAnyAreAList(t *testing.T) {
	for _, body := range []string{`{"businessKey":"k"}`, `{"businessKey":"k","properties":[]}`, `{"businessKey":"k","properties":{}}`} {
		s := &service{calls: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }}
		r, err := s.start(t).GetRecord(t.Context(), "orders", "k")
		if text, _ := json.Marshal(r); err != nil || !strings.Contains(string(text), `"properties":[]`) {
			t.Errorf("%s: got %s, %v", body, text, err)
		}
	}
}

func TestAnotherRecordIsNotTheOneAskedFor(t *testing.T) {
	s := &service{calls: func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"businessKey":"other","properties":[{"name":"n","value":1}]}`)
	}}
	_, err := s.start(t).GetRecord(t.Context(), "orders", "k")
	if e := errorOf(t, err); e.Kind() != Transient || strings.Contains(err.Error(), "other\"") {
		t.Errorf("got %v (%v), want transient without the answer's content", e, e.Kind())
	}
}

func TestUnreadableAnswerToAReadIsTransient(t *testing.T) {
	s := &service{calls: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>John Doe") }}
	c := s.start(t)
	_, err := c.GetRecord(t.Context(), "orders", "k")
	for _, err := range []error{err, func() error { _, err := c.Results(t.Context(), "9"); return err }()} {
		e := errorOf(t, err)
		if e.Kind() != Transient || e.Unknown() || strings.Contains(err.Error(), "John") {
			t.Errorf("got %v (%v), want transient without the answer's content", e, e.Kind())
		}
	}
}

func TestAnswerBeyondALimitIsNotBelieved(t *testing.T) {
	s := &service{calls: func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status":"FINISHED"}`+strings.Repeat(" ", maxAnswer))
	}}
	_, err := s.start(t).Results(t.Context(), "9")
	if e := errorOf(t, err); e.Kind() != Transient {
		t.Errorf("got %v (%v), want transient", e, e.Kind())
	}
}

func TestOutputFilesAreStreamed(t *testing.T) {
	content := bytes.Repeat([]byte("key,reason\n"), 300_000) // longer than any other answer may be
	s := &service{calls: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/csv")
		_, _ = w.Write(content)
	}}
	var got bytes.Buffer
	out, err := s.start(t).OutputFiles(t.Context(), "9", &got)
	if err != nil || out.ContentType != "text/csv" || out.Bytes != int64(len(content)) {
		t.Errorf("got %+v, %v", out, err)
	}
	if !bytes.Equal(got.Bytes(), content) {
		t.Errorf("got %d bytes that differ from the %d sent", got.Len(), len(content))
	}
}

func TestConfigReportsAllItsMistakesAtOnce(t *testing.T) {
	_, err := New(Config{BaseURL: "ftp://x", AuthURL: "https://u:hunter2@x", Entity: "..", Concurrency: -1})
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{"baseURL: ", "authURL: ", "entity: ", "apiKey: ", "timeout: ", "concurrency: "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want it to name %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %q, which holds the password", err)
	}
}
