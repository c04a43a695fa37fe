package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// service says yes, after its latency, and counts.
type service struct {
	address string
	latency atomic.Int64
	rows    *rows // nil: it does not remember
	imports atomic.Int64
	calls   atomic.Int64
	bytes   atomic.Int64 // in the bodies of the calls
	took    atomic.Int64 // all calls together, in nanoseconds
}

// serve starts a service until apart ends.
func (b *bench) serve(latency time.Duration, remember bool) *service {
	s := &service{}
	s.latency.Store(int64(latency))
	if remember {
		s.rows = &rows{points: map[string]int64{}}
	}
	s.address = b.listen(s.routes())
	return s
}

// listen starts a server until apart ends, and returns its URL.
func (b *bench) listen(h http.Handler) string {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	b.cleanup(func() error {
		err := server.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	})
	return "http://" + l.Addr().String()
}

// done is the number of calls so far.
func (s *service) done(context.Context) int64 { return s.calls.Load() }

func (s *service) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /auth/token", func(w http.ResponseWriter, _ *http.Request) {
		yes(w, `{"accessToken":"bench","tokenType":"bearer","expiresIn":"900s","scope":"read write","jti":"1"}`)
	})
	mux.HandleFunc("POST "+profilesPath, s.call)
	mux.HandleFunc("POST /mass-imports/v5/entities/{entity}/etls/{etl}/trigger-execution", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			yes(w, `{"id":"`+strconv.FormatInt(s.imports.Add(1), 10)+`"}`)
		}
	})
	mux.HandleFunc("GET /mass-imports/v5/entities/{entity}/etl-executions/{id}/integration-results", func(w http.ResponseWriter, _ *http.Request) {
		yes(w, `{"status":"FINISHED","integrationResults":{"linesInError":0}}`)
	})
	return mux
}

// profilesPath is that of operation 1.
const profilesPath = "/profiles/v5/entities/acme/profile-tables/customers/profiles"

func (s *service) call(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	var event numberedEvent
	var body bytes.Buffer
	to := io.Discard
	if s.rows != nil {
		to = &body
	}
	n, err := io.Copy(to, r.Body)
	if err != nil {
		return // the client has gone
	}
	if latency := s.latency.Load(); latency > 0 {
		time.Sleep(time.Duration(latency))
	}
	s.bytes.Add(n)
	s.took.Add(int64(time.Since(began)))
	if s.rows != nil {
		if err := json.Unmarshal(body.Bytes(), &event); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.rows.write(&event)
	}
	s.calls.Add(1)
	yes(w, `{"id":"p1","_links":{"self":{"href":"/profiles/p1"}}}`)
}

func yes(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, body) // the client has gone
}

// numberedEvent is what the service looks at of a numbered event's body.
type numberedEvent struct {
	Attributes struct {
		CustomerNumber string `json:"customerNumber"`
		Points         int64  `json:"points"`
	} `json:"attributes"`
}

// rows is what the service remembers of numbered events.
type rows struct {
	mu        sync.Mutex
	points    map[string]int64 // by key: of the last write
	backwards int              // writes that came after a newer one of their key
	// answers are the moments of the answers, by the event's number; zero for events that
	// were merged into a later one.
	answers []time.Time
}

func (r *rows) write(e *numberedEvent) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	key, number := e.Attributes.CustomerNumber, e.Attributes.Points
	if number < r.points[key] {
		r.backwards++
	}
	r.points[key] = number
	for int64(len(r.answers)) <= number {
		r.answers = append(r.answers, time.Time{})
	}
	r.answers[number] = now
}
