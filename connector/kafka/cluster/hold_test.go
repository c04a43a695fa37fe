package cluster_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector/kafka/cluster"
)

func TestOnlyOneHoldsAGroup(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 3, "a")
	var tries sync.WaitGroup
	var mu sync.Mutex
	var releases []func()
	// On a slow machine all may meet until each has given up: then they try again.
	for round := uint64(0); round < 5 && len(releases) == 0; round++ {
		for i := range uint64(5) {
			r := newReader(t, b)
			tries.Go(func() {
				_, release, err := r.Hold(t.Context(), "replay", "a", session, rand.New(rand.NewPCG(round, i)))
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					releases = append(releases, release)
				} else if !errors.Is(err, cluster.ErrHeld) {
					t.Error(err)
				}
			})
		}
		tries.Wait()
	}
	if len(releases) != 1 {
		t.Fatalf("holders: got %d, want 1 of 5", len(releases))
	}
	releases[0]()
	_, release, err := newReader(t, b).Hold(t.Context(), "replay", "a", session, rand.New(rand.NewPCG(2, 2)))
	if err != nil {
		t.Fatalf("after the holder's end: %v", err)
	}
	release()
}

func TestHolderThatIsGoneIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	lost, release, err := newReader(t, b).Hold(t.Context(), "replay", "a", session, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	members, err := kadm.NewClient(b.client).DescribeGroups(t.Context(), "replay")
	if err != nil {
		t.Fatal(err)
	}
	b.freeze(members["replay"].Members[0].MemberID)
	_, next, err := newReader(t, b).Hold(t.Context(), "replay", "a", session, rand.New(rand.NewPCG(2, 2)))
	if err != nil {
		t.Fatalf("after the session of the first: %v", err)
	}
	defer next()
	b.freeze("")
	<-lost
}

// A broker that answers after the session is slow; nobody holds the group.
func TestSlowBrokerIsNoHolder(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	var slow atomic.Bool
	slow.Store(true)
	time.AfterFunc(2*session, func() { slow.Store(false) })
	b.ControlKey(int16(kmsg.DescribeGroups), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		b.SleepControl(func() {
			for slow.Load() {
				time.Sleep(session / 20)
			}
		})
		return nil, nil, false
	})
	_, release, err := newReader(t, b).Hold(t.Context(), "replay", "a", session, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	release()
}
