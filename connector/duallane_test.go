package connector

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// reconciling is a peer at work, whose calls wait for the service.
func reconciling(t *testing.T) (*peer, *sandbox.Sandbox) {
	t.Helper()
	s, client := startService(t)
	s.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4}, Answer: sandbox.Status(503)})
	pace := calls.Config{
		Concurrency: calls.Concurrency{Start: 4, Max: 4},
		Breaker:     calls.Breaker{Failures: 100, OpenFor: time.Millisecond},
		Retry:       calls.Retry{Initial: time.Millisecond, Max: time.Millisecond},
	}
	p := &peer{calls: calls.New(pace, laneCalls{writes.Operations{Client: client}}, ops.ReplayObserver{}, rand.New(rand.NewPCG(1, 2)))}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.calls.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return p, s
}

// apply has a key's newest state sent.
func (p *peer) apply(ctx context.Context, mapping, key string) chan error {
	applied := make(chan error, 1)
	w := *order(schemas.Upsert, "PAID")
	w.Key = key
	go func() {
		_, err := p.Apply(ctx, mapping, []schemas.Write{w})
		applied <- err
	}()
	return applied
}

// TestReconcilingCallEndsWithItsImport has a call wait for the service when its
// import is handed over: nothing of it is left once Apply has returned.
func TestReconcilingCallEndsWithItsImport(t *testing.T) {
	p, s := reconciling(t)
	ctx, end := context.WithCancel(t.Context())
	applied := p.apply(ctx, "orders", "o1")
	until(t, "the call was tried again", func() bool { return s.CallCount(4) > 1 })
	end()
	if err := <-applied; err == nil {
		t.Error("Apply of an import that was ended: got no error")
	}
	if got := p.calls.Pending(); got != 0 {
		t.Errorf("calls that wait after that: got %d, want none", got)
	}
}

// TestLostTableHasNoReconcilingCallStarted loses the partitions: nothing can be
// waited for, and nothing may start.
func TestLostTableHasNoReconcilingCallStarted(t *testing.T) {
	p, s := reconciling(t)
	lost, lose := context.WithCancel(t.Context())
	gone := p.apply(lost, "orders", "o1")
	kept := p.apply(t.Context(), "customers", "o2")
	until(t, "the calls were tried again", func() bool { return s.CallCount(4) > 4 })
	over, end := context.WithCancel(t.Context())
	end()
	lose()
	_ = p.release(over, []string{"orders"}) // one may be in flight: it fails
	before := s.CallCount(4)
	until(t, "the other mapping's call goes on", func() bool { return s.CallCount(4) > before+2 })
	s.ClearFaults()
	if err := <-kept; err != nil {
		t.Errorf("the call of a mapping that stays: got %v", err)
	}
	if err := <-gone; err == nil {
		t.Error("the call of a mapping that is gone: got no error")
	}
	if _, there := s.Row("orders", "o1"); there {
		t.Error("the key of a table that was lost: got a row, want none written after the loss")
	}
	late := p.apply(lost, "orders", "o3")
	if err := <-late; err == nil {
		t.Error("a call asked for after the loss: got no error")
	}
	until(t, "no call waits", func() bool { return p.calls.Pending() == 0 })
	if _, there := s.Row("orders", "o3"); there {
		t.Error("a call asked for after the loss: got its row, want none")
	}
}

// goneProfile is a delete of customer C1 by an id that is not its profile's.
func goneProfile() schemas.Write {
	return schemas.Write{Op: schemas.Delete, Table: schemas.Table{Name: "customers"}, Key: "C1", ProfileID: "17"}
}

// TestReconcilingDeleteFindsTheProfileThatAFileMadeAnew: its id is told by an upsert of
// the key. Where there is no profile none is left.
func TestReconcilingDeleteFindsTheProfileThatAFileMadeAnew(t *testing.T) {
	for _, there := range []bool{true, false} {
		p, s := reconciling(t)
		p.keys = map[string]string{"customers": "customerNumber"}
		if there {
			w := *customer(schemas.Upsert, "", "Ada")
			w.Key = "C1"
			if _, err := p.Apply(t.Context(), "customers", []schemas.Write{w}); err != nil || s.Len("customers") != 1 {
				t.Fatalf("got %v and %d profiles, want one", err, s.Len("customers"))
			}
		}
		if _, err := p.Apply(t.Context(), "customers", []schemas.Write{goneProfile()}); err != nil || s.Len("customers") != 0 {
			t.Errorf("there %v: got %v and %d profiles, want none", there, err, s.Len("customers"))
		}
	}
}

// TestReconcilingDeleteByAnIDThatIsGoneTellsNothing: a file may have made the key's
// profile anew, and the service does not tell its id, or a call without an answer may
// make it once more.
func TestReconcilingDeleteByAnIDThatIsGoneTellsNothing(t *testing.T) {
	for name, f := range map[string]sandbox.Fault{
		"no id":     {Match: sandbox.Match{Op: 1}, Answer: sandbox.Text(200, "")},
		"refused":   {Match: sandbox.Match{Op: 1}, Answer: sandbox.Status(400)},
		"no answer": {Match: sandbox.Match{Op: 1, Nth: 1}, Answer: sandbox.Status(503)},
	} {
		p, s := reconciling(t)
		p.keys = map[string]string{"customers": "customerNumber"}
		s.Inject(f)
		if _, err := p.Apply(t.Context(), "customers", []schemas.Write{goneProfile()}); !errors.Is(err, batcher.ErrMadeAnew) {
			t.Errorf("%s: got %v, want %v", name, err, batcher.ErrMadeAnew)
		}
	}
}

func TestReconcilingDeleteOfATableRecordThatIsGoneIsDone(t *testing.T) {
	p, _ := reconciling(t)
	gone := goneProfile()
	gone.Table = schemas.Table{Name: "orders", Custom: true}
	if _, err := p.Apply(t.Context(), "orders", []schemas.Write{gone}); err != nil {
		t.Errorf("got %v, want nil: it has no other id", err)
	}
}

// TestPatchOfNothingIsTriedThreeTimesMoreOnceTheBatchLaneHasPassedIt: one try may find
// nothing between the delete and the upsert by which that lane brings a row's newest state.
func TestPatchOfNothingIsTriedThreeTimesMoreOnceTheBatchLaneHasPassedIt(t *testing.T) {
	compiled, problems := router.Compile([]router.Mapping{{
		Name: "orders", Topics: []string{"shop"}, CustomTable: "orders", Key: "businessKey",
		Routes: []router.Route{{When: `op == "patch"`, Lane: "immediate"}, {Lane: "batch"}},
		Imports: router.Imports{
			Upsert:  &router.Import{ETL: "1", Mode: "CREATE_OR_UPDATE"},
			Columns: []router.Column{{Name: "businessKey"}, {Name: "seq"}},
			Roll:    router.Roll{Rows: 10, Bytes: 1 << 20, Age: time.Second}, SlotsPerDay: 12,
		},
	}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	// Of a partition that only one lane reads, the other has passed all.
	p := &part{recordState: &recordState{partition: new(kafka.Partition)}, mapping: compiled.Mappings()[0], op: schemas.Patch}
	tries := 0
	for p.Premature() {
		tries++
	}
	if tries != lastTries {
		t.Errorf("tries: got %d, want %d", tries, lastTries)
	}
}
