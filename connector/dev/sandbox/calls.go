package sandbox

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// operations is one more than the highest operation of the document.
const operations = 16

// maxBody bounds the JSON body of a call, in bytes.
const maxBody = 8 << 20

// Call is one call that the service received, as the sandbox saw it. It never
// carries a key or a token.
type Call struct {
	Seq     int64          `json:"seq"`              // order of application; a call that was not applied stands where it was answered
	At      time.Time      `json:"at"`               // when it was received
	Op      int            `json:"op"`               // operation of the document, 1 to 15
	Table   string         `json:"table,omitempty"`  // table it names; of operation 10, the ETL's tables
	Key     string         `json:"key,omitempty"`    // unique key or business key; of an import, the file's name
	ID      string         `json:"id,omitempty"`     // profile id or execution id
	Values  map[string]any `json:"values,omitempty"` // what the body says, by column name
	Digest  string         `json:"digest,omitempty"` // of the body's bytes
	Status  int            `json:"status"`           // as answered; 0: the client got no answer
	Applied bool           `json:"applied"`          // the service did what was asked
	TokenOK bool           `json:"tokenOK"`          // the bearer token was known and fresh
	Fault   bool           `json:"fault,omitempty"`  // an injected fault decided this call
}

// call is a call in the making: what the log will say of it and what it holds
// until it has been answered.
type call struct {
	Call
	table   *table   // of the path, for operations 1 to 7
	tables  []string // what it is about, for faults to match
	cleanup func()   // removes what was received and not used
}

// prepare reads and checks a call without changing anything, fills in what the
// log says of it, and returns what would carry it out. Splitting the two is
// what lets a fault decide between them.
type prepare func(r *http.Request, c *call) (apply, error)

type apply func() (answer, error)

// answer is what a call is answered with.
type answer struct {
	status int
	header http.Header
	body   any // nil: none; []byte: as it is; else JSON
	stream func(io.Writer) error
}

// operation routes a pattern to an operation: token, body, fault, application,
// log, answer, in this order.
func (s *Sandbox) operation(op int, pattern string, prepare prepare) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		s.log.counts[op].Add(1)
		c := &call{Call: Call{Op: op, Table: s.conf.ofKind(r.PathValue("table"), customOp(op)), At: s.conf.Now()}, cleanup: func() {}}
		c.tables = []string{c.Table}
		apply, err := s.admit(r, c, prepare)
		defer func() { c.cleanup() }()
		if err != nil {
			// Answered before the upload has ended, many clients would see a broken
			// connection; one that has gone is noticed below.
			_, _ = io.Copy(io.Discard, r.Body)
		}
		var fault Fault
		state := s.faults.pick(c)
		if c.Fault = state != nil; c.Fault {
			fault = state.Fault
		}
		if err == nil && fault.Late > 0 {
			s.late(state, c, apply)
			fault.Apply = false
			if fault.Answer.truthful() {
				fault.Answer = Hang(0)
			}
		}
		// Only now that the body has been read does the server notice a client
		// that gives up.
		if d := time.Duration(s.latency[0].Load()+s.latency[op].Load()) + fault.Delay; d > 0 && !s.wait(r, d) {
			reset(w) // returning would answer 200
			return
		}
		truth := s.refused(err)
		if err == nil && (!c.Fault || fault.Apply || fault.Answer.truthful()) {
			if truth, err = apply(); err != nil {
				truth = s.refused(err)
			}
			c.Applied = err == nil
		}
		if fault.Answer.truthful() {
			c.Status = truth.status
			s.log.add(c.Call)
			s.write(w, truth)
			return
		}
		c.Status = fault.Answer.status
		s.log.add(c.Call)
		fault.Answer.write(s, w, r)
	})
}

// customOp reports whether an operation is about the records of a custom table.
func customOp(op int) bool { return op >= 4 && op <= 7 }

// admit checks who calls and what for, then prepares the call.
func (s *Sandbox) admit(r *http.Request, c *call, prepare prepare) (apply, error) {
	if c.Op != 14 {
		var allowed bool
		c.TokenOK, allowed = s.tokens.valid(r.Header.Get("Authorization"), c.Op, s.conf.Now())
		if !c.TokenOK {
			return nil, refuse(http.StatusUnauthorized, "the token has expired or is unknown")
		}
		if !allowed {
			return nil, refuse(s.conf.Shapes.Status.NoRight, "the API key lacks the access right of this route").as("NO_RIGHT")
		}
		if r.PathValue("entity") != s.conf.Entity {
			return nil, refuse(http.StatusNotFound, "no such entity")
		}
	}
	if c.Op <= 7 {
		if c.table = s.tables[c.Table]; c.table == nil || c.table.conf.Custom != customOp(c.Op) {
			return nil, refuse(http.StatusNotFound, "no such table")
		}
	}
	return prepare(r, c)
}

// wait reports whether the client and the sandbox were still there after d; with
// 0 it waits until one of them is not.
func (s *Sandbox) wait(r *http.Request, d time.Duration) bool {
	var over <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
		return true
	case <-r.Context().Done():
	case <-s.life.Done():
	}
	return false
}

// body decodes the JSON body into v, strictly: a field that the document does
// not have is a mistake of the client.
func (s *Sandbox) body(r *http.Request, c *call, v any) error {
	b, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return refuse(http.StatusBadRequest, "the body ended early")
	}
	if len(b) > maxBody {
		return refuse(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", maxBody)
	}
	if s.log.limit > 0 { // bodies are told apart without being kept
		h := fnv.New64a()
		_, _ = h.Write(b) // a hash's Write returns no error
		c.Digest = strconv.FormatUint(h.Sum64(), 16)
	}
	return decode(b, v)
}

