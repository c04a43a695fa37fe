package receipt

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/schemas"
)

type counted struct{ *sync.WaitGroup }

func (c counted) Acknowledged() { c.Done() }

// What a receipt was in is used again for the next, but not before Kafka has it.
func TestEachReceiptIsWrittenAsItWasSent(t *testing.T) {
	const topic, waves, wave = "receipts", 4, 500
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, topic))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	w, err := NewWriter([]kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)}, topic, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	sent := map[int64]Receipt{}
	for n := range waves {
		var open sync.WaitGroup
		open.Add(wave)
		for i := range wave {
			r := Receipt{Topic: "crm", Offset: int64(n*wave + i), Parts: 1, Lane: schemas.Batch, Mapping: "customers", Op: schemas.Upsert, Ended: time.UnixMilli(1)}
			if i%2 == 0 {
				r.Key = Key{ID: "0a0b0c0d", Hash: [HashSize]byte{byte(n), byte(i)}}
			}
			sent[r.Offset] = r
			w.Send(&r, counted{&open})
		}
		open.Wait()
	}
	if got := w.Sent().Receipts; got != waves*wave {
		t.Errorf("acknowledged: got %d, want %d", got, waves*wave)
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for read := 0; read < waves*wave; {
		fetches := reader.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		for record := range fetches.RecordsAll() {
			read++
			r, err := Open(record.Key, record.Value)
			if want := sent[r.Offset]; err != nil || r != want {
				t.Fatalf("got %+v, %v, want %+v, once", r, err, want)
			}
			delete(sent, r.Offset)
		}
	}
}
