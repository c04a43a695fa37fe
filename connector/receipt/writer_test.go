package receipt

import (
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/schemas"
)

const topic = "receipts"

// writerWorld is a writer to a broker, and what it has sent.
type writerWorld struct {
	*testing.T
	cluster *kfake.Cluster
	client  *kgo.Client
	*Writer
	sent map[int64]Receipt // by offset
}

func newWriterWorld(t *testing.T, brokers int, partitions int32) *writerWorld {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(brokers), kfake.SeedTopics(partitions, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	seeds := kgo.SeedBrokers(cluster.ListenAddrs()...)
	w, err := NewWriter([]kgo.Opt{seeds}, topic, rand.New(rand.NewPCG(1, 2)), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	client, err := kgo.NewClient(seeds, kgo.ConsumeTopics(topic), kgo.MetadataMinAge(10*time.Millisecond), kgo.MetadataMaxAge(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &writerWorld{t, cluster, client, w, map[int64]Receipt{}}
}

type counted struct{ *sync.WaitGroup }

func (c counted) Acknowledged(n int) { c.Add(-n) }

// wave sends n receipts, of which every second has a key, and waits until each is acknowledged.
func (w *writerWorld) wave(n int) {
	var open sync.WaitGroup
	open.Add(n)
	for i := range n {
		r := Receipt{Topic: "crm", Offset: int64(len(w.sent)), Parts: 1, Lane: schemas.Batch, Mapping: "customers", Op: schemas.Upsert, Ended: time.UnixMilli(int64(1000 + i%7))}
		if i%2 == 0 {
			r.Key = Key{ID: "0a0b0c0d", Hash: [HashSize]byte{byte(i), byte(i >> 8)}}
		}
		w.sent[r.Offset] = r
		w.Send(&r, counted{&open})
	}
	open.Wait()
}

// read reads until each receipt that was sent has come, and compares. Each keyed one lies where
// other producers would put it.
func (w *writerWorld) read(partitions int) {
	place := kgo.StickyKeyPartitioner(nil).ForTopic(topic)
	for came := map[int64]bool{}; len(came) < len(w.sent); {
		fetches := w.client.PollFetches(w.Context())
		if err := fetches.Err(); err != nil {
			w.Fatal(err)
		}
		for record := range fetches.RecordsAll() {
			r, err := Open(record.Key, record.Value)
			if want := w.sent[r.Offset]; err != nil || r != want {
				w.Fatalf("got %+v, %v, want %+v", r, err, want)
			}
			if !record.Timestamp.Equal(r.Ended) {
				w.Errorf("offset %d: got the time %v, want %v", r.Offset, record.Timestamp, r.Ended)
			}
			if record.Key != nil && int(record.Partition) != place.Partition(record, partitions) {
				w.Errorf("offset %d: got partition %d, want %d", r.Offset, record.Partition, place.Partition(record, partitions))
			}
			came[r.Offset] = true
		}
	}
}

// What a receipt was in is used again for the next, but not before Kafka has it.
func TestEachReceiptIsWrittenAsItWasSent(t *testing.T) {
	w := newWriterWorld(t, 1, 3)
	for range 4 {
		w.wave(3000) // more than one lot
	}
	w.read(3)
}

// Brokers refuse batches, answer late or not at all, take only small ones, and their partitions
// move: each receipt is acknowledged once, and is there.
func TestReceiptsOutliveWhatBrokersDo(t *testing.T) {
	w := newWriterWorld(t, 2, 3)
	requests := 0
	w.cluster.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		requests++
		all := request.(*kmsg.ProduceRequest)
		refuse := func(code int16) (kmsg.Response, error, bool) {
			answer := all.ResponseKind().(*kmsg.ProduceResponse)
			for _, of := range all.Topics {
				t := kmsg.NewProduceResponseTopic()
				t.Topic, t.TopicID = of.Topic, of.TopicID
				for i := range of.Partitions {
					p := kmsg.NewProduceResponseTopicPartition()
					p.Partition, p.ErrorCode = of.Partitions[i].Partition, code
					t.Partitions = append(t.Partitions, p)
				}
				answer.Topics = append(answer.Topics, t)
			}
			return answer, nil, true
		}
		switch requests {
		case 1:
			return refuse(kerr.NotLeaderForPartition.Code)
		case 2:
			return all.ResponseKind(), nil, true // of nothing
		case 3:
			_ = w.cluster.MoveTopicPartition(topic, 0, 1)
		}
		for _, of := range all.Topics {
			for i := range of.Partitions {
				if len(of.Partitions[i].Records) > 4000 {
					return refuse(kerr.MessageTooLarge.Code)
				}
			}
		}
		return nil, nil, false
	})
	w.wave(2000)
	w.read(3)
}

// The topic is deleted and made again, with fewer partitions.
func TestReceiptsGoToATopicThatWasMadeAgain(t *testing.T) {
	w := newWriterWorld(t, 1, 3)
	w.wave(10)
	admin := kadm.NewClient(w.client)
	if _, err := admin.DeleteTopic(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	clear(w.sent)
	w.wave(10)
	if trouble := w.Err(); trouble != nil {
		t.Errorf("after the receipts were acknowledged: got trouble %v, want none", trouble)
	}
	ends, err := admin.ListEndOffsets(t.Context(), topic)
	if end, _ := ends.Lookup(topic, 0); err != nil || end.Offset != 10 {
		t.Errorf("got %d receipts, %v, want 10", end.Offset, err)
	}
}
