package service

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

var benchBody = JSON(`{"attributes":{"customerNumber":"C000123","emailAddress":"a@example.com","firstName":"Ada",` +
	`"lastName":"Lovelace","country":"GB"},"subscriptions":{"newsletter":true},"segments":{"tier":"gold"}}`)

func benchService() *service {
	return &service{calls: func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"p1","_links":{"self":{"href":"/profiles/p1"}}}`)
	}}
}

// BenchmarkUpsertProfile is one call; compare with BenchmarkBareLoop.
func BenchmarkUpsertProfile(b *testing.B) {
	c := benchService().start(b)
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := c.UpsertProfile(b.Context(), "customers", benchBody); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkBareLoop is the same exchange with net/http and nothing around it.
func BenchmarkBareLoop(b *testing.B) {
	c := benchService().start(b)
	client := &http.Client{Transport: c.transport}
	address := address(c.base, strings.Join(c.paths[opUpsertProfile], "customers")).String()
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := bareCall(b, client, address); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func bareCall(b *testing.B, client *http.Client, address string) error {
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, address, bytes.NewReader(benchBody))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer T1")
	r.Header.Set("Content-Type", "application/json")
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	return response.Body.Close()
}
