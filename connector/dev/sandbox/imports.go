package sandbox

import (
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
)

// imports holds the definitions and the executions.
type imports struct {
	mu      sync.Mutex
	etls    map[string]ETL
	lastID  int64 // of ETLs and executions
	all     []*execution
	byID    map[string]*execution
	held    bool
	broken  map[string]*breakage // by table
	refused []Rejection
	dir     string // "" until the first upload where it is ours
	ownsDir bool
}

// breakage makes the next imports of a table fail.
type breakage struct {
	left   int
	reason string
}

func (i *imports) init(c Config) {
	i.etls = map[string]ETL{}
	for _, e := range c.ETLs {
		i.etls[e.ID] = e
	}
	i.lastID = 1000
	i.byID = map[string]*execution{}
	i.broken = map[string]*breakage{}
	i.dir, i.ownsDir = c.Dir, c.Dir == ""
}

// newID returns the next decimal id. The caller holds the lock.
func (i *imports) newID() string {
	for {
		i.lastID++
		id := strconv.FormatInt(i.lastID, 10)
		if _, taken := i.etls[id]; !taken {
			return id
		}
	}
}

// folder is where uploads and output files lie.
func (i *imports) folder() (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.dir == "" {
		dir, err := os.MkdirTemp("", "sandbox-*")
		if err != nil {
			return "", err
		}
		i.dir = dir
	}
	return i.dir, nil
}

func (i *imports) removeFiles() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.ownsDir || i.dir == "" {
		return nil
	}
	return os.RemoveAll(i.dir)
}

// trigger is operation 10, with a file, or without one where the definition
// names a remote location to fetch it from. Its answer, which the document does
// not show, is the id of the execution.
func (s *Sandbox) trigger(r *http.Request, c *call) (func() (answer, error), error) {
	s.imports.mu.Lock()
	e, ok := s.imports.etls[r.PathValue("etl")]
	s.imports.mu.Unlock()
	if !ok {
		return nil, refuse(http.StatusNotFound, "no such ETL")
	}
	c.about(e)
	if e.Paused {
		return nil, refuse(s.conf.Shapes.Status.Paused, "the ETL is paused").as("PAUSED")
	}
	if e.Fetch.Remote != "" && contentType(r.Header.Get("Content-Type")) != "multipart/form-data" {
		c.Key = e.Loads[0].remoteName()
		return func() (answer, error) { return s.execute(r, c, e, upload{}) }, s.noBody(r)
	}
	up, oneShot, err := s.receive(r, c)
	if err != nil {
		return nil, err
	}
	if oneShot != nil {
		return nil, refuse(http.StatusBadRequest, "part \"oneshotEtl\" is not expected here")
	}
	c.Key = up.name
	return func() (answer, error) { return s.execute(r, c, e, up) }, nil
}

// noBody wants nothing, or an empty object: what asks for a retrieval is not
// shown.
func (s *Sandbox) noBody(r *http.Request) error {
	b, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return refuse(http.StatusBadRequest, "the body ended early")
	}
	if len(b) == 0 {
		return nil
	}
	return decode(b, &struct{}{})
}

// oneShot is operation 8 in both of its forms: JSON, with a remote location to
// fetch the file from, and multipart, with the file.
func (s *Sandbox) oneShot(r *http.Request, c *call) (func() (answer, error), error) {
	var d definition
	var up upload
	pushed := contentType(r.Header.Get("Content-Type")) != "application/json"
	if pushed {
		received, oneShot, err := s.receive(r, c)
		if err != nil {
			return nil, err
		}
		if err := decode(oneShot, &d); err != nil {
			return nil, err
		}
		up, c.Key = received, received.name
	} else if err := s.body(r, c, &d); err != nil {
		return nil, err
	}
	if d.Type != "ONESHOT" && (d.Type != "" || !pushed) {
		return nil, refuse(http.StatusBadRequest, "type ONESHOT is expected")
	}
	if (d.FileTransfer.Input.Location == nil) != pushed {
		return nil, refuse(http.StatusBadRequest, "either the part inputFile or an input location is expected")
	}
	e, err := s.etl(d, true)
	if err != nil {
		return nil, err
	}
	c.about(e)
	if !pushed {
		c.Key = e.Loads[0].remoteName()
	}
	return func() (answer, error) { return s.execute(r, c, e, up) }, nil
}

// createETL is operation 9.
func (s *Sandbox) createETL(r *http.Request, c *call) (func() (answer, error), error) {
	var d definition
	if err := s.body(r, c, &d); err != nil {
		return nil, err
	}
	if d.Type != "TRIGGERED" || d.Triggering == nil || d.Triggering.Type != "API" {
		return nil, refuse(http.StatusBadRequest, "type TRIGGERED and triggering.type API are expected")
	}
	e, err := s.etl(d, false)
	if err != nil {
		return nil, err
	}
	c.about(e)
	return func() (answer, error) {
		s.imports.mu.Lock()
		defer s.imports.mu.Unlock()
		e.ID = s.imports.newID()
		s.imports.etls[e.ID] = e
		c.ID, c.Seq = e.ID, s.log.seq.Add(1)
		return s.idAnswer(r, e.ID), nil
	}, nil
}

// about notes the tables of an ETL for the log and for faults.
func (c *call) about(e ETL) {
	c.tables = nil
	for _, l := range e.Loads {
		c.tables = append(c.tables, l.Table)
	}
	c.Table = strings.Join(c.tables, ",")
}
