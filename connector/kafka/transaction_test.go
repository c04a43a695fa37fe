package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestAbortedTransactionsNeverHappened(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	m := b.join(autoLane(t))
	producer, err := kgo.NewClient(kgo.SeedBrokers(b.ListenAddrs()...), kgo.TransactionalID("shop"), kgo.DefaultProduceTopic("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit, kgo.TryAbort} {
		if err := producer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := producer.ProduceSync(t.Context(), kgo.StringRecord("one"), kgo.StringRecord("two")).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := producer.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	// Each transaction is two records and the mark that ends it.
	m.awaitOffsets("a", 0, 0, 1, 6, 7)
	b.awaitCommit("a", 0, 12)
}
