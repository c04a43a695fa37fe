package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/feedsink/feedsink/schemas"
)

// child is a process in a role, seen from the bench.
type child struct {
	name  string
	in    io.Writer
	out   *json.Decoder
	ended chan struct{} // closed with err set
	err   error
}

// start runs this binary in a role until apart ends, and waits until it is up.
func (b *bench) start(ctx context.Context, role string, s settings) *child {
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, must(os.Executable()), roleArgument, role, string(must(json.Marshal(s)))) //nolint:gosec // the bench itself
	in := must(cmd.StdinPipe())
	read, write, err := os.Pipe() // unlike StdoutPipe it can be read after the process has ended
	try(err)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = write, os.Stderr, 15*time.Second
	cmd.Cancel = func() error {
		_ = in.Close()           // it ends by itself; else WaitDelay kills it
		return os.ErrProcessDone // then its end is no failure
	}
	try(cmd.Start())
	try(write.Close()) // the child has its own
	c := &child{name: role, in: in, out: json.NewDecoder(read), ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		if err := cmd.Wait(); err != nil {
			c.err = fmt.Errorf("%s: %w", role, err)
		}
	}()
	b.cleanup(func() error {
		cancel()
		<-c.ended
		return errors.Join(c.err, read.Close())
	})
	c.usage()
	return c
}

// usage asks the child how far it is and what it has used.
func (c *child) usage() (a answer) {
	_, err := fmt.Fprintln(c.in)
	if err == nil {
		err = c.out.Decode(&a)
	}
	if err != nil {
		try(fmt.Errorf("%s: ended too early: %w", c.name, err))
	}
	return a
}

// done is how many events the child has done.
func (c *child) done(context.Context) int64 { return c.usage().Done }

// sample is one side of one repetition, or the medians of one side.
type sample struct {
	Rate   float64 `json:"rate"`   // per second
	CPU    float64 `json:"cpu"`    // CPU-seconds per million
	RSS    float64 `json:"rss"`    // peak, in bytes
	Allocs float64 `json:"allocs"` // per event or call
}

// counter says how many events or calls are done.
type counter func(context.Context) int64

const (
	pollEvery = 10 * time.Millisecond // the resolution of all that is waited for
	limit     = 10 * time.Minute      // for which anything is waited for
)

// reach waits until n are done while c runs, and returns when that was and how many
// they were then.
func (c *child) reach(ctx context.Context, n int64, done counter) (at time.Time, reached int64) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s: not done within %v", c.name, limit))
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if reached := done(ctx); reached >= n {
			return time.Now(), reached
		}
		select {
		case <-tick.C:
		case <-c.ended:
			try(errors.Join(c.err, fmt.Errorf("%s: ended too early", c.name)))
		case <-ctx.Done():
			try(context.Cause(ctx))
		}
	}
}

var errEmptyWindow = errors.New("nothing was done between the beginning and the end of what is measured")

// window measures c from the moment when from are done until to are.
func (c *child) window(ctx context.Context, from, to int64, done counter) sample {
	began, first := c.reach(ctx, from, done)
	before := c.usage()
	ended, last := c.reach(ctx, to, done)
	after := c.usage()
	if last <= first {
		try(errEmptyWindow)
	}
	n := float64(last - first)
	return sample{
		Rate:   n / ended.Sub(began).Seconds(),
		CPU:    (after.CPU - before.CPU) / n * 1e6,
		RSS:    after.RSS,
		Allocs: (after.Allocs - before.Allocs) / n,
	}
}

// most measures c from a tenth of what it does to 95 %, so that neither the start nor
// the last stragglers are in it.
func (c *child) most(ctx context.Context, all int64, done counter) sample {
	return c.window(ctx, all/10, all*95/100, done)
}

// roleArgument is the first argument of a process that plays a role.
const roleArgument = "role"

// roles are what this binary can be besides the bench itself: what is measured.
var roles = map[string]func(settings) *role{
	"sink":   newSink,
	"calls":  newCalls,  // floor of the immediate lane, and of slow-down
	"files":  newFiles,  // floor of the batch lane
	"decode": newDecode, // both sides of decoding, routing and mapping
	"verify": newVerify, // beside a sink
	"why":    newWhy,    // without one
	"loop":   newLoop,   // floor of the latency, and what the sink is compared with
}

// role is a process that is measured.
type role struct {
	run  func(context.Context) error
	done func() int64 // events so far; nil: it does not count
}

// settings are those of all roles, in the process's arguments; each takes what it needs.
type settings struct {
	Broker, Topic, Service string
	Workers, Calls         int // of a loop, and how many calls it makes

	Config  string // path of the sink's configuration
	Profile string // beginning of the profiles' paths; empty: none
	Lanes   []schemas.Lane

	Format schemas.Format // of the events
	Floor  bool           // decode: the library alone
}

// answer is what a role says of itself: how far it is, what it has used since it
// started, and what it holds.
type answer struct {
	Done       int64
	CPU        float64 // seconds, user and system
	RSS        float64 // peak, in bytes
	Resident   float64 // bytes now
	Files      float64 // open descriptors
	Goroutines float64
	Allocs     float64 // on the heap
}

// play answers each line of stdin on stdout. The end of stdin ends the role, so that no
// process outlives the bench.
func play(ctx context.Context, name, arguments string) error {
	build, known := roles[name]
	if !known {
		return errors.New("no such role")
	}
	var s settings
	try(json.Unmarshal([]byte(arguments), &s))
	r := build(s)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		out := json.NewEncoder(os.Stdout)
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			if err := out.Encode(r.answer()); err != nil {
				return // the bench has gone
			}
		}
	}()
	if err := r.run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err // the process ends, and with it the reading of its stdin
	}
	<-ctx.Done()
	return nil
}

// answer takes the usage of this process. On Linux the peak is what it keeps for this
// program; getrusage also counts the parent's memory, shared until the program was
// loaded.
func (r *role) answer() (a answer) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(fmt.Sprintf("getrusage: %v", err)) // the system knows no such call
	}
	a.CPU, a.RSS = float64(u.Utime.Nano()+u.Stime.Nano())/1e9, float64(u.Maxrss)
	if proc, err := procfs.Self(); err == nil {
		if status, err := proc.NewStatus(); err == nil {
			a.RSS, a.Resident = float64(status.VmHWM), float64(status.VmRSS)
		}
		if files, err := proc.FileDescriptorsLen(); err == nil {
			a.Files = float64(files)
		}
	}
	a.Goroutines = float64(runtime.NumGoroutine())
	// Unlike runtime.ReadMemStats this does not stop the process.
	counted := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}, {Name: "/gc/heap/tiny/allocs:objects"}}
	metrics.Read(counted)
	a.Allocs = float64(counted[0].Value.Uint64() + counted[1].Value.Uint64())
	if r.done != nil {
		a.Done = r.done()
	}
	return a
}
