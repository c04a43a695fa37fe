package imports

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/schemas"
)

// reconciling is a peer at work, whose calls wait for the service.
func reconciling(t *testing.T) (*Peer, *sandbox.Sandbox) {
	t.Helper()
	s, client := startInBubble(t)
	s.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4}, Answer: sandbox.Status(503)})
	pace := calls.Config{
		Concurrency: calls.Concurrency{Start: 4, Max: 4},
		Breaker:     calls.Breaker{Failures: 100, OpenFor: time.Millisecond},
		Retry:       calls.Retry{Initial: time.Millisecond, Max: time.Millisecond},
	}
	p := &Peer{calls: calls.New(pace, PeerCalls{plain{writes.Operations{Client: client}}, client}, ops.ReplayObserver{}, rand.New(rand.NewPCG(1, 2)))}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return p, s
}

// plain makes calls of which nothing is known but what they are to do.
type plain struct{ writes.Operations }

func (p plain) Call(ctx context.Context, w *schemas.Write, try calls.Try) error {
	return p.Operations.Call(ctx, w, writes.Create{Unsure: try.Retried})
}

// until waits for a condition, in a bubble.
func until(holds func() bool) {
	for !holds() {
		time.Sleep(time.Millisecond)
	}
}

// apply has a key's newest state sent.
func (p *Peer) apply(ctx context.Context, mapping, key string) chan error {
	applied := make(chan error, 1)
	w := schemas.Write{Op: schemas.Upsert, Table: schemas.Table{Name: "orders", Custom: true}, Key: key, Cells: []schemas.Cell{
		{Place: &schemas.Place{Section: schemas.Properties, Name: "status"}, Value: schemas.StringValue("PAID")},
	}}
	go func() {
		_, err := p.Apply(ctx, mapping, []schemas.Write{w})
		applied <- err
	}()
	return applied
}

// TestReconcilingCallEndsWithItsImport has a call wait for the service when its
// import is handed over: nothing of it is left once Apply has returned.
func TestReconcilingCallEndsWithItsImport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := reconciling(t)
		ctx, end := context.WithCancel(t.Context())
		applied := p.apply(ctx, "orders", "o1")
		until(func() bool { return s.CallCount(4) > 1 })
		end()
		if err := <-applied; err == nil {
			t.Error("Apply of an import that was ended: got no error")
		}
		if got := p.calls.Pending(); got != 0 {
			t.Errorf("calls that wait after that: got %d, want none", got)
		}
	})
}

// TestLostTableHasNoReconcilingCallStarted loses the partitions: nothing can be
// waited for, and nothing may start.
func TestLostTableHasNoReconcilingCallStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := reconciling(t)
		lost, lose := context.WithCancel(t.Context())
		gone := p.apply(lost, "orders", "o1")
		kept := p.apply(t.Context(), "customers", "o2")
		until(func() bool { return s.CallCount(4) > 4 })
		over, end := context.WithCancel(t.Context())
		end()
		lose()
		_ = p.Release(over, []string{"orders"}) // one may be in flight: it fails
		before := s.CallCount(4)
		until(func() bool { return s.CallCount(4) > before+2 })
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
		until(func() bool { return p.calls.Pending() == 0 })
		if _, there := s.Row("orders", "o3"); there {
			t.Error("a call asked for after the loss: got its row, want none")
		}
	})
}

// goneProfile is a delete of customer C1 by an id that is not its profile's.
func goneProfile() schemas.Write {
	return schemas.Write{Op: schemas.Delete, Table: schemas.Table{Name: "customers"}, Key: "C1", ProfileID: "17"}
}

// TestReconcilingDeleteFindsTheProfileThatAFileMadeAnew: its id is told by an upsert of
// the key. Where there is no profile none is left.
func TestReconcilingDeleteFindsTheProfileThatAFileMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, there := range []bool{true, false} {
			p, s := reconciling(t)
			p.keys = map[string]string{"customers": "customerNumber"}
			if there {
				w := schemas.Write{Op: schemas.Upsert, Table: schemas.Table{Name: "customers"}, Key: "C1", Cells: []schemas.Cell{
					{Place: &schemas.Place{Section: schemas.Attributes, Name: "customerNumber"}, Value: schemas.StringValue("C1")},
				}}
				if _, err := p.Apply(t.Context(), "customers", []schemas.Write{w}); err != nil || s.Len("customers") != 1 {
					t.Fatalf("got %v and %d profiles, want one", err, s.Len("customers"))
				}
			}
			if _, err := p.Apply(t.Context(), "customers", []schemas.Write{goneProfile()}); err != nil || s.Len("customers") != 0 {
				t.Errorf("there %v: got %v and %d profiles, want none", there, err, s.Len("customers"))
			}
		}
	})
}

// TestReconcilingDeleteByAnIDThatIsGoneTellsNothing: a file may have made the key's
// profile anew, and the service does not tell its id, or a call without an answer may
// make it once more.
func TestReconcilingDeleteByAnIDThatIsGoneTellsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, f := range map[string]sandbox.Fault{
			"no id":     {Match: sandbox.Match{Op: 1}, Answer: sandbox.Text(200, "")},
			"refused":   {Match: sandbox.Match{Op: 1}, Answer: sandbox.Status(400)},
			"no answer": {Match: sandbox.Match{Op: 1, Nth: 1}, Answer: sandbox.Status(503)},
		} {
			p, s := reconciling(t)
			p.keys = map[string]string{"customers": "customerNumber"}
			s.Inject(f)
			if _, err := p.Apply(t.Context(), "customers", []schemas.Write{goneProfile()}); !errors.Is(err, contract.ErrMadeAnew) {
				t.Errorf("%s: got %v, want %v", name, err, contract.ErrMadeAnew)
			}
		}
	})
}

func TestReconcilingDeleteOfATableRecordThatIsGoneIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := reconciling(t)
		gone := goneProfile()
		gone.Table = schemas.Table{Name: "orders", Custom: true}
		if _, err := p.Apply(t.Context(), "orders", []schemas.Write{gone}); err != nil {
			t.Errorf("got %v, want nil: it has no other id", err)
		}
	})
}

func TestGatewaysAnswerMakesNoWriteVoid(t *testing.T) {
	s, client := startInBubble(t)
	patch := &schemas.Write{Op: schemas.Patch, Table: schemas.Table{Name: "orders", Custom: true}, Key: "o1"}
	for answer, want := range map[*sandbox.Answer]bool{
		new(sandbox.Page(404)): false, new(sandbox.Text(404, "default backend - 404")): false, new(sandbox.Status(404)): true,
	} {
		s.Inject(sandbox.Fault{Match: sandbox.Match{Op: 5}, Count: 1, Answer: *answer})
		err := writes.Operations{Client: client}.Call(t.Context(), patch, writes.Create{})
		if got := void(patch, err); got != want {
			t.Errorf("%v: got %v, want %v", err, got, want)
		}
	}
}
