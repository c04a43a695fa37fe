package sandbox

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

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
//	POST   /_sandbox/faults                 adds a fault
//	DELETE /_sandbox/faults                 ends all faults
//	POST   /_sandbox/rejections             adds a Rejection
//	DELETE /_sandbox/rejections             ends all rejections
//	POST   /_sandbox/keys                   changes what an API key may do
//	DELETE /_sandbox/tokens                 ends all tokens
func (s *Sandbox) control() {
	s.mux.Handle("GET /{$}", http.RedirectHandler("/_sandbox/", http.StatusFound))
	s.mux.HandleFunc("GET /_sandbox/{$}", page)
	done := func(f func()) func(*http.Request) (any, error) {
		return func(*http.Request) (any, error) { f(); return nil, nil }
	}
	for pattern, f := range map[string]func(*http.Request) (any, error){
		"GET /overview": func(*http.Request) (any, error) { return s.overview(), nil },
		"GET /health": func(*http.Request) (any, error) {
			return map[string]string{"status": "ok", "entity": s.conf.Entity}, nil
		},
		"GET /tables/{table}/rows":     s.tellRows,
		"GET /tables/{table}/slots":    func(r *http.Request) (any, error) { return s.slotDays(r.PathValue("table")), nil },
		"GET /calls":                   func(*http.Request) (any, error) { return s.Calls(), nil },
		"GET /counts":                  func(*http.Request) (any, error) { return s.counts(), nil },
		"GET /executions":              func(*http.Request) (any, error) { return s.Executions(), nil },
		"POST /executions/{id}/finish": s.finishRequest,
		"POST /hold":                   done(s.Hold),
		"POST /release":                done(s.Release),
		"POST /faults":                 request("fault", s.injectRequest),
		"DELETE /faults":               done(s.ClearFaults),
		"POST /rejections":             request("rejection", func(r Rejection) error { return s.RejectRows(r) }),
		"DELETE /rejections":           done(s.clearRejections),
		"POST /keys":                   request("key", s.changeKey),
		"DELETE /tokens":               done(s.RevokeTokens),
	} {
		method, path, _ := strings.Cut(pattern, " ")
		s.mux.HandleFunc(method+" /_sandbox"+path, func(w http.ResponseWriter, r *http.Request) {
			body, err := f(r)
			if err != nil {
				s.write(w, s.refused(err))
				return
			}
			s.write(w, answerOK(body))
		})
	}
}

// tellRows answers with a table's rows, all or the newest of them.
func (s *Sandbox) tellRows(r *http.Request) (any, error) {
	var rows map[string]Row
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, refuse(http.StatusBadRequest, "limit: a number above 0 is expected")
		}
		rows = s.newest(r.PathValue("table"), n)
	} else {
		rows = s.Rows(r.PathValue("table"))
	}
	if rows == nil {
		return nil, refuse(http.StatusNotFound, "no such table")
	}
	return rows, nil
}

// counts is CallCount of every operation.
func (s *Sandbox) counts() map[int]int64 {
	counts := map[int]int64{}
	for op := 1; op < operations; op++ {
		counts[op] = s.CallCount(op)
	}
	return counts
}

func (s *Sandbox) finishRequest(r *http.Request) (any, error) {
	id := r.PathValue("id")
	if err := s.Finish(id); err != nil {
		return nil, refuse(http.StatusNotFound, "%s", err)
	}
	return s.Execution(id)
}

// request makes what reads the body of a control call and does what it says.
func request[T any](what string, do func(T) error) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		var v T
		d := json.NewDecoder(r.Body)
		d.DisallowUnknownFields()
		if err := d.Decode(&v); err != nil {
			return nil, refuse(http.StatusBadRequest, "%s: %s", what, describe(err))
		}
		if err := do(v); err != nil {
			return nil, refuse(http.StatusBadRequest, "%s: %s", what, err)
		}
		return nil, nil
	}
}

type keyRequest struct {
	Key        string `json:"key"`
	Revoked    bool   `json:"revoked"`
	Operations []int  `json:"operations"` // that it has the right to; none: all
}

func (s *Sandbox) changeKey(q keyRequest) error {
	switch {
	case q.Key == "":
		return errors.New("required")
	case q.Revoked:
		s.RevokeKey(q.Key)
	default:
		s.AllowKey(q.Key, q.Operations...)
	}
	return nil
}

// faultRequest is a Fault as another process asks for it. Durations are written
// as 1.5s or 200ms.
type faultRequest struct {
	Match
	Count      int    `json:"count"`
	Delay      string `json:"delay"`
	Apply      bool   `json:"apply"`
	Late       string `json:"late"`
	Answer     string `json:"answer"`     // as-is (the default), status, reset, hang, page, text or switch
	Status     int    `json:"status"`     // of a status, a page or a text
	Text       string `json:"text"`       // of a text
	RetryAfter string `json:"retryAfter"` // of a status
	Hold       string `json:"hold"`       // of a hang
}

