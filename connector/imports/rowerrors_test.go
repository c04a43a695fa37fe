package imports

import (
	"testing"

	"github.com/feedsink/feedsink/connector/kafka"
)

func TestDeadLettersOnTheirWayAreBoundedInBytes(t *testing.T) {
	room := newDeadLetterRoom()
	large := &kafka.Record{Value: make([]byte, deadLetterBytes+1)} // larger than all room: it goes alone
	small := &kafka.Record{Value: make([]byte, 100)}
	if !room.TryAcquire(roomFor(small)) || room.TryAcquire(roomFor(large)) {
		t.Error("a large dead letter went beside another one")
	}
	room.Release(roomFor(small))
	if !room.TryAcquire(roomFor(large)) || room.TryAcquire(roomFor(small)) {
		t.Error("the large one did not go alone")
	}
}
