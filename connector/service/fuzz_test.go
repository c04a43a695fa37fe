package service

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func FuzzIdentifier(f *testing.F) {
	for _, seed := range []string{`{"id":"e-1"}`, `12`, `"x"`, `{"data":{"id":1}}`, `"{\"id\":1}"`, `<html>`, `[{"id":2}]`} {
		f.Add([]byte(seed), "/x/1")
	}
	f.Fuzz(func(t *testing.T, body []byte, location string) {
		header := http.Header{"Location": {location}}
		for _, n := range []names{executionNames, etlNames, profileNames, webhookNames} {
			id := identifier(body, header, n)
			if id != "" && (id != plausible(id) || len(id) > 200) {
				t.Errorf("got %q, which is no id", id)
			}
			if again := identifier(body, header, n); again != id {
				t.Errorf("got %q and then %q from the same answer", id, again)
			}
		}
	})
}

func FuzzResults(f *testing.F) {
	f.Add([]byte(`{"status":"FINISHED","integrationResults":{"linesRead":"10","lines":{"inError":1}}}`))
	f.Add([]byte(`{"data":{"STATUS":"failed","error":{"a":[1]}}}`))
	f.Add([]byte(`{"status":"FINISHED","integrationResults":[{"read":9223372036854775807},{"read":2}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := parseResults(body)
		if err != nil {
			return
		}
		c := r.Counters
		for _, n := range []int64{c.Read, c.InError, c.Inserted, c.Updated, c.Deleted} {
			if n < Unknown {
				t.Errorf("got counter %d", n)
			}
		}
		if r.Status == "" || utf8.RuneCountInString(r.Error) > reasonLength {
			t.Errorf("got status %q, error of %d characters", r.Status, utf8.RuneCountInString(r.Error))
		}
	})
}

func FuzzTokenAnswer(f *testing.F) {
	f.Add([]byte(`{"accessToken":"T","tokenType":"bearer","expiresIn":"900s"}`))
	f.Add([]byte(`{"access_token":"T","expires_in":1e400}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		text, life, err := tokenAnswer(body)
		if err == nil && (!headerSafe(text) || life < minLife || life > maxLife) {
			t.Errorf("got %q living %v", text, life)
		}
	})
}

func FuzzRefusal(f *testing.F) {
	f.Add(429, "7", "", []byte(`{"error":"daily import limit reached for secret-1"}`))
	f.Add(503, "Wed, 01 Jul 2026 12:00:00 GMT", "Wed, 01 Jul 2026 11:00:00 GMT", []byte("\x00\xff"))
	f.Fuzz(func(t *testing.T, status int, after, date string, body []byte) {
		header := http.Header{"Retry-After": {after}, "Date": {date}}
		e := refusal(opTrigger, status, header, body, time.UTC, "secret-1")
		if e.after < 0 || e.after > maxRetryAfter {
			t.Errorf("got Retry-After %v", e.after)
		}
		if utf8.RuneCountInString(e.reason) > reasonLength || !utf8.ValidString(e.reason) || strings.ContainsAny(e.reason, "\r\n\x00") {
			t.Errorf("got reason %q", e.reason)
		}
		if e.kind < Transient || e.kind >= Canceled {
			t.Errorf("got kind %v for %d", e.kind, status)
		}
	})
}

func FuzzRecord(f *testing.F) {
	for _, seed := range []string{
		`{"businessKey":"k","properties":[{"name":"id","value":7},{"name":"creationMoment","value":"2026-11-21T10:00:00+0100"}]}`,
		`{"businessKey":7,"properties":{"a":1e400,"b":"\u0000"}}`, `null`, `{}`, ` `, `{"properties":[{}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		_ = businessKeyOf(body)
		r, found, err := recordAnswer(body)
		if found && err != nil || !found && len(r.Properties) > 0 && err == nil {
			t.Errorf("got found %v and error %v", found, err)
		}
		_, _, _ = r.ID(), r.Created(), r.Updated()
		for _, p := range r.Properties {
			if p.Name == "" || !json.Valid(p.Value) {
				t.Errorf("got property %q = %q, which is no JSON", p.Name, p.Value)
			}
		}
	})
}

func FuzzProfileReference(f *testing.F) {
	f.Add([]byte(`{"id":"p1","_links":{"self":{"href":"/x/p1"}}}`))
	f.Add([]byte(`{"_links":[]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r := ProfileRef{answer{body: body}}
		if id := r.ID(); id != plausible(id) {
			t.Errorf("got %q, which is no id", id)
		}
		_ = r.Href()
	})
}
