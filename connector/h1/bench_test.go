package h1

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// BenchmarkCall makes short calls from many goroutines to a server in the same
// process, beside net/http.
func BenchmarkCall(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"id":"p1"}`)
	}))
	defer server.Close()
	body := strings.Repeat("x", 330)
	for name, by := range map[string]interface {
		http.RoundTripper
		CloseIdleConnections()
	}{"h1": New(usual()), "net-http": usual()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, _, err := call(by, request(b.Context(), b, http.MethodPost, server.URL, body)); err != nil {
						b.Error(err)
						return
					}
				}
			})
			by.CloseIdleConnections()
		})
	}
}
