//go:build !image

package e2e_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestPageOfAnotherNameReachesNoSink: a page whose own name resolves to the
// operator's forwarded port is of the same site to the browser.
func TestPageOfAnotherNameReachesNoSink(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	sink := w.start(strings.Replace(head, `admin: {listen: "127.0.0.1:0"}`, `admin: {listen: "127.0.0.1:0", hosts: [feedsink.example.com]}`, 1) + deadLetters + mappings)
	for host, want := range map[string]int{
		"evil.example:8080": http.StatusMisdirectedRequest, "feedsink.example.com:8080": http.StatusOK, "localhost:8080": http.StatusOK, sink.AdminAddress(): http.StatusOK,
	} {
		for _, question := range []string{"GET /status", "GET /imports", "POST /imports/customers/slots"} {
			method, path, _ := strings.Cut(question, " ")
			if method == http.MethodPost && want == http.StatusOK {
				continue // it would count an import
			}
			r, err := http.NewRequestWithContext(t.Context(), method, "http://"+sink.AdminAddress()+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			r.Header.Set("Origin", "http://"+host)
			r.Header.Set("Sec-Fetch-Site", "same-origin")
			r.Header.Set("X-Feedsink", "imports")
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != want {
				t.Errorf("%s as %s: got %d, want %d", question, host, resp.StatusCode, want)
			}
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
