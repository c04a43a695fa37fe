package sandbox

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Match says which calls a fault is about; every zero field matches all.
type Match struct {
	Op          int     `json:"op"`     // operation of the document
	Table       string  `json:"table"`  // of operation 10, any of the ETL's tables
	Key         string  `json:"key"`    // unique key, business key or profile id; of an import, the file's name
	Nth         int     `json:"nth"`    // only the nth call that matches, counted from the injection
	Probability float64 `json:"chance"` // 0 to 1: probability for each call that matches
}

// Fault makes a call go wrong on two independent axes: whether the service did
// what was asked, and what it answered.
type Fault struct {
	Match
	Count int           // how many calls at most; 0: any number
	Delay time.Duration // before anything is done
	Apply bool          // do what was asked; implied by AsIs
	// Late does what was asked so long after the call came, whether its client still
	// waits or has gone: what stands in front of a service may deliver late. The truth
	// is not known in time, so that AsIs gives no answer, as Hang does.
	Late   time.Duration
	Answer Answer
}

// Answer is what a client gets to see. Its zero value is the true answer.
type Answer struct {
	status int // as the log has it; 0: the client gets no answer
	write  func(s *Sandbox, w http.ResponseWriter, r *http.Request)
}

// AsIs answers truthfully: with a Delay, a fault that is only slow.
func AsIs() Answer { return Answer{} }

func (a Answer) truthful() bool { return a.write == nil }

// Status answers an error with this status.
func Status(code int) Answer { return StatusAfter(code, 0) }

// StatusAfter answers an error and asks to come back after d, in whole seconds
// rounded up.
func StatusAfter(code int, d time.Duration) Answer {
	return Answer{code, func(s *Sandbox, w http.ResponseWriter, _ *http.Request) {
		e := refuse(code, "injected fault")
		e.retryAfter = d
		s.write(w, s.refused(e))
	}}
}

// Reset resets the connection without an answer.
func Reset() Answer {
	return Answer{write: func(_ *Sandbox, w http.ResponseWriter, _ *http.Request) { reset(w) }}
}

// Hang gives no answer until the client gives up; after d, unless d is 0, the
// connection is reset.
func Hang(d time.Duration) Answer {
	return Answer{write: func(s *Sandbox, w http.ResponseWriter, r *http.Request) {
		s.wait(r, d)
		reset(w)
	}}
}

// Page answers what a gateway or a login page in front of the service does: HTML,
// with this status, be it a success.
func Page(code int) Answer {
	return Text(code, fmt.Sprintf("<!DOCTYPE html>\n<html><head><title>%d</title></head><body><h1>A gateway's page</h1></body></html>\n", code))
}

// Text answers a line of plain text with this status, as gateways do that have no
// page; "" is an empty body.
func Text(code int, text string) Answer {
	return Answer{code, func(_ *Sandbox, w http.ResponseWriter, _ *http.Request) {
		switch {
		case strings.HasPrefix(text, "<"):
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
		case text != "":
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text) // a client that has gone needs no answer
	}}
}

// Switch answers 101, says nothing more and keeps the connection until the client
// gives it up.
func Switch() Answer {
	return Answer{http.StatusSwitchingProtocols, func(s *Sandbox, w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusSwitchingProtocols)
		_ = http.NewResponseController(w).Flush() // without it the answer would stay here
		s.wait(r, 0)
		reset(w)
	}}
}

// FaultState is an injected fault and how many calls met it.
type FaultState struct {
	Fault
	Seen  int // calls that matched
	Fired int // calls that it decided
	// Landed counts the calls that Late has dealt with, be they applied or refused.
	Landed int
}

// faults are the injected faults in the order of their injection.
type faults struct {
	armed atomic.Bool // spares calls the lock while there are none

	mu     sync.Mutex
	random *rand.Rand
	list   []*FaultState
}

// Inject adds faults. The first one that fires decides a call; calls refused for
// their token are not counted by any.
func (s *Sandbox) Inject(list ...Fault) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	for _, f := range list {
		s.faults.list = append(s.faults.list, &FaultState{Fault: f})
	}
	s.faults.armed.Store(len(s.faults.list) > 0)
}

// Chaos replaces all faults by these and starts their probabilities anew from seed.
// Each needs a Probability to leave calls to the next one.
func (s *Sandbox) Chaos(seed uint64, list ...Fault) {
	s.ClearFaults()
	s.faults.mu.Lock()
	s.faults.random = rand.New(rand.NewPCG(seed, seed))
	s.faults.mu.Unlock()
	s.Inject(list...)
}

// ClearFaults ends all faults. Calls that hang already go on hanging.
func (s *Sandbox) ClearFaults() {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.list = nil
	s.faults.armed.Store(false)
}

// Faults returns the injected faults and how many calls met each.
func (s *Sandbox) Faults() []FaultState {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	states := make([]FaultState, len(s.faults.list))
	for i, f := range s.faults.list {
		states[i] = *f
	}
	return states
}

// pick returns the fault that decides a call. A call without a good token meets
// none, so that a fault meant for one call is not spent on its first, refused try.
func (f *faults) pick(c *call) *FaultState {
	if !f.armed.Load() || !c.TokenOK && c.Op != 14 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, state := range f.list {
		if !state.matches(c) {
			continue
		}
		state.Seen++
		if state.Nth > 0 && state.Seen != state.Nth ||
			state.Count > 0 && state.Fired >= state.Count ||
			state.Probability > 0 && f.random.Float64() >= state.Probability {
			continue
		}
		state.Fired++
		return state
	}
	return nil
}

// late applies a call whatever becomes of its client.
func (s *Sandbox) late(state *FaultState, c *call, apply apply) {
	timer := time.NewTimer(state.Late)
	cleanup := c.cleanup
	c.cleanup = func() {}
	if !s.start(func() {
		defer cleanup()
		defer timer.Stop()
		select {
		case <-timer.C:
			_, _ = apply() // its client has its answer, or none
			s.faults.mu.Lock()
			state.Landed++
			s.faults.mu.Unlock()
		case <-s.life.Done():
		}
	}) {
		cleanup()
	}
}

func (m Match) matches(c *call) bool {
	return (m.Op == 0 || m.Op == c.Op) &&
		(m.Table == "" || slices.Contains(c.tables, m.Table)) &&
		(m.Key == "" || m.Key == c.Key || m.Key == c.ID)
}

// reset ends the connection without an answer, with a TCP reset where there is
// TCP below.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // the server's own way to end a connection
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it the client sees an ordinary end, which is as good a fault
	}
	_ = conn.Close() // the client has gone either way
}
