package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// serviceSettings are the role's.
type serviceSettings struct {
	Latency time.Duration `json:"latency"` // of operations 1 and 4
}

// playService is the role of the service.
func playService(ctx context.Context, w *wire) error {
	var s serviceSettings
	if err := w.settings(&s); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: newService(s.Latency).routes(), ReadHeaderTimeout: time.Minute}
	return w.serve(ctx, "http://"+l.Addr().String(), nil, func(ctx context.Context) error {
		stop := context.AfterFunc(ctx, func() { _ = server.Close() })
		defer stop()
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
}

// service says yes, after its latency, and counts.
type service struct {
	latency time.Duration
	imports atomic.Int64
	calls   atomic.Int64
	bytes   atomic.Int64 // in the bodies of the calls
	target  atomic.Int64 // number of calls that somebody waits for
	hit     chan tally   // of the target
}

// tally is what the service has counted at a moment.
type tally struct {
	At    time.Time `json:"at"`
	Calls int64     `json:"calls"`
	Bytes int64     `json:"bytes"`
}

func newService(latency time.Duration) *service {
	return &service{latency: latency, hit: make(chan tally, 1)}
}

func (s *service) tally() tally {
	return tally{At: time.Now(), Calls: s.calls.Load(), Bytes: s.bytes.Load()}
}

func (s *service) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /auth/token", func(w http.ResponseWriter, _ *http.Request) {
		yes(w, `{"accessToken":"bench","tokenType":"bearer","expiresIn":"900s","scope":"read write","jti":"1"}`)
	})
	mux.HandleFunc("POST "+profilesPath("{entity}", "{table}"), func(w http.ResponseWriter, r *http.Request) {
		s.call(w, r, `{"id":"p1","_links":{"self":{"href":"/profiles/p1"}}}`)
	})
	mux.HandleFunc("POST /custom-data/v4/entity/{entity}/customTable/{table}/record", func(w http.ResponseWriter, r *http.Request) {
		s.call(w, r, `{"businessKey":"r1"}`)
	})
	mux.HandleFunc("POST /mass-imports/v5/entities/{entity}/etls/{etl}/trigger-execution", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			yes(w, `{"id":"`+strconv.FormatInt(s.imports.Add(1), 10)+`"}`)
		}
	})
	mux.HandleFunc("GET /mass-imports/v5/entities/{entity}/etl-executions/{id}/integration-results", func(w http.ResponseWriter, _ *http.Request) {
		yes(w, `{"status":"FINISHED","integrationResults":{"linesInError":0}}`)
	})
	mux.HandleFunc("GET /bench/tally", s.reach)
	return mux
}

func profilesPath(entity, table string) string {
	return "/profiles/v5/entities/" + entity + "/profile-tables/" + table + "/profiles"
}

func (s *service) call(w http.ResponseWriter, r *http.Request, body string) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		return // the client has gone
	}
	if s.latency > 0 {
		time.Sleep(s.latency)
	}
	s.bytes.Add(n)
	if s.calls.Add(1) == s.target.Load() {
		s.hit <- s.tally()
	}
	yes(w, body)
}

func yes(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, body) // the client has gone
}

// reach answers at the moment when there have been as many calls as ?calls= says,
// or at once if there have been. Only one may wait at a time, for more calls
// than the one before.
func (s *service) reach(w http.ResponseWriter, r *http.Request) {
	calls, err := strconv.ParseInt(r.FormValue("calls"), 10, 64)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.target.Store(calls)
	t := s.tally()
	if t.Calls < calls {
		select {
		case t = <-s.hit:
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(t) // the bench has gone
}

// awaitCalls asks the service for its tally once it has had that many calls.
func awaitCalls(ctx context.Context, service string, calls int64) (t tally, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, service+"/bench/tally?calls="+strconv.FormatInt(calls, 10), http.NoBody)
	if err != nil {
		return t, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return t, fmt.Errorf("wait for %d calls: %w", calls, err)
	}
	defer func() { _ = response.Body.Close() }()
	if err := json.NewDecoder(response.Body).Decode(&t); err != nil {
		return t, fmt.Errorf("wait for %d calls: %s: %w", calls, response.Status, err)
	}
	return t, nil
}
