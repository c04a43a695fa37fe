package batcher

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/schemas"
)

// lanes is what outlives the processes of one run: the log of one partition, what
// both lanes have committed of it, and the service with its table. Everything
// takes a random time, so that each seed is another interleaving.
type lanes struct {
	t       *testing.T
	custom  bool          // a custom table, of which an upsert may name some properties only
	keeps   bool          // its operation 4 keeps the others
	bundle  bool          // two tables, whose files go as one
	halts   time.Duration // when the immediate lane is halted for a while; 0: it is not
	maxRows int64         // of a file; 0: any number
	flips   *flips        // nil: the routes do not change
	auto    bool          // rows may be called instead
	refuses bool          // the service refuses some of the immediate lane's upserts
	rowsToo bool          // and of the batch lane's, as rows and as calls
	coarse  bool          // which of them, the ledger says only by ranges
	parts   bool          // records are written to another table too, and confirmed only then

	setApart *atomic.Int64 // times that it happened, in all runs
	called   *atomic.Int64 // rows that were, in all runs
	unread   int           // times that an import was confirmed without reading on

	mu         sync.Mutex
	rnd        *rand.Rand
	log        []lanesWrite
	table      map[string]row
	executions []*lanesExecution
	failing    int            // executions that may still end FAILED
	tried      map[string]int // by key: the newest write that has met the table
	dead       map[int64]bool // records that are dead letters

	immediate struct {
		committed bool
		offset    int64
		done      ack.Ranges
		refused   ack.Ranges
		routes    ack.Routes
	}
	batch lanesCommit
	tale  []string

	refusedNow ack.Ranges // what the immediate lane commits next as refused
}

type lanesWrite struct {
	schemas.Write
	lane schemas.Lane
}

// lanesCommit is what the batch lane has committed.
type lanesCommit struct {
	committed bool
	offset    int64
	done      ack.Ranges
	routes    ack.Routes
	entry     *contract.Import
	state     ack.State
	upTo      int64
	since     int64
	apart     int64 // records below may have landed; 0: none
}

type lanesExecution struct {
	status  contract.Status
	ended   chan struct{}
	inError []string // keys of patches that found nothing; of bundles, and where routes change, they are not told
}

func (l *lanes) say(format string, args ...any) {
	l.tale = append(l.tale, fmt.Sprintf("%12v ", time.Since(epoch))+fmt.Sprintf(format, args...))
}

// epoch is when every synctest bubble begins.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// chance is true in so many cases of a hundred.
func (l *lanes) chance(percent int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rnd.IntN(100) < percent
}

// linger takes a random time; mostly short, sometimes long.
func (l *lanes) linger(ctx context.Context, most time.Duration) error {
	l.mu.Lock()
	d := time.Duration(l.rnd.Int64N(int64(most)))
	if l.rnd.IntN(3) > 0 {
		d /= 20
	}
	l.mu.Unlock()
	return retry.Sleep(ctx, d)
}

// errAbsent is the service's 404.
var errAbsent = errors.New("not found")

func isRefusal(err error) bool {
	_, yes := errors.AsType[*refusal](err)
	return yes
}

// errAway is a failure of which nobody knows whether the call was carried out.
var errAway = errors.New("no answer")

// call carries out one call; a process that dies meanwhile may have had it carried
// out or not.
func (l *lanes) call(ctx context.Context, w *schemas.Write, who string) error {
	if err := l.linger(ctx, 2*time.Second); err != nil && l.chance(50) {
		return err
	}
	if l.chance(10) {
		return errAway
	}
	l.mu.Lock()
	err := error(&refusal{})
	if !l.isRefused(w) {
		err = l.land(w, schemas.Immediate)
	}
	l.say("%s calls %v %s %s: %v", who, w.Op, w.Key, cellsOf(w), err)
	l.mu.Unlock()
	if l.chance(10) {
		return errAway
	}
	if gone := l.linger(ctx, time.Second); gone != nil {
		return gone
	}
	return err
}

