package batcher

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/schemas"
)

// TestBothLanesLeaveTheNewestState explores interleavings: an immediate lane and
// an owner of the batch lane, each killed and started again, a service that is
// slow, fails, loses answers and lets files FAIL half loaded. In every other run the
// immediate lane is halted for a while, and the partition set apart. Whatever happens,
// the table ends as the order of the log says.
func TestBothLanesLeaveTheNewestState(t *testing.T) {
	const seeds = 100
	for _, c := range []struct {
		name                  string
		custom, keeps, bundle bool
		auto                  bool
	}{
		{"profiles", false, false, false, false},
		{"table records, operation 4 replaces", true, false, false, false},
		{"table records, operation 4 keeps", true, true, false, false},
		{"profiles of two tables in a bundle", false, false, true, false},
		{"profiles, auto", false, false, false, true},
		{"table records, operation 4 replaces, auto", true, false, false, true},
		{"table records, operation 4 keeps, auto", true, true, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var setApart, called atomic.Int64
			for seed := range uint64(seeds) {
				l := &lanes{t: t, custom: c.custom, keeps: c.keeps, bundle: c.bundle, halts: time.Duration(seed%2*(seed%9+1)) * 20 * time.Second, auto: c.auto, setApart: &setApart, called: &called}
				synctest.Test(t, func(*testing.T) { l.explore(seed) })
				if t.Failed() {
					t.Fatalf("seed %d\n%s", seed, strings.Join(l.tale, "\n"))
				}
			}
			if setApart.Load() == 0 {
				t.Error("the partition was never set apart: got a test that tells nothing of it")
			}
			if c.auto && called.Load() < seeds {
				t.Errorf("got %d rows called in %d runs, want more", called.Load(), seeds)
			}
		})
	}
}

func (l *lanes) explore(seed uint64) {
	l.begin(seed, 7)
	m := l.mapping()
	mappings := []files.Mapping{m}
	if l.bundle {
		mappings = bundled(m)
	}
	lives := uint64(0)
	l.run(25, func() {}, l.allConfirmed,
		func(storm, living context.Context) { l.lives(storm, living, l.runImmediate) },
		func(storm, living context.Context) {
			l.lives(storm, living, func(ctx context.Context) { lives++; l.runOwner(ctx, mappings, seed<<8+lives) })
		})
}

// begin is how each run begins.
func (l *lanes) begin(seed, stream uint64) {
	l.rnd = rand.New(rand.NewPCG(seed, stream))
	l.maxRows = int64(seed % 3) // of so few keys
	l.table, l.tried, l.dead, l.failing = map[string]row{}, map[string]int{}, map[int64]bool{}, 2
}

// run has so many records come in while both lanes live, in a storm at first. calming
// is called with the lock held when it passes. Once the lanes have arrived the table
// must be what the log's order says.
func (l *lanes) run(records int, calming func(), arrived func() bool, lives ...func(storm, living context.Context)) {
	storm, calm := context.WithCancel(context.Background())
	living, end := context.WithCancel(context.Background())
	var world sync.WaitGroup
	for _, life := range lives {
		world.Go(func() { life(storm, living) })
	}
	l.produce(records)
	_ = retry.Sleep(storm, time.Minute)
	l.mu.Lock()
	calming()
	l.mu.Unlock()
	calm() // from here on nobody is killed
	deadline := time.Now().Add(6 * time.Hour)
	await := func() {
		for !arrived() && time.Now().Before(deadline) {
			time.Sleep(time.Second)
		}
	}
	await()
	all := arrived()
	time.Sleep(time.Minute) // the lanes look at each other once more, and may read again
	await()
	end()
	world.Wait()
	time.Sleep(time.Hour) // executions that nobody waits for
	l.mu.Lock()
	defer l.mu.Unlock()
	if !all {
		l.t.Errorf("after six hours: got committed %d and %d of %d, want all", l.immediate.offset, l.batch.offset, len(l.log))
	}
	if l.refuses {
		l.noneLost()
		return
	}
	if want := l.want(nil); !reflect.DeepEqual(l.table, want) {
		l.t.Errorf("table:\n got %v\nwant %v\nlog %s", l.table, want, l.written())
	}
	for _, at := range slices.Sorted(maps.Keys(l.dead)) {
		// A patch that was called and is sent once more after a kill finds nothing behind a newer delete.
		if !l.isVoid(at) && (!l.auto || l.log[at].Op != schemas.Patch || !l.madeVoid(at)) {
			l.t.Errorf("record %d is a dead letter: got %v of %s, want only patches of what is not there\nlog %s", at, l.log[at].Op, l.log[at].Key, l.written())
		}
	}
	if got, want := l.want(l.dead), l.want(nil); !reflect.DeepEqual(got, want) {
		l.t.Errorf("table without the records %v, which are dead letters:\n got %v\nwant %v\nlog %s", slices.Sorted(maps.Keys(l.dead)), got, want, l.written())
	}
}

