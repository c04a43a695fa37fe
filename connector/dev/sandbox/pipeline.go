package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
)

// maxBody bounds the JSON body of a call, in bytes.
const maxBody = 8 << 20

// prepare reads and checks a call without changing anything, fills in what the
// log says of it, and returns what would carry it out. Splitting the two is
// what lets a fault decide between them.
type prepare func(r *http.Request, c *call) (apply func() (answer, error), err error)

// call is a call in the making: what the log will say of it and what it holds
// until it has been answered.
type call struct {
	Call
	tables  []string // what it is about, for faults to match
	cleanup func()   // removes what was received and not used; nil: nothing
}

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
		table := s.conf.ofKind(r.PathValue("table"), strings.Contains(pattern, "/customTable/"))
		c := &call{Call: Call{Op: op, Table: table, At: s.conf.Now()}}
		c.tables = []string{c.Table}
		apply, err := s.admit(r, c, prepare)
		defer func() {
			if c.cleanup != nil {
				c.cleanup()
			}
		}()
		if err != nil {
			// A refusal amid an upload would reach many clients as a broken
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
			if fault.Answer.kind == answerAsIs {
				fault.Answer = Hang(0)
			}
		}
		// Only now that the body has been read does the server notice a client
		// that gives up.
		if !s.delay(r, time.Duration(s.latency[0].Load()+s.latency[op].Load())+fault.Delay) {
			reset(w) // returning would answer 200
			return
		}
		truth := s.refused(err)
		if err == nil && (!c.Fault || fault.Apply || fault.Answer.kind == answerAsIs) {
			if truth, err = apply(); err != nil {
				truth = s.refused(err)
			}
			c.Applied = err == nil
		}
		c.Status = fault.Answer.statusOf(truth)
		s.log.add(c.Call)
		s.give(w, r, fault.Answer, truth)
	})
}

// admit checks who calls and what for, then prepares the call.
func (s *Sandbox) admit(r *http.Request, c *call, prepare prepare) (func() (answer, error), error) {
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
	return prepare(r, c)
}

// delay waits and reports false when nobody waits for the answer any longer.
func (s *Sandbox) delay(r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
	case <-s.life.Done():
	}
	return false
}

// profileTable and customTable find the table of the path.
func (s *Sandbox) profileTable(r *http.Request) (*table, error) { return s.pathTable(r, false) }

func (s *Sandbox) customTable(r *http.Request) (*table, error) { return s.pathTable(r, true) }

func (s *Sandbox) pathTable(r *http.Request, custom bool) (*table, error) {
	t, ok := s.tables[s.conf.ofKind(r.PathValue("table"), custom)]
	if !ok || t.conf.Custom != custom {
		return nil, refuse(http.StatusNotFound, "no such table")
	}
	return t, nil
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
	if s.log.limit > 0 {
		c.Digest = digest(b)
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
		return fmt.Sprintf("field %s has the wrong type", mismatch.Field)
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
		var err error
		if body, err = json.Marshal(a.body); err != nil { // answers are made of plain values
			panic(err)
		}
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