// isRefused reports whether the service refuses the write: each fifth record is one of those, if it is
// the immediate lane's, or those of both are.
func (l *lanes) isRefused(w *schemas.Write) bool {
	return l.refuses && slices.ContainsFunc(w.Cells, func(c schemas.Cell) bool {
		at := l.place(&schemas.Write{Cells: []schemas.Cell{c}})
		return at%5 == 0 && (l.rowsToo || l.log[at].lane == schemas.Immediate)
	})
}

// land does to the table what a write means, as a call or as a row.
func (l *lanes) land(w *schemas.Write, lane schemas.Lane) error {
	l.tried[w.Key] = max(l.tried[w.Key], l.place(w))
	was, there := l.table[w.Key]
	next := row{}
	switch {
	case w.Op == schemas.Delete:
		delete(l.table, w.Key)
		return nil
	case w.Op == schemas.Patch && !there:
		return errAbsent
	case w.Op.Partial(), lane == schemas.Batch, l.custom && l.keeps:
		maps.Copy(next, was)
	}
	for _, c := range w.Cells {
		next[c.Name] = c.Value.Text()
	}
	l.table[w.Key] = next
	return nil
}

// place is where in the log a write is from: its values tell, or it is the newest
// delete of its key.
func (l *lanes) place(w *schemas.Write) (newest int) {
	for i := range l.log {
		if w.Op == schemas.Delete && l.log[i].Op == w.Op && l.log[i].Key == w.Key {
			newest = i
		}
	}
	for _, c := range w.Cells {
		n, err := strconv.Atoi(c.Value.Text()[1:])
		if err != nil {
			l.t.Errorf("value %q: %v", c.Value.Text(), err)
		}
		newest = max(newest, n)
	}
	return newest
}

func cellsOf(w *schemas.Write) string {
	var all []string
	for _, c := range w.Cells {
		all = append(all, c.Name+"="+c.Value.Text())
	}
	return strings.Join(all, " ")
}

