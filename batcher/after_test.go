package batcher

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// gateOfParents opens when told; the other lane of the parents.
type gateOfParents struct{ open chan struct{} }

func (g *gateOfParents) Await(ctx context.Context, _ string) error {
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestChildsFileWaitsForTheRowsOfItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		parent, child := testMapping(), testMapping()
		child.Name, child.After = "orders", []string{"customers"}
		parent.Roll.Age, child.Roll.Age = 24*time.Hour, time.Minute
		child.Roll.Rows = 1
		other := &gateOfParents{open: make(chan struct{})}
		w.open(Config{Parents: other}, parent, child)
		w.run()
		w.append(write(schemas.Upsert, "1"))
		if err := w.b.Append("orders", write(schemas.Upsert, "2"), w.p, 200); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		step := func() Step {
			if im := w.b.Status()[1].Import; im != nil {
				return im.Step
			}
			return ""
		}
		if got := step(); got != Linking {
			t.Errorf("child's step with the parent's row open: got %q, want %q", got, Linking)
		}
		time.Sleep(10 * time.Second) // the parent's file goes out at once and is loaded
		if st := w.b.Status()[0]; st.Rows != 0 || st.Import != nil {
			t.Errorf("parent: got %+v, want its row loaded long before its file is due", st)
		}
		if got := step(); got != Linking {
			t.Errorf("child's step with the parent's calls not confirmed: got %q, want %q", got, Linking)
		}
		close(other.open)
		time.Sleep(10 * time.Second)
		if im := w.b.Status()[1].Import; im != nil {
			t.Errorf("child: got %+v, want its file loaded", im)
		}
	})
}

func TestChildDoesNotWaitForRowsReadLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		parent, child := testMapping(), testMapping()
		child.Name, child.After = "orders", []string{"customers"}
		parent.Roll.Age, child.Roll.Rows = 24*time.Hour, 1
		w.open(Config{}, parent, child)
		w.run()
		if err := w.b.Append("orders", write(schemas.Upsert, "2"), w.p, 200); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.append(write(schemas.Upsert, "1"))
		time.Sleep(time.Minute)
		st := w.b.Status()
		if st[0].Rows != 1 || st[1].Import != nil {
			t.Errorf("got parent with %d open rows, child's import %v, want 1 and none", st[0].Rows, st[1].Import)
		}
	})
}
