package batcher

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/batcher/waiting"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/schemas"
)

// callableWorld is what outlives the owners of a table whose rows may be called: the log,
// what is committed of it, and the service.
type callableWorld struct {
	t       *testing.T
	rnd     *rand.Rand
	service *modelService
	mapping files.Mapping

	mu        sync.Mutex
	committed [2]callableCommit
	landed    map[string]int // by key: the newest state that the table was in under former owners
	late      []func()       // calls without an answer that have not landed yet
	calls     int
	imports   int
	crashes   int
}

// callableCommit is what a partition's offset commit says.
type callableCommit struct {
	offset  int64
	done    map[int64]bool
	entry   *contract.Import
	rebuild bool
	upTo    int64
}

// callableOwner is one process, or one set of assignments of it.
type callableOwner struct {
	*callableWorld
	batcher *Batcher
	cancel  func()
	ended   chan error
	parts   [2]*callableAssignment
	crashed bool
	again   bool
	flying  map[*flyingCall]bool
}

type flyingCall struct {
	contract.Call
	started bool
	dropped bool
	ended   chan struct{}
}

// callableAssignment is a partition as an owner has it.
type callableAssignment struct {
	o       *callableOwner
	id      int
	dead    bool
	next    int64
	covers  int64
	again   map[string]bool // keys of which records are sent once more
	restore int64           // records below may have been confirmed before a restart
	before  map[int64]bool  // those that were
	pending map[int64]bool
	apart   map[int64]bool // confirmed one by one
	claims  []*callableClaim
}

type callableClaim struct {
	a        *callableAssignment
	from, to int64
	released bool
}

func (a *callableAssignment) Read() int64    { return 0 }
func (a *callableAssignment) String() string { return fmt.Sprintf("crm[%d]", a.id) }
func (a *callableAssignment) Halted() string { return "" }
func (a *callableAssignment) Waits() string  { return "" }

func (a *callableAssignment) Claim(offset int64) Claim {
	a.o.mu.Lock()
	defer a.o.mu.Unlock()
	return a.claim(offset)
}

func (a *callableAssignment) claim(offset int64) *callableClaim {
	c := &callableClaim{a: a, from: offset, to: offset + 1}
	a.claims = append(a.claims, c)
	return c
}

func (c *callableClaim) Extend(offset int64) {
	c.a.o.mu.Lock()
	defer c.a.o.mu.Unlock()
	c.to = offset + 1
}

func (c *callableClaim) Close() {}

func (*callableClaim) Oldest() (none time.Time) { return none }

func (c *callableClaim) Live() bool {
	c.a.o.mu.Lock()
	defer c.a.o.mu.Unlock()
	return !c.a.dead
}

func (a *callableAssignment) confirmed(offset int64) bool {
	if a.apart[offset] || a.before[offset] {
		return true
	}
	return !a.pending[offset] && !slices.ContainsFunc(a.claims, func(c *callableClaim) bool { return !c.released && c.from <= offset && offset < c.to })
}

// commit writes what is confirmed.
func (a *callableAssignment) commit() {
	at := &a.o.committed[a.id]
	at.done = map[int64]bool{}
	watermark := a.next
	for offset := a.next - 1; offset >= at.offset; offset-- {
		if a.confirmed(offset) {
			at.done[offset] = true
		} else {
			watermark = offset
		}
	}
	for offset := range a.before {
		at.done[offset] = true
	}
	at.offset = watermark
	a.o.checkLanded(a.id, at)
}

// checkLanded checks that the table has what is committed as confirmed.
func (w *callableWorld) checkLanded(id int, at *callableCommit) {
	w.service.settle()
	for _, r := range w.service.log {
		if r.partition == id && (r.offset < at.offset || at.done[r.offset]) && w.has(r.write.Key) < w.service.after[r.write.Key][r.offset] {
			w.t.Errorf("partition %d, watermark %d, done %v: the record at %d of key %s has not landed", id, at.offset, at.done, r.offset, r.write.Key)
		}
	}
}

// has is the newest state of a key that the table was in.
func (w *callableWorld) has(key string) int { return max(w.landed[key], w.service.reached[key]) }

