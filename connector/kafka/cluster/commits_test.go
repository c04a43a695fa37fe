package cluster_test

import (
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/feedsink/feedsink/connector/kafka/cluster"
)

// TestCommitsAreAskedForWithOneRequest: wherever the group's coordinator is, and whatever its
// release says of topics.
func TestCommitsAreAskedForWithOneRequest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ broker, client *kversion.Versions }{
		"one group a request": {kversion.V2_8_0(), kversion.Stable()},
		"topics by name":      {kversion.Tip(), kversion.Stable()},
		"topics by id":        {kversion.Tip(), kversion.Tip()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broker, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(2, "a", "b"), kfake.MaxVersions(c.broker))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(broker.Close)
			var requests atomic.Int64
			broker.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
				broker.KeepControl()
				if key := kmsg.Key(req.Key()); key == kmsg.OffsetFetch || key == kmsg.Metadata || key == kmsg.FindCoordinator {
					requests.Add(1)
				}
				return nil, nil, false
			})
			client, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.MaxVersions(c.client))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.Close)
			commits := cluster.NewCommits(client, "g")
			if got, err := commits.Fetch(t.Context()); err != nil || len(got) != 0 {
				t.Errorf("before the first commit: got %v, %v, want none", got, err)
			}
			offsets := kadm.Offsets{}
			offsets.Add(kadm.Offset{Topic: "a", Partition: 1, At: 7, LeaderEpoch: -1, Metadata: "a note"})
			offsets.Add(kadm.Offset{Topic: "b", Partition: 0, At: 3, LeaderEpoch: -1})
			if err := kadm.NewClient(client).CommitAllOffsets(t.Context(), "g", offsets); err != nil {
				t.Fatal(err)
			}
			fetch := func(when string) {
				t.Helper()
				got, err := commits.Fetch(t.Context())
				if err != nil || got.Error() != nil || len(got) != 2 || got["a"][1].At != 7 || got["a"][1].Metadata != "a note" || got["b"][0].At != 3 {
					t.Errorf("%s: got %v, %v, want what was committed", when, got, err)
				}
			}
			look := func(when string) {
				t.Helper()
				fetch(when + ", first") // by which it may find the broker
				fetch(when + ", second")
				before := requests.Load()
				fetch(when + ", third")
				if n := requests.Load() - before; n != 1 {
					t.Errorf("%s: got %d requests for a look, want 1", when, n)
				}
			}
			look("as it was")
			for was := broker.CoordinatorFor("g"); broker.CoordinatorFor("g") == was; {
				broker.RehashCoordinators()
			}
			look("of another coordinator")
		})
	}
}
