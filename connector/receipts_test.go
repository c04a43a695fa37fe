package connector

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/receipt"
	"github.com/feedsink/feedsink/schemas"
)

// receiptsWorld is a sink with receipts between a broker and the service.
type receiptsWorld struct {
	*testing.T
	client *kgo.Client
	admin  *kadm.Client
	api    *sandbox.Sandbox
	env    []string

	mu   sync.Mutex
	read []receipt.Receipt // in the order of the topic, which has one partition
}

func newReceiptsWorld(t *testing.T, topics ...string) *receiptsWorld {
	t.Helper()
	cluster, api, server := startBoth(t, kfake.SeedTopics(1, append(topics, "crm", "shop", "dlq")...))
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("the-receipts-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics("receipts"), kgo.MetadataMinAge(10*time.Millisecond), kgo.MetadataMaxAge(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	w := &receiptsWorld{
		T: t, client: client, admin: kadm.NewClient(client), api: api,
		env: []string{"BROKER=" + cluster.ListenAddrs()[0], "SERVICE=" + server.URL, "RECEIPTS=receipts", "RECEIPTS_KEY=" + key},
	}
	ctx, cancel := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	reading.Go(func() {
		for ctx.Err() == nil {
			client.PollFetches(ctx).EachRecord(w.opens)
		}
	})
	t.Cleanup(func() { cancel(); reading.Wait(); client.Close() })
	return w
}

func (w *receiptsWorld) opens(r *kgo.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	opened, err := receipt.Open(r.Key, r.Value)
	if err != nil {
		w.Errorf("offset %d of the receipts topic: %v", r.Offset, err)
	}
	w.read = append(w.read, opened)
}

func (w *receiptsWorld) receipts() []receipt.Receipt {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.read)
}

func (w *receiptsWorld) sink() *Sink {
	w.Helper()
	s, err := assemble(w.T, Options{}, w.env...)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

func (w *receiptsWorld) produce(topic string, values ...string) {
	w.Helper()
	for _, v := range values {
		if err := w.client.ProduceSync(w.Context(), &kgo.Record{Topic: topic, Value: []byte(v)}).FirstErr(); err != nil {
			w.Fatal(err)
		}
	}
}

// committed is what the lane has committed of a topic; -1: nothing.
func (w *receiptsWorld) committed(lane schemas.Lane, topic string) int64 {
	offsets, err := w.admin.FetchOffsets(w.Context(), lane.Group("feedsink"))
	if err != nil {
		return -1
	}
	if o, ok := offsets.Lookup(topic, 0); ok {
		return o.At
	}
	return -1
}

// lines are the receipts without times, sorted by their places.
func (w *receiptsWorld) lines() string {
	all := w.receipts()
	slices.SortStableFunc(all, func(a, b receipt.Receipt) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Part, b.Part))
	})
	var b strings.Builder
	for _, r := range all {
		fmt.Fprintf(&b, "%s %d %d/%d %v %s %v %d %q row %d key %v\n", r.Topic, r.Offset, r.Part, r.Parts, r.Lane, r.Mapping, r.Outcome, r.Status, r.Execution, r.Row, r.Key.ID != "")
	}
	return b.String()
}

