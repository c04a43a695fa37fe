package service

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// everyCall calls each operation but 14 once, by its number.
func everyCall(c *Client) []func(context.Context) error {
	body := JSON(`{"properties":[]}`)
	return []func(context.Context) error{
		opUpsertProfile: func(ctx context.Context) error { _, err := c.UpsertProfile(ctx, "customers", body); return err },
		opPatchProfile: func(ctx context.Context) error {
			_, err := c.PatchProfile(ctx, "customers", "p1", body)
			return err
		},
		opDeleteProfile: func(ctx context.Context) error { return c.DeleteProfile(ctx, "customers", "p1") },
		opUpsertRecord: func(ctx context.Context) error {
			_, err := c.UpsertRecord(ctx, "orders", body, true)
			return err
		},
		opUpdateRecord: func(ctx context.Context) error { _, err := c.UpdateRecord(ctx, "orders", "k", body); return err },
		opGetRecord:    func(ctx context.Context) error { _, err := c.GetRecord(ctx, "orders", "k"); return err },
		opDeleteRecord: func(ctx context.Context) error { return c.DeleteRecord(ctx, "orders", "k") },
		opOneShot: func(ctx context.Context) error {
			_, err := c.OneShot(ctx, oneShotETL(), fileOf("a\n"), nil)
			return err
		},
		opCreateETL:     func(ctx context.Context) error { _, err := c.CreateETL(ctx, triggeredETL()); return err },
		opTrigger:       func(ctx context.Context) error { _, err := c.Trigger(ctx, "101", fileOf("a\n"), nil); return err },
		opResults:       func(ctx context.Context) error { _, err := c.Results(ctx, "9"); return err },
		opOutputFiles:   func(ctx context.Context) error { _, err := c.OutputFiles(ctx, "9", io.Discard); return err },
		opCreateWebhook: func(ctx context.Context) error { _, err := c.CreateWebhook(ctx, webhook()); return err },
	}
}

// gives answers every call but the token's with status, kind of content and body.
func gives(status *int, contentType, body *string) *service {
	return &service{calls: func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if *contentType != "" {
			w.Header().Set("Content-Type", *contentType)
		}
		if CompressionOf([]byte(*body)) == Gzip {
			w.Header().Set("Content-Encoding", "gzip")
		}
		w.WriteHeader(*status)
		_, _ = io.WriteString(w, *body)
	}}
}

func compressed(text string) string {
	var small bytes.Buffer
	w := gzip.NewWriter(&small)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return small.String()
}

func TestAnswerMayComeCompressed(t *testing.T) {
	status, contentType, body := http.StatusOK, "application/json", compressed(`{"status":"FINISHED"}`)
	c := gives(&status, &contentType, &body).start(t)
	r, err := c.Results(t.Context(), "9")
	if err != nil || r.Status != Finished {
		t.Errorf("got %q, %v, want %q", r.Status, err, Finished)
	}
	long := compressed(`{"error":"no such record"` + strings.Repeat(" ", 2<<20) + "}")
	status = http.StatusNotFound
	for what, cut := range map[string]int{"whole": len(long), "cut": len(long) / 2} {
		body = long[:cut]
		if e := errorOf(t, c.DeleteRecord(t.Context(), "orders", "k")); e.Kind() != NotFound || !strings.HasPrefix(e.Reason(), `{"error":"no such record"`) {
			t.Errorf("%s refusal: got %v (%v) with %q, want %v in words", what, e, e.Kind(), e.Reason(), NotFound)
		}
	}
	status, body = http.StatusBadRequest, compressed(`{"error":"daily import limit of 12 reached"}`)
	if _, err := c.Trigger(t.Context(), "101", fileOf("a\n"), nil); !errorOf(t, err).NoSlot() {
		t.Errorf("refused import: got %v, want no slot left", err)
	}
}

const page = "\n<!DOCTYPE html>\n<html><title>Sign in</title></html>"

