package e2e_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/receipt"
)

// receiptPlace is what a receipt is about.
type receiptPlace struct {
	topic     string
	partition int32
	offset    int64
	part      int
}

// receipts are those in the topic, by what they are about.
func (w *world) receipts() map[receiptPlace][]receipt.Receipt {
	w.t.Helper()
	ends, err := w.admin.ListEndOffsets(w.t.Context(), w.topic("receipts"))
	if err != nil {
		w.t.Fatal(err)
	}
	client, err := kgo.NewClient(w.reach(kgo.ConsumeTopics(w.topic("receipts")))...)
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	found := map[receiptPlace][]receipt.Receipt{}
	for n := int64(0); n < ends[w.topic("receipts")][0].Offset; {
		fetches := client.PollFetches(w.t.Context())
		if err := fetches.Err0(); err != nil {
			w.t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			opened, err := receipt.Open(r.Key, r.Value)
			if err != nil {
				w.t.Errorf("offset %d of the receipts topic: %v", r.Offset, err)
			}
			at := receiptPlace{opened.Topic, opened.Partition, opened.Offset, opened.Part}
			found[at] = append(found[at], opened)
			n++
		})
	}
	return found
}

// receiptFor checks that each record below the lanes' commits has its receipt, and that
// one that is repeated is of another assignment.
func (w *world) receiptFor(records int) {
	w.t.Helper()
	found := w.receipts()
	if len(found) != records {
		w.t.Errorf("receipts: got those of %d records, want %d", len(found), records)
	}
	for at, all := range found {
		seen := map[time.Time]bool{}
		for _, r := range all {
			if seen[r.Assigned] {
				w.t.Errorf("%v: got two receipts of one assignment: %+v", at, all)
			}
			seen[r.Assigned] = true
		}
	}
	for _, topic := range []string{"customers", "orders"} {
		ends, err := w.admin.ListEndOffsets(w.t.Context(), w.topic(topic))
		if err != nil {
			w.t.Fatal(err)
		}
		for partition, end := range ends[w.topic(topic)] {
			for offset := range end.Offset {
				if len(found[receiptPlace{w.topic(topic), partition, offset, 0}]) == 0 {
					w.t.Errorf("%s[%d] offset %d: is committed, and has no receipt", topic, partition, offset)
				}
			}
		}
	}
}

const receiptsBlock = "\nreceipts: {topic: ${PREFIX}receipts}\n"

// joined waits until a sink has partitions in both lanes: the embedded broker never forgets
// a member that is killed while it joins.
func (w *world) joined(s *process) {
	w.t.Helper()
	w.until("both lanes have partitions", func() bool {
		out := s.out.String()
		return strings.Contains(out, `"partitions assigned" group=`+w.prefix+"sink-immediate") && strings.Contains(out, `"partitions assigned" group=`+w.prefix+"sink-batch")
	})
}

// TestKillsOnlyRepeatReceipts kills the sink again and again while records come, once of
// them while an import runs, which the next owner adopts.
func TestKillsOnlyRepeatReceipts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.createTopics(1, "receipts")
	yaml := head + deadLetters + receiptsBlock + strings.Replace(mappings, "rows: 500, bytes: 1MiB, age: 500ms", "rows: 20, bytes: 1MiB, age: 300ms", 1)
	n := 0
	more := func(count int) {
		for range count {
			n++
			w.produce(customer(fmt.Sprintf("C%d", n%37), "basic", n), order(fmt.Sprintf("o%d", n%11), "PAID", n))
		}
	}
	w.service.Hold()
	first := w.run(yaml)
	more(40)
	w.until("the import is on record", func() bool { return strings.Contains(first.out.String(), "execution is on record") })
	kill := func(s *process) {
		t.Helper()
		if err := s.signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = s.wait() // it was killed
	}
	kill(first)
	w.service.Release()
	for range 3 {
		s := w.run(yaml)
		w.joined(s)
		more(20)
		before := n
		w.until("some of the calls are made", func() bool { return w.lag("immediate", "orders") < int64(before) })
		kill(s)
	}
	last := w.run(yaml)
	more(20)
	w.settled()
	last.terminate(t)
	w.receiptFor(2 * n)
}
