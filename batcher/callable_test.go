package batcher

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/batcher/waiting"
	"github.com/feedsink/feedsink/schemas"
)

// scriptedCalls are calls that end when the test says so.
type scriptedCalls struct {
	w       *world
	mu      sync.Mutex
	waiting []contract.Call
	halted  bool // the mapping
}

func (s *scriptedCalls) Submit(c contract.Call) {
	s.w.say("call %v %s spare %v", c.Write.Op, c.Write.Key, c.Spare)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, c)
}

func (s *scriptedCalls) Halted(string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.halted
}

func (s *scriptedCalls) Drop(context.Context, string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = nil
	return nil
}

// end ends the oldest call.
func (s *scriptedCalls) end(err error) {
	s.w.t.Helper()
	s.mu.Lock()
	if len(s.waiting) == 0 {
		s.mu.Unlock()
		s.w.t.Fatal("no call waits")
	}
	c := s.waiting[0]
	s.waiting = s.waiting[1:]
	s.mu.Unlock()
	c.Ended("applied", err)
}

// heldRecord says what becomes of a record.
type heldRecord struct {
	w      *world
	offset int64
	stays  bool      // there is no place for its dead letter
	holds  bool      // its mapping is halted when it is refused
	later  *[]func() // what ends its confirmation; nil: it ends at once
}

func (h heldRecord) Merged()         { h.w.say("merged record %d", h.offset) }
func (h heldRecord) Hold(error) bool { return h.holds }

func (h heldRecord) Confirm(_ string, ended func()) {
	h.w.say("confirm record %d", h.offset)
	if h.later != nil {
		*h.later = append(*h.later, ended)
		return
	}
	ended()
}

func (h heldRecord) Reject(err error, ended func(bool)) {
	h.w.say("reject record %d: %v", h.offset, err)
	ended(h.stays)
}

func (h heldRecord) Claim() Claim { return h.w.p.Claim(h.offset) }

// callable starts a world with a mapping whose rows may be called.
func callable(t *testing.T, change func(*files.Mapping)) (*world, *scriptedCalls) {
	return callableBeside(t, nil, change)
}

// callableBeside is callable beside another lane; nil: there is none.
func callableBeside(t *testing.T, peer contract.Peer, change func(*files.Mapping)) (*world, *scriptedCalls) {
	w := newWorld(t)
	calls := &scriptedCalls{w: w}
	m := testMapping()
	m.Auto = true
	if change != nil {
		change(&m)
	}
	w.open(Config{Calls: calls, LandsWithin: 90 * time.Second, Peer: peer}, m)
	w.run()
	return w, calls
}

func (w *world) offer(offset int64, write schemas.Write, change ...func(*waiting.Offer, *heldRecord)) {
	w.t.Helper()
	held := heldRecord{w: w, offset: offset}
	o := waiting.Offer{Callable: true, Spare: true, Written: time.Now(), Bytes: 10}
	for _, f := range change {
		f(&o, &held)
	}
	o.Pending = func() contract.Pending { return held }
	check(w.t, w.b.Offer("customers", write, w.p, offset, o))
}

// TestFileGoesInTimeForTheImportsOfItsTable: as long as the last one took is what the next takes.
func TestFileGoesInTimeForTheImportsOfItsTable(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for range 10 {
			w.results = append(w.results, contract.Results{Status: contract.InProgress})
		}
		m := testMapping()
		m.Roll.Age, m.Within = 24*time.Hour, 6*time.Hour
		w.start(m)
		due := func() time.Duration {
			w.append(write(schemas.Upsert, "1"))
			return time.Until(w.b.Status()[0].Until)
		}
		if got, want := due(), 6*time.Hour-UsualImport; got != want {
			t.Errorf("the first file: got due in %v, want %v", got, want)
		}
		time.Sleep(7 * time.Hour)
		took := w.endings()[0].took
		if got, want := due(), 6*time.Hour-took; got != want || took <= UsualImport {
			t.Errorf("behind an import of %v: got due in %v, want %v", took, got, want)
		}
	})
}

func TestFileThatCallsHaveEmptiedDoesNotGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, calls := callable(t, nil)
		w.offer(100, write(schemas.Upsert, "1", "a", "x"))
		synctest.Wait()
		calls.end(nil)
		time.Sleep(3 * time.Hour)
		w.said("0s call upsert 1 spare true", "0s confirm record 100")
		w.offer(101, write(schemas.Upsert, "1", "a", "y"))
		time.Sleep(59 * time.Minute)
		w.said("3h0m0s call upsert 1 spare true") // its age starts anew
		time.Sleep(2 * time.Minute)
		w.said(
			`4h0m0s intend upsert 1/1 attempt 1 "" holds 101-101`,
			`4h0m0s trigger 101 with customers-*.upsert.csv.gz: "k,a,b\n1,y,\n", <nil>`,
			`4h0m0s record upsert 1/1 attempt 1 "e1" holds 101-101`,
			`4h0m2s poll e1: FINISHED`,
			`4h0m2s confirm upsert 1/1 attempt 1 "e1" holds 101-101`,
		)
	})
}

