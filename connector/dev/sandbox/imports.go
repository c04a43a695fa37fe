package sandbox

import (
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// imports holds the definitions and the executions.
type imports struct {
	mu       sync.Mutex
	etls     map[string]ETL
	lastID   int64 // of ETLs and executions
	all      []*execution
	byID     map[string]*execution
	held     bool
	failures map[string]*failure // by table
	refused  []Rejection
	slots    map[string]map[string]int // imports accepted, by table, then calendar day of Config.Location

	webhooks []subscription
	dir      string // "" until the first upload where it is ours
	ownsDir  bool
}

// failure makes the next imports of a table fail.
type failure struct {
	left   int
	reason string
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

// trigger is operation 10, with a file, or without one where the definition
// names a remote location to fetch it from. Its answer, which the document does
// not show, is the id of the execution.
func (s *Sandbox) trigger(r *http.Request, c *call) (apply, error) {
	s.imports.mu.Lock()
	e, known := s.imports.etls[r.PathValue("etl")]
	s.imports.mu.Unlock()
	if !known {
		return nil, refuse(http.StatusNotFound, "no such ETL")
	}
	c.about(e)
	if e.Paused {
		return nil, refuse(s.conf.Shapes.Status.Paused, "the ETL is paused").as("PAUSED")
	}
	if e.Fetch.Remote != "" && contentType(r.Header.Get("Content-Type")) != "multipart/form-data" {
		c.Key = e.Loads[0].remoteName()
		return s.accept(r, c, e, upload{}), noBody(r)
	}
	up, oneShot, err := s.receive(r, c)
	if err != nil {
		return nil, err
	}
	if oneShot != nil {
		return nil, refuse(http.StatusBadRequest, "part \"oneshotEtl\" is not expected here")
	}
	c.Key = up.name
	return s.accept(r, c, e, up), nil
}

// noBody wants nothing, or an empty object: what asks for a retrieval is not
// shown.
func noBody(r *http.Request) error {
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
func (s *Sandbox) oneShot(r *http.Request, c *call) (apply, error) {
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
	return s.accept(r, c, e, up), nil
}

// createETL is operation 9.
func (s *Sandbox) createETL(r *http.Request, c *call) (apply, error) {
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

// partTypes are the content types of the parts of operation 8.
var partTypes = map[string][]string{
	"inputFile":  {"application/zip", "text/csv"},
	"oneshotEtl": {"application/json"},
}

// contentType is a content type without its parameters, "" where it is none.
func contentType(header string) string {
	kind, _, err := mime.ParseMediaType(header)
	if err != nil {
		return ""
	}
	return kind
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
		kind := contentType(part.Header.Get("Content-Type"))
		switch {
		case c.Op == 8 && !slices.Contains(partTypes[part.FormName()], kind):
			return up, nil, refuse(http.StatusBadRequest, "part %q: content type %q is not expected", part.FormName(), kind)
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

// SlotsUsed tells how many imports of a table were accepted on the calendar day
// that at is in.
func (s *Sandbox) SlotsUsed(table string, at time.Time) int {
	return s.slotDays(table)[at.In(s.conf.Location).Format(time.DateOnly)]
}

// slotDays tells how many imports of a table were accepted on each day that had
// any, by yyyy-MM-dd.
func (s *Sandbox) slotDays(table string) map[string]int {
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	days := map[string]int{}
	maps.Copy(days, s.imports.slots[table])
	return days
}

// takeSlots uses one slot of each table, or none and a refusal when one of them has
// none left. The document names the limit only; Shapes.NoSlot chooses the answer.
func (s *Sandbox) takeSlots(loads []Load) error {
	now := s.conf.Now().In(s.conf.Location)
	today := now.Format(time.DateOnly)
	var tables []string
	for _, l := range loads {
		if !slices.Contains(tables, l.Table) { // one import, however many of its files
			tables = append(tables, l.Table)
		}
	}
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	for _, name := range tables {
		limit := s.tables[name].conf.SlotsPerDay
		if s.imports.slots[name][today] >= limit {
			year, month, day := now.Date()
			tomorrow := time.Date(year, month, day+1, 0, 0, 0, 0, s.conf.Location)
			r := refuse(http.StatusTooManyRequests, "no import slot left for table %s today: %d of %d used", name, limit, limit).as("NO_SLOT_LEFT")
			switch s.conf.Shapes.NoSlot {
			case "text":
			case "header":
				r.retryAfter, r.empty = tomorrow.Sub(now), true
			case "403":
				r.status = http.StatusForbidden
			default:
				r.retryAfter = tomorrow.Sub(now)
			}
			return r
		}
	}
	for _, name := range tables {
		if s.imports.slots[name] == nil {
			s.imports.slots[name] = map[string]int{}
		}
		s.imports.slots[name][today]++
	}
	return nil
}
