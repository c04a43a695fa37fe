//go:build unix

package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
)

// usage is what this process has used since it started, CPU in seconds, user and
// system, and what it holds.
func usage() (a answer, err error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return a, fmt.Errorf("getrusage: %w", err)
	}
	a.CPU = float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
	a.Goroutines = runtime.NumGoroutine()
	if files, err := os.ReadDir("/proc/self/fd"); err == nil {
		a.Files = len(files)
	}
	memory := memory("VmHWM", "VmRSS")
	if a.RSS, a.Resident = memory[0], memory[1]; a.RSS > 0 {
		return a, nil
	}
	a.RSS = int64(r.Maxrss) //nolint:unconvert // 32 bits wide on some systems
	if runtime.GOOS != "darwin" {
		a.RSS <<= 10
	}
	return a, nil
}

// memory is the fields as Linux keeps them for this program, in bytes, 0 where it
// does not. What getrusage says there of the peak also counts the parent's
// memory, shared until the program was loaded.
func memory(fields ...string) []int64 {
	values := make([]int64, len(fields))
	status, err := os.Open("/proc/self/status")
	if err != nil {
		return values
	}
	defer func() { _ = status.Close() }()
	for lines := bufio.NewScanner(status); lines.Scan(); {
		for i, field := range fields {
			if text, ok := strings.CutPrefix(lines.Text(), field+":"); ok {
				var kib int64
				if _, err := fmt.Sscan(text, &kib); err == nil {
					values[i] = kib << 10
				}
			}
		}
	}
	return values
}
