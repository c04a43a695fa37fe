//go:build simulation

package simulation

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seeds  = flag.Int("seeds", 0, "how many lives; 0: a small fixed set")
	first  = flag.Uint64("seed", 0, "the first of them; alone unless -seeds says more")
	lasts  = flag.Duration("for", 0, "begin further lives for so long, whatever -seeds says")
	follow = flag.Bool("follow", false, "show the transcript as it grows")
	logs   = flag.String("logs", "", "folder for the members' logs")
	drop   = flag.String("drop", "", "numbers of strikes that do not happen, with commas between")
)

// fixed are the seeds of a plain go test.
var fixed = []uint64{102, 103, 106, 108}

// shown is how much of what is wrong is shown.
const shown = 20

// TestMain has one processor run a life, and the collector seldom: goroutines hand over to each
// other for most of it, which costs a third more among several, and few things live long.
func TestMain(m *testing.M) {
	flag.Parse()
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// stuck is how long a life may take, on a real clock.
const stuck = 30 * time.Minute

func TestEveryLifeKeepsThePromises(t *testing.T) {
	chosen := fixed
	if *first > 0 || *seeds > 0 {
		chosen = nil
		for i := range max(1, *seeds) {
			chosen = append(chosen, max(1, *first)+uint64(i))
		}
	}
	for _, seed := range chosen {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { live(t, seed) })
	}
	for begun, seed := time.Now(), chosen[len(chosen)-1]+1; time.Since(begun) < *lasts; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { live(t, seed) })
	}
}

// live runs one seed's life, and shows its transcript if anything is wrong.
func live(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	p := newPlan(rnd)
	p.lengthen(rand.New(rand.NewPCG(seed, 3)))
	p.scale(rand.New(rand.NewPCG(seed, 5)))
	p.share(seed)
	p.cutting(seed)
	p.million(seed)
	p.precede(rand.New(rand.NewPCG(seed, 7)))
	w := &world{
		seed: seed, plan: p, rnd: rnd, dropped: numbers(*drop), dir: t.TempDir(), follow: *follow, logs: *logs, partitions: map[string]int32{}, unremovable: map[string]bool{},
		load: generator{rnd: rand.New(rand.NewPCG(seed, 1))},
	}
	watchdog := time.AfterFunc(stuck, func() {
		stacks := make([]byte, 64<<20)
		fmt.Fprintf(os.Stderr, "seed %d: time has not gone on\n%s\n%s\n", seed, strings.Join(w.transcript, "\n"), stacks[:runtime.Stack(stacks, true)])
		os.Exit(1)
	})
	defer watchdog.Stop()
	cpu := cpuTime()
	var hours float64
	defer func() { // a test that has failed in its bubble does not go on
		events, used := w.load.events, cpuTime()-cpu
		w = nil // nothing of the life is to be left
		left := inUse()
		t.Logf("seed %d: %.1f virtual hours, %d events, %.1f CPU seconds, %.0f MB left in use", seed, hours, events, used.Seconds(), float64(left)/1e6)
		if left > mostLeft {
			t.Errorf("seed %d: %d bytes are in use behind the life, want at most %d", seed, left, mostLeft)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		begun := w.plan.begin
		w.live(t.Context())
		hours = time.Since(begun).Hours()
		if len(w.wrong) > 0 { // before the bubble looks for goroutines that are left
			t.Logf("strikes: %v", w.strikes)
			t.Errorf("seed %d:\n%s\n%s\n(SEED=%[1]d shows it again)", seed, strings.Join(w.transcript, "\n"), strings.Join(w.wrong[:min(len(w.wrong), shown)], "\n"))
		}
	})
}

// numbers are those of a list.
func numbers(list string) map[int]bool {
	in := map[int]bool{}
	for n := range strings.SplitSeq(list, ",") {
		if i, err := strconv.Atoi(n); err == nil {
			in[i] = true
		}
	}
	return in
}

// mostLeft is how much memory may be in use behind a life, in bytes, whatever came before it.
const mostLeft uint64 = 100e6

// inUse is how much memory is in use, in bytes.
func inUse() uint64 {
	runtime.GC()
	runtime.GC() // what is in pools goes with the second one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// cpuTime is what this process has used so far.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
