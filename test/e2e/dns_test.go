//go:build !image

package e2e_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// nameServer answers every question for an IPv4 address with this machine, or,
// while it is broken, with SERVFAIL. It is the process's only name server until
// the test ends: no test may run beside it, so that it is not parallel.
type nameServer struct{ broken atomic.Bool }

func newNameServer(t *testing.T) *nameServer {
	s := &nameServer{}
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.serve(conn)
	}()
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = before
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		<-ended
	})
	return s
}

func (s *nameServer) serve(conn net.PacketConn) {
	buf := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		answer, err := s.answer(buf[:n])
		if err != nil {
			continue // not a question
		}
		if _, err := conn.WriteTo(answer, from); err != nil {
			return
		}
	}
}

func (s *nameServer) answer(question []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil {
		return nil, err
	}
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	switch q := m.Questions[0]; {
	case s.broken.Load():
		m.RCode = dnsmessage.RCodeServerFailure
	case q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1},
			Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
		}}
	}
	return m.Pack()
}

func TestServiceWithoutANameIsWaitedFor(t *testing.T) {
	names := newNameServer(t)
	names.broken.Store(true)
	w := newWorld(t, nil)
	w.patience *= 3 // each name is asked for several times
	w.url = strings.Replace(w.url, "127.0.0.1", "service.feedsink.test", 1)
	sink := w.start(strings.Replace(head, "timeout: 2s", "timeout: 2s\n  allowPlaintext: true # a name is no loopback address", 1) + deadLetters + mappings)
	w.produce(customer("C1", "gold", 1), customer("C2", "basic", 1), order("o1", "PAID", 1))
	w.until("the breaker says that the service cannot be reached", func() bool {
		return strings.Contains(get(t, sink.AdminAddress(), "/status"), `"breaker": "open"`)
	})
	if got := w.service.Calls(); len(got) != 0 {
		t.Fatalf("calls of a service without a name: got %d, want none", len(got))
	}
	names.broken.Store(false)
	w.settled()
	for table, want := range map[string]int{"customers": 2, "orders": 1} {
		if got := w.service.Len(table); got != want {
			t.Errorf("%s: got %d rows, want %d", table, got, want)
		}
	}
	if got := w.dead(); len(got) != 0 {
		t.Errorf("dead letters: got %d, want none", len(got))
	}
}
