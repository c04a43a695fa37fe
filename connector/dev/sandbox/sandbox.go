// Package sandbox is the marketing service itself, in process: the tables, the
// tokens and rights, the executions that take their time, the file locations,
// the slots of the day and the errors, answered over HTTP as the interface's
// document describes them. It is what tests and local trials run against instead
// of the real service, and has a page for people who look on.
//
// It writes every wire shape on its own and imports nothing else of this
// module: a mistake in the client must meet a service that does not share it.
// It knows nothing about Kafka, mappings or lanes.
//
// Where the document says "not shown" the sandbox makes one choice and states
// it beside the code; Config.Shapes offers the other answers that a client has
// to live with.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Sandbox is the service: an http.Handler, safe for concurrent use. New makes
// one, Start puts it on a socket, Close ends it.
type Sandbox struct {
	conf   Config
	mux    *http.ServeMux
	tables map[string]*table

	tokens  tokens
	imports imports
	faults  faults
	log     callLog
	latency [operations]atomic.Int64 // nanoseconds

	life    context.Context // ends with Close: nothing waits any longer
	end     context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	servers []*Server
}

// New makes the service that c describes, or reports what is wrong with c.
// Nothing runs and no file exists until the first call.
func New(c Config) (*Sandbox, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	c = c.withDefaults()
	life, end := context.WithCancel(context.Background())
	s := &Sandbox{
		conf:   c,
		mux:    http.NewServeMux(),
		tables: map[string]*table{},
		tokens: tokens{keys: map[string][]int{}, out: map[string]grant{}},
		imports: imports{
			etls: map[string]ETL{}, lastID: 1000, byID: map[string]*execution{},
			failures: map[string]*failure{}, slots: map[string]map[string]int{}, dir: c.Dir, ownsDir: c.Dir == "",
		},
		life: life,
		end:  end,
	}
	s.log.limit = c.KeepCalls
	s.faults.random = rand.New(rand.NewPCG(1, 1))
	for _, key := range c.APIKeys {
		s.tokens.keys[key] = nil
	}
	for _, e := range c.ETLs {
		s.imports.etls[e.ID] = e
	}
	for _, t := range c.Tables {
		s.tables[c.tableName(t)] = newTable(t)
	}
	for _, t := range s.tables {
		if t.conf.Link.cascades() {
			profiles := s.tables[c.ofKind(t.conf.Link.Table, false)]
			profiles.cascade = append(profiles.cascade, t)
		}
	}
	s.routes()
	return s, nil
}

// Close ends every server, abandons executions that are still IN_PROGRESS and
// returns when every goroutine has ended and temporary files are gone.
func (s *Sandbox) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	servers := s.servers
	s.mu.Unlock()

	s.end()
	var errs []error
	for _, srv := range servers {
		errs = append(errs, srv.Close())
	}
	s.running.Wait()
	return errors.Join(append(errs, s.imports.removeFiles())...)
}

// start runs f in a goroutine that Close waits for; it reports false, and runs
// nothing, once the sandbox is closed.
func (s *Sandbox) start(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Go(f)
	return true
}

// ServeHTTP answers one call.
func (s *Sandbox) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// SetLatency makes every call of an operation take d longer before anything is
// done. Operation 0 stands for all of them.
func (s *Sandbox) SetLatency(op int, d time.Duration) { s.latency[op].Store(int64(d)) }

// routes maps the document's paths to its operations by their numbers.
func (s *Sandbox) routes() {
	profiles := "/profiles/v5/entities/{entity}/profile-tables/{table}/profiles"
	records := "/custom-data/v4/entity/{entity}/customTable/{table}/record"
	imports := "/mass-imports/v5/entities/{entity}"

	s.operation(1, "POST "+profiles, s.putProfile)
	s.operation(2, "PATCH "+profiles+"/{id}", s.patchProfile)
	s.operation(3, "DELETE "+profiles+"/{id}", s.deleteProfile)
	s.operation(4, "POST "+records, s.putRecord)
	s.operation(5, "PUT "+records+"/{key}", s.updateRecord)
	s.operation(6, "GET "+records+"/{key}", s.getRecord)
	s.operation(7, "DELETE "+records+"/{key}", s.deleteRecord)
	s.operation(8, "POST "+imports+"/etl-executions", s.oneShot)
	s.operation(9, "POST "+imports+"/etls", s.createETL)
	s.operation(10, "POST "+imports+"/etls/{etl}/trigger-execution", s.trigger)
	s.operation(11, "GET "+imports+"/etl-executions/{execution}/integration-results", s.results)
	s.operation(12, "GET "+imports+"/etl-executions/{execution}/output-files", s.outputFiles)
	s.operation(13, "POST /webhooks/v4/entity/{entity}/webhookSubscription", s.subscribe)
	s.operation(14, "GET /auth/token", s.issueToken)
	s.operation(15, "POST /mass-imports/v4/entity/{entity}/table/{table}/import", gone)
	s.control()
}

// gone answers operation 15, removed from the service in June 2025.
func gone(*http.Request, *call) (apply, error) {
	return nil, refuse(http.StatusGone, "this import was removed in June 2025: use operations 8 or 10")
}

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

// Start listens on a TCP address, ":0" for any free port, and serves. A closed
// sandbox refuses.
func (s *Sandbox) Start(addr string) (*Server, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	addr = l.Addr().String()
	if tcp, ok := l.Addr().(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		addr = fmt.Sprintf("127.0.0.1:%d", tcp.Port) // which a client on this machine can call
	}
	srv := &Server{url: "http://" + addr, served: make(chan struct{})}
	srv.http = &http.Server{
		Handler:           srv.counted(s),
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          discardLog,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.Join(errors.New("sandbox: closed"), l.Close())
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
