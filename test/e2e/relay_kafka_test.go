//go:build kafka

package e2e_test

import (
	"io"
	"net"
	"sync"
)

// relay takes connections for another address, and can end them all. A client
// then connects anew, which is when secrets are read again.
type relay struct {
	listener net.Listener
	work     sync.WaitGroup

	mu    sync.Mutex
	to    string
	ended bool
	conns map[net.Conn]bool
}

func newRelay() (*relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{listener: l, conns: map[net.Conn]bool{}}
	r.work.Go(r.accept)
	return r, nil
}

func (r *relay) address() string { return r.listener.Addr().String() }

// lead says where the connections go.
func (r *relay) lead(to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = to
}

func (r *relay) accept() {
	for {
		near, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.work.Go(func() { r.pass(near) })
	}
}

func (r *relay) pass(near net.Conn) {
	defer func() { _ = near.Close() }()
	r.mu.Lock()
	to := r.to
	r.mu.Unlock()
	far, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	if !r.keep(near, far) {
		return
	}
	defer r.forget(near, far)
	r.work.Go(func() {
		_, _ = io.Copy(far, near) // ends when either side does
		_ = far.Close()
	})
	_, _ = io.Copy(near, far)
}

func (r *relay) keep(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		r.conns[c] = true
	}
	return !r.ended
}

func (r *relay) forget(conns ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		delete(r.conns, c)
	}
}

// cut ends all connections.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		_ = c.Close()
	}
}

func (r *relay) close() {
	_ = r.listener.Close()
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.cut()
	r.work.Wait()
}
