package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// mode is what a door does to the connections through it.
type mode int

const (
	passing mode = iota
	silent       // what a member sends arrives nowhere, and nothing comes back
	down         // connections are reset, old ones and new ones
	deaf         // what a member sends is done; instead of the answer comes a reset
)

// door is one member's way to the service: a listener whose connections can be
// cut, and a record of the writes that came through. Connections that lived
// through a fault are reset at its end, so that nothing arrives late.
type door struct {
	member  string
	service http.Handler
	ledger  *calls
	server  *http.Server
	url     string
	served  chan struct{}

	mu    sync.Mutex
	amid  func() // called once, when a trigger was done and not yet answered
	mode  mode
	over  chan struct{} // closed when the mode ends
	conns map[*doorConn]bool
}

// calls are the writes that all doors let through and the service said yes to,
// in the order in which they arrived.
type calls struct {
	mu   sync.Mutex
	list []call
}

// call is one write of the immediate lane.
type call struct {
	at     time.Time
	member string
	row    name
	seq    int // 0: a delete, which carries none
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
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &door{
		member: member, service: service, ledger: ledger, url: "http://" + l.Addr().String(),
		served: make(chan struct{}), over: make(chan struct{}), conns: map[*doorConn]bool{},
	}
	d.server = &http.Server{Handler: http.HandlerFunc(d.serve), ReadHeaderTimeout: time.Minute}
	go func() {
		defer close(d.served)
		_ = d.server.Serve(doorListener{l, d}) // until close
	}()
	return d, nil
}

func (d *door) close() error {
	d.set(passing)
	err := d.server.Close()
	<-d.served
	return err
}

// set begins a mode and ends the one before.
func (d *door) set(m mode) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.mode
	d.mode = m
	close(d.over)
	d.over = make(chan struct{})
	if m == down || before != passing {
		for c := range d.conns {
			c.reset()
		}
	}
}

// onTrigger has f called amid the next trigger; nil takes that back.
func (d *door) onTrigger(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.amid = f
}

func (d *door) takeAmid() func() {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.amid
	d.amid = nil
	return f
}

func (d *door) now() (mode, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mode, d.over
}

// serve notes a write and has it done. The note is made on arrival: a member
// sends the next write of a key only when this one was answered.
func (d *door) serve(w http.ResponseWriter, r *http.Request) {
	noted := call{at: time.Now(), member: d.member}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // cut on its way here
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := &statusWriter{ResponseWriter: w}
	var isWrite bool
	noted.row, noted.seq, isWrite = read(r, body)
	d.service.ServeHTTP(answer, r)
	if strings.HasSuffix(r.URL.Path, "/trigger-execution") {
		if amid := d.takeAmid(); amid != nil {
			amid()
		}
	}
	if isWrite && answer.status/100 == 2 {
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

// doorListener hands out connections that obey the door.
type doorListener struct {
	net.Listener
	door *door
}

func (l doorListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		conn := &doorConn{Conn: c, door: l.door}
		l.door.mu.Lock()
		refused := l.door.mode == down
		l.door.conns[conn] = true
		l.door.mu.Unlock()
		if !refused {
			return conn, nil
		}
		conn.reset()
		_ = conn.Close() // reset already
	}
}

type doorConn struct {
	net.Conn
	door *door
}

var errCut = errors.New("the connection was cut")

// Read holds what arrives while the door is silent, for good: by the time the
// silence ends, the connection is reset.
func (c *doorConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if mode, over := c.door.now(); mode == silent {
		<-over
		return 0, errCut
	}
	return n, err
}

// Write sends the answer, or something worse.
func (c *doorConn) Write(b []byte) (int, error) {
	switch mode, over := c.door.now(); mode {
	case silent:
		<-over
		return 0, errCut
	case deaf:
		c.reset()
		return 0, errCut
	}
	return c.Conn.Write(b)
}

// reset ends the connection so that the member notices at once.
func (c *doorConn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // of a connection that may be gone
	}
	_ = c.Conn.Close()
}

func (c *doorConn) Close() error {
	c.door.mu.Lock()
	delete(c.door.conns, c)
	c.door.mu.Unlock()
	return c.Conn.Close()
}
