package cluster

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// fetchSize keeps what the client has fetched and was not polled within a
// bound. Brokers are asked for compressed bytes, and what they unpack to is
// not known: so it is learnt from the batches that come, and the next fetches
// are as large as such batches allow.
type fetchSize struct {
	limit int64     // bytes, unpacked, of what waits in the client
	most  fetchMost // however small the batches are

	mu      sync.Mutex
	client  *kgo.Client
	brokers map[int32]bool // that have sent something; each may hold one fetch
	ratio   float64        // unpacked to sent: of the worst batch recently
	now     int64          // what is asked for, of a broker
}

// fetchMost is the most that is asked for: small fetches are fast enough.
// Brokers are not taken in turns, or an idle one would hold up the others for its
// FetchMaxWait.
type fetchMost struct{ broker, partition int64 }

var (
	groupFetch = fetchMost{broker: 1 << 20, partition: 256 << 10}
	tailFetch  = fetchMost{broker: 8 << 20, partition: 1 << 20}
)

// RecordBytes is what a fetched record takes beside its bytes.
const RecordBytes = 256

const (
	// firstFetch is what is asked for before anything is known, leastFetch the
	// least. A broker sends a batch, and so a record, that is larger all the same.
	firstFetch = 64 << 10
	leastFetch = 4 << 10
	// forgetting is how many batches it takes to forget one that unpacked to more.
	forgetting = 64
	// batchShare is how many times the bound one batch may unpack to.
	batchShare = 4
)

func newFetchSize(limit int64, most fetchMost) *fetchSize {
	if limit <= 0 {
		limit = DefaultFetched
	}
	return &fetchSize{limit: limit, most: most, brokers: map[int32]bool{}, now: firstFetch}
}

// newClient is a client that fetches so much.
func (f *fetchSize) newClient(opts ...kgo.Opt) (*kgo.Client, error) {
	client, err := kgo.NewClient(append(opts, kgo.WithHooks(f),
		kgo.FetchMaxBytes(firstFetch), kgo.FetchMaxPartitionBytes(firstFetch),
		kgo.MaxDecompressBatchBytes(int(min(batchShare*f.limit, math.MaxInt32))))...) // more the client does not take
	if err != nil {
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.client = client
	return client, nil
}

// OnFetchBatchRead is the client's hook.
func (f *fetchSize) OnFetchBatchRead(from kgo.BrokerMetadata, _ string, _ int32, batch kgo.FetchBatchMetrics) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.brokers[from.NodeID] = true
	unpacked := float64(batch.UncompressedBytes + RecordBytes*batch.NumRecords)
	ratio := unpacked / float64(max(batch.CompressedBytes, 1))
	f.ratio = max(ratio, f.ratio-(f.ratio-ratio)/forgetting)
	size := int64(float64(f.limit) / 2 / float64(len(f.brokers)) / f.ratio)
	size = max(leastFetch, min(size, f.most.broker))
	if f.client == nil || size < f.now+f.now/8 && size > f.now-f.now/8 {
		return
	}
	f.now = size
	f.client.UpdateFetchMaxBytes(int32(size), int32(min(size, f.most.partition)))
}

// TooLarge says in our words that a batch unpacks to more than may be fetched.
func TooLarge(err error) error {
	if e, ok := errors.AsType[*kgo.ErrDecompressTooLarge](err); ok {
		return fmt.Errorf("the batch at offset %d unpacks to more than %d times memory.fetched: %w", e.Offset, batchShare, kgo.ErrMaxDecompress)
	}
	return err
}