func (s *Sandbox) injectRequest(q faultRequest) error {
	f := Fault{Match: q.Match, Count: q.Count, Apply: q.Apply}
	var retryAfter, hold time.Duration
	for _, d := range []struct {
		name, text string
		into       *time.Duration
	}{{"delay", q.Delay, &f.Delay}, {"retryAfter", q.RetryAfter, &retryAfter}, {"hold", q.Hold, &hold}, {"late", q.Late, &f.Late}} {
		var err error
		if *d.into, err = time.ParseDuration(cmp.Or(d.text, "0")); err != nil {
			return fmt.Errorf("%s: a duration such as 1.5s is expected", d.name)
		}
	}
	answers := map[string]Answer{
		"as-is": AsIs(), "status": StatusAfter(q.Status, retryAfter), "reset": Reset(), "hang": Hang(hold),
		"page": Page(q.Status), "text": Text(q.Status, q.Text), "switch": Switch(),
	}
	var known bool
	if f.Answer, known = answers[cmp.Or(q.Answer, "as-is")]; !known {
		return errors.New("answer: as-is, status, reset, hang, page, text or switch is expected")
	}
	if slices.Contains([]string{"status", "page", "text"}, q.Answer) && (q.Status < 200 || q.Status > 599) {
		return fmt.Errorf("status: %d is not one to answer", q.Status)
	}
	s.Inject(f)
	return nil
}

// How much of the newest the overview shows.
const (
	shownExecutions = 50
	shownCalls      = 200
)

// overview is what the page shows: all tables and ETLs, the newest of the rest
// first.
type overview struct {
	Entity     string          `json:"entity"`
	Now        time.Time       `json:"now"`
	Tables     []tableOverview `json:"tables"`
	ETLs       []etlOverview   `json:"etls"`
	Executions []Execution     `json:"executions"` // without the keys of their rows
	Calls      []Call          `json:"calls"`
	Counts     map[int]int64   `json:"counts"` // calls received, by operation
	Faults     int             `json:"faults"` // injected and not used up
	Held       bool            `json:"held"`   // executions wait to be released
	Zone       string          `json:"zone"`   // whose midnight begins a day of imports
}

// tableOverview is a table and how it is filled.
type tableOverview struct {
	Name        string   `json:"name"`
	Custom      bool     `json:"custom"`
	Keys        []string `json:"keys"`
	Fields      []string `json:"fields"` // as columns of a file would name them
	Rows        int      `json:"rows"`
	SlotsUsed   int      `json:"slotsUsed"` // today
	SlotsPerDay int      `json:"slotsPerDay"`
}

// etlOverview is a stored definition.
type etlOverview struct {
	ID     string   `json:"id"`
	Loads  []string `json:"loads"` // table and mode
	Fetch  string   `json:"fetch,omitempty"`
	Paused bool     `json:"paused,omitempty"`
}

// overview looks at everything once. What happens meanwhile may be seen in one
// part and not yet in another.
func (s *Sandbox) overview() overview {
	o := overview{Entity: s.conf.Entity, Now: s.conf.Now(), Counts: s.counts(), Zone: s.conf.Location.String()}
	for _, t := range s.conf.Tables { // in the order of the configuration
		name := s.conf.tableName(t)
		o.Tables = append(o.Tables, tableOverview{
			Name: name, Custom: t.Custom, Keys: t.Keys, Rows: s.Len(name), Fields: slices.Sorted(maps.Keys(s.tables[name].rules)),
			SlotsUsed: s.SlotsUsed(name, o.Now), SlotsPerDay: t.SlotsPerDay,
		})
	}
	s.imports.mu.Lock()
	for _, e := range s.imports.etls {
		var loads []string
		for _, l := range e.Loads {
			loads = append(loads, fmt.Sprintf("%s %s", l.Table, l.Mode))
		}
		o.ETLs = append(o.ETLs, etlOverview{ID: e.ID, Loads: loads, Fetch: e.Fetch.Remote, Paused: e.Paused})
	}
	for _, e := range slices.Backward(s.imports.all[max(0, len(s.imports.all)-shownExecutions):]) {
		state := e.state
		state.Loads = slices.Clone(state.Loads)
		for i := range state.Loads {
			state.Loads[i].Keys = nil
		}
		o.Executions = append(o.Executions, state)
	}
	o.Held = s.imports.held
	s.imports.mu.Unlock()
	slices.SortFunc(o.ETLs, func(a, b etlOverview) int {
		return cmp.Or(cmp.Compare(len(a.ID), len(b.ID)), cmp.Compare(a.ID, b.ID)) // as the numbers they mostly are
	})
	calls := s.Calls()
	o.Calls = calls[max(0, len(calls)-shownCalls):]
	slices.Reverse(o.Calls)
	for _, f := range s.Faults() {
		if (f.Count == 0 || f.Fired < f.Count) && (f.Nth == 0 || f.Seen < f.Nth) {
			o.Faults++
		}
	}
	return o
}

//go:embed page.html
var pageHTML []byte

// pagePolicy lets the page's own script run and nothing else: what the tables
// hold came from outside.
var pagePolicy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-" + scriptHash(pageHTML) +
	"'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func scriptHash(page []byte) string {
	_, script, _ := bytes.Cut(page, []byte("<script>"))
	script, _, _ = bytes.Cut(script, []byte("</script>"))
	sum := sha256.Sum256(script)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// page answers the page, which asks for the overview and for rows as long as it
// is open.
func page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Security-Policy", pagePolicy)
	_, _ = w.Write(pageHTML) // a browser that has gone needs no page
}
