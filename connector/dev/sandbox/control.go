package sandbox

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// FaultRequest is a Fault as the control endpoint takes it. Durations are
// written as 1.5s or 200ms.
type FaultRequest struct {
	Op          int     `json:"op,omitempty"`
	Table       string  `json:"table,omitempty"`
	Key         string  `json:"key,omitempty"`
	Nth         int     `json:"nth,omitempty"`
	Probability float64 `json:"chance,omitempty"`
	Count       int     `json:"count,omitempty"`
	Delay       string  `json:"delay,omitempty"`
	Apply       bool    `json:"apply,omitempty"`
	Late        string  `json:"late,omitempty"`
	Answer      string  `json:"answer,omitempty"`     // as-is (the default), status, reset, hang, page, text or switch
	Status      int     `json:"status,omitempty"`     // of a status, a page or a text
	Text        string  `json:"text,omitempty"`       // of a text
	RetryAfter  string  `json:"retryAfter,omitempty"` // of a status
	Hold        string  `json:"hold,omitempty"`       // of a hang
}

// control adds the endpoints by which another process steers the sandbox, and
// the page. They ask for no token: a sandbox is not for networks that one does
// not own.
//
//	GET    /_sandbox/                       the page, for people
//	GET    /_sandbox/overview               what it shows
//	GET    /_sandbox/health
//	GET    /_sandbox/tables/{table}/rows    rows by key; with ?limit=N those that changed last
//	GET    /_sandbox/tables/{table}/slots   imports accepted, by day
//	GET    /_sandbox/calls                  the calls that are kept
//	GET    /_sandbox/counts                 calls received, by operation
//	GET    /_sandbox/executions
//	POST   /_sandbox/executions/{id}/finish returns when the execution has ended
//	POST   /_sandbox/hold, /_sandbox/release
//	POST   /_sandbox/faults                 adds a FaultRequest
//	DELETE /_sandbox/faults                 ends all faults
//	POST   /_sandbox/rejections             adds a Rejection
//	DELETE /_sandbox/rejections             ends all rejections
//	POST   /_sandbox/keys                   a KeyRequest
//	DELETE /_sandbox/tokens                 ends all tokens
func (s *Sandbox) control() {
	s.page()
	done := func(f func()) func(*http.Request) (any, error) {
		return func(*http.Request) (any, error) { f(); return nil, nil }
	}
	for pattern, f := range map[string]func(*http.Request) (any, error){
		"GET /overview": func(*http.Request) (any, error) { return s.Overview(), nil },
		"GET /health": func(*http.Request) (any, error) {
			return map[string]string{"status": "ok", "entity": s.conf.Entity}, nil
		},
		"GET /tables/{table}/rows":  s.tellRows,
		"GET /tables/{table}/slots": func(r *http.Request) (any, error) { return s.SlotDays(r.PathValue("table")), nil },
		"GET /calls":                func(*http.Request) (any, error) { return s.Calls(), nil },
		"GET /counts":               func(*http.Request) (any, error) { return s.counts(), nil },
		"GET /executions":           func(*http.Request) (any, error) { return s.Executions(), nil },
		"POST /executions/{id}/finish": func(r *http.Request) (any, error) {
			id := r.PathValue("id")
			if err := s.Finish(id); err != nil {
				return nil, refuse(http.StatusNotFound, "%s", err)
			}
			return s.Execution(id)
		},
		"POST /hold":         done(s.Hold),
		"POST /release":      done(s.Release),
		"POST /faults":       s.injectRequest,
		"DELETE /faults":     done(s.ClearFaults),
		"POST /rejections":   s.rejectRequest,
		"DELETE /rejections": done(s.ClearRejections),
		"POST /keys":         s.keyRequest,
		"DELETE /tokens":     done(s.RevokeTokens),
	} {
		method, path, _ := strings.Cut(pattern, " ")
		s.mux.HandleFunc(method+" /_sandbox"+path, s.tell(f))
	}
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

// steer reads the body of a control call.
func steer(r *http.Request, what string, v any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return refuse(http.StatusBadRequest, "%s: %s", what, describe(err))
	}
	return nil
}

// KeyRequest changes what an API key may do.
type KeyRequest struct {
	Key        string `json:"key"`
	Revoked    bool   `json:"revoked,omitempty"`
	Operations []int  `json:"operations,omitempty"` // that it has the right to; none: all
}

func (s *Sandbox) keyRequest(r *http.Request) (any, error) {
	var request KeyRequest
	if err := steer(r, "key", &request); err != nil {
		return nil, err
	}
	switch {
	case request.Key == "":
		return nil, refuse(http.StatusBadRequest, "key: required")
	case request.Revoked:
		s.RevokeKey(request.Key)
	default:
		s.AllowKey(request.Key, request.Operations...)
	}
	return nil, nil
}

func (s *Sandbox) rejectRequest(r *http.Request) (any, error) {
	var rejection Rejection
	if err := steer(r, "rejection", &rejection); err != nil {
		return nil, err
	}
	if err := s.RejectRows(rejection); err != nil {
		return nil, refuse(http.StatusBadRequest, "rejection: %s", err)
	}
	return nil, nil
}

func (s *Sandbox) injectRequest(r *http.Request) (any, error) {
	var request FaultRequest
	if err := steer(r, "fault", &request); err != nil {
		return nil, err
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
		Match: Match{Op: q.Op, Table: q.Table, Key: q.Key, Nth: q.Nth, Chance: q.Probability},
		Count: q.Count, Apply: q.Apply,
	}
	var retryAfter, hold time.Duration
	for _, d := range []struct {
		name, text string
		into       *time.Duration
	}{{"delay", q.Delay, &f.Delay}, {"retryAfter", q.RetryAfter, &retryAfter}, {"hold", q.Hold, &hold}, {"late", q.Late, &f.Late}} {
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
	case "status", "page", "text":
		if q.Status < 200 || q.Status > 599 {
			return f, fmt.Errorf("status: %d is not one to answer", q.Status)
		}
		f.Answer = StatusAfter(q.Status, retryAfter)
		switch q.Answer {
		case "page":
			f.Answer = Page(q.Status)
		case "text":
			f.Answer = Text(q.Status, q.Text)
		}
	case "switch":
		f.Answer = Switch()
	case "reset":
		f.Answer = Reset()
	case "hang":
		f.Answer = Hang(hold)
	default:
		return f, fmt.Errorf("answer: as-is, status, reset, hang, page, text or switch is expected")
	}
	return f, nil
}
