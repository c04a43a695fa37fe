package sandbox

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// FaultRequest is a Fault as the control endpoint takes it. Durations are
// written as 1.5s or 200ms.
type FaultRequest struct {
	Op         int     `json:"op,omitempty"`
	Table      string  `json:"table,omitempty"`
	Key        string  `json:"key,omitempty"`
	Nth        int     `json:"nth,omitempty"`
	Chance     float64 `json:"chance,omitempty"`
	Count      int     `json:"count,omitempty"`
	Delay      string  `json:"delay,omitempty"`
	Apply      bool    `json:"apply,omitempty"`
	Answer     string  `json:"answer,omitempty"`     // as-is (the default), status, reset or hang
	Status     int     `json:"status,omitempty"`     // of a status
	RetryAfter string  `json:"retryAfter,omitempty"` // of a status
	Hold       string  `json:"hold,omitempty"`       // of a hang
}

// control adds the endpoints by which another process steers the sandbox. They
// ask for no token: a sandbox is not for networks that one does not own.
//
//	GET    /_sandbox/health
//	GET    /_sandbox/tables/{table}/rows    rows by key
//	GET    /_sandbox/tables/{table}/slots   imports accepted, by day
//	GET    /_sandbox/calls                  the calls that are kept
//	GET    /_sandbox/counts                 calls received, by operation
//	GET    /_sandbox/executions
//	POST   /_sandbox/executions/{id}/finish returns when the execution has ended
//	POST   /_sandbox/hold, /_sandbox/release
//	POST   /_sandbox/faults                 adds a FaultRequest
//	DELETE /_sandbox/faults                 ends all faults
func (s *Sandbox) control() {
	s.mux.HandleFunc("GET /_sandbox/health", s.tell(func(*http.Request) (any, error) {
		return map[string]string{"status": "ok", "entity": s.conf.Entity}, nil
	}))
	s.mux.HandleFunc("GET /_sandbox/tables/{table}/rows", s.tell(func(r *http.Request) (any, error) {
		rows := s.Rows(r.PathValue("table"))
		if rows == nil {
			return nil, refuse(http.StatusNotFound, "no such table")
		}
		return rows, nil
	}))
	s.mux.HandleFunc("GET /_sandbox/tables/{table}/slots", s.tell(func(r *http.Request) (any, error) {
		return s.SlotDays(r.PathValue("table")), nil
	}))
	s.mux.HandleFunc("GET /_sandbox/calls", s.tell(func(*http.Request) (any, error) { return s.Calls(), nil }))
	s.mux.HandleFunc("GET /_sandbox/counts", s.tell(func(*http.Request) (any, error) {
		counts := map[int]int64{}
		for op := 1; op < operations; op++ {
			counts[op] = s.CallCount(op)
		}
		return counts, nil
	}))
	s.mux.HandleFunc("GET /_sandbox/executions", s.tell(func(*http.Request) (any, error) { return s.Executions(), nil }))
	s.mux.HandleFunc("POST /_sandbox/executions/{id}/finish", s.tell(func(r *http.Request) (any, error) {
		id := r.PathValue("id")
		if err := s.Finish(id); err != nil {
			return nil, refuse(http.StatusNotFound, "%s", err)
		}
		return s.Execution(id)
	}))
	s.mux.HandleFunc("POST /_sandbox/hold", s.tell(func(*http.Request) (any, error) { s.Hold(); return nil, nil }))
	s.mux.HandleFunc("POST /_sandbox/release", s.tell(func(*http.Request) (any, error) { s.Release(); return nil, nil }))
	s.mux.HandleFunc("POST /_sandbox/faults", s.tell(s.injectRequest))
	s.mux.HandleFunc("DELETE /_sandbox/faults", s.tell(func(*http.Request) (any, error) { s.ClearFaults(); return nil, nil }))
}

// tell answers a control call with what f returns, as JSON.
func (s *Sandbox) tell(f func(r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := f(r)
		if err != nil {
			s.write(w, s.refused(err))
			return
		}
		s.write(w, answer{status: http.StatusOK, body: body})
	}
}

func (s *Sandbox) injectRequest(r *http.Request) (any, error) {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	var request FaultRequest
	if err := d.Decode(&request); err != nil {
		return nil, refuse(http.StatusBadRequest, "fault: %s", describe(err))
	}
	fault, err := request.fault()
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "fault: %s", err)
	}
	s.Inject(fault)
	return nil, nil
}

// fault compiles a request.
func (q FaultRequest) fault() (Fault, error) {
	f := Fault{
		Match: Match{Op: q.Op, Table: q.Table, Key: q.Key, Nth: q.Nth, Chance: q.Chance},
		Count: q.Count, Apply: q.Apply,
	}
	var retryAfter, hold time.Duration
	for _, d := range []struct {
		name, text string
		into       *time.Duration
	}{{"delay", q.Delay, &f.Delay}, {"retryAfter", q.RetryAfter, &retryAfter}, {"hold", q.Hold, &hold}} {
		if d.text == "" {
			continue
		}
		var err error
		if *d.into, err = time.ParseDuration(d.text); err != nil {
			return f, fmt.Errorf("%s: a duration such as 1.5s is expected", d.name)
		}
	}
	switch q.Answer {
	case "", "as-is":
		f.Answer = AsIs()
	case "status":
		if q.Status < 200 || q.Status > 599 {
			return f, fmt.Errorf("status: %d is not one to answer", q.Status)
		}
		f.Answer = StatusAfter(q.Status, retryAfter)
	case "reset":
		f.Answer = Reset()
	case "hang":
		f.Answer = Hang(hold)
	default:
		return f, fmt.Errorf("answer: as-is, status, reset or hang is expected")
	}
	return f, nil
}
