package online

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// machine looks at what a sink needs of the machine that it runs on. It warns only, for the
// sink may run elsewhere, or run already; but a directory that can be written and whose disk
// is full is a failure.
func (c checker) machine() []Check {
	var checks []Check
	if len(c.router.Topics(schemas.Batch)) > 0 {
		checks = append(checks, spoolCheck(c.cfg.Spool))
	}
	return append(checks, portCheck(c.cfg.Admin.Listen))
}

func spoolCheck(cfg config.Spool) Check {
	dir := cfg.Dir
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
	if err := spool.Writable(at); err != nil && !errors.Is(err, syscall.ENOSPC) {
		return Check{what, Warn, fmt.Sprintf("it cannot be written by this user (%v); give the sink's user a directory of its own, or check where the sink will run", err)}
	}
	free, size, known := spool.Disk(at)
	room := Check{what, OK, "it can be written"}
	if known {
		room = roomCheck(what, free, size, cfg.MaxBytes)
	}
	if room.Result != Fail && at == dir && spool.InUse(dir) {
		return Check{what, Warn, "another process uses it; if that is this sink already running, it is well, else give each its own spool.dir"}
	}
	return room
}

// leastFree is below what the first file of a mapping takes.
const leastFree = 1 << 20

// roomCheck is about the disk of a directory that can be written: what is free, and the
// size of all.
func roomCheck(what string, free, size int64, most router.Bytes) Check {
	left := sizeText(free) + " of its disk are free"
	switch {
	case free < leastFree:
		return Check{what, Fail, left + ", so no row can be written; make room, or name a directory on another disk"}
	case size < int64(most):
		return Check{what, Warn, fmt.Sprintf("%s, and the disk has %s in all, less than spool.maxBytes (%v): it is full before the batch lane pauses; lower spool.maxBytes, or take a larger disk",
			left, sizeText(size), most)}
	}
	return Check{what, OK, "it can be written; " + left}
}

// sizeText is a number of bytes for people.
func sizeText(n int64) string {
	for _, unit := range []struct {
		name  string
		bytes int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= unit.bytes {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.bytes), unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
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
