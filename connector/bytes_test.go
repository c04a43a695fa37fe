package connector

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/kafka"
)

// What comes from the brokers at once lies in one piece of memory: a record whose
// call waits must not keep all of it.
func TestRecordThatWaitsForAnotherTryHasMemoryOfItsOwn(t *testing.T) {
	fetched := []byte("key value one two")
	r := &kafka.Record{
		Topic: "crm", Partition: 3, Offset: 7, Key: fetched[0:3], Value: fetched[4:9],
		Headers: []kgo.RecordHeader{{Key: "h", Value: fetched[10:13]}, {Key: "none"}},
	}
	j := &recordState{}
	j.record.Store(r)
	(&part{recordState: j}).Wait()
	own := j.record.Load()
	copy(fetched, bytes.Repeat([]byte("#"), len(fetched)))
	if own == r || string(own.Key) != "key" || string(own.Value) != "value" || string(own.Headers[0].Value) != "one" || own.Headers[1].Value != nil {
		t.Errorf("got %+v, want a copy of all of it", own)
	}
	if own.Topic != "crm" || own.Partition != 3 || own.Offset != 7 {
		t.Errorf("got %s[%d]@%d, want its place", own.Topic, own.Partition, own.Offset)
	}
	j.record.Store(&kafka.Record{})
	(&part{recordState: j}).Wait()
	if got := j.record.Load(); got.Value != nil || got.Key != nil {
		t.Errorf("a tombstone: got key %v and value %v, want none", got.Key, got.Value)
	}
}
