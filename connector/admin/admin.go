// Package admin is the HTTP server for the people who operate the sink: probes,
// metrics, status and a page that shows it.
//
// It knows how to serve what it is given. It knows nothing about lanes,
// partitions or the service.
package admin

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/feedsink/feedsink/connector/security"
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
	listen := access.Listen
	if listen == nil {
		listen = net.Listen
	}
	l, err := listen("tcp", address)
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("%w; choose another port, or end the process that has it", err)
		}
		return nil, fmt.Errorf("admin.listen: %w", err)
	}
	s := &Server{listener: l, server: &http.Server{
		Handler:           asIs(access.named(address, access.guard(bodiless(routes(sink, metrics, parts...))))),
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}}
	if access.Certificate != nil {
		s.server.TLSConfig = access.Certificate.Config()
	}
	return s, nil
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
		body, err := json.Marshal(sink.Status())
		if err != nil {
			err = fmt.Errorf("status: %w", err)
		}
		answer(w, http.StatusOK, json.RawMessage(body), err)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{EnableOpenMetrics: true})) // which has exemplars
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
// it is, and to keep none; and commands that it is a sink's.
func asIs(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set(changeHeader, sinksValue)
		next.ServeHTTP(w, r)
	})
}

func text(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	write(w, status, []byte(body))
}

func write(w http.ResponseWriter, status int, body []byte) {
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client has gone
}

// Access is who may reach the server, and how. Its zero value is plain HTTP for
// all who can reach the address and ask by it, or by this machine's name.
type Access struct {
	// Hosts are the names by which requests may ask for the server, besides
	// addresses, localhost and the machine's own name.
	Hosts []string
	// Token gives the token as it is now, "" if none is configured. It is asked
	// for each request that needs it. nil: none.
	Token func() (string, error)
	// ProtectReads asks for the token where nothing is changed, too.
	ProtectReads bool
	// Certificate is what the server shows; nil: plain HTTP.
	Certificate *security.TLSServer
	// Listen opens the address; nil: net.Listen.
	Listen func(network, address string) (net.Listener, error)
}

// webhookPath has a secret of its own, which the service knows.
const webhookPath = "/webhooks/executions"

// free reports whether a request needs no token. Whatever is not named here
// needs it: probes are asked by machines without one, and reading is free unless
// reads are protected. Profiles only read as well, but they load the process; the
// service's words may be customers' data.
func (a Access) free(r *http.Request) bool {
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch path := r.URL.Path; {
	case path == webhookPath:
		return true
	case read && (path == "/livez" || path == "/readyz"):
		return true
	case strings.HasPrefix(path, "/debug/"): // any other spelling is redirected
		return false
	case strings.HasPrefix(path, "/imports/") && strings.HasSuffix(path, "/"+reasonPath):
		return false
	default:
		return read && !a.ProtectReads
	}
}

// guard answers 401 to who needs the token and has none, or a wrong one. A
// browser asks for it as a password, of any user name.
func (a Access) guard(next http.Handler) http.Handler {
	if a.Token == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.free(r) {
			want, err := a.Token()
			if err != nil || want == "" || !same(tokenOf(r), want) {
				w.Header().Add("WWW-Authenticate", `Bearer realm="feedsink"`)
				w.Header().Add("WWW-Authenticate", `Basic realm="feedsink", charset="UTF-8"`)
				text(w, http.StatusUnauthorized, "the token is missing or wrong, or admin.tokenFile cannot be read; send it as Authorization: Bearer TOKEN\n")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func tokenOf(r *http.Request) string {
	if _, password, ok := r.BasicAuth(); ok {
		return password
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// A page of another site can have its own name resolve to this server's address
// (DNS rebinding). To the browser both are one site then: the page reads what the
// server shows and sends the headers that changes want. The name that it was loaded
// by comes along as the request's Host, and there it is refused.

// named answers 421 to requests by a name that is not this server's. It may be
// asked by any address, which no other site can have, as localhost, by the
// machine's own name, which is the pod's, by the name that it listens on, and by
// a.Hosts. The webhook is called by whatever name the service knows and is guarded
// by its own secret, which no page has; a request without a name is no browser's.
func (a Access) named(listen string, next http.Handler) http.Handler {
	known := map[string]bool{"": true, "localhost": true, hostOf(listen): true}
	if own, err := os.Hostname(); err == nil {
		known[hostOf(own)] = true
	}
	for _, host := range a.Hosts {
		known[hostOf(host)] = true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := hostOf(r.Host)
		if _, err := netip.ParseAddr(host); err != nil && !known[host] && r.URL.Path != webhookPath {
			text(w, http.StatusMisdirectedRequest, fmt.Sprintf(
				"this server is not known as %.100q: use its address or localhost, or add the name to admin.hosts\n", host))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostOf is a host, with or without a port, as it is compared.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inner, "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

//go:embed page
var page embed.FS

// pagePolicy lets the page load what this server has and talk to this server:
// names that the page shows came from outside.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// kinds are named here because the system's own table of them may say otherwise,
// and browsers are told to believe what they get.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
}

// servePage adds the page that shows /status to people, and what it is made of.
func servePage(mux *http.ServeMux) {
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { pageFile(w, r, "index.html") })
	mux.HandleFunc("GET /page/{file}", func(w http.ResponseWriter, r *http.Request) { pageFile(w, r, r.PathValue("file")) })
}

func pageFile(w http.ResponseWriter, r *http.Request, name string) {
	body, err := page.ReadFile(path.Join("page", name))
	kind, ours := kinds[path.Ext(name)]
	if err != nil || !ours {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Security-Policy", pagePolicy)
	w.Header().Set("Referrer-Policy", "no-referrer")
	write(w, http.StatusOK, body)
}

// History adds GET /history?mapping=NAME&mapping=..., whose answer is what last gives for
// the mappings named: how the last hour was.
func History(last func(mappings []string) any) Part {
	return func(mux *http.ServeMux) {
		mux.HandleFunc("GET /history", func(w http.ResponseWriter, r *http.Request) {
			answer(w, http.StatusOK, last(r.URL.Query()["mapping"]), nil)
		})
	}
}

// Profiles adds Go's profiles of the process under /debug/pprof/. They show what
// the process does, not with which data; still they are there only if the
// configuration asks for them.
func Profiles() Part {
	return func(mux *http.ServeMux) {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
}