// decode reads exactly one JSON document, keeping numbers as they are written.
func decode(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return refuse(http.StatusBadRequest, "the body is not what this operation takes: %s", describe(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return refuse(http.StatusBadRequest, "the body goes on after its end")
	}
	return nil
}

// describe says what is wrong with a JSON body without quoting it.
func describe(err error) string {
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Sprintf("broken JSON at byte %d", syntax.Offset)
	case errors.As(err, &mismatch):
		// The path has the names of embedded Go types, which are not on the wire.
		return fmt.Sprintf("field %s has the wrong type", strings.NewReplacer("Flags.", "", "Match.", "").Replace(mismatch.Field))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "broken JSON: it ends early"
	}
	return err.Error() // an unknown field, by its name
}

// write sends an answer.
func (s *Sandbox) write(w http.ResponseWriter, a answer) {
	maps.Copy(w.Header(), a.header)
	body, raw := a.body.([]byte)
	if !raw && a.body != nil {
		body = marshal(a.body)
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(a.status)
	if a.stream != nil {
		if err := a.stream(w); err != nil {
			panic(http.ErrAbortHandler) // the client must not take half a file for a whole one
		}
		return
	}
	_, _ = w.Write(body) // a client that has gone needs no answer
}

// marshal writes values that come from JSON or are plain: it cannot fail.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// answerOK is the answer 200 with a body.
func answerOK(body any) answer { return answer{status: http.StatusOK, body: body} }

// idAnswer answers a new id in the configured shape. Ids of the sandbox are
// decimal, so that every shape can carry them.
func (s *Sandbox) idAnswer(r *http.Request, id string) answer {
	switch s.conf.Shapes.ID {
	case "number":
		return answerOK(map[string]any{"id": json.Number(id)})
	case "bare-string":
		return answerOK(id)
	case "bare-number":
		return answerOK(json.Number(id))
	case "location":
		return answer{status: http.StatusOK, header: http.Header{"Location": {r.URL.Path + "/" + id}}}
	case "none":
		return answerOK(nil)
	}
	return answerOK(map[string]string{"id": id})
}

// wholeSeconds is d as headers and tokens state it, rounded up.
func wholeSeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// refusal is an error of the document, or a rule that a value breaks: a code for
// machines and a sentence for people, which names fields and rules, never values.
type refusal struct {
	status     int
	code, text string
	retryAfter time.Duration
	empty      bool // no body, whatever the shape
}

// Error is the sentence.
func (r *refusal) Error() string { return r.text }

func refuse(status int, format string, args ...any) *refusal {
	code := strings.ToUpper(strings.ReplaceAll(http.StatusText(status), " ", "_"))
	return &refusal{status: status, code: code, text: fmt.Sprintf(format, args...)}
}

// violation is the refusal of a value by a rule.
func violation(code, text string) *refusal {
	return &refusal{status: http.StatusBadRequest, code: code, text: text}
}

// as gives a refusal a code that says more than its status.
func (r *refusal) as(code string) *refusal {
	r.code = code
	return r
}

// refused turns an error into the answer of the configured shape.
func (s *Sandbox) refused(err error) answer {
	if err == nil {
		return answer{}
	}
	var r *refusal
	if !errors.As(err, &r) {
		r = refuse(http.StatusInternalServerError, "%s", err)
	}
	a := answer{status: r.status, header: http.Header{}}
	if r.status == http.StatusBadRequest {
		a.status = s.conf.Shapes.Status.Invalid
	}
	if r.retryAfter > 0 {
		a.header.Set("Retry-After", wholeSeconds(r.retryAfter))
	}
	if a.status < http.StatusBadRequest || r.empty {
		return a
	}
	switch s.conf.Shapes.Errors {
	case "text":
		a.body = r.text
	case "list":
		a.body = map[string]any{"errors": []any{map[string]string{"code": r.code, "message": r.text}}}
	case "empty":
	default:
		a.body = map[string]any{"status": a.status, "error": r.text}
	}
	return a
}

// callLog counts calls and keeps the last of them.
type callLog struct {
	counts [operations]atomic.Int64
	seq    atomic.Int64 // taken under a table's lock by what is applied to it

	mu    sync.Mutex
	limit int
	calls []Call // a ring once it is full
	next  int
}

// add keeps a call that has been decided. It costs nothing when none are kept.
func (l *callLog) add(c Call) {
	if l.limit == 0 {
		return
	}
	if c.Seq == 0 {
		c.Seq = l.seq.Add(1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) < l.limit {
		l.calls = append(l.calls, c)
		return
	}
	l.calls[l.next] = c
	l.next = (l.next + 1) % l.limit
}

// Calls returns the calls that are kept, in the order in which they were
// applied. Config.KeepCalls says how many that are. Values are shared and not
// to be changed.
func (s *Sandbox) Calls() []Call {
	s.log.mu.Lock()
	calls := slices.Clone(s.log.calls)
	s.log.mu.Unlock()
	slices.SortFunc(calls, func(a, b Call) int { return cmp.Compare(a.Seq, b.Seq) })
	return calls
}

// CallCount tells how many calls of an operation were received, whatever became
// of them. CallCount(14) is the number of token requests.
func (s *Sandbox) CallCount(op int) int64 { return s.log.counts[op].Load() }
