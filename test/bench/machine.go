package main

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// machine says where the figures come from.
func machine() string {
	return fmt.Sprintf("%d × %s, %s %s/%s, load before %s", runtime.NumCPU(), processor(), runtime.Version(), runtime.GOOS, runtime.GOARCH, load())
}

func processor() string {
	info, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "CPU of unknown kind"
	}
	defer func() { _ = info.Close() }()
	for lines := bufio.NewScanner(info); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "CPU of unknown kind"
}

// load is what else kept the machine busy in the last minute.
func load() string {
	averages, _ := os.ReadFile("/proc/loadavg") // not everywhere
	minute, _, _ := strings.Cut(string(averages), " ")
	return cmp.Or(minute, "unknown")
}

// ticks is the time of all processors since the system started, as Linux counts
// it; zero on a system that does not tell.
type ticks struct{ all, stolen int64 }

func readTicks() ticks {
	stat, _ := os.ReadFile("/proc/stat") // not everywhere
	return parseTicks(string(stat))
}

// parseTicks reads /proc/stat, whose first line is of all processors: user, nice,
// system, idle, iowait, irq, softirq, steal. What guests have used stands behind
// these and is in user and nice as well.
func parseTicks(stat string) (t ticks) {
	const steal = 8
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) <= steal || fields[0] != "cpu" {
		return ticks{}
	}
	for i, field := range fields[1 : steal+1] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return ticks{}
		}
		t.all += n
		if i+1 == steal {
			t.stolen = n
		}
	}
	return t
}

// stolenSince is the share of the processors' time since before that the host gave
// to others while somebody here wanted it; nil where the system does not tell.
func (t ticks) stolenSince(before ticks) *float64 {
	all := t.all - before.all
	if before.all == 0 || all <= 0 {
		return nil
	}
	share := float64(t.stolen-before.stolen) / float64(all)
	return &share
}

// hostTook says so, to be put behind other words; "" where the system does not tell.
func hostTook(stolen *float64) string {
	if stolen == nil {
		return ""
	}
	return fmt.Sprintf(", host took %.0f %% of the processors", 100**stolen)
}