func TestPageIsNoAnswerOfAnyOperation(t *testing.T) {
	var status int
	var contentType, body string
	calls := everyCall(gives(&status, &contentType, &body).start(t))
	for _, status = range []int{200, 202, 400, 404, 405, 409, 410, 413, 418, 422} {
		for _, shape := range []struct{ contentType, body string }{
			{"text/html; charset=utf-8", page},
			{"application/json", page},                           // a page under a wrong name
			{"TEXT/HTML", "Not Found"},                           // one without a tag
			{"text/plain", "\ufeff <html>" + page},               // with a byte order mark
			{"", `<?xml version="1.0"?><!-- x -->` + page},       // XHTML
			{"text/html", "\x1f\x8b\x08 and so on"},              // compressed by a gateway, unasked
			{"text/html", "<html>" + strings.Repeat(" ", 2<<20)}, // longer than any answer
		} {
			contentType, body = shape.contentType, shape.body
			for op := opUpsertProfile; op <= opCreateWebhook; op++ {
				err := calls[op](t.Context())
				if err == nil {
					t.Errorf("%v: a page with %d was taken for a success", op, status)
					continue
				}
				e := errorOf(t, err)
				if e.Kind() != Transient || !strings.Contains(err.Error(), "not the service's, it is a web page; check service.baseURL") {
					t.Errorf("%v: %d %s: got %v (%v), want it transient and told what to check", op, status, contentType, e, e.Kind())
				}
				if e.Status() != status || strings.Contains(err.Error(), "Sign in") && e.MayQuote() {
					t.Errorf("%v: got %v, want status %d and nothing of the page", op, e, status)
				}
				if want := status < 300 && !op.reads(); e.Unknown() != want {
					t.Errorf("%v: %d: got unknown %v, want %v", op, status, e.Unknown(), want)
				}
			}
		}
	}
}

// TestRefusalIsTheServicesOnlyWhereTheOperationHasIt is the table of what each
// operation takes a status for, by the kind of body.
func TestRefusalIsTheServicesOnlyWhereTheOperationHasIt(t *testing.T) {
	var status int
	var contentType, body string
	calls := everyCall(gives(&status, &contentType, &body).start(t))
	rejected := map[int]Kind{404: NotFound, 409: Conflict}
	has := map[operation]string{ // 400 404 405 407 409 410 413 418 421 422 426: own, with JSON or nothing, with JSON only, never
		opUpsertProfile: "onnnonjjnon", opPatchProfile: "oennonjjnon", opDeleteProfile: "oennjnjjnjn",
		opUpsertRecord: "onnnonjjnon", opUpdateRecord: "oennonjjnon", opGetRecord: "oennjnjjnjn",
		opDeleteRecord: "oennjnjjnjn", opOneShot: "ojnnonojnon", opCreateETL: "ojnnonjjnon",
		opTrigger: "ojnnonojnon", opResults: "oennjnjjnjn", opOutputFiles: "oennjnjjnjn",
		opCreateWebhook: "ojnnonjjnon",
	}
	for i, code := range []int{400, 404, 405, 407, 409, 410, 413, 418, 421, 422, 426} {
		for op, row := range has {
			whose := row[i]
			for _, shape := range []struct{ contentType, body string }{
				{"application/json", `{"status":"error","message":"no"}`},
				{"application/problem+json", ` ["no"]`},
				{"text/html", `{"message":"JSON under a wrong name"}`},
				{"text/plain", "no"},
				{"", ""},
				{"text/html", ""},
				{"text/plain", "default backend - 404"},
				{"application/json", "{\n  \"message\":\"no Route matched with those values\",\n  \"request_id\":\"4a\"\n}"},
				{"text/plain", "404 page not found\n"},
				{"application/json", `{"message":"no Route matched with those values"}`},
			} {
				status, contentType, body = code, shape.contentType, shape.body
				kind, ok := rejected[code]
				if !ok {
					kind = Rejected
				}
				if whose == 'n' || whose == 'j' && !isJSON([]byte(body)) || whose == 'e' && body != "" && !isJSON([]byte(body)) || isGatewayText(nil, []byte(body)) {
					kind = Transient
				}
				err := calls[op](t.Context())
				if e := errorOf(t, err); e.Kind() != kind || e.Transient() != (kind == Transient) || e.Unknown() {
					t.Errorf("%v: %d %q: got %v (%v), want %v", op, code, body, e, e.Kind(), kind)
				} else if kind == Transient && !strings.Contains(err.Error(), "not the service's; check service.baseURL") {
					t.Errorf("%v: got %v, want to be told what to check", op, err)
				}
			}
		}
	}
}

