package deadletter_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/deadletter"
)

func TestOpenedLetterIsTheOneThatWasSent(t *testing.T) {
	c := newCluster(t)
	makeTopic(t, c, "retention.ms", "-1")
	p, _ := newPost(t, c)
	record := &kgo.Record{
		Topic: "crm", Partition: 3, Offset: 4711, Key: []byte{0, 255}, Value: nil, Timestamp: time.UnixMilli(1_795_000_000_123),
		Headers: []kgo.RecordHeader{
			{Key: "trace", Value: []byte{0, 255}},
			{Key: "empty"},
			{Key: "__connect.errors.topic", Value: []byte("where it was a dead letter before")},
			{Key: "feedsink.mapping", Value: []byte("another")},
		},
	}
	for _, letter := range []deadletter.Reason{
		{
			Stage: deadletter.Delivering, Code: "rejected", Message: "not today: é", Mapping: "customers", Table: "c", Lane: "batch",
			Status: 400, Execution: "8842", Attempts: 2,
		},
		{Stage: deadletter.Decoding, Code: "decode", Message: "json: offset 0: empty"},
	} {
		if err := send(p, record, letter).await(t); err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range read(t, c, 2) {
		got, err := deadletter.Open(r)
		if err != nil {
			t.Fatal(err)
		}
		want := []int{2, 0}[i]
		if got.Attempts != want || got.Connector != connector || got.Offset != int64(i) {
			t.Errorf("letter %d: got %+v, want %d attempts of %s", i, got, want, connector)
		}
		if i == 0 && got.Reason != (deadletter.Reason{
			Stage: deadletter.Delivering, Code: "rejected", Message: "not today: é", Mapping: "customers", Table: "c", Lane: "batch",
			Status: 400, Execution: "8842", Attempts: 2,
		}) {
			t.Errorf("got %+v, want the letter that was sent", got.Reason)
		}
		back := got.Record
		if back.Topic != "crm" || back.Partition != 3 || back.Offset != 4711 || !bytes.Equal(back.Key, record.Key) || back.Value != nil ||
			!back.Timestamp.Equal(record.Timestamp) || !slices.EqualFunc(back.Headers, record.Headers, sameHeader) {
			t.Errorf("letter %d: got record %+v, want it as it was", i, back)
		}
	}
}

func sameHeader(a, b kgo.RecordHeader) bool { return a.Key == b.Key && bytes.Equal(a.Value, b.Value) }

func TestWhatIsNoLetterIsForeign(t *testing.T) {
	header := func(pairs ...string) (hs []kgo.RecordHeader) {
		for i := 0; i < len(pairs); i += 2 {
			hs = append(hs, kgo.RecordHeader{Key: pairs[i], Value: []byte(pairs[i+1])})
		}
		return hs
	}
	for name, headers := range map[string][]kgo.RecordHeader{
		"no headers":           nil,
		"others only":          header("trace", "1"),
		"no topic":             header("__connect.errors.topic", ""),
		"a partition in words": header("__connect.errors.topic", "a", "__connect.errors.partition", "three"),
		"a negative offset":    header("__connect.errors.topic", "a", "__connect.errors.offset", "-1"),
		"others below":         header("__connect.errors.topic", "a", "trace", "1"),
	} {
		if l, err := deadletter.Open(&kgo.Record{Headers: headers}); !errors.Is(err, deadletter.ErrForeign) {
			t.Errorf("%s: got %+v, %v, want that it is foreign", name, l, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	f.Add("__connect.errors.topic", []byte("crm"), "__connect.errors.offset", []byte("12"), "feedsink.replay.attempts", []byte("1"))
	f.Add("trace", []byte{}, "__connect.errors.topic", []byte("crm"), "__connect.errors.partition", []byte("99999999999999999999"))
	f.Add("__connect.errors.topic", []byte("a"), "feedsink.http.status", []byte("-5"), "feedsink.of.tomorrow", []byte("x"))
	f.Fuzz(func(t *testing.T, k1 string, v1 []byte, k2 string, v2 []byte, k3 string, v3 []byte) {
		r := &kgo.Record{Headers: []kgo.RecordHeader{{Key: k1, Value: v1}, {Key: k2, Value: v2}, {Key: k3, Value: v3}}}
		l, err := deadletter.Open(r)
		if err != nil {
			return
		}
		if l.Record.Topic == "" || l.Record.Partition < 0 || l.Record.Offset < 0 || l.Attempts < 0 || l.Status < 0 || len(l.Record.Headers) > 2 {
			t.Errorf("got %+v of %+v", l, l.Record)
		}
	})
}

// A row that matches no record has no coordinates to tell.
func TestLetterWithoutARecordIsOpened(t *testing.T) {
	c := newCluster(t)
	makeTopic(t, c, "retention.ms", "-1")
	p, _ := newPost(t, c)
	letter := deadletter.Reason{Stage: deadletter.Delivering, Code: "import_row", Message: "bad", Mapping: "customers", Table: "c", Lane: "batch", Execution: "8842"}
	if err := send(p, &kgo.Record{Key: []byte("C1"), Value: []byte("k\nC1\n")}, letter).await(t); err != nil {
		t.Fatal(err)
	}
	r := read(t, c, 1)[0]
	for _, h := range r.Headers {
		switch h.Key {
		case "__connect.errors.topic", "__connect.errors.partition", "__connect.errors.offset":
			t.Errorf("got header %s %q, want none", h.Key, h.Value)
		}
	}
	got, err := deadletter.Open(r)
	if err != nil || !got.NoRecord() || got.Reason != letter || got.Connector != connector || string(got.Record.Value) != "k\nC1\n" || len(got.Record.Headers) > 0 {
		t.Errorf("got %+v, %v, want the letter, of no record", got, err)
	}
	for name, headers := range map[string][]kgo.RecordHeader{
		"no execution":  {{Key: "__connect.errors.connector.name", Value: []byte("x")}},
		"not the first": append([]kgo.RecordHeader{{Key: "trace"}}, r.Headers...),
	} {
		if _, err := deadletter.Open(&kgo.Record{Headers: headers}); !errors.Is(err, deadletter.ErrForeign) {
			t.Errorf("%s: got %v, want %v", name, err, deadletter.ErrForeign)
		}
	}
}