func TestEachEventOfTheImmediateLaneHasOneReceipt(t *testing.T) {
	w := newReceiptsWorld(t, "receipts")
	run(t, w.sink())
	w.produce("shop",
		`{"op":"upsert","businessKey":"o1","properties":{"status":"PAID"}}`,
		`{"op":"patch","businessKey":"nobody","properties":{"status":"PAID"}}`,
		`{`,
		`{"op":"delete","businessKey":"gone"}`,
	)
	until(t, "all is committed", func() bool { return w.committed(schemas.Immediate, "shop") == 4 })
	want := `shop 0 0/1 immediate orders called 0 "" row 0 key true
shop 1 0/1 immediate orders dead_letter 404 "" row 0 key true
shop 2 0/1 immediate  dead_letter 0 "" row 0 key false
shop 3 0/1 immediate orders absent 404 "" row 0 key true
`
	until(t, "the receipts were read", func() bool { return len(w.receipts()) >= 4 })
	if got := w.lines(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	for _, r := range w.receipts() {
		if r.Ended.Before(r.Assigned) || r.Assigned.IsZero() || r.Written.IsZero() {
			t.Errorf("offset %d: written %v, assigned %v, ended %v; want all there, and ended last", r.Offset, r.Written, r.Assigned, r.Ended)
		}
	}
}

func TestNothingIsConfirmedBeforeItsReceiptIs(t *testing.T) {
	w := newReceiptsWorld(t)
	s := w.sink()
	run(t, s)
	w.produce("shop", `{"op":"upsert","businessKey":"o1","properties":{"status":"PAID"}}`)
	w.produce("crm", `{"op":"upsert","key":{"customerNumber":"C2"},"attributes":{"name":"later"}}`)
	until(t, "both lanes wait for the topic, and say so", func() bool {
		n := 0
		for _, wait := range s.now().waits() {
			if wait.Topic == "receipts" && strings.Contains(wait.Why, "receipts topic") {
				n++
			}
		}
		return n == 2
	})
	if at := w.committed(schemas.Immediate, "shop"); at > 0 {
		t.Fatalf("no receipt can be written: got offset %d committed, want none", at)
	}
	if _, err := w.admin.CreateTopic(t.Context(), 1, 1, nil, "receipts"); err != nil {
		t.Fatal(err)
	}
	until(t, "it goes on with the topic", func() bool {
		return w.committed(schemas.Immediate, "shop") == 1 && w.committed(schemas.Batch, "crm") == 1
	})
	until(t, "the receipts were read", func() bool { return len(w.receipts()) == 2 })
}

func TestEachEventOfTheBatchLaneHasOneReceipt(t *testing.T) {
	w := newReceiptsWorld(t, "receipts")
	w.produce("crm", // one row: a second file would wait for its slot
		`{"op":"upsert","key":{"customerNumber":"C1"},"attributes":{"name":"now"}}`, // a call
		`{"op":"upsert","key":{"customerNumber":"C2"},"attributes":{"name":"later"}}`,
		`{"op":"upsert","key":{"customerNumber":"C3"},"attributes":{"name":"`+strings.Repeat("x", 300)+`"}}`, // too long: no row
		`{"op":"delete","key":{"customerNumber":"C4"}}`,                                                      // no import deletes
	)
	run(t, w.sink())
	until(t, "all is committed", func() bool {
		return w.committed(schemas.Immediate, "crm") == 4 && w.committed(schemas.Batch, "crm") == 4
	})
	until(t, "the receipts were read", func() bool { return len(w.receipts()) >= 4 })
	got := w.lines()
	for _, want := range []string{"crm 0 0/1 immediate customers called", "crm 1 0/1 batch customers imported", "crm 2 0/1 batch customers dead_letter", "crm 3 0/1 batch customers dead_letter"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("got\n%swant one %q", got, want)
		}
	}
	if strings.Count(got, "\n") != 4 {
		t.Errorf("got\n%swant 4 receipts", got)
	}
	for _, r := range w.receipts() {
		if r.Outcome == receipt.Imported && (r.Execution == "" || r.Row != receipt.Loaded || r.Started.IsZero() || r.Key.ID == "") {
			t.Errorf("got %+v, want its execution, when it began, and the key", r)
		}
	}
}

// TestRowsOfAutoRoutesSayWhetherTheyWereCalled: calls end at once, but for one key's, whose rows
// go by file.
func TestRowsOfAutoRoutesSayWhetherTheyWereCalled(t *testing.T) {
	w := newReceiptsWorld(t, "receipts")
	w.env = append(w.env, "ROUTES=[{lane: auto}]", "AGE=2s")
	w.api.Inject(sandbox.Fault{Match: sandbox.Match{Op: 1, Key: "C2"}, Answer: sandbox.Status(http.StatusTooManyRequests)})
	w.produce("crm",
		`{"op":"upsert","key":{"customerNumber":"C1"},"attributes":{"name":"a"}}`,
		`{"op":"upsert","key":{"customerNumber":"C2"},"attributes":{"name":"b"}}`,
		`{"op":"upsert","key":{"customerNumber":"C3"},"attributes":{"name":"`+strings.Repeat("x", 300)+`"}}`, // too long
		`{"op":"upsert","key":{"customerNumber":"C2"},"attributes":{"name":"c"}}`,
	)
	run(t, w.sink())
	until(t, "all is committed", func() bool { return w.committed(schemas.Batch, "crm") == 4 })
	until(t, "the receipts were read", func() bool { return len(w.receipts()) >= 4 })
	got := w.lines()
	for _, want := range []string{"crm 0 0/1 batch customers called", "crm 1 0/1 batch customers imported", "crm 2 0/1 batch customers dead_letter", "crm 3 0/1 batch customers imported"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("got\n%swant one %q", got, want)
		}
	}
	if strings.Count(got, "\n") != 4 {
		t.Errorf("got\n%swant 4 receipts", got)
	}
}
