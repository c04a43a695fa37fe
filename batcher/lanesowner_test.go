package batcher

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/schemas"
)

// lanesOwner is one life of the batch lane's process: the real batcher, fed as
// the pipeline feeds it.
type lanesOwner struct {
	*lanes
	routes  *routesOfLane // nil: they do not change
	version *routesVersion
	batcher *Batcher
	p       *lanesPartition
	gone    bool // killed: nothing leaves it any more
	again   bool // the ledger asks for a new assignment
	auto    lanesCalls
}

// lanesPartition is one assignment. It is guarded by lanes.mu.
type lanesPartition struct {
	o       *lanesOwner
	dead    bool
	tracker *ack.Tracker
	read    int64
	covered int64
	seen    ack.Ranges // what the other lane had confirmed when it was last looked at
	entry   *contract.Import
	state   ack.State
	upTo    int64
	since   int64
	apart   int64
	end     int64 // where the log ended when it began
	redo    bool  // what is confirmed beyond the watermark is done again
	waiting bool  // its next record waits for the other lane's routes
}

// String implements Named.
func (p *lanesPartition) String() string { return "log[0]" }

// Halted implements Named: what is halted is the other lane.
func (p *lanesPartition) Halted() string { return "" }

// Waits implements Named.
func (p *lanesPartition) Waits() string {
	p.o.mu.Lock()
	defer p.o.mu.Unlock()
	if p.waiting {
		return "the other lane has other routes"
	}
	return ""
}

type lanesClaim struct {
	p *lanesPartition
	c *ack.Claim
}

func (p *lanesPartition) Read() int64 {
	p.o.mu.Lock()
	defer p.o.mu.Unlock()
	return p.read
}

func (p *lanesPartition) Claim(offset int64) Claim {
	p.o.mu.Lock()
	defer p.o.mu.Unlock()
	return &lanesClaim{p, p.tracker.Claim(offset)}
}

func (c *lanesClaim) Extend(offset int64) {
	c.p.o.mu.Lock()
	defer c.p.o.mu.Unlock()
	c.c.Extend(offset)
}

func (c *lanesClaim) Close() {}

func (*lanesClaim) Oldest() (none time.Time) { return none }

func (c *lanesClaim) Live() bool {
	c.p.o.mu.Lock()
	defer c.p.o.mu.Unlock()
	return !c.p.dead
}

// runOwner is one life of the batch lane's process.
func (l *lanes) runOwner(ctx context.Context, mappings []files.Mapping, seed uint64) {
	l.own(ctx, &lanesOwner{lanes: l}, mappings, seed)
}

func (l *lanes) own(ctx context.Context, o *lanesOwner, mappings []files.Mapping, seed uint64) {
	cfg := Config{
		Dir: l.t.TempDir(), MaxBytes: 1 << 20, Grace: 5 * time.Second, Peer: o, Log: slog.New(slog.DiscardHandler),
		Poll: retry.Backoff{Initial: time.Second, Max: 5 * time.Second}, Retry: retry.Backoff{Initial: time.Second, Max: 5 * time.Second},
	}
	cfg.fakes()
	if o.lanes.auto {
		cfg.Calls, cfg.LandsWithin, o.auto.ctx = autoCalls{o}, 5*time.Second, ctx
	}
	if o.version != nil {
		cfg.ApartAfter = 5 * time.Second
	}
	if o.routes == nil {
		cfg.Records = o
	}
	b, err := New(cfg, mappings, o, o, o, rand.New(rand.NewPCG(seed, 1)))
	if err != nil {
		l.t.Error(err)
		return
	}
	o.batcher = b
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var ended sync.WaitGroup
	ended.Go(func() { _ = b.Run(running) })
	o.assign() //nolint:contextcheck // what was assigned before is lost at once
	for ctx.Err() == nil {
		_ = o.Look(ctx)
		o.step() //nolint:contextcheck // likewise
		_ = l.linger(ctx, 2*time.Second)
	}
	l.mu.Lock()
	o.gone, o.p.dead = true, true
	l.say("the owner is killed")
	l.mu.Unlock()
	stop()
	ended.Wait()
}

