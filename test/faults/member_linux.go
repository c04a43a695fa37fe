package main

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

func (m *member) freeze() error { return m.cmd.Process.Signal(syscall.SIGSTOP) }

func (m *member) thaw() error { return m.cmd.Process.Signal(syscall.SIGCONT) }

// limitFiles makes every write that would lengthen a file fail, or no more. The
// log goes through a pipe and is not concerned.
func (m *member) limitFiles(on bool) error {
	var limit unix.Rlimit
	pid := m.cmd.Process.Pid
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &limit); err != nil {
		return fmt.Errorf("read the file limit of member %s: %w", m.name, err)
	}
	if limit.Cur = limit.Max; on {
		limit.Cur = 0
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		return fmt.Errorf("limit the files of member %s: %w", m.name, err)
	}
	return nil
}
