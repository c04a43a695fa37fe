//go:build unix

package h1

import (
	"net"
	"syscall"
)

// socket is beneath a connection and is looked at without reading from it.
type socket struct {
	raw      syscall.RawConn // nil: this one cannot be looked at
	look     func(fd uintptr) (done bool)
	readable bool // what look saw
}

func newSocket(c net.Conn) *socket {
	s := &socket{}
	if one, ok := c.(syscall.Conn); ok {
		s.raw, _ = one.SyscallConn()
	}
	s.look = func(fd uintptr) bool {
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		s.readable = err != syscall.EAGAIN
		return true
	}
	return s
}

// pending reports whether there is something to read: bytes, the end, or an error.
func (s *socket) pending() bool {
	if s.raw == nil {
		return false
	}
	err := s.raw.Read(s.look)
	return err != nil || s.readable
}