// assign takes the partition as its ledger is.
func (o *lanesOwner) assign() {
	lose(o.batcher, "customers")
	o.mu.Lock()
	if o.p != nil {
		o.p.dead = true
	}
	c, changed := o.batch, false
	if o.version != nil {
		c, changed = o.reroute()
	}
	p := &lanesPartition{o: o, tracker: ack.New(c.offset, c.done), read: min(c.offset, o.immediate.offset), apart: c.apart, end: int64(len(o.log))}
	o.p, o.again = p, false
	o.look()
	var adopted *Adopted
	if c.entry != nil {
		p.read = min(p.read, c.since)
		p.entry, p.state, p.upTo, p.since = c.entry, c.state, c.upTo, c.since
		adopted = &Adopted{
			Import: *c.entry, Rebuild: c.state == ack.Rebuild, Reconciling: c.state == ack.Reconciling, Changed: changed,
			UpTo: map[Partition]int64{p: c.upTo}, Claims: []Claim{&lanesClaim{p, p.tracker.Cover(c.upTo)}},
		}
		if c.state != ack.Rebuild {
			p.covered = c.upTo
		}
	}
	o.say("assigned: committed %d, reads from %d, import %v state %v up to %d", c.offset, p.read, c.entry != nil, c.state, c.upTo)
	o.mu.Unlock()
	if adopted != nil {
		if err := o.batcher.Adopt("customers", *adopted); err != nil {
			o.t.Error(err)
		}
	}
}

