package lease

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestLeaseEndsByTheFirstOfItsClocks(t *testing.T) {
	for name, c := range map[string]struct {
		passes, moved time.Duration
		want          bool
	}{
		"no time passes":                        {0, 0, true},
		"its time passes":                       {10 * time.Second, 0, false},
		"its time passes, the clock goes back":  {10 * time.Second, -time.Hour, false},
		"a second passes, the clock goes back":  {time.Second, -time.Hour, true},
		"the machine was suspended for an hour": {time.Second, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, moved := New(), time.Duration(0)
				l.wall = func() time.Time { return time.Now().Add(moved) }
				if l.Holds() {
					t.Error("before the first heartbeat: got a lease, want none")
				}
				l.Renew(l.Now(), 10*time.Second)
				time.Sleep(c.passes)
				moved = c.moved
				if got := l.Holds(); got != c.want {
					t.Errorf("got %v, want %v", got, c.want)
				}
				l.Renew(l.Now(), 10*time.Second)
				if !l.Holds() {
					t.Error("after the next heartbeat: got no lease, want one")
				}
			})
		})
	}
}
