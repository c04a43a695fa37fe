package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/feedsink/feedsink/connector/dev/sandbox/csvfile"
)

// ExecutionStatus is a state of the document.
type ExecutionStatus string

// The states of an execution.
const (
	InProgress ExecutionStatus = "IN_PROGRESS"
	Finished   ExecutionStatus = "FINISHED"
	Failed     ExecutionStatus = "FAILED"
)

// Execution is an import that was accepted.
type Execution struct {
	ID       string          `json:"id"`
	ETL      string          `json:"etl,omitempty"` // "": a one-shot execution
	File     string          `json:"file"`          // name of the upload, or of what was fetched
	Bytes    int64           `json:"bytes"`         // of the same, as it came
	Status   ExecutionStatus `json:"status"`
	Error    string          `json:"error,omitempty"` // why it FAILED
	Accepted time.Time       `json:"accepted"`
	Ended    time.Time       `json:"ended,omitzero"`
	Results  Results         `json:"results"` // of all files together
	Loads    []Loaded        `json:"loads,omitempty"`

	Dropped    string   `json:"dropped,omitempty"`    // output files, below the root of file locations
	Recipients []string `json:"recipients,omitempty"` // of its e-mail report
}

// Results counts rows.
type Results struct {
	Read     int64 `json:"read"`
	InError  int64 `json:"inError"`
	Inserted int64 `json:"inserted"`
	Updated  int64 `json:"updated"`
	Deleted  int64 `json:"deleted"`
}

// Loaded is what became of one file of an execution.
type Loaded struct {
	Table   string   `json:"table"`
	Mode    Mode     `json:"mode"`
	File    string   `json:"file"`           // name inside a ZIP; else of the upload
	Seq     int64    `json:"seq"`            // of its application, in the sequence of Call.Seq
	Keys    []string `json:"keys,omitempty"` // of the rows that were applied, in order; where calls are kept
	Results Results  `json:"results"`
}

// execution is an Execution at work. Its fields are guarded by imports.mu,
// except those that never change.
type execution struct {
	state   Execution
	outputs []csvfile.File
	asked   bool // operation 11 has been called

	etl    ETL
	path   string // of the upload, and the beginning of every other file's
	pushed bool   // there is an upload; else the file is fetched
	wait   context.Context
	finish context.CancelFunc // ends waiting, more than once does no harm
	done   chan struct{}      // closed: the status is final
}

// accept makes what accepts an import: a slot is used and an execution starts.
// Without an upload the execution fetches its file.
func (s *Sandbox) accept(r *http.Request, c *call, etl ETL, up upload) apply {
	return func() (answer, error) {
		if err := s.takeSlots(etl.Loads); err != nil {
			return answer{}, err
		}
		dir, err := s.imports.folder()
		if err != nil {
			return answer{}, err
		}
		e := &execution{etl: etl, pushed: up.path != "", done: make(chan struct{})}
		e.wait, e.finish = context.WithCancel(s.life)
		s.imports.mu.Lock()
		id := s.imports.newID()
		e.path = filepath.Join(dir, "import-"+id)
		if e.pushed {
			if err := os.Rename(up.path, e.path); err != nil {
				s.imports.mu.Unlock()
				return answer{}, err
			}
		}
		e.state = Execution{
			ID: id, ETL: etl.ID, File: up.name, Bytes: up.size, Status: InProgress,
			Accepted: s.conf.Now(), Recipients: etl.Recipients,
		}
		s.imports.all = append(s.imports.all, e)
		s.imports.byID[id] = e
		held := s.imports.held
		s.imports.mu.Unlock()

		c.ID, c.Seq = id, s.log.seq.Add(1)
		if !s.start(func() { s.run(e, held) }) {
			return answer{}, refuse(http.StatusServiceUnavailable, "the service is closing")
		}
		return s.idAnswer(r, id), nil
	}
}