// step reads one record, if there is one, and commits now and then.
func (o *lanesOwner) step() {
	o.mu.Lock()
	again := o.again
	o.mu.Unlock()
	if again {
		o.assign()
	}
	if o.batcher.Ready() {
		o.mu.Lock()
		at, ok := o.p.read, o.p.read < int64(len(o.log)) && (o.p.apart == 0 || !o.halted())
		var w lanesWrite
		var done bool
		if ok {
			w, done = o.log[at], o.p.tracker.Done(at)
		}
		covered, repeated := at < o.p.covered, at < o.p.apart || o.lanes.auto && at < o.p.end
		o.mu.Unlock()
		if ok && o.routes != nil {
			o.takeRouted(w, at, done, covered)
		} else if ok {
			o.take(w, at, done, covered, repeated)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.rnd.IntN(3) == 0 {
		o.commit()
	}
	if o.routes != nil && o.rnd.IntN(3) == 0 {
		o.follow()
	}
}

func (o *lanesOwner) take(w lanesWrite, at int64, done, covered, repeated bool) {
	var err error
	mapping := o.mappingOf(w.Key)
	switch {
	case w.lane == schemas.Immediate:
		err = o.batcher.Other(mapping, w.Write, o.p, at, false)
	case done:
		o.batcher.Landed(mapping, w.Write, o.p, at)
	case covered:
		o.batcher.Covered(mapping, w.Write, o.p, at)
	case repeated:
		err = o.batcher.Repeat(mapping, w.Write, o.p, at)
	case o.lanes.auto:
		err = o.offer(mapping, w, at)
	default:
		err = o.batcher.Append(mapping, w.Write, o.p, at)
	}
	if errors.Is(err, ErrBusy) {
		return
	}
	if err != nil {
		o.t.Error(err)
	}
	o.passed(at + 1)
}

// mappingOf is the mapping of a key: of a bundle there are two.
func (o *lanesOwner) mappingOf(key string) string {
	if strings.HasPrefix(key, "o") {
		return "orders"
	}
	return "customers"
}

func (o *lanesOwner) passed(next int64) {
	o.mu.Lock()
	o.p.read = next
	o.p.tracker.Advance(next)
	o.mu.Unlock()
	o.batcher.Passed("customers", o.p, next)
}

// commit writes offset and ledger, the lock held.
func (o *lanesOwner) commit() {
	p := o.p
	if p.tracker.Watermark() >= p.apart {
		p.apart = 0
	}
	o.batch = lanesCommit{
		offset: p.tracker.Watermark(), done: append(ack.Ranges(nil), p.tracker.Confirmed()...),
		entry: p.entry, state: p.state, upTo: p.upTo, since: p.since, apart: p.apart,
	}
	if p.redo {
		o.batch.done = nil
	}
	if o.routes != nil {
		o.commitRoutes()
	}
}

// write is a step of an import's life; a process that dies may have got it through.
func (o *lanesOwner) write(ctx context.Context, what string, claims []Claim, change func(p *lanesPartition)) error {
	if err := o.linger(ctx, time.Second); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gone {
		return errFenced
	}
	for _, c := range claims {
		if c.(*lanesClaim).p.dead {
			return errFenced
		}
	}
	change(o.p)
	o.commit()
	o.say("ledger: %s, committed %d", what, o.batch.offset)
	return nil
}

// enter notes the import with what it covers.
func (o *lanesOwner) enter(imp contract.Import, state ack.State, claims []Claim) func(*lanesPartition) {
	return func(p *lanesPartition) {
		since, upTo := int64(0), int64(0)
		if len(o.p.seen) > 0 && o.p.seen[0].From == 0 {
			since = o.p.seen[0].To
		}
		for _, c := range claims {
			upTo = max(upTo, c.(*lanesClaim).c.Span().To)
		}
		if p.entry != nil {
			since, upTo = min(since, p.since), max(upTo, p.upTo)
		}
		if state == ack.Intended && imp.Execution != "" {
			state = ack.Running
		}
		p.entry, p.state, p.upTo, p.since = &imp, state, upTo, since
	}
}

func (o *lanesOwner) Commit(ctx context.Context, imp contract.Import, claims []Claim) error {
	return o.write(ctx, "import "+imp.File+imp.Execution, claims, o.enter(imp, ack.Intended, claims))
}

func (o *lanesOwner) Reconcile(ctx context.Context, imp contract.Import, claims []Claim) error {
	return o.write(ctx, "settling "+imp.Execution, claims, o.enter(imp, ack.Reconciling, claims))
}

func (o *lanesOwner) StartOver(ctx context.Context, imp contract.Import, claims []Claim) error {
	return o.write(ctx, "start over", claims, func(p *lanesPartition) {
		o.enter(imp, ack.Rebuild, claims)(p)
		o.again = true
		if imp.Part == 0 {
			p.entry, p.upTo, p.since = nil, 0, math.MaxInt64
		}
		if imp.Rerouted {
			o.routes.own.Resend, p.redo = max(o.routes.own.Resend, int64(len(o.log))), true
		}
	})
}

func (o *lanesOwner) Unread(ctx context.Context, _ contract.Import, ends map[Partition]int64) error {
	return o.write(ctx, "leave unread", nil, func(p *lanesPartition) {
		o.unread++
		o.say("not read up to %d", ends[p])
		o.routes.own.Resend = max(o.routes.own.Resend, ends[p])
	})
}

func (o *lanesOwner) SetApart(ctx context.Context, imp contract.Import, claims []Claim, apart, _ func(Partition) bool) (bool, error) {
	if len(claims) == 0 || !apart(claims[0].(*lanesClaim).p) {
		return false, o.Confirm(ctx, imp, claims)
	}
	o.setApart.Add(1)
	return true, o.write(ctx, "set apart", claims, func(p *lanesPartition) {
		o.enter(imp, ack.SetApart, claims)(p)
		p.apart = max(p.apart, p.upTo)
		p.entry, p.upTo, p.since, o.again = nil, 0, math.MaxInt64, true
	})
}

func (o *lanesOwner) Confirm(ctx context.Context, imp contract.Import, claims []Claim) error {
	return o.write(ctx, "confirm "+imp.Execution, claims, func(p *lanesPartition) {
		p.entry, p.upTo, p.since = nil, 0, math.MaxInt64
		before := p.tracker.Watermark()
		for _, c := range claims {
			p.tracker.Release(c.(*lanesClaim).c)
		}
		for at := before; at < p.tracker.Watermark(); at++ {
			if w := &o.log[at]; o.routes == nil && w.lane == schemas.Batch && o.tried[w.Key] < int(at) && !o.dead[at] {
				o.t.Errorf("record %d of %s: got confirmed while the table has met record %d at most, want nothing confirmed that is neither there nor overruled nor a dead letter", at, w.Key, o.tried[w.Key])
			}
		}
	})
}

func (o *lanesOwner) Trigger(ctx context.Context, _, name string, open func() (io.ReadCloser, int64, error)) (string, error) {
	body, _, err := open()
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(body)
	if err := errors.Join(err, body.Close()); err != nil {
		return "", err
	}
	if err := o.linger(ctx, time.Second); err != nil {
		return "", err
	}
	o.mu.Lock()
	gone := o.gone
	o.mu.Unlock()
	if gone {
		<-ctx.Done()
		return "", ctx.Err()
	}
	text := string(content)
	if o.bundle { // both tables have the same columns, and keys of their own
		entries := archived(o.t, content)
		_, rows, _ := strings.Cut(entries[1].text, "\n")
		text = entries[0].text + rows
	}
	if rows := int64(strings.Count(text, "\n") - 1); o.maxRows > 0 && rows > o.maxRows {
		o.t.Errorf("%s: got %d rows, want at most %d", name, rows, o.maxRows)
	}
	id := o.execute(context.WithoutCancel(ctx), opOf(name), text) // it goes on without us
	return id, o.linger(ctx, time.Second)
}

func (o *lanesOwner) Results(_ context.Context, execution string) (contract.Results, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	e := o.execution(execution)
	return contract.Results{Status: e.status, Read: -1, InError: int64(len(e.inError))}, nil
}

// execution is one that was begun, the lock held.
func (l *lanes) execution(id string) *lanesExecution {
	n, err := strconv.Atoi(id[1:])
	if err != nil {
		l.t.Fatal(err)
	}
	return l.executions[n-1]
}

func (o *lanesOwner) OutputFiles(_ context.Context, execution string, to io.Writer) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := "k,error\n"
	for _, key := range o.execution(execution).inError {
		text += key + ",not there\n"
	}
	_, err := io.WriteString(to, text)
	return err
}

func (o *lanesOwner) RowsUnmatched(contract.Import, int64) {}

// calledApart reports whether a row was confirmed by its call, whatever claim spans it.
func (o *lanesOwner) calledApart(at int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lanes.auto && o.log[at].lane == schemas.Batch && o.p.tracker.Apart(at)
}

// Again reads the records that the claims hold.
func (o *lanesOwner) Again(ctx context.Context, _ contract.Import, claims []Claim, each contract.EachWrite) error {
	if err := o.linger(ctx, time.Second); err != nil {
		return err
	}
	o.mu.Lock()
	held, log := claims[0].(*lanesClaim).c.Span(), slices.Clone(o.log)
	for _, c := range claims {
		span := c.(*lanesClaim).c.Span()
		held.From, held.To = min(held.From, span.From), max(held.To, span.To)
	}
	o.mu.Unlock()
	var dead []int64
	for at := held.From; at < min(held.To, int64(len(log))); at++ {
		if o.calledApart(at) {
			continue
		}
		if w := &log[at]; each(o.mappingOf(w.Key), w.lane, &w.Write, spool.At{Offset: at, Of: o.p}) != "" && w.lane == schemas.Batch {
			dead = append(dead, at)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gone {
		return errFenced
	}
	for _, at := range dead {
		o.dead[at] = true
		o.say("dead letter of %d", at)
	}
	return nil
}

func (o *lanesOwner) Unmatched(_ context.Context, imp contract.Import, rows []contract.UnmatchedRow) error {
	o.t.Errorf("rows of %s that match no record: got %d, want none", imp.File, len(rows))
	return nil
}

func (o *lanesOwner) ImportEnded(contract.Import, contract.Results, time.Duration) {}

// look notes what the other lane has committed, the lock held.
func (o *lanesOwner) look() {
	if o.routes != nil {
		o.routes.look(o.lanes, filed)
	}
	o.p.seen = ack.Ranges{}.Add(ack.Range{From: 0, To: o.immediate.offset})
	for _, r := range o.immediate.done {
		o.p.seen = o.p.seen.Add(r)
	}
}

func (o *lanesOwner) Look(ctx context.Context) error {
	if err := o.linger(ctx, time.Second); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.look()
	return nil
}

func (o *lanesOwner) Confirmed(p Partition, offset int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return p.(*lanesPartition).seen.Contains(offset)
}

func (o *lanesOwner) Refused(_ Partition, offset int64) (may, is bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	is = o.immediate.refused.Contains(offset)
	if o.coarse {
		return is || o.immediate.refused.Contains(offset-1) || o.immediate.refused.Contains(offset+1), false
	}
	return is, is
}

func (o *lanesOwner) Halted(p Partition) bool {
	_, ok := p.(*lanesPartition)
	return ok && o.halted()
}

func (o *lanesOwner) Ends(ctx context.Context, _ string) (map[Partition]int64, error) {
	o.mu.Lock()
	ends := map[Partition]int64{o.p: int64(len(o.log)), &partition{}: 0}
	o.mu.Unlock()
	return ends, o.linger(ctx, time.Second)
}

func (o *lanesOwner) Apply(ctx context.Context, _ string, writes []schemas.Write) (nothing []int, err error) {
	for _, w := range writes {
		if !w.Table.Custom && w.Op != schemas.Upsert && (w.ProfileID == "" || w.Op == schemas.Merge) {
			return nil, errAbsent
		}
	}
	for i, w := range writes {
		for {
			err := o.call(ctx, &w, "settler")
			if errors.Is(err, errAbsent) {
				nothing = append(nothing, i)
				break
			}
			if err == nil {
				break
			}
			if isRefusal(err) {
				return nothing, err
			}
			if ctx.Err() != nil {
				return nothing, ctx.Err()
			}
			_ = o.linger(ctx, 5*time.Second)
		}
	}
	return nothing, nil
}
