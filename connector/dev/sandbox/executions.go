package sandbox

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"
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
	outputs []output
	asked   bool // operation 11 has been called

	etl    ETL
	path   string        // of the upload, and the beginning of every other file's
	pushed bool          // there is an upload; else the file is fetched
	finish chan struct{} // closed: stop waiting
	done   chan struct{} // closed: the status is final
}

// errNoExecution is asked about an id that was never given.
var errNoExecution = errors.New("sandbox: no such execution")

// execute accepts an import: a slot is used and an execution starts. Without an
// upload the execution fetches its file.
func (s *Sandbox) execute(r *http.Request, c *call, etl ETL, up upload) (answer, error) {
	if err := s.takeSlots(etl.Loads); err != nil {
		return answer{}, err
	}
	dir, err := s.imports.folder()
	if err != nil {
		return answer{}, err
	}
	e := &execution{etl: etl, pushed: up.path != "", finish: make(chan struct{}), done: make(chan struct{})}
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

// run takes an execution from IN_PROGRESS to its end. A closing sandbox leaves
// it where it is.
func (s *Sandbox) run(e *execution, held bool) {
	defer func() { _ = os.Remove(e.path) }() // Close removes the folder anyway
	var over <-chan time.Time
	if !held {
		timer := time.NewTimer(s.conf.Processing)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
	case <-e.finish:
	case <-s.life.Done():
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
	for _, l := range loaded {
		e.state.Results.add(l.Results)
	}
	e.state.Status = Finished
	if err != nil {
		e.state.Status, e.state.Error = Failed, err.Error()
	}
	state := e.state
	s.imports.mu.Unlock()
	s.report(state)
	close(e.done)
	s.notify(state)
}

func (r *Results) add(other Results) {
	r.Read += other.Read
	r.InError += other.InError
	r.Inserted += other.Inserted
	r.Updated += other.Updated
	r.Deleted += other.Deleted
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
	s.imports.held = false
	waiting := slices.Clone(s.imports.all)
	s.imports.mu.Unlock()
	for _, e := range waiting {
		s.imports.end(e)
	}
}

// Finish ends the waiting of one execution, held or not, and returns when its
// status is final or the sandbox closes.
func (s *Sandbox) Finish(id string) error {
	e, err := s.imports.find(id)
	if err != nil {
		return err
	}
	s.imports.end(e)
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
	s.imports.broken[table] = &breakage{left: n, reason: reason}
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
	if e, ok := i.byID[id]; ok {
		return e, nil
	}
	return nil, errNoExecution
}

// end lets an execution go on; more than once does no harm.
func (i *imports) end(e *execution) {
	i.mu.Lock()
	defer i.mu.Unlock()
	select {
	case <-e.finish:
	default:
		close(e.finish)
	}
}

// breaks reports why an execution has to fail, "" when it has not.
func (i *imports) breaks(etl ETL) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, l := range etl.Loads {
		if b := i.broken[l.Table]; b != nil && b.left > 0 {
			b.left--
			return b.reason
		}
	}
	return ""
}
