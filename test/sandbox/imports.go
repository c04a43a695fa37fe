package sandbox

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
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
	dir     string               // "" until the first upload where it is ours
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

// upload is a received file on disk.
type upload struct {
	path string
	name string // as the client called it
	size int64
}

// receive stores the multipart body's inputFile on disk as it arrives and
// returns it with the oneshotEtl part, which is nil where there is none.
func (s *Sandbox) receive(r *http.Request, c *call) (up upload, oneShot []byte, err error) {
	parts, err := r.MultipartReader()
	if err != nil {
		return up, nil, refuse(http.StatusBadRequest, "a multipart body with the part inputFile is expected")
	}
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return up, nil, refuse(http.StatusBadRequest, "the multipart body ended early")
		}
		switch {
		case part.FormName() == "inputFile" && up.path == "":
			if up, err = s.store(part, part.FileName(), c); err != nil {
				return up, nil, err
			}
		case part.FormName() == "oneshotEtl" && oneShot == nil:
			if oneShot, err = io.ReadAll(io.LimitReader(part, maxBody)); err != nil {
				return up, nil, refuse(http.StatusBadRequest, "the multipart body ended early")
			}
		default:
			return up, nil, refuse(http.StatusBadRequest, "part %q is not expected here", part.FormName())
		}
	}
	if up.path == "" {
		return up, nil, refuse(http.StatusBadRequest, "the part inputFile is missing")
	}
	return up, oneShot, nil
}

// store writes one part to disk. The call's cleanup removes it unless an
// execution has taken it over by moving it away.
func (s *Sandbox) store(part io.Reader, name string, c *call) (upload, error) {
	dir, err := s.imports.folder()
	if err != nil {
		return upload{}, err
	}
	f, err := os.CreateTemp(dir, "upload-*")
	if err != nil {
		return upload{}, err
	}
	c.cleanup = func() { _ = os.Remove(f.Name()) } // gone already where it was used
	n, err := io.Copy(f, part)
	if closeErr := f.Close(); closeErr != nil {
		return upload{}, closeErr
	}
	if err != nil {
		return upload{}, refuse(http.StatusBadRequest, "the upload ended early")
	}
	return upload{path: f.Name(), name: filepath.Base(name), size: n}, nil
}

// trigger is operation 10. Its answer, which the document does not show, is the
// id of the execution.
func (s *Sandbox) trigger(r *http.Request, c *call) (func() (answer, error), error) {
	s.imports.mu.Lock()
	e, ok := s.imports.etls[r.PathValue("etl")]
	s.imports.mu.Unlock()
	if !ok {
		return nil, refuse(http.StatusNotFound, "no such ETL")
	}
	c.about(e)
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

// oneShot is operation 8 in its multipart form. A definition that points to a
// remote location is refused: the sandbox has none.
func (s *Sandbox) oneShot(r *http.Request, c *call) (func() (answer, error), error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && kind == "application/json" {
		return nil, refuse(http.StatusBadRequest, "no such remote location")
	}
	up, oneShot, err := s.receive(r, c)
	if err != nil {
		return nil, err
	}
	var d definition
	if err := decode(oneShot, &d); err != nil {
		return nil, err
	}
	e, err := s.etl(d)
	if err != nil {
		return nil, err
	}
	c.about(e)
	c.Key = up.name
	return func() (answer, error) { return s.execute(r, c, e, up) }, nil
}

// createETL is operation 9.
func (s *Sandbox) createETL(r *http.Request, c *call) (func() (answer, error), error) {
	var d definition
	if err := s.body(r, c, &d); err != nil {
		return nil, err
	}
	if d.Type != "TRIGGERED" || d.Triggering["type"] != "API" {
		return nil, refuse(http.StatusBadRequest, "type TRIGGERED and triggering.type API are expected")
	}
	e, err := s.etl(d)
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
