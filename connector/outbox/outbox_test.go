package outbox

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestOutboxIsWaitedForUntilItIsEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o Outbox
		if err := o.Wait(t.Context()); err != nil {
			t.Fatalf("nothing was ever sent: got %v, want nil at once", err)
		}
		o.Add(1)
		o.Add(1)
		waited := make(chan error, 2)
		for range cap(waited) {
			go func() { waited <- o.Wait(t.Context()) }()
		}
		o.Done(1)
		synctest.Wait()
		if len(waited) != 0 {
			t.Fatal("wait returned with a letter on its way")
		}
		o.Done(1)
		synctest.Wait()
		if len(waited) != cap(waited) {
			t.Fatalf("waiters that returned: got %d, want %d", len(waited), cap(waited))
		}
		o.Add(1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := o.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended: got %v, want its error", err)
		}
		o.Done(1) // nobody waits
	})
}
