package connector

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/observe"
)

// TestRowInErrorBehindADeleteOfTheImmediateLane: that one has dropped the older row of its
// key from the open file, and was read before a restart. The older row's record is no
// dead letter.
func TestRowInErrorBehindADeleteOfTheImmediateLane(t *testing.T) {
	cluster, api, server := startBoth(t, kfake.SeedTopics(1, "crm", "shop", "dlq"))
	broker := cluster.ListenAddrs()[0]
	client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.ConsumeTopics("dlq"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := api.RejectRows(sandbox.Rejection{Column: "name", Match: "wrong", Reason: "no such name"}); err != nil {
		t.Fatal(err)
	}
	produce := func(value string) {
		t.Helper()
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "crm", Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	start := func() (s *Sink, end func()) {
		t.Helper()
		s = assembled(t, Options{}, "BROKER="+broker, "SERVICE="+server.URL, "SLOTS=100000")
		return s, runUntil(t, s)
	}
	// both holds once both lanes have crm's one partition and each is as far as is said.
	both := func(s *Sink, what string, far func(immediate, batch observe.LaneStatus) bool) {
		t.Helper()
		until(t, what, func() bool {
			st, _ := s.Status().(observe.Status)
			return len(st.Lanes) == 2 && len(st.Lanes[0].Partitions) == 2 && len(st.Lanes[1].Partitions) == 1 && far(st.Lanes[0], st.Lanes[1])
		})
	}
	sink, end := start()
	both(sink, "both lanes have begun", func(immediate, batch observe.LaneStatus) bool {
		return immediate.Partitions[0].Committed >= 0 && batch.Partitions[0].Committed >= 0
	})
	api.Hold()
	produce(`{"op":"upsert","key":{"customerNumber":"C0"},"attributes":{"name":"later"}}`)
	until(t, "a file is being loaded", func() bool { return len(api.Executions()) == 1 })
	produce(`{"op":"upsert","key":{"customerNumber":"C1"},"attributes":{"name":"old"}}`)
	produce(`{"op":"delete","key":{"customerNumber":"C1"},"profileId":"17","attributes":{"name":"now"}}`)
	both(sink, "the delete is read by the one lane and made by the other", func(immediate, batch observe.LaneStatus) bool {
		return immediate.Partitions[0].Committed == 3 && batch.Partitions[0].Position == 3
	})
	end()
	sink, end = start()
	defer end()
	produce(`{"op":"upsert","key":{"customerNumber":"C1"},"attributes":{"name":"wrong"}}`)
	both(sink, "all is read again", func(_, batch observe.LaneStatus) bool { return batch.Partitions[0].Position == 4 })
	api.Release()
	both(sink, "all is confirmed", func(_, batch observe.LaneStatus) bool { return batch.Partitions[0].Committed == 4 })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var letters []string
	for _, r := range client.PollFetches(ctx).Records() {
		letters = append(letters, string(r.Value))
	}
	if len(letters) != 1 || letters[0] != `{"op":"upsert","key":{"customerNumber":"C1"},"attributes":{"name":"wrong"}}` {
		t.Errorf("dead letters: got %q, want the record alone whose row was in error", letters)
	}
}
