package replay_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/replay"
)

func TestFilterMeansWhatAllOfItsPartsMean(t *testing.T) {
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	l := &deadletter.Received{
		Reason: deadletter.Reason{Mapping: "customers", Code: "value"},
		Record: &kgo.Record{Topic: "crm", Partition: 2, Offset: 100, Key: []byte("C1"), Timestamp: at},
	}
	for _, c := range []struct {
		name   string
		filter replay.Filter
		want   bool
	}{
		{"nothing", replay.Filter{}, true},
		{"mapping", replay.Filter{Mappings: []string{"orders", "customers"}}, true},
		{"other mapping", replay.Filter{Mappings: []string{"orders"}}, false},
		{"reason", replay.Filter{Reasons: []string{"value"}}, true},
		{"other reason", replay.Filter{Reasons: []string{"decode"}}, false},
		{"key", replay.Filter{Keys: []string{"C1"}}, true},
		{"other key", replay.Filter{Keys: []string{"C"}}, false},
		{"since then", replay.Filter{Since: at}, true},
		{"since later", replay.Filter{Since: at.Add(1)}, false},
		{"until then", replay.Filter{Until: at}, false},
		{"until later", replay.Filter{Until: at.Add(1)}, true},
		{"topic", replay.Filter{Topic: "crm"}, true},
		{"other topic", replay.Filter{Topic: "shop"}, false},
		{"partition", replay.Filter{Partitions: []int32{1, 2}}, true},
		{"other partition", replay.Filter{Partitions: []int32{0}}, false},
		{"offset", replay.Filter{Offsets: &replay.Offsets{First: 100, Last: 100}}, true},
		{"offsets before", replay.Filter{Offsets: &replay.Offsets{First: 0, Last: 99}}, false},
		{"offsets after", replay.Filter{Offsets: &replay.Offsets{First: 101, Last: 200}}, false},
		{"one that fits, one that does not", replay.Filter{Topic: "crm", Keys: []string{"C2"}}, false},
	} {
		if got := c.filter.Match(l); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}