// TestFileWaitsForTheRecordsOfCallsThatHaveLanded: what it covers on record is in it, or
// confirmed before.
func TestFileWaitsForTheRecordsOfCallsThatHaveLanded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, calls := callable(t, nil)
		var ends []func()
		later := func(_ *waiting.Offer, h *heldRecord) { h.later = &ends }
		w.offer(100, write(schemas.Upsert, "1", "a", "x"), later)
		synctest.Wait()
		w.offer(101, write(schemas.Upsert, "1", "a", "y"), later) // behind the call
		w.offer(102, write(schemas.Upsert, "1", "a", "z"), later) // merged
		w.offer(103, write(schemas.Upsert, "2", "a", "x"), func(o *waiting.Offer, _ *heldRecord) { o.Callable = false })
		calls.end(nil)
		time.Sleep(59 * time.Minute)
		w.said("0s call upsert 1 spare true", "0s confirm record 100")
		ends[0]()
		synctest.Wait()
		calls.end(nil)
		w.said("59m0s call upsert 1 spare true", "59m0s merged record 101", "59m0s confirm record 101", "59m0s confirm record 102")
		time.Sleep(time.Hour)
		w.said()
		ends[1]()
		time.Sleep(time.Minute)
		w.said()
		ends[2]()
		time.Sleep(3 * time.Second)
		w.said(
			`2h0m0s intend upsert 1/1 attempt 1 "" holds 103-103`,
			`2h0m0s trigger 101 with customers-*.upsert.csv.gz: "k,a,b\n2,x,\n", <nil>`,
			`2h0m0s record upsert 1/1 attempt 1 "e1" holds 103-103`,
			`2h0m2s poll e1: FINISHED`,
			`2h0m2s confirm upsert 1/1 attempt 1 "e1" holds 103-103`,
		)
	})
}

func TestKeyOfARunningImportIsNotCalledBeforeItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, calls := callable(t, func(m *files.Mapping) { m.Roll.Rows = 1 })
		w.results = []contract.Results{{Status: contract.InProgress}, {Status: contract.Finished}}
		w.offer(100, write(schemas.Upsert, "1", "a", "x"), func(o *waiting.Offer, _ *heldRecord) { o.Callable = false })
		time.Sleep(time.Second)
		w.lastSaid("record upsert")
		w.offer(101, write(schemas.Upsert, "1", "a", "y"))
		w.offer(102, write(schemas.Upsert, "2", "a", "y"))
		synctest.Wait()
		w.said("1s call upsert 2 spare true")
		time.Sleep(time.Minute)
		w.lastSaid("call upsert 1 spare true")
		calls.end(nil)
		calls.end(nil)
		w.lastSaid("confirm record 101")
	})
}

func TestCallWithoutAnAnswerHoldsUpItsKeyAndTheFileUntilItCannotLand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, calls := callable(t, func(m *files.Mapping) { m.Roll.Age = time.Minute })
		w.offer(100, write(schemas.Upsert, "1", "a", "x"))
		synctest.Wait()
		time.Sleep(50 * time.Second)
		calls.end(errDisconnected)
		time.Sleep(89 * time.Second)
		w.said("0s call upsert 1 spare true")
		time.Sleep(2 * time.Second)
		if got := w.transcript(); len(got) == 0 || got[0] != `2m20s intend upsert 1/1 attempt 1 "" holds 100-100` {
			t.Errorf("got %q, want the file to go 90 s after the call", got)
		}
	})
}

func TestRowThatIsRefusedIsADeadLetterAndInNoFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, calls := callable(t, nil)
		w.offer(100, write(schemas.Upsert, "1", "a", "x"))
		w.offer(101, write(schemas.Upsert, "2", "a", "x"), func(_ *waiting.Offer, h *heldRecord) { h.stays = true })
		synctest.Wait()
		calls.end(&refusal{})
		calls.end(&refusal{})
		time.Sleep(61 * time.Minute)
		w.said(
			"0s call upsert 1 spare true", "0s call upsert 2 spare true",
			"0s reject record 100: service said no", "0s reject record 101: service said no",
			`1h0m0s intend upsert 1/1 attempt 1 "" holds 101-101`,
			`1h0m0s trigger 101 with customers-*.upsert.csv.gz: "k,a,b\n2,x,\n", <nil>`,
			`1h0m0s record upsert 1/1 attempt 1 "e1" holds 101-101`,
			`1h0m2s poll e1: FINISHED`,
			`1h0m2s confirm upsert 1/1 attempt 1 "e1" holds 101-101`,
		)
	})
}

