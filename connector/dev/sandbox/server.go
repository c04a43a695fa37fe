package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// discardLog keeps cut connections, which are this package's purpose, out of
// the program's log.
var discardLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)

// Server is the sandbox on a socket. Closing it is an outage: tables,
// executions and tokens stay, and another Server may take over the address.
type Server struct {
	url    string
	http   *http.Server
	served chan struct{} // closed when accepting has ended
	err    error         // why, if it was not Close; read after served

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup
}

// Start listens on a TCP address, ":0" for any free port, and serves.
func (s *Sandbox) Start(addr string) (*Server, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	srv, err := s.Serve(l)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return srv, nil
}

// Serve serves on a listener, which the Server closes. A closed sandbox
// refuses.
func (s *Sandbox) Serve(l net.Listener) (*Server, error) {
	srv := &Server{url: urlOf(l.Addr()), served: make(chan struct{})}
	srv.http = &http.Server{
		Handler:           srv.counted(s),
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          discardLog,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("sandbox: closed")
	}
	s.servers = append(s.servers, srv)
	s.running.Go(func() {
		defer close(srv.served)
		if err := srv.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			srv.err = err
		}
	})
	return srv, nil
}

// URL is the base address of the service and of its token endpoint, without a
// slash at the end.
func (s *Server) URL() string { return s.url }

// Close cuts every connection and returns when no call is being handled any
// longer. What a cut call asked for may or may not have been done.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	err := s.http.Close()
	<-s.served
	s.calls.Wait()
	return errors.Join(err, s.err)
}

// counted lets Close wait for calls: closing an http.Server does not.
func (s *Server) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			panic(http.ErrAbortHandler)
		}
		s.calls.Add(1)
		s.mu.Unlock()
		defer s.calls.Done()
		next.ServeHTTP(w, r)
	})
}

// urlOf is an address that a client on this machine can call.
func urlOf(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return "http://" + addr.String()
	}
	host := tcp.IP.String()
	if tcp.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return fmt.Sprintf("http://%s", net.JoinHostPort(host, fmt.Sprint(tcp.Port)))
}