// TestRouteThatIsMissingIsNoWordOfTheService: gateways and frameworks say in JSON that no route
// leads on. What a service may say of a record that it does not have is left to it.
func TestRouteThatIsMissingIsNoWordOfTheService(t *testing.T) {
	amazons := http.Header{"Apigw-Requestid": {"JqXcaj9EoAMEJ8g="}}
	for body, want := range map[string]Kind{
		`{"message":"Not Found"}`:                                                                                   NotFound,  // Amazon's with its header only
		`{ "statusCode": 404, "message": "Resource not found" }`:                                                    Transient, // Azure API Management
		`{"statusCode":404,"message":"Resource not found in customers"}`:                                            NotFound,
		`{"timestamp":"2026-11-28T10:00:00Z","status":404,"error":"Not Found","message":"","path":"/x"}`:            NotFound, // Spring's of either
		`{"timestamp":1,"status":404,"error":"Not Found","message":"No static resource profiles/v5.","path":"/x"}`:  Transient,
		`{"type":"about:blank","title":"Not Found","status":404,"detail":"No endpoint DELETE /x.","instance":"/x"}`: Transient,
		`{"timestamp":1,"status":404,"error":"Not Found","message":"No handler found for DELETE /x","path":"/x"}`:   Transient,
		`{"message":"Cannot DELETE /x","error":"Not Found","statusCode":404}`:                                       Transient, // Nest
		`{"message":"Route DELETE:/x not found","error":"Not Found","statusCode":404}`:                              Transient, // Fastify
		`{"message":"Cannot delete profile p1: there is none"}`:                                                     NotFound,
		`{"error":"no record","message":"There is no endpoint for notifications of this profile"}`:                  NotFound,
		"{\n  \"message\" : \"no Route matched with those values\"\n}":                                              Transient,
	} {
		for _, op := range []operation{opPatchProfile, opDeleteProfile, opUpdateRecord, opGetRecord, opDeleteRecord} {
			if e := refusal(op, http.StatusNotFound, http.Header{}, []byte(body), nil); e.Kind() != want {
				t.Errorf("%v: %s: got %v, want %v", op, body, e.Kind(), want)
			}
			if e := refusal(op, http.StatusNotFound, amazons, []byte(body), nil); e.Kind() != want && body != `{"message":"Not Found"}` || body == `{"message":"Not Found"}` && e.Kind() != Transient {
				t.Errorf("%v through Amazon's gateway: %s: got %v", op, body, e.Kind())
			}
		}
	}
}

func TestPageCutBeforeItsFirstByteConfirmsNothing(t *testing.T) {
	s := &service{calls: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Length", "100")
		_ = http.NewResponseController(w).Flush()
		reset(w)
	}}
	_, err := s.start(t).UpsertRecord(t.Context(), "orders", JSON(`{}`), true)
	if e := errorOf(t, err); e.Kind() != Transient || !e.Unknown() {
		t.Errorf("got %v (%v), want it transient and unknown", e, e.Kind())
	}
}

// TestYesOfSomethingElseConfirmsNothing: what takes a request without passing it on may answer
// with a 2xx.
func TestYesOfSomethingElseConfirmsNothing(t *testing.T) {
	var status int
	var contentType, body string
	calls := everyCall(gives(&status, &contentType, &body).start(t))
	writes := []operation{opUpsertProfile, opPatchProfile, opDeleteProfile, opUpsertRecord, opUpdateRecord, opDeleteRecord}
	changes := append(slices.Clip(writes), opOneShot, opCreateETL, opTrigger, opCreateWebhook)
	shown := []operation{opUpsertProfile, opPatchProfile, opDeleteProfile, opUpsertRecord, opDeleteRecord}
	for _, tc := range []struct {
		status            int
		contentType, body string
		not               []operation // which do not take it for the service's
	}{
		{202, "text/plain", "Accepted for later delivery", writes},
		{202, "", "", writes},
		{203, "text/plain", "OK", writes},
		{205, "", "", writes},
		{226, "", "", writes},
		{200, "text/plain", "default backend - 404", changes},
		{200, "text/plain", "The request was queued", shown},
		{200, "", `<meta http-equiv="refresh" content="0;url=https://sso.example.com/login">`, changes},
		{200, "text/xml", `<?xml version="1.0"?><soap:Envelope><soap:Fault/></soap:Envelope>`, changes},
		{200, "text/html", `<script>location = "/login"</script>`, changes},
		{207, "application/json", `{"errors":[{"status":400}]}`, changes},
		{207, "application/json", `{"errors":[],"businessKey":"k"}`, nil},
		{202, "application/json", `{"id":"12"}`, nil},
		{200, "", "", nil},
		{201, "text/plain", "OK\n", nil},
		{200, "text/plain", "12", nil},
		{200, "text/plain", "{}", nil},
		{204, "", "", nil},
	} {
		status, contentType, body = tc.status, tc.contentType, tc.body
		for _, op := range changes {
			err := calls[op](t.Context())
			if !slices.Contains(tc.not, op) {
				if err != nil {
					t.Errorf("%v: %d %q: got %v, want it taken for the service's", op, status, body, err)
				}
				continue
			}
			if err == nil {
				t.Errorf("%v: %d %q was taken for a success", op, status, body)
			} else if e := errorOf(t, err); e.Kind() != Transient || !e.Unknown() || !strings.Contains(err.Error(), "not the service's") {
				t.Errorf("%v: %d %q: got %v (%v), want it transient and told what to check", op, status, body, e, e.Kind())
			}
		}
	}
}

