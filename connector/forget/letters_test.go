package forget_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/forget"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
)

var at = time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)

// lettersOf has one record for each word: k or K is the key's, open or ended; o or O another's, open or
// ended; f one that is no letter; t a tombstone; u one that cannot be read. A number behind it is its Kafka key.
func lettersOf(c cluster.Cleanup, records string) *forget.Letters {
	s := &forget.Letters{Topic: "dlq", Cleanup: c}
	for i, word := range strings.Fields(records) {
		r := &deadletter.Record{Topic: "dlq", Offset: int64(i), Key: []byte(word[1:]), Value: []byte("{}"), Timestamp: at}
		if word[1:] == "" {
			r.Key = nil
		}
		l := &deadletter.Received{Offset: int64(i), Record: &deadletter.Record{Topic: "orders", Offset: int64(i)}}
		whose, open := forget.Another, word[0] == 'o'
		switch word[0] {
		case 'k', 'K':
			whose, open = forget.OfKey, word[0] == 'k'
		case 'u':
			whose, open = forget.Unclear, true
		case 't':
			l, r.Value = nil, nil
		case 'f':
			l = nil
		}
		s.Add(r, l, whose, "", open)
	}
	return s
}

func TestDeadLettersGoAsTheirTopicAllows(t *testing.T) {
	week := cluster.Cleanup{Deleted: true, Retention: 168 * time.Hour}
	endless := cluster.Cleanup{Deleted: true}
	compacted := cluster.Cleanup{Compacted: true}
	both := cluster.Cleanup{Compacted: true, Deleted: true}
	for _, c := range []struct {
		cleanup                        cluster.Cleanup
		records                        string
		states                         string
		before, tombstones, discarding string
	}{
		{week, "k1 O2 K1 o3 k1", "removable/removable/goes", "3", "", "0 4"},
		{week, "f2 k1", "goes", "", "", "1"},
		{week, "O2 O3 o4", "", "", "", ""},
		{endless, "o2 k1", "left", "", "", "1"},
		{endless, "k1 k", "removable/removable", "2", "", "0 1"},
		{endless, "u1 k1", "left/left", "", "", "1"},
		{compacted, "o2 k1 K1 k3", "goes/removable/removable", "", "1 3", "1 3"},
		{compacted, "k1 o1", "goes", "", "", "0"},
		{compacted, "k1 t1", "goes", "", "", "0"},
		{compacted, "k", "left", "", "", "0"},
		{both, "k1 o2 k1 k3", "removable/removable/removable", "1", "1 3", "0 2 3"},
		{both, "t2 k1", "removable", "2", "", "1"},
	} {
		s := lettersOf(c.cleanup, c.records)
		var states []string
		for _, p := range s.Places() {
			states = append(states, string(p.State))
		}
		removal := s.Removal()
		p := cluster.TopicPartition{Topic: "dlq"}
		var before string
		if n, ok := removal.Before[p]; ok {
			before = fmt.Sprint(n)
		}
		var discarding []string
		for i := range int64(10) {
			if removal.Discard[p][i] {
				discarding = append(discarding, fmt.Sprint(i))
			}
		}
		var tombstones []string
		for _, key := range removal.Tombstones[p] {
			tombstones = append(tombstones, string(key))
		}
		got := fmt.Sprintf("[%s]; before %s; tombstones %s; discard %s", strings.Join(states, "/"), before, tombstones, discarding)
		want := fmt.Sprintf("[%s]; before %s; tombstones [%s]; discard [%s]", c.states, c.before, c.tombstones, c.discarding)
		if got != want {
			t.Errorf("%+v, %s:\ngot  %s\nwant %s", c.cleanup, c.records, got, want)
		}
	}
}

// What cannot be read is only said to be of the key if the key is a word of it.
func TestNamesFindsTheKeyAsAWord(t *testing.T) {
	for value, want := range map[string]bool{
		`{"id":"C12"`: true, `C12`: true, `x C12,`: true, `{"id":"C123"`: false, `AC12`: false, "\xffC12\xff": true, `C123 C12`: true, ``: false, `éC12`: false,
	} {
		if got := forget.Names(&deadletter.Record{Value: []byte(value)}, "C12"); got != want {
			t.Errorf("%q: got %v, want %v", value, got, want)
		}
	}
}

// Only what a second look does not find is told to be removed.
func TestWhatIsStillThereIsNotRemoved(t *testing.T) {
	earlier := []forget.Place{
		{Kind: forget.File, Where: "a", State: forget.Removable, Yes: "remove"},
		{Kind: forget.File, Where: "b", State: forget.Removable, Yes: "remove"},
		{Kind: forget.File, Where: "c", State: forget.Goes},
	}
	r := forget.Report{Places: []forget.Place{earlier[1], {Kind: forget.Table, Where: "t", State: forget.Others}}}
	r.Close(earlier)
	var got []string
	for _, p := range r.Places {
		got = append(got, p.Where+" "+string(p.State))
	}
	if want := "[t others b removable a removed]"; fmt.Sprint(got) != want || r.Left != 1 {
		t.Errorf("got %v, %d left, want %s, 1 left", got, r.Left, want)
	}
}

func TestHoursLeavesOutWhatIsZero(t *testing.T) {
	for d, want := range map[time.Duration]string{168 * time.Hour: "168h", 90 * time.Minute: "1h30m", 10 * time.Second: "10s", 70 * time.Second: "1m10s", 10 * time.Hour: "10h"} {
		if got := forget.Hours(d); got != want {
			t.Errorf("%d: got %s, want %s", d, got, want)
		}
	}
}
