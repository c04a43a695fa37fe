// Package admin is the HTTP server for whoever operates the sink: probes,
// metrics, status and a page that shows it.
//
// It knows how to serve what it is given. It knows nothing about lanes,
// partitions or the service.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Sink is what the server shows. Both methods may be called at any time.
type Sink interface {
	// Unready lists why the sink is not ready; empty means it is.
	Unready() []string
	// Status is a value whose JSON describes the running sink, without
	// secrets and without customers' data.
	Status() any
}

// Server serves one sink.
type Server struct {
	listener net.Listener
	server   *http.Server
}

// maxHeaderBytes and the timeouts bound what one connection can hold up.
const (
	maxHeaderBytes = 16 << 10
	readTimeout    = 10 * time.Second
	writeTimeout   = 60 * time.Second
	idleTimeout    = 2 * time.Minute
)

// Part is a group of endpoints that the server has besides its own.
type Part func(mux *http.ServeMux)

// Listen opens the address, host:port, and returns the server for it.
func Listen(address string, access Access, sink Sink, metrics prometheus.Gatherer, log *slog.Logger, parts ...Part) (*Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("admin.listen: %w", err)
	}
	return &Server{listener: l, server: &http.Server{
		Handler:           asIs(access.named(address, access.guard(bodiless(routes(sink, metrics, parts...))))),
		TLSConfig:         access.tls(),
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}}, nil
}

// Address is host:port as it is listened on.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Close gives the address back if the server never ran.
func (s *Server) Close() {
	_ = s.listener.Close() // closed already if it did
}

// Run serves until ctx ends, and a few seconds longer to finish answers.
func (s *Server) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.serve() }()
	select {
	case err := <-served:
		return fmt.Errorf("admin server: %w", err)
	case <-ctx.Done():
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	if err := s.server.Shutdown(closing); err != nil {
		_ = s.server.Close() // answers that outlast the time are cut off
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin server: %w", err)
	}
	return nil
}

func (s *Server) serve() error {
	if s.server.TLSConfig != nil {
		return s.server.ServeTLS(s.listener, "", "") // the certificate is in its configuration
	}
	return s.server.Serve(s.listener)
}

func routes(sink Sink, metrics prometheus.Gatherer, parts ...Part) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		text(w, http.StatusOK, "ok\n")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		reasons := sink.Unready()
		if len(reasons) == 0 {
			text(w, http.StatusOK, "ok\n")
			return
		}
		text(w, http.StatusServiceUnavailable, strings.Join(reasons, "\n")+"\n")
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		body, err := json.MarshalIndent(sink.Status(), "", "  ")
		if err != nil {
			text(w, http.StatusInternalServerError, "status: "+err.Error()+"\n")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		write(w, http.StatusOK, append(body, '\n'))
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	servePage(mux)
	for _, add := range parts {
		add(mux)
	}
	return mux
}

// bodiless answers 413 to a body where none is wanted, which is everywhere but
// at the webhook.
func bodiless(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != webhookPath && hasBody(r) {
			text(w, http.StatusRequestEntityTooLarge, "the request has a body, which none here may have\n")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hasBody reads a byte where the length is not told.
func hasBody(r *http.Request) bool {
	if r.ContentLength >= 0 {
		return r.ContentLength > 0
	}
	n, _ := io.ReadFull(r.Body, make([]byte, 1)) // a body that cannot be read is none
	return n > 0
}

// asIs tells browsers to take every answer, errors among them, for what it says
// it is, and nobody to keep one.
func asIs(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

func text(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	write(w, status, []byte(body))
}

func write(w http.ResponseWriter, status int, body []byte) {
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client has gone; there is nobody to tell
}
