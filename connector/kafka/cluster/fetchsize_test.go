package cluster

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestMuchMemoryIsNoMoreThanABatchMayUnpackTo(t *testing.T) {
	client, err := newFetchSize(1<<40, groupFetch).newClient()
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
}

func TestFetchesAreAsLargeAsWhatTheyUnpackToAllows(t *testing.T) {
	const limit = 32 << 20
	batch := func(sent, ratio, records int) kgo.FetchBatchMetrics {
		return kgo.FetchBatchMetrics{NumRecords: records, UncompressedBytes: sent * ratio, CompressedBytes: sent}
	}
	for _, c := range []struct {
		name    string
		batch   kgo.FetchBatchMetrics
		brokers int32
		want    int64
	}{
		{"not compressed", batch(100_000, 1, 300), 1, groupFetch.broker},
		{"compressed as usual", batch(20_000, 5, 300), 1, groupFetch.broker},
		{"the same letter again and again", batch(1000, 200, 3), 1, limit / 2 / 201},
		{"of three brokers", batch(1000, 200, 3), 3, limit / 2 / 201 / 3},
		{"tiny records", batch(17_000, 1, 1000), 3, limit / 2 / 17 / 3},
		{"nothing but air", batch(10, 100_000, 1), 1, leastFetch},
	} {
		f := newFetchSize(limit, groupFetch)
		client, err := f.newClient()
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		for id := range c.brokers {
			f.OnFetchBatchRead(kgo.BrokerMetadata{NodeID: id}, "a", 0, c.batch)
		}
		if f.now < c.want*7/8 || f.now > c.want*9/8 {
			t.Errorf("%s: asks for %d bytes, want about %d", c.name, f.now, c.want)
		}
		for range 10 * forgetting {
			for id := range c.brokers {
				f.OnFetchBatchRead(kgo.BrokerMetadata{NodeID: id}, "a", 0, batch(100_000, 1, 300))
			}
		}
		if f.now < groupFetch.broker*7/8 {
			t.Errorf("%s: long after, asks for %d bytes, want as much as usual", c.name, f.now)
		}
	}
}
