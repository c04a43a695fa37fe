package schemas

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
)

// RegistryConfig is how a schema registry with Confluent's interface is asked.
type RegistryConfig struct {
	URL string // may carry a user and a password
	// HTTP makes the requests; its Timeout bounds each. Nil: a client that
	// waits ten seconds.
	HTTP *http.Client
	// Login is asked for user and password before each request, so that they
	// can change; nil: those of the URL, if any.
	Login func() (user, password string, err error)
	// Backoff is the wait after that many failures in a row, counted from 1.
	Backoff func(failures int) time.Duration
	// Validate has records of the format json-schema checked against their
	// schema.
	Validate bool
	// Asked is told how each request ended: found, unknown or failed. Nil: nobody is.
	Asked func(outcome string)
	Log   *slog.Logger
}

// Limits of what is remembered. Text is what the registry sends: a schema made
// for reading takes a multiple of it.
const (
	maxSchemas    = 1000
	maxSchemaText = 8 << 20 // bytes, of all schemas with what they refer to
	maxSchema     = 1 << 20 // bytes, of one
)

// Registry knows writer schemas by their id. One that it does not know it
// fetches beside whoever asks, once however many ask; until then, and while the
// registry cannot be reached, the answer is ErrSchemaUnavailable. It forgets the schemas
// that were not asked for longest. It is safe for concurrent use.
type Registry struct {
	cfg    RegistryConfig
	client *sr.Client

	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	fetches sync.WaitGroup

	mu       sync.Mutex
	known    map[uint32]*list.Element // of *entry
	recent   *list.List               // the entry asked for last in front
	text     int                      // bytes of all entries
	fetching map[uint32]bool
	failures int       // in a row
	rest     time.Time // nothing is asked before
	failure  error     // of the last request; nil: it was answered
}

// entry is what the registry said of one id.
type entry struct {
	id     uint32
	writer writer
	err    *schemaError // instead of writer
	text   int          // bytes
	until  time.Time    // of a refusal: the registry may learn the schema later
}

// refusalLasts is how long a schema that does not exist is not asked for again.
const refusalLasts = time.Minute

// NewRegistry connects to nothing yet: an error is one of configuration.
func NewRegistry(cfg RegistryConfig) (*Registry, error) {
	address, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, errors.New("the registry's address cannot be read") // the parser's error quotes it, with its password
	}
	if user := address.User; user != nil && cfg.Login == nil {
		cfg.Login = func() (string, string, error) {
			password, _ := user.Password()
			return user.Username(), password, nil
		}
	}
	address.User = nil // the client's errors quote the address
	if cfg.HTTP == nil {
		cfg.HTTP = &http.Client{Timeout: 10 * time.Second}
	}
	bounded := *cfg.HTTP
	bounded.Transport = boundedBodies{bounded.Transport}
	opts := []sr.ClientOpt{sr.URLs(address.String()), sr.HTTPClient(&bounded), sr.UserAgent("feedsink")}
	if cfg.Login != nil {
		opts = append(opts, sr.PreReq(func(r *http.Request) error {
			user, password, err := cfg.Login()
			if err == nil {
				r.SetBasicAuth(user, password)
			}
			return err
		}))
	}
	client, err := sr.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("schema registry: %w", err)
	}
	r := &Registry{cfg: cfg, client: client, known: map[uint32]*list.Element{}, recent: list.New(), fetching: map[uint32]bool{}}
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r, nil
}

// Close ends the requests under way and waits for them.
func (r *Registry) Close() {
	r.stop()
	r.fetches.Wait()
	r.cfg.HTTP.CloseIdleConnections()
}

// Trouble is why the last request was not answered, nil if it was.
func (r *Registry) Trouble() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}

// writer is the writer schema of that id, a *schemaError where there can be
// none, or ErrSchemaUnavailable.
func (r *Registry) writer(id uint32) (writer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, ok := r.known[id]; ok {
		r.recent.MoveToFront(at)
		e, _ := at.Value.(*entry)
		switch {
		case e.err == nil:
			return e.writer, nil
		case time.Now().Before(e.until):
			return nil, e.err
		}
		r.forget(at)
	}
	if !r.fetching[id] && !time.Now().Before(r.rest) && r.ctx.Err() == nil {
		r.fetching[id] = true
		r.fetches.Go(func() { r.fetch(id) })
	}
	return nil, ErrSchemaUnavailable
}

// fetch asks for one schema and remembers the answer.
func (r *Registry) fetch(id uint32) {
	e, err := r.ask(r.ctx, id)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.fetching, id)
	if r.ctx.Err() != nil {
		return
	}
	r.failure = err
	switch {
	case err != nil:
		r.failed(id, err)
		return
	case e.err != nil:
		e.until = time.Now().Add(refusalLasts)
		r.cfg.Log.Warn("records of a schema cannot be decoded", "schema", id, "reason", e.err)
		r.asked("unknown")
	default:
		r.asked("found")
	}
	if r.failures > 0 {
		r.failures, r.rest = 0, time.Time{}
		r.cfg.Log.Info("the schema registry answers again")
	}
	r.remember(e)
}

// failed lets nobody ask for a while. Several requests that were under way
// together count as one failure.
func (r *Registry) failed(id uint32, err error) {
	r.asked("failed")
	if time.Now().Before(r.rest) {
		return
	}
	r.failures++
	wait := r.cfg.Backoff(r.failures)
	r.rest = time.Now().Add(wait)
	r.cfg.Log.Warn("a schema cannot be fetched; the records that need it wait", "schema", id, "wait", wait, "error", err)
}

func (r *Registry) asked(outcome string) {
	if r.cfg.Asked != nil {
		r.cfg.Asked(outcome)
	}
}

// remember keeps e and forgets what there is no room for.
func (r *Registry) remember(e *entry) {
	r.known[e.id] = r.recent.PushFront(e)
	r.text += e.text
	for r.recent.Len() > 1 && (r.recent.Len() > maxSchemas || r.text > maxSchemaText) {
		r.forget(r.recent.Back())
	}
}

func (r *Registry) forget(at *list.Element) {
	e, _ := r.recent.Remove(at).(*entry)
	delete(r.known, e.id)
	r.text -= e.text
}