// run takes an execution from IN_PROGRESS to its end. A closing sandbox leaves
// it where it is.
func (s *Sandbox) run(e *execution, held bool) {
	defer e.finish()
	defer func() { _ = os.Remove(e.path) }() // Close removes the folder anyway
	var over <-chan time.Time
	if !held {
		timer := time.NewTimer(s.conf.Processing)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
	case <-e.wait.Done():
	}
	if s.life.Err() != nil {
		return
	}
	loaded, outputs, err := s.load(e)
	dropped, dropErr := s.drop(e.state.ID, e.etl.Output, outputs)
	if dropErr != nil { // operation 12 still has them
		s.conf.Log.Warn("output files were not dropped", "execution", e.state.ID, "error", dropErr)
	}

	s.imports.mu.Lock()
	e.state.Ended = s.conf.Now()
	e.state.Loads, e.outputs, e.state.Dropped = loaded, outputs, dropped
	sum := &e.state.Results
	for _, l := range loaded {
		sum.Read += l.Results.Read
		sum.InError += l.Results.InError
		sum.Inserted += l.Results.Inserted
		sum.Updated += l.Results.Updated
		sum.Deleted += l.Results.Deleted
	}
	e.state.Status = Finished
	if err != nil {
		e.state.Status, e.state.Error = Failed, err.Error()
	}
	state := e.state
	s.imports.mu.Unlock()
	for _, to := range state.Recipients { // the e-mail report: a line of the log for each
		s.conf.Log.Info("e-mail report", "to", to, "execution", state.ID, "etl", state.ETL, "file", state.File,
			"status", string(state.Status), "error", state.Error, "read", state.Results.Read, "in_error", state.Results.InError,
			"inserted", state.Results.Inserted, "updated", state.Results.Updated, "deleted", state.Results.Deleted)
	}
	close(e.done)
	s.notify(state)
}

// Hold keeps executions that are accepted from now on IN_PROGRESS until Finish
// or Release.
func (s *Sandbox) Hold() {
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	s.imports.held = true
}

// Release ends Hold and the waiting of every execution.
func (s *Sandbox) Release() {
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	s.imports.held = false
	for _, e := range s.imports.all {
		e.finish()
	}
}

// Finish ends the waiting of one execution, held or not, and returns when its
// status is final or the sandbox closes.
func (s *Sandbox) Finish(id string) error {
	e, err := s.imports.find(id)
	if err != nil {
		return err
	}
	e.finish()
	select {
	case <-e.done:
		return nil
	case <-s.life.Done():
		return fmt.Errorf("sandbox: closed before execution %s ended", id)
	}
}

// FailImports makes the next n executions that load a table end FAILED with
// this error, nothing of them applied.
func (s *Sandbox) FailImports(table string, n int, reason string) {
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	s.imports.failures[table] = &failure{left: n, reason: reason}
}

// Executions returns every execution in the order of acceptance.
func (s *Sandbox) Executions() []Execution {
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	list := make([]Execution, len(s.imports.all))
	for i, e := range s.imports.all {
		list[i] = e.state
	}
	return list
}

// Execution returns one execution.
func (s *Sandbox) Execution(id string) (Execution, error) {
	e, err := s.imports.find(id)
	if err != nil {
		return Execution{}, err
	}
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	return e.state, nil
}

func (i *imports) find(id string) (*execution, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if e, known := i.byID[id]; known {
		return e, nil
	}
	return nil, errors.New("sandbox: no such execution")
}

// fails reports why an execution has to fail, nil when it has not.
func (i *imports) fails(etl ETL) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, l := range etl.Loads {
		if b := i.failures[l.Table]; b != nil && b.left > 0 {
			b.left--
			return errors.New(b.reason)
		}
	}
	return nil
}

// results is operation 11. Beside status, error and counters the answer
// carries the execution's id.
func (s *Sandbox) results(r *http.Request, _ *call) (apply, error) {
	return s.onExecution(r, func(e *execution) (answer, error) {
		first := !e.asked
		e.asked = true
		body := map[string]any{"id": e.state.ID, "status": e.state.Status}
		switch {
		case e.state.Status == Failed:
			body["error"] = s.conf.Shapes.failure(e.state.Error)
		case e.state.Status == Finished:
			body["integrationResults"] = s.conf.Shapes.integration(e.state)
		case first:
			body["status"] = s.conf.Shapes.Initial
		}
		return answerOK(body), nil
	}), nil
}

// outputFiles is operation 12. What the document does not show: one file comes
// as Shapes.Output says, several as a ZIP; none, or an execution that has not
// ended, is answered as Shapes.Status says.
func (s *Sandbox) outputFiles(r *http.Request, _ *call) (apply, error) {
	return s.onExecution(r, func(e *execution) (answer, error) {
		if len(e.outputs) == 0 {
			return answer{}, refuse(s.conf.Shapes.Status.NoOutput, "the execution has no output files")
		}
		p := csvfile.Pack(e.outputs, s.conf.Shapes.output())
		return answer{status: http.StatusOK, header: http.Header{"Content-Type": {p.ContentType}}, stream: p.Write}, nil
	}), nil
}

// onExecution makes what answers about the execution of the path.
func (s *Sandbox) onExecution(r *http.Request, respond func(*execution) (answer, error)) apply {
	return func() (answer, error) {
		s.imports.mu.Lock()
		defer s.imports.mu.Unlock()
		e := s.imports.byID[r.PathValue("execution")]
		if e == nil {
			return answer{}, refuse(http.StatusNotFound, "no such execution")
		}
		return respond(e)
	}
}

