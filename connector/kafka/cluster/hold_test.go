package cluster_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
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
	if _, _, err := newReader(t, b).Hold(t.Context(), "backfill", "a", session, rand.New(rand.NewPCG(1, 1)), "other", "replay"); !errors.Is(err, cluster.ErrHeld) {
		t.Errorf("a group beside it: got %v, want it held", err)
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
	held, release, err := newReader(t, b).Hold(t.Context(), "replay", "a", session, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	members, err := kadm.NewClient(b.client).DescribeGroups(t.Context(), "replay")
	if err != nil {
		t.Fatal(err)
	}
	if !held.Holds() {
		t.Error("at first: got a group that may be lost, want it held")
	}
	b.freeze(members["replay"].Members[0].MemberID)
	_, next, err := newReader(t, b).Hold(t.Context(), "replay", "a", session, rand.New(rand.NewPCG(2, 2)))
	if err != nil {
		t.Fatalf("after the session of the first: %v", err)
	}
	defer next()
	if held.Holds() {
		t.Error("once another holds it: got the group held by the first, too")
	}
	b.freeze("")
	<-held.Lost
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

// What a login may not do does not change while it is waited for.
func TestRefusedHolderIsToldAtOnce(t *testing.T) {
	t.Parallel()
	right := func(kind kmsg.ACLResourceType, name string, operation kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{Resource: kind, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: operation, Allow: true}
	}
	topic := right(kmsg.ACLResourceTypeTopic, "a", kmsg.ACLOperationRead)
	c, err := kfake.NewCluster(kfake.SeedTopics(1, "a"), kfake.NumBrokers(1), kfake.EnableSASL(), kfake.EnableACLs(), kfake.GroupMinSessionTimeout(session),
		kfake.User("PLAIN", "stranger", "stranger", topic),
		kfake.User("PLAIN", "onlooker", "onlooker", topic, right(kmsg.ACLResourceTypeGroup, "replay", kmsg.ACLOperationDescribe)),
		kfake.User("PLAIN", "holder", "holder", topic, right(kmsg.ACLResourceTypeGroup, "replay", kmsg.ACLOperationRead)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var asked atomic.Int32
	c.ControlKey(int16(kmsg.FindCoordinator), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		asked.Add(1)
		return nil, nil, false
	})
	for login, want := range map[string]error{"stranger": kerr.GroupAuthorizationFailed, "onlooker": kerr.GroupAuthorizationFailed, "holder": nil} {
		asked.Store(0)
		password := func() (string, error) { return login, nil }
		r, err := cluster.NewReader(cluster.Connection{Brokers: c.ListenAddrs(), SASL: &cluster.SASL{Mechanism: "PLAIN", Username: login, Password: password}})
		if err != nil {
			t.Fatal(err)
		}
		_, release, err := r.Hold(t.Context(), "replay", "a", session, rand.New(rand.NewPCG(1, 1)))
		if n := asked.Load(); !errors.Is(err, want) || n > 2 { // by the reader, and by the member
			t.Errorf("%s: got %v, asked %d times for the coordinator, want %v, asked twice at most", login, err, n, want)
		}
		if release != nil {
			release()
		}
		r.Close()
	}
}
