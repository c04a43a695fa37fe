//go:build !unix

package h1

import "net"

// socket cannot be looked at on this system.
type socket struct{}

func newSocket(net.Conn) *socket { return nil }

func (*socket) readable() bool { return false }
