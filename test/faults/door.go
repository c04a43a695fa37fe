package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// door is one member's way to the service, and a record of the writes that came
// through.
type door struct {
	*passage
	member  string
	service http.Handler
	ledger  *calls
	server  *http.Server
	url     string
	served  chan struct{}

	amidMu sync.Mutex
	amid   func() // called once, when a trigger was done and not yet answered
}

// calls are the writes and triggers that all doors let through and the service
// said yes to, in the order in which they arrived.
type calls struct {
	mu   sync.Mutex
	list []call
}

// call is one write of the immediate lane, or a trigger of the batch lane.
type call struct {
	at       time.Time
	answered time.Time
	status   int
	member   string
	method   string
	etl      string // of a trigger; "": it is a write
	row      name   // of a write
	seq      int    // of a write; 0: a delete, which carries none
}

// done reports whether the service has carried it out.
func (c call) done() bool { return c.status/100 == 2 }

func (c call) what() string {
	if c.etl != "" {
		return "a trigger"
	}
	return c.row.table + " " + c.row.key
}

// take returns the calls since the last take.
func (c *calls) take() []call {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.list
	c.list = nil
	return list
}

func newDoor(member string, service http.Handler, ledger *calls) (*door, error) {
	p, err := newPassage()
	if err != nil {
		return nil, err
	}
	d := &door{passage: p, member: member, service: service, ledger: ledger, url: "http://" + p.address(), served: make(chan struct{})}
	d.server = &http.Server{Handler: http.HandlerFunc(d.serve), ReadHeaderTimeout: time.Minute}
	go func() {
		defer close(d.served)
		_ = d.server.Serve(p) // until close
	}()
	return d, nil
}

func (d *door) close() error {
	d.set(passing)
	err := d.server.Close()
	<-d.served
	return err
}

// onTrigger has f called amid the next trigger; nil takes that back.
func (d *door) onTrigger(f func()) {
	d.amidMu.Lock()
	defer d.amidMu.Unlock()
	d.amid = f
}

func (d *door) takeAmid() func() {
	d.amidMu.Lock()
	defer d.amidMu.Unlock()
	f := d.amid
	d.amid = nil
	return f
}

// serve notes a write and has it done. The note is made on arrival: a member
// sends the next write of a key only when this one was answered.
func (d *door) serve(w http.ResponseWriter, r *http.Request) {
	noted := call{at: time.Now(), member: d.member, method: r.Method}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // cut on its way here
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := &statusWriter{ResponseWriter: w}
	var isWrite bool
	noted.row, noted.seq, isWrite = read(r, body)
	d.service.ServeHTTP(answer, r)
	if path, trigger := strings.CutSuffix(r.URL.Path, "/trigger-execution"); trigger {
		noted.etl = path[strings.LastIndexByte(path, '/')+1:]
		if amid := d.takeAmid(); amid != nil {
			amid()
		}
	}
	noted.answered, noted.status = time.Now(), answer.status
	if isWrite || noted.etl != "" {
		d.ledger.mu.Lock()
		defer d.ledger.mu.Unlock()
		d.ledger.list = append(d.ledger.list, noted)
	}
}

// statusWriter remembers the answer's status.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// read finds out which row a write is about: operations 1, 4, 5 and 7.
func read(r *http.Request, body []byte) (row name, seq int, isWrite bool) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var b struct {
		Attributes struct {
			CustomerNumber string
			Seq            int
		}
		BusinessKey string
		Properties  []struct {
			Name  string
			Value json.RawMessage
		}
	}
	_ = json.Unmarshal(body, &b) // what is no write, or broken, stays empty
	switch {
	case len(parts) >= 7 && parts[0] == "profiles":
		return name{parts[5], b.Attributes.CustomerNumber}, b.Attributes.Seq, true
	case len(parts) >= 7 && parts[0] == "custom-data":
		row = name{parts[5], b.BusinessKey}
		if len(parts) > 7 {
			row.key = parts[7]
		}
		for _, p := range b.Properties {
			if p.Name == "seq" {
				_ = json.Unmarshal(p.Value, &seq)
			}
		}
		return row, seq, r.Method != http.MethodGet
	}
	return row, 0, false
}