// execute takes a file and lands its rows in its own time, after those of the files
// before it: one whose trigger was not answered may be there twice.
func (l *lanes) execute(ctx context.Context, op schemas.Op, content string) string {
	lines, err := csv.NewReader(strings.NewReader(content)).ReadAll()
	if err != nil {
		l.t.Error(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &lanesExecution{status: contract.InProgress, ended: make(chan struct{})}
	before := append([]*lanesExecution(nil), l.executions...)
	l.executions = append(l.executions, e)
	id := fmt.Sprint("e", len(l.executions))
	l.say("%s begins: %v %v", id, op, lines[1:])
	fails := l.failing > 0 && l.rnd.IntN(4) == 0
	if fails {
		l.failing--
	}
	go func() {
		defer close(e.ended)
		for _, older := range before {
			<-older.ended
		}
		for _, line := range lines[1:] {
			_ = l.linger(ctx, 20*time.Second)
			if fails && l.chance(30) {
				break
			}
			w := schemas.Write{Op: op, Key: line[0]}
			for i := 1; i < len(line); i++ {
				if line[i] != "" {
					w.Cells = append(w.Cells, schemas.Cell{Place: &schemas.Place{Name: lines[0][i]}, Value: schemas.StringValue(line[i])})
				}
			}
			l.mu.Lock()
			err := error(&refusal{})
			if !l.isRefused(&w) {
				err = l.land(&w, schemas.Batch)
			}
			l.say("%s lands %v %v: %v", id, op, line, err)
			if err != nil && !l.bundle && l.flips == nil {
				e.inError = append(e.inError, w.Key)
			}
			l.mu.Unlock()
		}
		_ = l.linger(ctx, 20*time.Second)
		l.mu.Lock()
		defer l.mu.Unlock()
		e.status = contract.Finished
		if fails {
			e.status = contract.Failed
		}
		l.say("%s is %s", id, e.status)
	}()
	return id
}

// want is the table as the log's order leaves it, without these records.
func (l *lanes) want(without map[int64]bool) map[string]row {
	return l.before(int64(len(l.log)), without)
}

// before is the same before the record at an offset.
func (l *lanes) before(at int64, without map[int64]bool) map[string]row {
	model := &lanes{custom: l.custom, keeps: l.keeps, table: map[string]row{}, tried: map[string]int{}}
	for i := range l.log[:at] {
		if !without[int64(i)] && !l.flips.skipped(int64(i)) {
			_ = model.land(&l.log[i].Write, l.log[i].lane)
		}
	}
	return model.table
}

// halted reports whether the immediate lane stands still.
func (l *lanes) halted() bool {
	since := time.Since(epoch)
	return l.halts > 0 && since > l.halts && since < l.halts+5*time.Minute
}

// runImmediate is one life of the immediate lane's process.
func (l *lanes) runImmediate(ctx context.Context) {
	var keys keyQueues
	defer keys.end()
	again := olderKeys{}
	l.mu.Lock()
	tracker := ack.New(l.immediate.offset, l.immediate.done)
	next := l.immediate.offset
	l.mu.Unlock()
	commit := func() {
		l.immediate.offset, l.immediate.done = tracker.Watermark(), append(ack.Ranges(nil), tracker.Confirmed()...)
		l.immediate.refused = slices.Clone(l.refusedNow)
	}
	for ctx.Err() == nil {
		l.mu.Lock()
		var todo func()
		var key string
		if next < int64(len(l.log)) && !l.halted() {
			w, at := l.log[next], next
			if w.lane == schemas.Immediate && again.sends(tracker, w.Key, at) {
				e := new(ack.Entry)
				tracker.Track(e, at)
				key = w.Key
				confirm := l.onceElsewhere(ctx, &keys.working, func() { tracker.Confirm(e) })
				todo = func() { l.bring(ctx, w.Write, at, false, confirm) }
			}
			next++
			tracker.Advance(next)
		}
		if l.rnd.IntN(3) == 0 {
			commit()
		}
		l.mu.Unlock()
		if todo != nil {
			keys.add(key, todo)
		}
		_ = l.linger(ctx, 2*time.Second)
	}
}

// keyQueues do what is to be done for a key one after the other.
type keyQueues struct {
	byKey   map[string]chan func()
	working sync.WaitGroup
}

func (q *keyQueues) add(key string, todo func()) {
	if q.byKey == nil {
		q.byKey = map[string]chan func(){}
	}
	queue := q.byKey[key]
	if queue == nil {
		queue = make(chan func(), 1000)
		q.byKey[key] = queue
		q.working.Go(func() {
			for todo := range queue {
				todo()
			}
		})
	}
	queue <- todo
}

// end waits until everything is done.
func (q *keyQueues) end() {
	for _, queue := range q.byKey {
		close(queue)
	}
	q.working.Wait()
}

// bring calls until the write has landed or is a dead letter. passed says that no
// row that is older is on its way.
func (l *lanes) bring(ctx context.Context, w schemas.Write, at int64, passed bool, confirm func()) {
	const lastTries = 3 // once no older row is on its way: one may fall between two calls of the other lane
	tries := 0
	for since := time.Now(); ctx.Err() == nil; {
		for l.halted() && ctx.Err() == nil {
			_ = l.linger(ctx, 10*time.Second)
		}
		err := l.call(ctx, &w, fmt.Sprint("immediate@", at))
		if ctx.Err() != nil {
			return
		}
		l.mu.Lock()
		b := &l.batch
		reconciling := b.entry != nil && b.state == ack.Reconciling && at < b.upTo
		missing := errors.Is(err, errAbsent) && passed && l.flips == nil && !l.isVoid(at) && !l.madeVoid(at)
		switch {
		case missing && reconciling && time.Since(since) < time.Hour: // the batch lane brings the row back
			tries = 0
		case missing && tries < lastTries:
			tries++
		case err == nil, isRefusal(err), errors.Is(err, errAbsent) && passed:
			if missing || isRefusal(err) {
				l.dead[at] = true
				l.say("dead letter of %d", at)
			}
			if isRefusal(err) {
				l.refusedNow = l.refusedNow.Add(ack.Range{From: at, To: at + 1})
			}
			confirm()
			l.mu.Unlock()
			return
		}
		if errors.Is(err, errAbsent) {
			passed = at < b.offset || reconciling
		}
		l.mu.Unlock()
		_ = l.linger(ctx, 10*time.Second)
	}
}
