//go:build big && linux && !image

package e2e_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

const (
	manyKeys  = 10_000_000
	mostBytes = 512 << 20     // resident, at the peak
	leastDisk = 30 * manyKeys // bytes in the spool: the rows are a little longer
	// clockStep is by how much the clock may go on at once without being in doubt.
	clockStep = 45 * time.Second
	// bigPatience is for reading, or loading, all of them on a slow machine.
	bigPatience = 10 * time.Minute
)

// bigWait is a world in which rows of so many keys wait for the next day's import: a day has one,
// beside the reserve, which has loaded one row.
type bigWait struct {
	*world
	sink    *process
	address string
	advance func(time.Duration)
}

func newBigWait(t *testing.T, maxFile string, keys int) *bigWait {
	t.Helper()
	w := newWorld(t, func(c *sandbox.Config) {
		c.Tables = slices.Clone(c.Tables)
		c.Tables[0].Discard = true // the service counts the rows and keeps none
	})
	w.patience = bigPatience
	oneSlot := strings.Replace(mappings, "slotsPerDay: 1000", "slotsPerDay: 2\n      reserve: 1\n      maxFile: "+maxFile, 1)
	sink, advance := w.runWithClock(strings.Replace(head, "timeout: 2s", "timeout: 30s", 1) + deadLetters + oneSlot)
	b := &bigWait{w, sink, sink.admin(w), advance}
	w.produce(customer("first", "basic", 1))
	w.until("the day's one import is done", func() bool { return w.loaded() == 1 && w.lag("batch", "customers") == 0 })
	w.produceMany(keys)
	w.until("all keys wait", func() bool {
		return gauge(t, b.address, "feedsink_unconfirmed_records", `state="waiting for a slot"`) == float64(keys)
	})
	return b
}

// day lets a day pass, or what is left of it until it need not go on: in steps that are no move
// of the clock, and each of them seen.
func (b *bigWait) day(enough func() bool) {
	b.t.Helper()
	for range 24 * time.Hour / clockStep {
		if enough() {
			return
		}
		b.advance(clockStep)
		gauge(b.t, b.address, "feedsink_import_slots_remaining", `table="customers"`)
	}
}

func TestTenMillionKeysWaitForASlotOnDisk(t *testing.T) {
	w := newBigWait(t, "{bytes: 0}", manyKeys)
	if got := len(w.service.Executions()); got != 1 {
		t.Errorf("imports of the day: got %d, want the one it has a slot for", got)
	}
	if got := onDisk(t, filepath.Join(w.dir, "spool")); got < leastDisk {
		t.Errorf("spool: got %d bytes, want at least %d", got, leastDisk)
	}
	t.Logf("waiting: %d MiB resident at the peak, %d MiB on disk", peak(t, w.sink)>>20, onDisk(t, filepath.Join(w.dir, "spool"))>>20)
	w.day(func() bool { return false })
	w.until("the next day's import is done", func() bool { return w.loaded() > 1 && w.lag("batch", "customers") == 0 })
	if got := w.loaded(); got != 1+manyKeys {
		t.Errorf("rows loaded: got %d, want %d", got, 1+manyKeys)
	}
	if got := len(w.service.Executions()); got != 2 {
		t.Errorf("imports: got %d, want one of each day", got)
	}
	got := peak(t, w.sink)
	t.Logf("loaded: %d MiB resident at the peak", got>>20)
	if got > mostBytes {
		t.Errorf("resident memory at its peak: got %d MiB, want at most %d MiB", got>>20, int64(mostBytes)>>20)
	}
	w.sink.terminate(t)
}

// runWithClock is run, for the batch lane alone, with a clock that can be moved.
func (w *world) runWithClock(yaml string) (sink *process, advance func(time.Duration)) {
	w.t.Helper()
	dir := w.t.TempDir()
	moved := filepath.Join(dir, "feedsink")
	build := exec.CommandContext(w.t.Context(), "go", "build", "-tags", "movedclock", "-o", moved, "github.com/feedsink/feedsink/cmd/feedsink")
	if out, err := build.CombinedOutput(); err != nil {
		w.t.Fatalf("build: %v\n%s", err, out)
	}
	file, ahead := filepath.Join(dir, "clock"), time.Duration(0)
	advance = func(d time.Duration) {
		ahead += d
		if err := os.WriteFile(file+".new", []byte(ahead.String()), 0o600); err != nil {
			w.t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			w.t.Fatal(err)
		}
	}
	advance(0)
	old := binary
	binary = moved
	defer func() { binary = old }()
	return w.runAs(yaml, map[string]string{"FEEDSINK_CLOCK_AHEAD": file}, "--lane", "batch"), advance
}

// produceMany sends one record each of n keys, to one partition after the other.
func (w *world) produceMany(n int) {
	w.t.Helper()
	client, err := kgo.NewClient(w.reach(kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(20*time.Millisecond), kgo.MaxBufferedRecords(100_000))...)
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	refused := make(chan error, 1)
	for i := range n {
		r := customer(fmt.Sprintf("C%08d", i), "basic", i)
		r.Topic, r.Partition = w.topic(r.Topic), int32(i%partitions)
		client.Produce(w.t.Context(), r, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case refused <- err:
				default: // one is enough
				}
			}
		})
	}
	if err := client.Flush(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	select {
	case err := <-refused:
		w.t.Fatal(err)
	default:
	}
}

// loaded is how many rows the imports have read.
func (w *world) loaded() (rows int64) {
	for _, e := range w.service.Executions() {
		rows += e.Results.Read
	}
	return rows
}

// gauge adds up the values of a metric whose labels contain some.
func gauge(t *testing.T, address, name, labels string) (sum float64) {
	t.Helper()
	for line := range strings.Lines(get(t, address, "/metrics")) {
		if !strings.HasPrefix(line, name+"{") || !strings.Contains(line, labels) {
			continue
		}
		_, value, _ := strings.Cut(line, "} ")
		v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += v
	}
	return sum
}

func onDisk(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		bytes += info.Size()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}
