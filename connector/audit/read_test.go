package audit

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const someRecords = 3

// readable is a cluster of two brokers with a partition of some records, and what reads these.
func readable(t *testing.T) (c *kfake.Cluster, read func() (seen int, certain int64, err error)) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(1, "crm"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic("crm"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	for range someRecords {
		if err := client.ProduceSync(t.Context(), kgo.StringRecord("{}")).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	s := &source{Source: Source{Connection: []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}, Progress: func(int64, int64) {}}, admin: kadm.NewClient(client)}
	return c, func() (seen int, certain int64, err error) {
		certain, err = s.records(t.Context(), &Partition{Topic: "crm"}, 0, someRecords, func(int64, int64) error { seen++; return nil })
		return seen, certain, err
	}
}

// A partition whose leader is away is not read to its end, although another broker answers.
func TestPartitionWhoseLeaderIsAwayIsAnError(t *testing.T) {
	t.Parallel()
	c, read := readable(t)
	leader := c.LeaderFor("crm", 0)
	if seen, certain, err := read(); seen != someRecords || certain != someRecords || err != nil {
		t.Fatalf("leader at hand: got %d records up to %d, %v, want %d", seen, certain, err, someRecords)
	}
	c.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		switch req.(type) {
		case *kmsg.FetchRequest, *kmsg.ListOffsetsRequest:
			return nil, errors.New("away"), c.CurrentNode() == leader // which closes the connection
		}
		return nil, nil, false
	})
	if seen, certain, err := read(); err == nil || !strings.Contains(err.Error(), "read crm[0]: no records, and no answer from its leader") {
		t.Errorf("leader away: got %d records up to %d, %v, want that it does not answer", seen, certain, err)
	}
}

// A login whose quota is used up gets nothing for a while, which is not the end.
func TestAuditWaitsWhileABrokerThrottlesTheLogin(t *testing.T) {
	t.Parallel()
	c, read := readable(t)
	var fetches atomic.Int32
	c.ControlKey(kmsg.Fetch.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if fetches.Add(1) > 11 { // more than three silences
			return nil, nil, false
		}
		res := req.ResponseKind().(*kmsg.FetchResponse)
		res.ThrottleMillis = 1000
		return res, nil, true
	})
	if seen, certain, err := read(); seen != someRecords || certain != someRecords || err != nil {
		t.Errorf("got %d records up to %d, %v, want %d once the broker gives records again", seen, certain, err, someRecords)
	}
}
