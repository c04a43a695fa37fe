package e2e_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestPartitionsThatAreAddedAreReadFromTheirStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	sink := w.start(head + deadLetters + mappings)
	w.produce(customer("C1", "gold", 1), customer("C2", "basic", 1))
	w.settled()
	if _, err := w.admin.UpdatePartitions(t.Context(), 2*partitions, w.topic("customers")); err != nil {
		t.Fatal(err)
	}
	w.until("the broker tells of them", func() bool {
		topics, err := w.admin.ListTopics(t.Context(), w.topic("customers"))
		return err == nil && len(topics[w.topic("customers")].Partitions) == 2*partitions
	})
	// To the new partitions, before the sink has noticed them.
	client, err := kgo.NewClient(w.reach(kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	const each = 5
	for p := int32(partitions); p < 2*partitions; p++ {
		for i := range each {
			r := customer(fmt.Sprintf("N%d-%d", p, i), []string{"gold", "basic"}[i%2], 1)
			r.Topic, r.Partition = w.topic(r.Topic), p
			if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.until("the rows of the new partitions arrive", func() bool { return w.service.Len("customers") == 2+partitions*each })
	w.settled()
	sink.stop()
	if got := w.dead(); len(got) != 0 {
		t.Errorf("dead letters: got %d, want none", len(got))
	}
}

// An operator who resets a group writes offsets without a ledger.
func TestGroupThatAnOperatorHasResetIsReadAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	sink := w.start(head + deadLetters + mappings)
	for seq := 1; seq <= 3; seq++ {
		w.produce(customer("C1", "gold", seq), customer("C2", "basic", seq), order("o1", "PAID", seq))
	}
	w.settled()
	sink.stop()
	before := w.service.Calls()
	for _, lane := range []string{"immediate", "batch"} {
		offsets := kadm.Offsets{}
		for p := range int32(partitions) {
			offsets.AddOffset(w.topic("customers"), p, 0, -1)
			if lane == "immediate" {
				offsets.AddOffset(w.topic("orders"), p, 0, -1)
			}
		}
		if err := w.admin.CommitAllOffsets(t.Context(), w.prefix+"sink-"+lane, offsets); err != nil {
			t.Fatal(err)
		}
	}
	if w.lag("immediate", "customers") == 0 || w.lag("batch", "customers") == 0 {
		t.Fatal("the groups were not reset")
	}
	sink = w.start(head + deadLetters + mappings)
	w.settled()
	sink.stop()
	if got := len(w.service.Calls()); got == len(before) {
		t.Error("calls after the reset: got none, want the records sent again")
	}
	for key, table := range map[string]string{"C1": "customers", "C2": "customers", "o1": "orders"} {
		if got := w.service.Rows(table)[key].Text("seq"); got != "3" {
			t.Errorf("%s: got seq %q, want the newest, 3", key, got)
		}
	}
	if got := w.dead(); len(got) != 0 {
		t.Errorf("dead letters: got %d, want none", len(got))
	}
}

func TestSpoolThatIsRemovedLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.start(head + deadLetters + mappings)
	const customers = 40
	for i := range customers {
		w.produce(customer(fmt.Sprint("C", i), "basic", 1))
		if i%8 == 7 {
			if err := os.RemoveAll(w.dir + "/spool"); err != nil {
				t.Fatal(err)
			}
			w.until("what was sent before goes on", func() bool { return w.service.Len("customers") >= i-8 })
		}
	}
	w.settled()
	if got := w.service.Len("customers"); got != customers {
		t.Errorf("customers: got %d, want %d", got, customers)
	}
}
