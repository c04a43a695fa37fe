package connector

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestGroupStopsAllWhenOneFails(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	g := newGroup(cancel)
	broken := errors.New("broken")
	g.start("first", func() error {
		<-ctx.Done()
		return nil
	})
	g.start("second", func() error { return broken })
	err := g.wait()
	if !errors.Is(err, broken) || err.Error() != "second: broken" {
		t.Errorf("got %v, want the failure under its name", err)
	}
}

func TestGroupReportsEveryFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	g := newGroup(cancel)
	one, two := errors.New("one"), errors.New("two")
	g.start("a", func() error { return one })
	g.start("b", func() error {
		<-ctx.Done()
		return two
	})
	if err := g.wait(); !errors.Is(err, one) || !errors.Is(err, two) || !strings.Contains(err.Error(), "b: two") {
		t.Errorf("got %v, want both", err)
	}
}

func TestGroupWithoutFailureStopsNobody(t *testing.T) {
	stopped := false
	g := newGroup(func() { stopped = true })
	g.start("a", func() error { return nil })
	if err := g.wait(); err != nil || stopped {
		t.Errorf("got %v, stopped %v, want neither an error nor a stop", err, stopped)
	}
}
