package kafka_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/feedsink/feedsink/connector/kafka"
)

func newReader(t *testing.T, b *broker) *kafka.Reader {
	t.Helper()
	r, err := kafka.NewReader(kafka.Connection{Brokers: b.ListenAddrs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func TestOnlyOneHoldsAGroup(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 3, "a")
	var tries sync.WaitGroup
	var mu sync.Mutex
	var releases []func()
	for i := range 5 {
		r := newReader(t, b)
		tries.Go(func() {
			_, release, err := r.Hold(t.Context(), "replay", "a", session, rand.New(rand.NewPCG(1, uint64(i))))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				releases = append(releases, release)
			} else if !errors.Is(err, kafka.ErrHeld) {
				t.Error(err)
			}
		})
	}
	tries.Wait()
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
	members, err := b.admin.DescribeGroups(t.Context(), "replay")
	if err != nil {
		t.Fatal(err)
	}
	b.freeze(members["replay"].Members[0].MemberID)
	_, next, err := newReader(t, b).Hold(t.Context(), "replay", "a", session, rand.New(rand.NewPCG(2, 2)))
	if err != nil {
		t.Fatalf("after the session of the first: %v", err)
	}
	defer next()
	b.thaw()
	<-lost
}