// TestRowLeftOutForAWriteThatIsRefusedIsADeadLetter explores the same where the service refuses
// some of the upserts in favour of which rows are left out of their files, and in every other run rows,
// too: each record is in the table, was replaced by one that is newer, or is a dead letter.
func TestRowLeftOutForAWriteThatIsRefusedIsADeadLetter(t *testing.T) {
	const seeds = 300
	left := 0
	for seed := range uint64(seeds) {
		l := &lanes{
			t: t, refuses: true, rowsToo: seed%3 != 1 && seed/6%2 == 1, coarse: seed%2 == 1, bundle: seed%3 == 1, auto: seed%3 == 2, setApart: new(atomic.Int64), called: new(atomic.Int64),
		}
		synctest.Test(t, func(*testing.T) { l.explore(seed) })
		for at := range l.dead {
			if l.log[at].lane == schemas.Batch {
				left++
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d\n%s", seed, strings.Join(l.tale, "\n"))
		}
	}
	if left == 0 {
		t.Error("got no dead letter of a row: a test that tells nothing")
	}
}

// noneLost checks that each record is in the table, or one that replaces it, or is a dead letter.
func (l *lanes) noneLost() {
	for at, w := range l.log {
		row, in := l.table[w.Key], -1
		if row != nil {
			in = l.place(&schemas.Write{Cells: []schemas.Cell{{Value: schemas.StringValue(row["a"])}}})
		}
		if in < at && !l.dead[int64(at)] {
			l.t.Errorf("record %d of %s: got neither it nor a newer one in the table, but %v, and no dead letter\nlog %s", at, w.Key, row, l.written())
		}
	}
}

func (l *lanes) mapping() files.Mapping {
	return files.Mapping{
		Name: "customers", Table: schemas.Table{Name: "customers", Custom: l.custom}, DualLane: true, Auto: l.auto, RetryFailed: 5,
		Key:     spool.Key{Section: schemas.Attributes, Name: "k"},
		Columns: []spool.Column{{Header: "k", Section: schemas.Attributes, Name: "k"}, {Header: "a", Section: schemas.Attributes, Name: "a"}, {Header: "b", Section: schemas.Attributes, Name: "b"}},
		CSV:     spool.CSV{Separator: ",", Enclosing: `"`, Encoding: "UTF-8", Compression: "NONE"},
		Roll:    files.Roll{Rows: 6, Bytes: 1 << 20, Age: 15 * time.Second},
		MaxFile: spool.Limit{Rows: l.maxRows},
		Loads: map[schemas.Op]files.Load{
			schemas.Upsert: {ETL: "1", Mode: "CREATE_OR_UPDATE"}, schemas.Patch: {ETL: "2", Mode: "UPDATE_ONLY"}, schemas.Delete: {ETL: "3", Mode: "DELETE"},
			schemas.Merge: {ETL: "4", Mode: "CREATE_OR_UPDATE"},
		},
	}
}

// lives runs one life after the other. In the storm each is killed at a random
// time; the one that lives when it has passed goes on to the end.
func (l *lanes) lives(storm, living context.Context, life func(context.Context)) {
	for living.Err() == nil {
		ctx, kill := context.WithCancel(living)
		ended := make(chan struct{})
		go func() { life(ctx); close(ended) }()
		if storm.Err() == nil {
			_ = l.linger(storm, 5*time.Minute)
		}
		if storm.Err() != nil {
			<-ended
		}
		kill()
		<-ended
	}
}

// produce writes to the log: few keys, so that they meet.
func (l *lanes) produce(n int) {
	model := &lanes{custom: l.custom, keeps: l.keeps, table: map[string]row{}, tried: map[string]int{}}
	patchedNothing := map[string]bool{} // keys that are not there, since they were patched
	for i := range n {
		_ = l.linger(context.Background(), 15*time.Second)
		l.mu.Lock()
		w := lanesWrite{lane: schemas.Lane(1 + l.rnd.IntN(2))}
		w.Table = schemas.Table{Name: "customers", Custom: l.custom}
		keys := 3
		if l.auto { // rows that are called are those of keys of which the other lane is done
			keys = 5
			if l.rnd.IntN(2) == 0 {
				w.lane = schemas.Batch
			}
		}
		w.Key = fmt.Sprint("k", l.rnd.IntN(keys))
		if l.bundle && l.rnd.IntN(2) == 0 {
			w.Key = "o" + w.Key
		}
		w.Op = []schemas.Op{schemas.Upsert, schemas.Upsert, schemas.Patch, schemas.Patch, schemas.Merge, schemas.Delete}[l.rnd.IntN(6)]
		if l.refuses { // a write that replaces what is older, so that it shows what has met the table
			w.Op = schemas.Upsert
		}
		if w.Op == schemas.Merge && !l.custom {
			if l.flips != nil {
				w.Op = schemas.Upsert // not all routes of theirs lead to a file
			} else {
				w.lane = schemas.Batch // no call says it
			}
		}
		_, there := model.table[w.Key]
		switch {
		case l.keeps && w.Op == schemas.Patch && !there:
			// A call that waits may find a row that a newer, partial upsert has made by then.
			w.Op = schemas.Upsert
		case w.Op == schemas.Merge && patchedNothing[w.Key]:
			w.Op = schemas.Upsert // of what a merge has made, a patch that waits may change something
		}
		switch {
		case l.flips.skipped(int64(i)):
		case w.Op != schemas.Patch:
			delete(patchedNothing, w.Key)
		case !there:
			patchedNothing[w.Key] = true
		}
		if (w.lane == schemas.Immediate || l.flips != nil && !l.flips.noIDs) && w.Op != schemas.Upsert {
			w.ProfileID = "id-" + w.Key
		}
		// A row names all columns: of two in one file the newer takes the place of the older.
		names := []string{"a", "b"}
		if some := l.rnd.IntN(2); w.Op.Partial() || l.custom && l.flips == nil && w.lane == schemas.Immediate && l.rnd.IntN(2) == 0 {
			names = names[some : some+1]
		}
		for _, name := range names {
			if w.Op != schemas.Delete {
				w.Cells = append(w.Cells, schemas.Cell{Place: &schemas.Place{Section: schemas.Attributes, Name: name}, Value: schemas.StringValue(fmt.Sprint(name, i))})
			}
		}
		l.log = append(l.log, w)
		if !l.flips.skipped(int64(i)) {
			_ = model.land(&w.Write, w.lane)
		}
		l.say("log %d: %v %v %s %s", i, w.lane, w.Op, w.Key, cellsOf(&w.Write))
		l.mu.Unlock()
	}
}

// isVoid reports whether a record patches what is not there in the order of the log.
func (l *lanes) isVoid(at int64) bool {
	_, there := l.before(at, nil)[l.log[at].Key]
	return l.log[at].Op == schemas.Patch && !there
}

// madeVoid reports whether a newer write leaves nothing of the record's patch.
func (l *lanes) madeVoid(at int64) bool {
	return slices.ContainsFunc(l.log[at+1:], func(w lanesWrite) bool {
		return w.Key == l.log[at].Key && (w.Op == schemas.Delete || w.Op == schemas.Upsert && (!l.custom || schemas.Covers(w.Cells, l.log[at].Cells)))
	})
}

func (l *lanes) allConfirmed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := int64(len(l.log))
	return l.immediate.offset == n && l.batch.offset == n && l.batch.entry == nil
}

func (l *lanes) written() string {
	var all []string
	for i := range l.log {
		w := &l.log[i]
		all = append(all, fmt.Sprintf("%d %v %v %s %s", i, w.lane, w.Op, w.Key, cellsOf(&w.Write)))
	}
	return strings.Join(all, "\n    ")
}
