//go:build unix

package h1

import (
	"net"
	"syscall"
)

// socket is the socket of a connection, which can be looked at without reading.
type socket struct {
	raw  syscall.RawConn // nil: this one cannot
	peek func(fd uintptr) (done bool)
	some bool // what peek found
}

func newSocket(c net.Conn) *socket {
	s := &socket{}
	if one, ok := c.(syscall.Conn); ok {
		s.raw, _ = one.SyscallConn()
	}
	s.peek = func(fd uintptr) bool {
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		s.some = err != syscall.EAGAIN
		return true
	}
	return s
}

// readable reports whether there is something to read: bytes, the end, or an error.
func (s *socket) readable() bool {
	if s.raw == nil {
		return false
	}
	err := s.raw.Read(s.peek)
	return err != nil || s.some
}