// rewind lets keys go back to the state before the first of their records that is not on
// record as confirmed: these are sent once more.
func (w *callableWorld) rewind() {
	w.service.settle()
	for _, r := range slices.Backward(w.service.log) {
		at, key := w.committed[r.partition], r.write.Key
		if r.offset >= at.offset && !at.done[r.offset] {
			w.landed[key] = w.has(key)
			w.service.reached[key] = min(w.service.reached[key], w.service.after[key][r.offset]-1)
		}
	}
}

type callablePending struct {
	a      *callableAssignment
	offset int64
	key    string
}

func (p *callablePending) Merged() {}

func (p *callablePending) Confirm(_ string, ended func()) {
	defer ended()
	p.a.o.mu.Lock()
	defer p.a.o.mu.Unlock()
	s := p.a.o.service
	if got := p.a.o.has(p.key); got < s.after[p.key][p.offset] && !p.a.dead {
		p.a.o.t.Errorf("record %d of key %s: confirmed in state %d, want %d or later", p.offset, p.key, got, s.after[p.key][p.offset])
	}
	if !p.a.pending[p.offset] {
		p.a.o.t.Errorf("record %d: confirmed, and it is not pending", p.offset)
	}
	delete(p.a.pending, p.offset)
	p.a.apart[p.offset] = true
}

func (o *callableOwner) Halted(string) bool { return false }

func (p *callablePending) Hold(error) bool { return false }
func (p *callablePending) Reject(error, func(bool)) {
	p.a.o.t.Error("reject: got called, want no refusal")
}

func (o *callableOwner) Refused(string, time.Time) time.Duration {
	return 15 * time.Minute
}
func (o *callableOwner) RowsUnmatched(contract.Import, int64)                         {}
func (o *callableOwner) Wait(string, *contract.Import, bool) time.Duration            { return 0 }
func (o *callableOwner) ImportEnded(contract.Import, contract.Results, time.Duration) {}

func (p *callablePending) Claim() Claim {
	p.a.o.mu.Lock()
	defer p.a.o.mu.Unlock()
	if !p.a.pending[p.offset] {
		p.a.o.t.Errorf("record %d: claimed, and it is not pending", p.offset)
	}
	delete(p.a.pending, p.offset)
	return p.a.claim(p.offset)
}

// Submit implements Calls: each call takes a while, and comes to something or not.
func (o *callableOwner) Submit(c contract.Call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := &flyingCall{Call: c, ended: make(chan struct{})}
	o.flying[f] = true
	queued, takes := time.Duration(o.rnd.IntN(3000))*time.Millisecond, time.Duration(o.rnd.IntN(4000))*time.Millisecond
	outcome, late := o.rnd.IntN(10), time.Duration(o.rnd.Int64N(int64(callTimeouts)))
	go func() {
		time.Sleep(queued)
		o.mu.Lock()
		if f.dropped || o.crashed {
			o.mu.Unlock()
			return
		}
		f.started = true
		o.mu.Unlock()
		time.Sleep(takes)
		defer close(f.ended)
		o.mu.Lock()
		if o.crashed {
			o.mu.Unlock()
			return
		}
		delete(o.flying, f)
		var err error
		switch outcome {
		case 0:
			err = &refusal{transient: true}
		case 1, 2: // no answer; it lands late, or never
			err = errDisconnected
			if outcome == 1 {
				o.landLate(f, late)
			}
		default:
			o.land(&f.Write)
		}
		o.mu.Unlock()
		f.Ended("applied", err)
	}()
}

const callTimeouts = 90 * time.Second

// land has a call change the table.
func (w *callableWorld) land(c *schemas.Write) {
	w.service.settle()
	w.calls++
	var pairs []string
	for _, cell := range c.Cells {
		text := ""
		if cell.Value.Kind() == schemas.String {
			text = cell.Value.Text()
		}
		pairs = append(pairs, cell.Name, text)
	}
	w.service.rows[c.Key] = apply(w.service.rows[c.Key], c.Op, pairs)
	w.service.advance(c.Key)
}

// landLate has it land after its owner has given it up, or when that crashes: a crash
// forgets that it may.
func (w *callableWorld) landLate(f *flyingCall, after time.Duration) {
	landed := false
	once := func() {
		if !landed {
			landed = true
			w.land(&f.Write)
		}
	}
	w.late = append(w.late, once)
	go func() {
		time.Sleep(after)
		w.mu.Lock()
		defer w.mu.Unlock()
		once()
	}()
}