// output is how a single output file is packed.
func (s Shapes) output() csvfile.Compression { return csvfile.Compression(strings.ToUpper(s.Output)) }

// failure is the error of an execution that FAILED.
func (s Shapes) failure(text string) any {
	one := map[string]string{"code": "IMPORT_FAILED", "message": text}
	switch s.Failure {
	case "object":
		return one
	case "list":
		return []any{one}
	}
	return text
}

// integration is the integrationResults of an execution that is FINISHED.
func (s Shapes) integration(e Execution) any {
	switch s.Results {
	case "nested":
		return map[string]any{"counters": s.counters(e.Results)}
	case "files":
		files := make([]any, len(e.Loads))
		for i, l := range e.Loads {
			counters := s.counters(l.Results)
			counters["fileName"] = l.File
			files[i] = counters
		}
		return files
	}
	return s.counters(e.Results)
}

// counters are the configured names with their numbers.
func (s Shapes) counters(r Results) map[string]any {
	counters := map[string]any{}
	for i, n := range []int64{r.Read, r.InError, r.Inserted, r.Updated, r.Deleted} {
		if s.Results == "text" {
			counters[s.Counters[i]] = strconv.FormatInt(n, 10)
		} else {
			counters[s.Counters[i]] = n
		}
	}
	return counters
}

// webhookClient keeps no connection: calls are rare and Close must leave
// nothing behind.
var webhookClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// subscription is the body of operation 13.
type subscription struct {
	On        string            `json:"on"`
	ElementID string            `json:"onElementId"`
	EventType string            `json:"eventType"`
	TargetURL string            `json:"targetUrl"`
	Headers   map[string]string `json:"headers"`
	PushType  string            `json:"webhookPushType"`
	IsActive  bool              `json:"isActive"`
}

// subscribe is operation 13. Its answer, which the document does not show, is
// an id.
func (s *Sandbox) subscribe(r *http.Request, c *call) (apply, error) {
	var sub subscription
	if err := s.body(r, c, &sub); err != nil {
		return nil, err
	}
	if sub.On != "ETL_EXECUTION" || sub.EventType != "FINISHED" || sub.PushType != "ONE_BY_ONE" {
		return nil, refuse(http.StatusBadRequest, "on ETL_EXECUTION, eventType FINISHED and webhookPushType ONE_BY_ONE are expected")
	}
	if sub.TargetURL == "" || sub.ElementID == "" {
		return nil, refuse(http.StatusBadRequest, "targetUrl and onElementId are required")
	}
	return func() (answer, error) {
		s.imports.mu.Lock()
		defer s.imports.mu.Unlock()
		s.imports.webhooks = append(s.imports.webhooks, sub)
		c.ID, c.Seq = s.imports.newID(), s.log.seq.Add(1)
		return s.idAnswer(r, c.ID), nil
	}, nil
}

// notify calls the webhooks of an execution that is FINISHED, one after the
// other and once each: the document shows no retries. onElementId is taken for
// an ETL's id or an execution's.
func (s *Sandbox) notify(e Execution) {
	if e.Status != Finished {
		return
	}
	s.imports.mu.Lock()
	list := slices.Clone(s.imports.webhooks)
	s.imports.mu.Unlock()
	for _, sub := range list {
		if sub.IsActive && (sub.ElementID == e.ETL || sub.ElementID == e.ID) {
			s.push(sub, e)
		}
	}
}

// push makes one webhook call, bounded so that a closing sandbox can wait for
// it.
func (s *Sandbox) push(sub subscription, e Execution) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, sub.TargetURL, bytes.NewReader(s.conf.Shapes.payload(e)))
	if err != nil {
		return // a target that is no URL is never called
	}
	r.Header.Set("Content-Type", "application/json")
	for name, value := range sub.Headers {
		r.Header.Set(name, value)
	}
	answer, err := webhookClient.Do(r)
	if err != nil {
		return // lost, as webhooks may be
	}
	_ = answer.Body.Close() // what it says is of no interest
}

// payload is what a webhook's call carries, which the document does not show.
func (s Shapes) payload(e Execution) []byte {
	switch s.Webhook {
	case "empty":
		return nil
	case "nested":
		return marshal(map[string]any{
			"event":     map[string]string{"on": "ETL_EXECUTION", "type": "FINISHED"},
			"execution": map[string]any{"id": json.Number(e.ID), "etl": map[string]string{"id": e.ETL}},
		})
	}
	return marshal(map[string]any{"eventType": "FINISHED", "etlId": e.ETL, "executionId": e.ID, "status": e.Status})
}
