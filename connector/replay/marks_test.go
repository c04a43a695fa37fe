package replay

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/ack"
)

func TestMarksFitIntoACommitWhateverIsSet(t *testing.T) {
	var c chunk
	for i := range int64(chunkSize) {
		c.tried.set(i)
		if i%2 == 0 {
			c.done.set(i)
		}
	}
	text := c.encode(ack.TopicID{1})
	if len(text) > ack.MetadataLimit {
		t.Errorf("got %d characters, want at most %d", len(text), ack.MetadataLimit)
	}
	back, err := decodeChunk(text, ack.TopicID{1})
	if err != nil || *back != c {
		t.Errorf("read back: got other marks, %v", err)
	}
	if got := c.next(); got != 1 {
		t.Errorf("next: got %d, want 1", got)
	}
	if _, err := decodeChunk(text, ack.TopicID{2}); !errors.Is(err, errOldTopic) {
		t.Errorf("marks of another topic: got %v, want that they are old", err)
	}
}

func TestMarksOfOthersAreForeign(t *testing.T) {
	good := (&chunk{}).encode(ack.TopicID{})
	for _, text := range []string{"", "feedsink1.AAAA", version, version + "!", good + "A", good[:len(good)-4], strings.TrimPrefix(good, "r")} {
		if _, err := decodeChunk(text, ack.TopicID{}); !errors.Is(err, errForeign) {
			t.Errorf("%.20q…: got %v, want that it is foreign", text, err)
		}
	}
}

func TestReasonsOfDiscardsFitOrAreRefused(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	d := discards{}
	for i := range int64(chunkSize) {
		d.add(i, []string{"one reason", "another"}[random.IntN(2)])
	}
	text, err := d.encode(ack.TopicID{1})
	if err != nil {
		t.Fatalf("two reasons: got %v, want them to fit, whichever letters have them", err)
	}
	back, err := decodeDiscards(text, ack.TopicID{1})
	if err != nil || !reflect.DeepEqual(back, d) {
		t.Errorf("read back: got others, %v", err)
	}
	if _, err := decodeDiscards(text, ack.TopicID{2}); !errors.Is(err, errOldTopic) {
		t.Errorf("of another topic: got %v, want that they are old", err)
	}
	many := discards{}
	for i := range int64(chunkSize) {
		many.add(i, fmt.Sprint("reason ", random.IntN(20)))
	}
	if text, err := many.encode(ack.TopicID{1}); err == nil {
		t.Errorf("twenty reasons, mixed: got %d bytes, want an error", len(text))
	}
}

func FuzzDecodeDiscards(f *testing.F) {
	d := discards{}
	d.add(7, "why")
	text, _ := d.encode(ack.TopicID{})
	f.Add(text)
	f.Add(discardVersion + "AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := decodeDiscards(text, ack.TopicID{})
		if err != nil {
			return
		}
		text, err = d.encode(ack.TopicID{})
		if err != nil {
			return // others may pack tighter
		}
		if again, err := decodeDiscards(text, ack.TopicID{}); err != nil || !reflect.DeepEqual(again, d) {
			t.Errorf("encoded and decoded again: got others, %v", err)
		}
	})
}

func FuzzDecodeMarks(f *testing.F) {
	c := chunk{}
	c.done.set(7)
	f.Add(c.encode(ack.TopicID{}))
	f.Add(version + "AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := decodeChunk(text, ack.TopicID{})
		if err != nil {
			return
		}
		if again, err := decodeChunk(c.encode(ack.TopicID{}), ack.TopicID{}); err != nil || *again != *c {
			t.Errorf("encoded and decoded again: other marks, %v", err)
		}
	})
}
