package ack_test

import (
	"testing"

	"github.com/feedsink/feedsink/connector/ack"
)

func TestUnknownTopicIDDiffersFromNone(t *testing.T) {
	one, two, unknown := ack.TopicID{1}, ack.TopicID{2}, ack.TopicID{}
	for _, c := range []struct {
		id, from ack.TopicID
		want     bool
	}{{one, two, true}, {one, one, false}, {one, unknown, false}, {unknown, one, false}, {unknown, unknown, false}} {
		if got := c.id.Differs(c.from); got != c.want {
			t.Errorf("%x differs from %x: got %v, want %v", c.id[0], c.from[0], got, c.want)
		}
	}
}
