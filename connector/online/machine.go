package online

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/schemas"
)

// machine looks at what a sink needs of the machine that it runs on. It warns only: the
// sink may run elsewhere, or run already.
func (c checker) machine() []Check {
	var checks []Check
	if len(c.router.Topics(schemas.Batch)) > 0 {
		checks = append(checks, spoolCheck(c.cfg.Spool.Dir))
	}
	return append(checks, portCheck(c.cfg.Admin.Listen))
}

func spoolCheck(dir string) Check {
	what := "spool.dir " + dir + " on this machine"
	at := dir
	for {
		info, err := os.Stat(at)
		if err == nil && !info.IsDir() {
			return Check{what, Warn, at + " is no directory; name another one"}
		}
		if up := filepath.Dir(at); os.IsNotExist(err) && up != at {
			at = up // it will be created
			continue
		}
		break
	}
	if err := spool.Writable(at); err != nil {
		return Check{what, Warn, fmt.Sprintf("it cannot be written by this user (%v); give the sink's user a directory of its own, or check where the sink will run", err)}
	}
	if at == dir && spool.InUse(dir) {
		return Check{what, Warn, "another process uses it; if that is this sink already running, it is well, else give each its own spool.dir"}
	}
	return Check{what, OK, "it can be written"}
}

func portCheck(address string) Check {
	what := "admin.listen " + address + " on this machine"
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return Check{what, Warn, fmt.Sprintf("%v; if that is this sink already running, it is well, else change admin.listen", err)}
	}
	_ = listener.Close() // nothing was accepted
	return Check{what, OK, "it is free"}
}