// TestAnswerThatWasToNameSomethingIsNoYesWithoutIt: an import whose execution is not named is waited for
// without a limit.
func TestAnswerThatWasToNameSomethingIsNoYesWithoutIt(t *testing.T) {
	var body string
	header := http.Header{}
	calls := everyCall((&service{calls: func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for name := range header {
			w.Header().Set(name, header.Get(name))
		}
		_, _ = io.WriteString(w, body)
	}}).start(t))
	cut := http.Header{"Content-Length": {"40"}}
	for _, tc := range []struct {
		header http.Header
		body   string
		fine   bool
	}{
		{cut, `{"id":`, false},
		{cut, "12", false}, // of 1234
		{nil, `{"error":"ETL is paused","id":null}`, false},
		{nil, `{"error":{"id":"E1","message":"name is taken"}}`, false},
		{nil, `{"errors":["no"]}`, false},
		{nil, `{}`, true},
		{nil, `{"error":null,"errors":[]}`, true},
		{nil, `{"id":"12","error":""}`, true},
		{http.Header{"Content-Length": {"40"}, "Location": {"/x/12"}}, `{"id":`, true},
	} {
		header, body = tc.header, tc.body
		for op := range namesOf {
			err := calls[op](t.Context())
			if tc.fine {
				if err != nil {
					t.Errorf("%v: %q: got %v, want success", op, body, err)
				}
				continue
			}
			if err == nil {
				t.Errorf("%v: %q was taken for a success", op, body)
			} else if e := errorOf(t, err); e.Kind() != Transient || !e.Unknown() {
				t.Errorf("%v: %q: got %v (%v, unknown %v), want it transient and unknown", op, body, e, e.Kind(), e.Unknown())
			}
		}
	}
}

func TestPageIsNoOutputFile(t *testing.T) {
	s := &service{calls: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, page) }}
	var files bytes.Buffer
	out, err := s.start(t).OutputFiles(t.Context(), "9", &files)
	if e := errorOf(t, err); e.Kind() != Transient || files.Len() != 0 || out.Bytes != 0 {
		t.Errorf("got %v (%v) and %d bytes written, want it transient with nothing written", e, e.Kind(), files.Len())
	}
}

func TestPageOfTheTokenEndpointIsTold(t *testing.T) {
	for _, status := range []int{200, 401, 403, 404, 503} {
		s := &service{refuse: func(w http.ResponseWriter) bool {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, page)
			return true
		}}
		err := s.start(t).DeleteRecord(t.Context(), "orders", "k")
		e := errorOf(t, err)
		if want := fmt.Sprintf("access token: %d ", status); !e.Transient() || !strings.HasPrefix(err.Error(), "delete record orders: "+want) ||
			!strings.Contains(err.Error(), "it is a web page; check service.authURL") {
			t.Errorf("%d: got %v (%v), want it transient and told what to check", status, err, e.Kind())
		}
	}
}

func TestGatewaysPageIsNeverTheEndOfTheDaysImports(t *testing.T) {
	header := http.Header{"Content-Type": {"text/html"}, "Retry-After": {"90000"}}
	for _, status := range []int{403, 404, 429, 503} {
		if e := refusal(opTrigger, status, header, []byte("<html>daily import limit reached"), nil); e.NoSlot() || !e.Transient() {
			t.Errorf("%d: got %v (%v), want it transient and no word about slots", status, e, e.Kind())
		}
	}
}

// The connection stays open, and nothing comes after the header.
func TestSwitchOfProtocolsEndsEveryCall(t *testing.T) {
	s := &service{calls: func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	}}
	calls := everyCall(s.start(t))
	for op := opUpsertProfile; op <= opCreateWebhook; op++ {
		err := calls[op](t.Context())
		if e := errorOf(t, err); e.Kind() != Transient || e.Status() != http.StatusSwitchingProtocols || !strings.Contains(err.Error(), "check service.baseURL") {
			t.Errorf("%v: got %v (%v), want it transient and told what to check", op, e, e.Kind())
		}
	}
	token := &service{refuse: func(w http.ResponseWriter) bool {
		s.calls(w, nil)
		return true
	}}
	if e := errorOf(t, token.start(t).Authenticate(t.Context())); e.Kind() != Transient || e.Status() != http.StatusSwitchingProtocols {
		t.Errorf("token: got %v (%v), want it transient", e, e.Kind())
	}
}
