package audit

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A partition whose leader is away is not read to its end, although another broker answers.
func TestPartitionWhoseLeaderIsAwayIsAnError(t *testing.T) {
	t.Parallel()
	const records = 3
	c, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(1, "crm"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	leader := c.LeaderFor("crm", 0)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic("crm"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	for range records {
		if err := client.ProduceSync(t.Context(), kgo.StringRecord("{}")).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	s := &source{Source: Source{Connection: []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}, Progress: func(int64, int64) {}}, admin: kadm.NewClient(client)}
	read := func() (seen int, certain int64, err error) {
		certain, err = s.records(t.Context(), &Partition{Topic: "crm"}, 0, records, func(int64, int64) error { seen++; return nil })
		return seen, certain, err
	}
	if seen, certain, err := read(); seen != records || certain != records || err != nil {
		t.Fatalf("leader at hand: got %d records up to %d, %v, want %d", seen, certain, err, records)
	}
	var away atomic.Bool
	away.Store(true)
	c.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		switch req.(type) {
		case *kmsg.FetchRequest, *kmsg.ListOffsetsRequest:
			return nil, context.DeadlineExceeded, c.CurrentNode() == leader // which closes the connection
		}
		return nil, nil, false
	})
	if seen, certain, err := read(); err == nil || !strings.Contains(err.Error(), "read crm[0]: no records, and no answer from its leader") {
		t.Errorf("leader away: got %d records up to %d, %v, want that it does not answer", seen, certain, err)
	}
}
