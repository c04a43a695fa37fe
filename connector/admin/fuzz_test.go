package admin

import (
	"bufio"
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// FuzzEndpoints sends any request to everything the server has: nothing breaks,
// nothing changes without token and header, no secret comes back, and every
// refusal is one that is documented.
func FuzzEndpoints(f *testing.F) {
	for _, seed := range []string{
		"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
		"GET /page/..%2fadmin.go HTTP/1.1\r\nHost: h\r\n\r\n",
		"GET /status HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"POST /imports/customers/release HTTP/1.1\r\nHost: h\r\nX-Feedsink: imports\r\n\r\n",
		"POST //imports/customers/release HTTP/1.1\r\nHost: h\r\nX-Feedsink: imports\r\nAuthorization: Bearer x\r\n\r\n",
		"POST /webhooks/executions/../../imports/customers/release HTTP/1.1\r\nHost: h\r\nX-Feedsink: imports\r\n\r\n",
		"POST /webhooks/executions HTTP/1.1\r\nHost: h\r\nX-Secret: s3\r\nContent-Length: 4\r\n\r\n{\"i\"",
		"GET /debug/pprof/cmdline HTTP/1.0\r\nAuthorization: Basic eDp5\r\n\r\n",
		"POST /log-level/debug HTTP/1.1\r\nHost: h\r\nX-Feedsink: log-level\r\n\r\n",
		"POST /log-level/%2e%2e/debug HTTP/1.1\r\nHost: h\r\nX-Feedsink: log-level\r\nAuthorization: Bearer x\r\n\r\n",
		"GET /log-level HTTP/1.1\r\nHost: h\r\n\r\n",
		"POST /imports/customers/slots HTTP/1.1\r\nHost: h\r\nX-Feedsink: imports\r\n\r\n",
		"POST /webhooks/executions HTTP/1.1\r\nHost: h\r\nContent-Encoding: gzip\r\nX-Secret: s3cret\r\nContent-Length: 2\r\n\r\n{}",
		"POST /webhooks/executions HTTP/1.1\r\nHost: h\r\nX-Secret: s3cret\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{\"id\":\"7\"\r\n0\r\n\r\n",
		"GET /status HTTP/1.1\r\nHost: evil.example:8080\r\n\r\n",
		"GET http://evil.example/status HTTP/1.1\r\nHost: h\r\n\r\n",
		"GET /status HTTP/1.1\r\nHost: [::1\r\n\r\n",
		"CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	documented := map[int]bool{200: true, 301: true, 307: true, 400: true, 401: true, 403: true, 404: true, 405: true, 413: true, 421: true}
	f.Fuzz(func(t *testing.T, raw []byte, protected bool) {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil || strings.HasPrefix(r.URL.Path, "/debug/pprof/") && strings.Contains(string(raw), token) {
			return // no request, or one that may take half a minute
		}
		d, hinted := &oneImport{halted: true, oneLevel: oneLevel{"info"}}, false
		h := whole(Access{Token: tokenIs(token), ProtectReads: protected}, d, func(string, string) { hinted = true })
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		sent := r.Header.Get("X-Secret")
		if allowed := strings.Contains(string(raw), token); !allowed && (d.released+d.taken > 0 || d.level != "info" || len(d.asked) > 0 && protected) {
			t.Errorf("without the token: got %d releases, %d slots, level %s, asked for %q", d.released, d.taken, d.level, d.asked)
		}
		if hinted && sent != "s3cret" {
			t.Errorf("a hint was taken with the secret %q", sent)
		}
		if answer := w.Body.String(); strings.Contains(answer, "s3cret") && sent != "s3cret" || strings.Contains(answer, token) && !strings.Contains(string(raw), token) {
			t.Errorf("the answer holds a secret: %q", answer)
		}
		broken := w.Code == 500 && strings.HasSuffix(r.URL.Path, "broken") // the API's own
		if !documented[w.Code] && !broken && w.Code != 202 {
			t.Errorf("%s %s: got %d, want a documented status", r.Method, r.URL, w.Code)
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s: got %v, want nosniff", r.Method, r.URL, w.Header())
		}
	})
}
