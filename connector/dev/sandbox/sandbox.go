package sandbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Sandbox is the service: an http.Handler, safe for concurrent use. New makes
// one, Start or Serve puts it on a socket, Close ends it.
type Sandbox struct {
	conf   Config
	mux    *http.ServeMux
	tables map[string]*table

	tokens  *tokens
	imports imports
	slots   slots
	faults  faults
	hooks   webhooks
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
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	c = c.withDefaults()
	life, end := context.WithCancel(context.Background())
	s := &Sandbox{
		conf:   c,
		mux:    http.NewServeMux(),
		tables: map[string]*table{},
		tokens: newTokens(c),
		slots:  slots{used: map[slotDay]int{}},
		life:   life,
		end:    end,
	}
	s.log.limit = c.KeepCalls
	s.faults.chance = rand.New(rand.NewPCG(1, 1))
	s.imports.init(c)
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

// Rows returns a copy of a table by key (Row.Key); nil when there is no such
// table.
func (s *Sandbox) Rows(name string) map[string]Row {
	t, ok := s.tables[name]
	if !ok {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	rows := make(map[string]Row, len(t.rows))
	for _, r := range t.rows {
		rows[r.Key] = r.snapshot()
	}
	return rows
}

// Row returns a copy of the row that has key as the value of one of its unique
// keys or as its business key.
func (s *Sandbox) Row(name, key string) (Row, bool) {
	t, ok := s.tables[name]
	if !ok {
		return Row{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, unique := range t.conf.Keys {
		if r := t.index[unique][key]; r != nil {
			return r.snapshot(), true
		}
	}
	return Row{}, false
}

// Len tells how many rows a table has.
func (s *Sandbox) Len(name string) int {
	t, ok := s.tables[name]
	if !ok {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.rows)
}

// Empty removes every row of every table. Ids are not given twice.
func (s *Sandbox) Empty() {
	for _, t := range s.tables {
		t.mu.Lock()
		t.clear()
		t.mu.Unlock()
	}
}

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
func gone(*http.Request, *call) (func() (answer, error), error) {
	return nil, refuse(http.StatusGone, "this import was removed in June 2025: use operations 8 or 10")
}
