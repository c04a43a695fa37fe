package calls

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// The tests run a whole lane against a scripted service in virtual time.

// fault is a Failure of any kind.
type fault struct {
	status            int
	permanent         bool
	overload, unknown bool
	noToken, shared   bool
	after             time.Duration
}

func (f fault) Error() string             { return fmt.Sprintf("%d", f.status) }
func (f fault) Transient() bool           { return !f.permanent }
func (f fault) Overload() bool            { return f.overload }
func (f fault) NoToken() bool             { return f.noToken }
func (f fault) Shared() bool              { return f.shared }
func (f fault) RetryAfter() time.Duration { return f.after }
func (f fault) Unknown() bool             { return f.unknown }
func (f fault) Status() int               { return f.status }

var (
	errUnavailable = fault{status: 503, unknown: true}
	errConflict    = fault{status: 409, permanent: true}
	errNotFound    = fault{status: 404, permanent: true}
)

// script is a service: each call takes 10ms and then ends as answer says, nil
// being a yes. It keeps what came in.
type script struct {
	answer func(c sent) error // called by one goroutine at a time

	mu       sync.Mutex
	sent     []sent
	inFlight map[string]bool
	overlaps int
}

// failsOnce is the answer of a service that is well after its first call.
func failsOnce(err error) func(sent) error {
	return func(now sent) error {
		if now.nth == 1 {
			return err
		}
		return nil
	}
}

// sent is one call as it came in.
type sent struct {
	schemas.Write
	retried bool
	at      time.Duration // since the test's start
	nth     int           // of all calls, from 1
}

func (s *script) Call(ctx context.Context, w *schemas.Write, try Try) error {
	s.mu.Lock()
	if s.inFlight == nil {
		s.inFlight = map[string]bool{}
	}
	if s.inFlight[w.Key] {
		s.overlaps++
	}
	s.inFlight[w.Key] = true
	s.sent = append(s.sent, sent{Write: *w, retried: try.Retried, at: time.Since(start()), nth: len(s.sent) + 1})
	c := s.sent[len(s.sent)-1]
	s.mu.Unlock()
	var err error
	select {
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(10 * time.Millisecond):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight[w.Key] = false
	if err == nil && s.answer != nil {
		err = s.answer(c)
	}
	return err
}

// start is when every synctest bubble begins.
func start() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

// calls lists what came in for a key, as "op value[?]", ? marking a retry after
// an unknown outcome.
func (s *script) calls(key string) string {
	var out []string
	for _, c := range s.log() {
		if key != "" && c.Key != key {
			continue
		}
		line := c.Op.String()
		for _, cell := range c.Cells {
			line += " " + cell.Value.Text()
		}
		if c.retried {
			line += "?"
		}
		out = append(out, line)
	}
	return strings.Join(out, ", ")
}

// count is how many calls came in.
func (s *script) count() int { return len(s.log()) }

// log is what came in so far.
func (s *script) log() []sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

// origin records how its write ended.
type origin struct {
	partition int
	mu        sync.Mutex
	ends      []string
}

func (o *origin) Confirm(out Outcome) { o.end(out.String()) }
func (o *origin) Reject(err error)    { o.end("rejected: " + err.Error()) }

func (o *origin) end(how string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ends = append(o.ends, how)
}

func (o *origin) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.ends, ", ")
}

// audience keeps what the lane reports.
type audience struct {
	mu       sync.Mutex
	attempts []Attempt
	turns    []string

	notRepeated int
}

func (a *audience) Called(at Attempt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.attempts = append(a.attempts, at)
}

func (a *audience) BreakerTurned(_ schemas.Table, to BreakerState, cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.turns = append(a.turns, fmt.Sprintf("%v (%v)", to, cause))
}

func (a *audience) NotRepeated(string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.notRepeated++
}

func config() Config {
	return Config{
		Concurrency: Concurrency{Start: 16, Max: 256},
		Breaker:     Breaker{Failures: 10, OpenFor: 15 * time.Second},
		Retry:       Retry{Initial: 200 * time.Millisecond, Max: 30 * time.Second},
	}
}

// stage is a lane under test.
type stage struct {
	*Lane
	t       *testing.T
	service *script
	heard   *audience
	end     context.CancelFunc // ends Run and waits for it
}

// attempts and turns are what the lane has reported so far.
func (s *stage) attempts() []Attempt {
	s.heard.mu.Lock()
	defer s.heard.mu.Unlock()
	return slices.Clone(s.heard.attempts)
}

func (s *stage) turns() string {
	s.heard.mu.Lock()
	defer s.heard.mu.Unlock()
	return strings.Join(s.heard.turns, ", ")
}

// run runs the lane for the length of act. A goroutine that outlives Run fails
// the bubble.
func run(t *testing.T, cfg Config, service *script, act func(t *testing.T, s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, service: service, heard: &audience{}}
		defer s.begin(cfg)()
		act(t, s)
	})
}

// begin runs the lane until the function that it returns is called.
func (s *stage) begin(cfg Config) (end func()) { return s.beginWith(cfg, s.service) }

func (s *stage) beginWith(cfg Config, service Caller) (end func()) {
	s.Lane = New(cfg, service, s.heard, rand.New(rand.NewPCG(1, 2)))
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	s.end = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("Run: got %v, want nil", err)
		}
	})
	return s.end
}

// put submits a write with one cell per value, all named alike from the left.
func (s *stage) put(op schemas.Op, key string, values ...string) *origin {
	o := &origin{}
	s.Submit(Item{Mapping: "customers", Write: write(op, key, values...), Origin: o})
	return o
}

// puts submits upserts of that many keys.
func (s *stage) puts(n int) {
	for i := range n {
		s.put(schemas.Upsert, fmt.Sprint(i), "1")
	}
}

// drop drops what of tells.
func (s *stage) drop(of func(Origin) bool) {
	s.t.Helper()
	if err := s.Drop(s.t.Context(), of); err != nil {
		s.t.Errorf("Drop: got %v, want nil", err)
	}
}

// customers is the table of put's writes.
var customers = schemas.Table{Name: "customers"}

func write(op schemas.Op, key string, values ...string) schemas.Write {
	w := schemas.Write{Op: op, Table: customers, Key: key}
	for i, v := range values {
		w.Cells = append(w.Cells, schemas.Cell{
			Place: &schemas.Place{Section: schemas.Attributes, Name: fmt.Sprintf("a%d", i)}, Value: schemas.StringValue(v),
		})
	}
	return w
}

// pass lets virtual time pass and everything due then happen.
func pass(d time.Duration) {
	time.Sleep(d) // virtual
	synctest.Wait()
}

func (s *stage) want(what, got, want string) {
	s.t.Helper()
	if got != want {
		s.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func (s *stage) wantPending(want int) {
	s.t.Helper()
	if got := s.Pending(); got != want {
		s.t.Errorf("pending: got %d, want %d", got, want)
	}
}