func (o *callableOwner) Drop(ctx context.Context, _ string) error {
	return dropFlying(ctx, &o.mu, o.flying)
}

// dropFlying drops the calls that have not started, and waits for the others.
func dropFlying(ctx context.Context, mu *sync.Mutex, flying map[*flyingCall]bool) error {
	mu.Lock()
	var started []*flyingCall
	for f := range flying {
		if f.started {
			started = append(started, f)
		} else {
			f.dropped = true
			delete(flying, f)
		}
	}
	mu.Unlock()
	for _, f := range started {
		select {
		case <-f.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// effect is a step that leaves the process, unless that has crashed.
func (o *callableOwner) effect(ctx context.Context, happen func() error) error {
	o.mu.Lock()
	if o.crashed {
		o.mu.Unlock()
		<-ctx.Done()
		return ctx.Err()
	}
	defer o.mu.Unlock()
	return happen()
}

func (o *callableOwner) note(imp contract.Import, rebuild bool, claims []Claim) error {
	for _, c := range claims {
		c := c.(*callableClaim)
		if c.a.dead {
			return errFenced
		}
		at := &o.committed[c.a.id]
		upTo := c.to
		if at.entry != nil {
			upTo = max(upTo, at.upTo)
		}
		at.entry, at.rebuild, at.upTo = &imp, rebuild, upTo
	}
	for _, a := range o.parts {
		a.commit()
	}
	return nil
}

func (o *callableOwner) Commit(ctx context.Context, imp contract.Import, claims []Claim) error {
	return o.effect(ctx, func() error { return o.note(imp, false, claims) })
}

func (o *callableOwner) StartOver(ctx context.Context, imp contract.Import, claims []Claim) error {
	return o.effect(ctx, func() error { o.again = true; return o.note(imp, true, claims) })
}

func (o *callableOwner) Confirm(ctx context.Context, _ contract.Import, claims []Claim) error {
	return o.effect(ctx, func() error {
		for _, c := range claims {
			c := c.(*callableClaim)
			if c.a.dead {
				return errFenced
			}
			c.released = true
			at := &o.committed[c.a.id]
			at.entry, at.upTo = nil, 0
		}
		for _, a := range o.parts {
			a.commit()
		}
		return nil
	})
}

func (o *callableOwner) Reconcile(context.Context, contract.Import, []Claim) error { return errFenced }

func (o *callableOwner) Unread(context.Context, contract.Import, map[Partition]int64) error {
	return errFenced
}

func (o *callableOwner) OutputFiles(context.Context, string, io.Writer) error { return errFenced }

func (o *callableOwner) SetApart(context.Context, contract.Import, []Claim, func(Partition) bool, func(Partition) bool) (bool, error) {
	return false, errFenced
}

func (o *callableOwner) Trigger(ctx context.Context, _, name string, open func() (io.ReadCloser, int64, error)) (id string, err error) {
	body, _, err := open()
	if err != nil {
		return "", err
	}
	defer func() { _ = body.Close() }()
	content, err := io.ReadAll(body)
	if err != nil {
		return "", err
	}
	return id, o.effect(ctx, func() error {
		o.imports++
		id = o.service.execute(opOf(name), string(content), nil)
		return nil
	})
}

func (o *callableOwner) Results(ctx context.Context, execution string) (r contract.Results, err error) {
	err = o.effect(ctx, func() error { r = o.service.results(execution); return nil })
	return r, err
}

// begin starts a process.
func (w *callableWorld) begin() *callableOwner {
	w.t.Helper()
	o := &callableOwner{callableWorld: w, ended: make(chan error, 1), flying: map[*flyingCall]bool{}}
	cfg := Config{
		Dir: filepath.Join(w.t.TempDir(), "spool"), MaxBytes: 1 << 20, Grace: grace, Gate: o, Log: slog.New(slog.DiscardHandler), Calls: o, LandsWithin: callTimeouts,
		Poll: retry.Backoff{Initial: 2 * time.Second, Max: time.Minute}, Retry: retry.Backoff{Initial: time.Second, Max: 30 * time.Second},
	}
	cfg.fakes()
	b, err := New(cfg, []files.Mapping{w.mapping}, o, o, o, rand.New(rand.NewPCG(w.rnd.Uint64(), 1)))
	if err != nil {
		w.t.Fatal(err)
	}
	o.batcher = b
	ctx, cancel := context.WithCancel(context.Background())
	o.cancel = cancel
	go func() { o.ended <- b.Run(ctx) }()
	o.assign()
	return o
}

// assign gives the owner the partitions as their ledgers are.
func (o *callableOwner) assign() {
	o.mu.Lock()
	o.again = false
	o.rewind()
	var adopted *Adopted
	for id := range o.parts {
		if o.parts[id] != nil {
			o.parts[id].dead = true
		}
		at := o.committed[id]
		a := &callableAssignment{
			o: o, id: id, next: at.offset, again: map[string]bool{}, before: map[int64]bool{}, pending: map[int64]bool{}, apart: map[int64]bool{},
		}
		for offset := range at.done {
			if offset >= at.offset {
				a.before[offset], a.restore = true, max(a.restore, offset+1)
			}
		}
		o.parts[id] = a
		if at.entry == nil {
			continue
		}
		if adopted == nil {
			adopted = &Adopted{Import: *at.entry, Rebuild: at.rebuild, UpTo: map[Partition]int64{}}
			adopted.Mapping, adopted.Rows, adopted.Bytes, adopted.ETL, adopted.Op = "", 0, 0, "", 0
		}
		cover := a.claim(a.next)
		cover.to = at.upTo
		adopted.Claims, adopted.UpTo[a] = append(adopted.Claims, cover), at.upTo
		if !at.rebuild {
			a.covers = at.upTo
		}
	}
	o.mu.Unlock()
	if adopted != nil {
		if err := o.batcher.Adopt(o.mapping.Name, *adopted); err != nil {
			o.t.Fatal(err)
		}
	}
}

// take gives the batcher the next record of a partition; false if there is none, or it
// has to wait.
func (o *callableOwner) take(id int) bool {
	a := o.parts[id]
	i := slices.IndexFunc(o.service.log, func(r record) bool { return r.partition == id && r.offset == a.next })
	if i < 0 {
		return false
	}
	r := o.service.log[i]
	if a.send(r) != nil {
		return false
	}
	o.mu.Lock()
	a.next++
	o.mu.Unlock()
	o.batcher.Passed(o.mapping.Name, a, r.offset+1)
	return true
}

func (a *callableAssignment) send(r record) error {
	done := a.before[r.offset]
	switch {
	case r.offset < a.covers && !done:
		a.o.batcher.Covered(a.o.mapping.Name, r.write, a, r.offset)
		return nil
	case done && !a.again[r.write.Key]:
		return nil
	case r.offset < a.restore:
		a.o.mu.Lock()
		a.again[r.write.Key] = true
		delete(a.before, r.offset)
		a.o.mu.Unlock()
	}
	return a.o.batcher.Offer(a.o.mapping.Name, r.write, a, r.offset, waiting.Offer{
		Callable: r.write.Op != schemas.Create && r.offset%7 != 0, Spare: true, Written: time.Now(), Bytes: 100,
		Pending: func() contract.Pending {
			a.o.mu.Lock()
			defer a.o.mu.Unlock()
			if a.pending[r.offset] {
				a.o.t.Errorf("record %d is pending twice", r.offset)
			}
			a.pending[r.offset] = true
			return &callablePending{a, r.offset, r.write.Key}
		},
	})
}

// crash ends a process at once: of its calls in flight some have landed.
func (o *callableOwner) crash() {
	o.mu.Lock()
	o.crashed = true
	o.crashes++
	for f := range o.flying {
		if f.started && o.rnd.IntN(2) == 0 {
			o.land(&f.Write)
		}
	}
	for _, land := range o.late {
		land()
	}
	for _, a := range o.parts {
		a.dead = true
	}
	o.late = nil
	o.mu.Unlock()
	o.cancel()
	if err := <-o.ended; err != nil {
		o.t.Error(err)
	}
}

// handOver gives the partitions back and takes them again.
func (o *callableOwner) handOver() {
	ctx, cancel := context.WithTimeout(context.Background(), 35*time.Second)
	defer cancel()
	o.batcher.HandOver(ctx, o.mapping.Name)
	if err := o.Drop(ctx, ""); err != nil {
		o.t.Error(err)
	}
	o.mu.Lock()
	for _, land := range o.late { // it is known no more that they may
		land()
	}
	o.late = nil
	for _, a := range o.parts {
		a.commit()
	}
	o.mu.Unlock()
	o.assign()
}

func (w *callableWorld) confirmedAll() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, at := range w.committed {
		if at.entry != nil || at.offset < w.service.ends[id] {
			return false
		}
	}
	return true
}

// live runs owners until all is confirmed.
func (w *callableWorld) live() {
	o := w.begin()
	turmoil := time.Now().Add(40 * time.Minute)
	for limit := time.Now().Add(30 * time.Hour); !w.confirmedAll(); {
		if time.Now().After(limit) {
			w.t.Fatalf("after 30 hours: got committed %+v, want everything confirmed", w.committed)
		}
		o.mu.Lock()
		step, wait := w.rnd.IntN(200), time.Duration(w.rnd.IntN(4000))*time.Millisecond
		again := o.again
		if step > 20 {
			for _, a := range o.parts {
				a.commit()
			}
		}
		o.mu.Unlock()
		switch {
		case again:
			lose(o.batcher, w.mapping.Name)
			_ = o.Drop(context.Background(), "")
			o.assign()
		case step == 0 && time.Now().Before(turmoil):
			o.crash()
			time.Sleep(session)
			o = w.begin()
		case step == 1 && time.Now().Before(turmoil):
			o.handOver()
		case step == 2:
			_, _ = o.batcher.Roll(w.mapping.Name, false)
		case step < 100:
			o.take(step % 2)
		}
		time.Sleep(wait)
		synctest.Wait()
	}
	o.cancel()
	if err := <-o.ended; err != nil {
		w.t.Error(err)
	}
	time.Sleep(callTimeouts) // until then, a call of an owner that crashed is kept in mind
	w.service.checkFinal()
	if n := o.batcher.Waiting(); n != 0 {
		w.t.Errorf("in the end: got %d records that wait for calls, want none", n)
	}
	if n := o.batcher.waiting.Load(); n != 0 {
		w.t.Errorf("in the end: got %d bytes of records that wait for calls, want none", n)
	}
}

// randomLog is records of two partitions, each with keys of its own. Each key is there
// before, and deleted once at most, so that its states can be told from each other.
func randomLog(rnd *rand.Rand) (log []string) {
	seen, gone, deleted := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range 120 {
		partition := rnd.IntN(2)
		key := fmt.Sprintf("%d%d", partition, rnd.IntN(6))
		switch n := rnd.IntN(10); {
		case !seen[key] || n < 4 && !gone[key]:
			log = append(log, fmt.Sprintf("%d patch %s b=%d", partition, key, i))
		case n < 6 && !deleted[key]:
			log = append(log, fmt.Sprintf("%d delete %s", partition, key))
			gone[key], deleted[key] = true, true
		default:
			log = append(log, fmt.Sprintf("%d upsert %s a=%d", partition, key, i))
			gone[key] = false
		}
		seen[key] = true
	}
	return log
}

// Whatever becomes of calls, files, processes and assignments: no key goes back to an
// older state, nothing is confirmed that has not landed, and all is in the end.
func TestRowsAndCallsOfAKeyNeverOvertakeEachOther(t *testing.T) {
	seeds := 25
	if testing.Short() {
		seeds = 8
	}
	calls, imports, crashes := 0, 0, 0
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(uint64(seed), 7))
			m := testMapping()
			m.Auto, m.CSV.Compression, m.Roll = true, "NONE", files.Roll{Rows: 4, Age: 10 * time.Minute}
			if seed%3 == 0 {
				m.MaxFile.Rows = 3
			}
			if seed%3 == 1 {
				m.Roll = files.Roll{Age: 3 * time.Minute}
			}
			w := &callableWorld{t: t, rnd: rnd, service: newService(t, randomLog(rnd)...), mapping: m, landed: map[string]int{}}
			w.service.replays = func(key string) bool { return w.service.reached[key] < w.landed[key] }
			w.live()
			calls, imports, crashes = calls+w.calls, imports+w.imports, crashes+w.crashes
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		})
	}
	t.Log(strings.TrimSpace(fmt.Sprintf("%d lives: %d calls, %d imports, %d crashes", seeds, calls, imports, crashes)))
	if calls == 0 || imports == 0 || crashes == 0 {
		t.Errorf("got %d calls, %d imports and %d crashes, want some of each", calls, imports, crashes)
	}
}
