package connector

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/schemas"
)

// besideImmediate is the batch lane beside a ledger of the immediate lane that the
// test writes.
type besideImmediate struct {
	t      *testing.T
	sink   *Sink
	client *kgo.Client
	api    *sandbox.Sandbox
}

func newBesideImmediate(t *testing.T) *besideImmediate {
	t.Helper()
	cluster, api, server := startBoth(t, kfake.SeedTopics(1, "crm", "shop", "dlq"))
	broker := cluster.ListenAddrs()[0]
	client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.ConsumeTopics("dlq"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	b := &besideImmediate{t: t, client: client, api: api}
	if b.sink, err = assemble(t, Options{Lanes: []schemas.Lane{schemas.Batch}}, "BROKER="+broker, "SERVICE="+server.URL); err != nil {
		t.Fatal(err)
	}
	return b
}

// confirmed has the immediate lane confirm the first record of crm, which is below
// what it applies the mapping's routes to, or others.
func (b *besideImmediate) confirmed(others bool) {
	b.t.Helper()
	routes := b.sink.now().router.Mappings()[0].Routes
	if others {
		routes++
	}
	ledger := ack.Ledger{Routes: ack.Routes{Changed: 5, Passed: true, Shared: true, Epochs: []ack.Epoch{{Fingerprint: routes, From: 1}}}}
	metadata, _, err := ledger.Encode(1, ack.MetadataLimit)
	if err != nil {
		b.t.Fatal(err)
	}
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: "crm", At: 1, LeaderEpoch: -1, Metadata: metadata})
	if err := kadm.NewClient(b.client).CommitAllOffsets(b.t.Context(), "feedsink-immediate", offsets); err != nil {
		b.t.Fatal(err)
	}
}

func (b *besideImmediate) produce(value string) *kgo.Record {
	b.t.Helper()
	r := &kgo.Record{Topic: "crm", Key: []byte("C1"), Value: []byte(value)}
	if err := b.client.ProduceSync(b.t.Context(), r).FirstErr(); err != nil {
		b.t.Fatal(err)
	}
	return r
}

// comesBack wants one dead letter, of the record.
func (b *besideImmediate) comesBack(r *kgo.Record, reason string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	fetches := b.client.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		b.t.Fatalf("no dead letter: %v; status %+v", err, b.sink.Status())
	}
	letters := fetches.Records()
	if len(letters) != 1 || string(letters[0].Key) != string(r.Key) || string(letters[0].Value) != string(r.Value) {
		b.t.Fatalf("dead letters: got %d, the first %s of key %q, want the record %s of key %q", len(letters), letters[0].Value, letters[0].Key, r.Value, r.Key)
	}
	headers := map[string]string{}
	for _, h := range letters[0].Headers {
		headers[h.Key] = string(h.Value)
	}
	for name, want := range map[string]string{
		"__connect.errors.topic": "crm", "__connect.errors.offset": "0", "__connect.errors.partition": "0",
		"__connect.errors.exception.class.name": writes.CodeImportRow, "__connect.errors.exception.message": reason, "feedsink.mapping": "customers",
	} {
		if got := headers[name]; !strings.Contains(got, want) {
			b.t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// TestTakenRowInErrorComesBackThoughRoutesChangeMeanwhile: the immediate lane takes
// other routes while the file is being loaded.
func TestTakenRowInErrorComesBackThoughRoutesChangeMeanwhile(t *testing.T) {
	b := newBesideImmediate(t)
	if err := b.api.RejectRows(sandbox.Rejection{Column: "name", Match: "now", Reason: "no such name"}); err != nil {
		t.Fatal(err)
	}
	b.api.Hold()
	r := b.produce(`{"op":"upsert","key":{"customerNumber":"C1"},"attributes":{"name":"now"}}`)
	b.confirmed(false)
	run(t, b.sink)
	until(t, "the row is being loaded", func() bool { return len(b.api.Executions()) == 1 })
	b.confirmed(true)
	source := b.sink.now().lanes[0].source
	if err := source.LookAtOther(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p := source.Partitions()[0]; p.Takes(b.sink.now().router.Mappings()[0].Routes, 0) {
		t.Fatal("the record would be taken under the other routes, too: got a test that tells nothing")
	}
	b.api.Release()
	b.comesBack(r, "no such name")
}

// TestTakenWriteThatTheServiceRefusesComesBack: no import loads deletes, so that it is
// a call behind the file.
func TestTakenWriteThatTheServiceRefusesComesBack(t *testing.T) {
	b := newBesideImmediate(t)
	b.api.Inject(sandbox.Fault{Match: sandbox.Match{Op: 3}, Answer: sandbox.Status(http.StatusBadRequest)})
	r := b.produce(`{"op":"delete","key":{"customerNumber":"C1"},"profileId":"17","attributes":{"name":"now"}}`)
	b.confirmed(false)
	run(t, b.sink)
	b.comesBack(r, "400")
	until(t, "the record is confirmed", func() bool {
		st, _ := b.sink.Status().(observe.Status)
		return st.Lanes[0].Partitions[0].Committed == 1
	})
}
