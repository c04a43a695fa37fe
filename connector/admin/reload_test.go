package admin

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

// reloads counts reloads, and refuses each but the first.
type reloads struct{ n int }

func (r *reloads) Reload(context.Context) (any, error) {
	if r.n++; r.n > 1 {
		return nil, &Refusal{Status: http.StatusBadRequest, Message: "feedsink.yaml:3: kafka: is missing"}
	}
	return map[string]string{"changed": "retry.max"}, nil
}

func TestReloadIsAskedForByPostWithItsHeader(t *testing.T) {
	api, mux := &reloads{}, http.NewServeMux()
	Reload(api)(mux)
	server := httptest.NewServer(asIs(mux))
	defer server.Close()
	for _, headers := range [][]string{nil, {"X-Feedsink", "imports"}} {
		if status, _ := request(t, http.MethodPost, server.URL+"/reload", headers...); status != http.StatusForbidden || api.n != 0 {
			t.Errorf("with headers %v: got %d and %d reloads, want 403 and none", headers, status, api.n)
		}
	}
	c := client(t, server.URL)
	var got map[string]string
	if err := c.Reload(t.Context(), &got); err != nil || got["changed"] != "retry.max" {
		t.Errorf("got %v, %v, want what has changed", got, err)
	}
	refusal, ok := errors.AsType[*Refusal](c.Reload(t.Context(), &got))
	if !ok || refusal.Status != http.StatusBadRequest || refusal.Error() != "feedsink.yaml:3: kafka: is missing" {
		t.Errorf("a wrong file: got %+v, want 400 and the mistake", refusal)
	}
}
