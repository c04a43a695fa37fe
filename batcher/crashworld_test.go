package batcher

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/schemas"
)

// plan is what happens to the owners of one run.
type plan struct {
	crashes []point
	keep    bool               // the spool's disk survives a crash
	fails   map[schemas.Op]int // executions of an operation that end FAILED, the first ones
	lost    int                // this trigger, counted from 1, is carried out but its answer is lost
	perDay  int
	bundle  bool  // two mappings go as one
	maxRows int64 // of a file; 0: any number
	takes   int64 // rows of a file that the service takes; 0: any number
}

// point is a place in a run: before or after an external effect, counted over
// all owners from 0.
type point struct {
	effect int
	after  bool
}

// cluster is what outlives a process: the log, what is committed of it, the
// slots on record, and the service.
type cluster struct {
	t        *testing.T
	plan     plan
	service  *modelService
	mappings []files.Mapping // in the order of their loading

	mu        sync.Mutex
	committed [2]commit            // by partition
	slots     map[string]time.Time // by file and attempt
	effects   []string             // that left a process, in order
	owners    []*owner
	story     story
}

// commit is what a partition's offset commit says: the offset, and the import
// that covers the records below upTo.
type commit struct {
	offset  int64
	entry   *contract.Import
	rebuild bool
	upTo    int64
}

// owner is one process: its batcher, what it holds, and its end.
type owner struct {
	*cluster
	dir     string
	batcher *Batcher
	cancel  func()
	ended   chan error
	parts   [2]*assignment
	news    chan struct{}
	crashed bool
	again   bool      // the ledger asks for new assignments
	since   time.Time // the assignments last
}

// assignment is one partition as one owner has it.
type assignment struct {
	o      *owner
	id     int
	dead   bool
	next   int64
	covers int64 // records below are in a file that was sent
	claims []*crashClaim
}

type crashClaim struct {
	a        *assignment
	from, to int64
	released bool
}

var errFenced = errors.New("fenced")

func (a *assignment) Read() int64    { return 0 }
func (a *assignment) String() string { return "crm[0]" }
func (a *assignment) Halted() string { return "" }
func (a *assignment) Waits() string  { return "" }

func (a *assignment) Claim(offset int64) Claim {
	c := &crashClaim{a: a, from: offset, to: offset + 1}
	a.claims = append(a.claims, c)
	return c
}

func (c *crashClaim) Extend(offset int64) { c.to = offset + 1 }

func (c *crashClaim) Close() {}

func (*crashClaim) Oldest() (none time.Time) { return none }

func (c *crashClaim) Live() bool {
	c.a.o.mu.Lock()
	defer c.a.o.mu.Unlock()
	return !c.a.dead
}

// watermark is the offset below which no claim holds a record.
func (a *assignment) watermark() int64 {
	w := a.next
	for _, c := range a.claims {
		if !c.released {
			w = min(w, c.from)
		}
	}
	return w
}

// checkSlots compares, day by day, what the service has seen with what is on
// record, and that with what is allowed.
func (c *cluster) checkSlots() {
	c.t.Helper()
	counted := map[string]int{}
	for _, at := range c.slots {
		counted[at.Format(time.DateOnly)]++
	}
	for day, n := range counted {
		if n > c.plan.perDay {
			c.t.Errorf("%s: got %d slots on record, want at most %d", day, n, c.plan.perDay)
		}
	}
	seen := map[string]int{}
	for _, e := range c.service.executions {
		seen[e.begun.Format(time.DateOnly)]++
	}
	for day, n := range seen {
		if n > counted[day] {
			c.t.Errorf("%s: got %d executions with %d slots on record, want no more than those", day, n, counted[day])
		}
	}
}

// begin starts a process and gives it all partitions.
func (c *cluster) begin() *owner {
	c.t.Helper()
	o := &owner{cluster: c, dir: filepath.Join(c.t.TempDir(), "spool"), ended: make(chan error, 1), news: make(chan struct{}, 1)}
	if n := len(c.owners); n > 0 && c.plan.keep {
		if err := os.CopyFS(o.dir, os.DirFS(c.owners[n-1].dir)); err != nil {
			c.t.Fatal(err)
		}
	}
	cfg := Config{
		Dir: o.dir, MaxBytes: 1 << 20, Grace: grace, Gate: o, Log: slog.New(slog.DiscardHandler),
		Poll: retry.Backoff{Initial: 2 * time.Second, Max: time.Minute}, Retry: retry.Backoff{Initial: time.Second, Max: 30 * time.Second},
	}
	cfg.fakes()
	b, err := New(cfg, c.mappings, o, o, o, rand.New(rand.NewPCG(uint64(len(c.owners)), 1)))
	if err != nil {
		c.t.Fatal(err)
	}
	o.batcher = b
	ctx, cancel := context.WithCancel(context.Background())
	o.cancel = cancel
	go func() { o.ended <- b.Run(ctx) }()
	c.owners = append(c.owners, o)
	c.story.found(c.committed)
	o.assign()
	return o
}

