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
	Latency  time.Duration `json:"latency"`  // of operations 1 and 4
	Remember bool          `json:"remember"` // what was written to each key, and when which event was answered
}

// playService is the role of the service. Its knob is the latency in nanoseconds.
func playService(ctx context.Context, w *wire) error {
	var s serviceSettings
	if err := w.settings(&s); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	service := newService(s.Latency)
	if s.Remember {
		service.memory = &rows{Points: map[string]int64{}}
	}
	w.set = service.latency.Store
	server := &http.Server{Handler: service.routes(), ReadHeaderTimeout: time.Minute}
	return w.serve(ctx, answer{Address: "http://" + l.Addr().String()}, nil, func(ctx context.Context) error {
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
	latency atomic.Int64
	memory  *rows // nil: none
	imports atomic.Int64
	calls   atomic.Int64
	bytes   atomic.Int64 // in the bodies of the calls
	took    atomic.Int64 // all calls together, in nanoseconds
	target  atomic.Int64 // number of calls that somebody waits for
	hit     chan tally   // of the target
}

// tally is what the service has counted at a moment.
type tally struct {
	At    time.Time `json:"at"`
	Calls int64     `json:"calls"`
	Bytes int64     `json:"bytes"`
	Took  int64     `json:"took"` // all calls together, in nanoseconds
}

func newService(latency time.Duration) *service {
	s := &service{hit: make(chan tally, 1)}
	s.latency.Store(int64(latency))
	return s
}

func (s *service) tally() tally {
	return tally{At: time.Now(), Calls: s.calls.Load(), Bytes: s.bytes.Load(), Took: s.took.Load()}
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
	mux.HandleFunc("GET /bench/rows", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.memory.encode(w); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	return mux
}

func profilesPath(entity, table string) string {
	return "/profiles/v5/entities/" + entity + "/profile-tables/" + table + "/profiles"
}

func (s *service) call(w http.ResponseWriter, r *http.Request, body string) {
	began := time.Now()
	n, event, err := s.read(r)
	if err != nil {
		return // the client has gone
	}
	if latency := s.latency.Load(); latency > 0 {
		time.Sleep(time.Duration(latency))
	}
	s.bytes.Add(n)
	s.took.Add(int64(time.Since(began)))
	if event != nil {
		defer s.memory.write(event)
	}
	if s.calls.Add(1) == s.target.Load() {
		s.hit <- s.tally()
	}
	yes(w, body)
}

// read takes the body; event is nil unless what it says is to be remembered.
func (s *service) read(r *http.Request) (n int64, event *numberedEvent, err error) {
	if s.memory == nil {
		n, err = io.Copy(io.Discard, r.Body)
		return n, nil, err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, nil, err
	}
	event = &numberedEvent{}
	return int64(len(body)), event, json.Unmarshal(body, event)
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
