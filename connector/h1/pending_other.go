//go:build !unix

package h1

import (
	"net"
	"syscall"
)

func raw(net.Conn) syscall.RawConn { return nil }

func pending(syscall.RawConn) state { return unknown }