func TestWithoutSpareOnlyRowsThatNoFileBringsInTimeAreCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := callable(t, func(m *files.Mapping) { m.Roll.Age = 5 * time.Hour })
		w.offer(100, write(schemas.Upsert, "1", "a", "x"), func(o *waiting.Offer, _ *heldRecord) { o.Spare, o.Within = false, time.Hour })
		time.Sleep(50 * time.Minute)
		w.said()
		time.Sleep(10 * time.Minute)
		if got := w.transcript(); len(got) != 1 {
			t.Errorf("got %q, want the one call", got)
		}
	})
}

// TestOldRowsOfARouteDoNotHoldUpTheOthers: which route's call is the next is for the weights,
// so that each has its own asked for.
func TestOldRowsOfARouteDoNotHoldUpTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, calls := callable(t, nil)
		submitted := func() (of [2]int) {
			calls.mu.Lock()
			defer calls.mu.Unlock()
			for _, c := range calls.waiting {
				of[c.Route]++
			}
			return of
		}
		for i := range int64(maxSubmitted + 10) {
			w.offer(i, write(schemas.Upsert, "bulk "+strconv.FormatInt(i, 10)))
		}
		w.offer(maxSubmitted+10, write(schemas.Upsert, "urgent"), func(o *waiting.Offer, _ *heldRecord) { o.Route = 1 })
		synctest.Wait()
		if got, want := submitted(), [2]int{maxSubmitted, 1}; got != want {
			t.Errorf("calls that are asked for, of each route: got %v, want %v", got, want)
		}
		calls.end(nil)
		synctest.Wait()
		if got, want := submitted(), [2]int{maxSubmitted, 1}; got != want {
			t.Errorf("one more: got %v, want %v", got, want)
		}
	})
}

func TestRowsThatWaitForCallsAreDroppedWithTheirAssignment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, calls := callable(t, nil)
		w.offer(100, write(schemas.Upsert, "1", "a", "x"))
		synctest.Wait()
		w.b.HandOver(t.Context(), "customers")
		if got := w.b.Waiting(); got != 0 {
			t.Errorf("records that wait: got %d, want none", got)
		}
		calls.end(errDisconnected) // of the former assignment
		time.Sleep(3 * time.Hour)
		w.said("0s call upsert 1 spare true")
	})
}

func TestStatusCountsRowsThatWaitForCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, calls := callable(t, nil)
		w.offer(100, write(schemas.Upsert, "1", "a", "x"))
		w.offer(101, write(schemas.Upsert, "2", "a", "x"), func(o *waiting.Offer, _ *heldRecord) { o.Callable = false })
		synctest.Wait()
		if s := w.b.Status()[0]; s.Rows != 2 || s.Callable != 1 {
			t.Errorf("got %d rows, %d of them callable, want 2 and 1", s.Rows, s.Callable)
		}
		calls.end(nil)
		if s := w.b.Status()[0]; s.Rows != 1 || s.Callable != 0 {
			t.Errorf("after the call: got %d rows, %d of them callable, want 1 and 0", s.Rows, s.Callable)
		}
	})
}

func TestRefusalThatHaltsTheMappingLeavesTheRowWhereItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, calls := callable(t, nil)
		w.offer(100, write(schemas.Upsert, "1", "a", "x"), func(_ *waiting.Offer, h *heldRecord) { h.holds = true })
		synctest.Wait()
		calls.mu.Lock()
		calls.halted = true
		calls.mu.Unlock()
		calls.end(&refusal{})
		time.Sleep(30 * time.Minute)
		w.said("0s call upsert 1 spare true")
		calls.mu.Lock()
		calls.halted = false
		calls.mu.Unlock()
		time.Sleep(time.Minute)
		w.said("30m1s call upsert 1 spare true")
	})
}

// TestCallOfAProfilesUpsertSaysAllThatItsRecordDoes: it replaces the whole profile, so that
// what the file has no column for must not be lost, and sections that have no null get none.
func TestCallOfAProfilesUpsertSaysAllThatItsRecordDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, calls := callable(t, func(m *files.Mapping) {
			m.Columns = append(m.Columns, spool.Column{Header: "subscriptions#news", Section: schemas.Subscriptions, Name: "news"})
		})
		event := write(schemas.Upsert, "1", "a", "x", "beside", "y")
		event.Cells = append(event.Cells, schemas.Cell{Place: &schemas.Place{Section: schemas.Subscriptions, Name: "news"}, Value: schemas.NullValue()})
		w.offer(100, event)
		synctest.Wait()
		calls.mu.Lock()
		cells := calls.waiting[0].Write.Cells
		calls.mu.Unlock()
		if len(cells) != 2 || cells[0].Name != "a" || cells[1].Name != "beside" {
			t.Errorf("the call names %v, want a and beside", cells)
		}
	})
}
