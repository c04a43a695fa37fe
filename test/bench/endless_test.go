package main

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/schemas"
)

// TestEndlessTopicRepeatsWhatItHolds: a consumer sees as many records as it seems
// long, with no offset missing or twice, and what was produced again and again.
func TestEndlessTopicRepeatsWhatItHolds(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	e := newEndless(cluster)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DefaultProduceTopic(endlessTopic),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerBatchMaxBytes(4096),
		kgo.ConsumeTopics(endlessTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	const held, each = 3000, 1000 // records held in all, and seemingly in each partition
	next := distinct(held).next
	for i := range held {
		key, value := next(i)
		client.Produce(t.Context(), &kgo.Record{Key: key, Value: value}, nil)
	}
	if err := client.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.stretch(each * partitions)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var offsets [partitions]int64
	keys := map[string]int{}
	for n := 0; n < each*partitions; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %d records: %v", n, err)
		}
		for it := fetches.RecordIter(); !it.Done(); n++ {
			r := it.Next()
			if r.Offset != offsets[r.Partition] {
				t.Fatalf("partition %d: got offset %d, want %d", r.Partition, r.Offset, offsets[r.Partition])
			}
			offsets[r.Partition]++
			keys[string(r.Key)]++
		}
	}
	// The last batch of a partition may reach beyond its end.
	for id, got := range offsets {
		if got < each {
			t.Errorf("partition %d: got %d records, want %d", id, got, each)
		}
	}
	if len(keys) != held {
		t.Errorf("got %d keys, want the %d that it holds", len(keys), held)
	}
}

// TestGrowthIsTheMedianOfTheTrips: one trip in an hour that was not like the others
// decides nothing.
func TestGrowthIsTheMedianOfTheTrips(t *testing.T) {
	trip := func(first, last float64) []sample {
		return []sample{{CPU: first, RSS: 100e6, Rate: 5000}, {CPU: 9, RSS: 50e6, Rate: 5000}, {CPU: last, RSS: 109e6, Rate: 4000}}
	}
	var got []string
	for _, f := range grown(schemas.Immediate, []int64{1e6, 10e6, 50e6}, [][]sample{trip(10, 10.5), trip(10, 16), trip(10, 10)}) {
		got = append(got, f.Got)
		if !f.Met {
			t.Errorf("%s: %s is missed", f.What, f.Got)
		}
	}
	want := []string{
		"10.00 (10.00–10.00) CPU-s per million, peak RSS 100 MB, 5000/s", "9.00 (9.00–9.00) CPU-s per million, peak RSS 50 MB, 5000/s",
		"10.50 (10.00–16.00) CPU-s per million, peak RSS 109 MB, 4000/s", "5.0 % (0.0–60.0)", "9.0 % (9.0–9.0)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	if worse := grown(schemas.Immediate, []int64{1e6, 10e6, 50e6}, [][]sample{trip(10, 11.2)}); worse[3].Met || !worse[4].Met {
		t.Errorf("12 %% more CPU and 9 %% more memory: got %+v, want only the first missed", worse[3:])
	}
}
