//go:build unix

package h1

import (
	"net"
	"syscall"
)

// raw is what can be looked at; nil: this connection cannot.
func raw(c net.Conn) syscall.RawConn {
	if s, ok := c.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// pending looks without reading.
func pending(raw syscall.RawConn) (s state) {
	if raw == nil {
		return unknown
	}
	err := raw.Read(func(fd uintptr) bool {
		var one [1]byte
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch {
		case n > 0:
			s = bytes
		case err == syscall.EAGAIN:
			s = nothing
		default:
			s = end
		}
		return true
	})
	if err != nil {
		return end
	}
	return s
}
