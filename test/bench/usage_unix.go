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

// usage is what this process has used since it started: CPU in seconds, user and
// system, and the peak of its resident memory in bytes.
func usage() (cpu float64, rss int64, err error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0, 0, fmt.Errorf("getrusage: %w", err)
	}
	cpu = float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
	if rss, ok := highWater(); ok {
		return cpu, rss, nil
	}
	rss = int64(r.Maxrss) //nolint:unconvert // 32 bits wide on some systems
	if runtime.GOOS != "darwin" {
		rss <<= 10
	}
	return cpu, rss, nil
}

// highWater is the peak as Linux keeps it for this program. What getrusage says
// there also counts the parent's memory, shared until the program was loaded.
func highWater() (int64, bool) {
	status, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, false
	}
	defer func() { _ = status.Close() }()
	for lines := bufio.NewScanner(status); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			var kib int64
			_, err := fmt.Sscan(text, &kib)
			return kib << 10, err == nil
		}
	}
	return 0, false
}