// assign ends what assignments there are, takes the partitions as their ledgers
// are and feeds their records.
func (o *owner) assign() {
	o.t.Helper()
	lose(o.batcher, o.mappings[0].Name)
	o.mu.Lock()
	o.again, o.since = false, time.Now()
	for _, before := range o.owners {
		for _, a := range before.parts {
			if a != nil {
				a.dead = true
			}
		}
	}
	var adopted *Adopted
	for id := range o.parts {
		a := &assignment{o: o, id: id, next: o.committed[id].offset}
		o.parts[id] = a
		if at := o.committed[id]; at.entry != nil {
			if adopted == nil {
				adopted = &Adopted{Import: *at.entry, Rebuild: at.rebuild, UpTo: map[Partition]int64{}}
				adopted.Mapping, adopted.Rows, adopted.Bytes, adopted.ETL, adopted.Op = "", 0, 0, "", 0 // not on record
			}
			cover := a.Claim(a.next).(*crashClaim)
			cover.to = at.upTo
			adopted.Claims = append(adopted.Claims, cover)
			adopted.UpTo[a] = at.upTo
			if !at.rebuild {
				a.covers = at.upTo
			}
		}
	}
	o.mu.Unlock()
	if adopted != nil {
		if err := o.batcher.Adopt(o.mappings[0].Name, *adopted); err != nil {
			o.t.Fatal(err)
		}
	}
	o.feed()
}

func (o *owner) feed() {
	o.t.Helper()
	for _, r := range o.service.log {
		a := o.parts[r.partition]
		if r.offset < a.next || a.dead {
			continue
		}
		if r.offset >= a.covers {
			if err := o.batcher.Append(o.mappingOf(r.write.Key), r.write, a, r.offset); err != nil {
				o.t.Fatal(err)
			}
		}
		o.mu.Lock()
		a.next = r.offset + 1
		o.mu.Unlock()
		for _, m := range o.mappings {
			o.batcher.Passed(m.Name, a, r.offset+1)
		}
		synctest.Wait() // a complete file is detached before the next row comes
	}
}

// mappingOf is the mapping of a key: where there are two, the second one's begin
// with o.
func (c *cluster) mappingOf(key string) string {
	if strings.HasPrefix(key, "o") {
		return c.mappings[len(c.mappings)-1].Name
	}
	return c.mappings[0].Name
}

// confirmedAll reports whether everything in the log is confirmed.
func (c *cluster) confirmedAll() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, at := range c.committed {
		if at.entry != nil || at.offset < c.service.ends[id] {
			return false
		}
	}
	return true
}

const (
	grace   = 25 * time.Second // for a request to end
	session = 30 * time.Second // how long a dead owner's partitions wait for the next
)

// play runs owners after one another until everything is confirmed.
func (c *cluster) play() {
	c.t.Helper()
	o := c.begin()
	for limit := time.Now().Add(20 * 24 * time.Hour); !c.confirmedAll(); {
		if time.Now().After(limit) {
			c.t.Fatalf("after 20 days: got committed %+v, want everything confirmed; story: %s", c.committed, c.story.String())
		}
		select {
		case <-o.news:
		case <-time.After(time.Minute):
		}
		synctest.Wait()
		o.mu.Lock()
		crashed, again := o.crashed, o.again
		o.mu.Unlock()
		switch _, halted := o.batcher.Halted(o.mappings[0].Name); {
		case crashed:
			time.Sleep(session)
			o = c.begin()
		case again:
			o.assign()
		case halted:
			c.mu.Lock()
			c.story.say("halts until released")
			c.mu.Unlock()
			if err := o.batcher.Release(o.mappings[len(o.mappings)-1].Name); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	for _, o := range c.owners {
		o.cancel()
		if err := <-o.ended; err != nil {
			c.t.Errorf("run: %v", err)
		}
	}
}
