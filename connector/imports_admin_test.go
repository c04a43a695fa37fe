package connector

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/schemas"
)

const deskConfig = `
kafka: {brokers: ["127.0.0.1:1"], group: g}
service: {baseURL: "http://127.0.0.1:1", authURL: "http://127.0.0.1:1", entity: acme, apiKey: k}
dlq: {topic: dead}
spool: {dir: ${DIR}}
admin: {listen: "127.0.0.1:0"}
mappings:
  - name: customers
    topics: [customers]
    profileTable: clients
    key: customerNumber
    routes: [{lane: batch}]
    imports:
      upsert: {etl: "101", mode: CREATE_OR_UPDATE}
      columns: [customerNumber]
      slotsPerDay: 9
  - name: orders
    topics: [orders]
    customTable: orders
    key: businessKey
    routes: [{lane: immediate}]
`

// newDesk is of a sink that was assembled and does not run, so that no table is
// its own.
func newDesk(t *testing.T, lanes ...schemas.Lane) importsAPI {
	t.Helper()
	sink := sinkOf(t, deskConfig, lanes...)
	t.Cleanup(sink.close)
	return importsAPI{sink}
}

// sinkOf is a sink of the configuration, of which every variable is a directory.
func sinkOf(t *testing.T, yaml string, lanes ...schemas.Lane) *Sink {
	t.Helper()
	dir := t.TempDir()
	cfg, err := config.Parse("feedsink.yaml", []byte(yaml), func(string) (string, bool) { return dir, true })
	if err != nil {
		t.Fatal(err)
	}
	sink, err := New(cfg, Options{Lanes: lanes, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return sink
}

func TestDeskListsTheBatchLane(t *testing.T) {
	d := newDesk(t)
	list, _ := d.Imports().([]observe.MappingImports)
	if len(list) != 1 {
		t.Fatalf("got %+v, want customers alone: orders has no imports", list)
	}
	got := list[0]
	if got.Mapping != "customers" || got.Table != "clients" || got.SlotsPerDay != 9 {
		t.Errorf("got %+v, want customers into clients, 9 slots per day", got)
	}
	if got.Owned || got.SlotsLeft != nil || got.Import != nil || got.Open != nil {
		t.Errorf("got %+v, want neither slots nor files while the table is not this member's", got)
	}
	one, err := d.Import("customers")
	if m, ok := one.(observe.MappingImports); !ok || err != nil || m.Table != "clients" {
		t.Errorf("customers: got %+v, %v, want the list's element", one, err)
	}
}

// TestDeskShowsAMappingHaltedByAFlood: no import of it is halted, there may be none.
func TestDeskShowsAMappingHaltedByAFlood(t *testing.T) {
	d := newDesk(t)
	for _, l := range d.now().lanes {
		if l.which == schemas.Batch {
			l.floods.Ended("customers", 1000, 1000)
		}
	}
	list, _ := d.Imports().([]observe.MappingImports)
	one, err := d.Import("customers")
	m, ok := one.(observe.MappingImports)
	if err != nil || !ok || len(list) != 1 {
		t.Fatalf("got %+v, %v and %+v, want customers", one, err, list)
	}
	for _, got := range []string{list[0].Halted, m.Halted} {
		if !strings.HasPrefix(got, "mapping customers is halted in the batch lane: ") || !strings.Contains(got, "feedsink imports release --mapping customers") {
			t.Errorf("halted: got %q, want why, and how it goes on", got)
		}
	}
}

func TestDeskSaysWhyThereIsNothingToReleaseOrTake(t *testing.T) {
	all, calls := newDesk(t), newDesk(t, schemas.Immediate)
	if list, ok := calls.Imports().([]observe.MappingImports); !ok || list == nil || len(list) != 0 {
		t.Errorf("immediate lane only: got %#v, want a list without elements", list)
	}
	for _, c := range []struct {
		desk    importsAPI
		mapping string
		status  int
		words   string
	}{
		{all, "customers", http.StatusConflict, "no place in its group yet: try again once it has (/readyz), or ask the other members: /status of each shows its partitions, and feedsink imports list its tables with files"},
		{all, "orders", http.StatusNotFound, "immediate lane; the batch lane has customers"},
		{all, "nobody", http.StatusNotFound, "not in the configuration; the batch lane has customers"},
		{calls, "customers", http.StatusNotFound, "does not run the batch lane; ask one that does"},
	} {
		for _, ask := range []func(string) (any, error){c.desk.Release, func(name string) (any, error) { return c.desk.TakeSlot(t.Context(), name) }, func(name string) (any, error) { return c.desk.Roll(t.Context(), name, true) }} {
			_, err := ask(c.mapping)
			refusal, ok := errors.AsType[*admin.Refusal](err)
			if !ok || refusal.Status != c.status || !strings.Contains(refusal.Message, c.words) || !strings.Contains(refusal.Message, c.mapping) {
				t.Errorf("%s: got %+v, want %d and %q", c.mapping, err, c.status, c.words)
			}
		}
	}
}

// A sink that is killed behind the answer must not forget the import.
func TestSlotThatWasTakenIsInKafka(t *testing.T) {
	cluster, _, server := startBoth(t, kfake.SeedTopics(1, "crm", "shop", "dlq"))
	broker := cluster.ListenAddrs()[0]
	sink, err := assemble(t, Options{CommitEvery: time.Hour}, "BROKER="+broker, "SERVICE="+server.URL)
	if err != nil {
		t.Fatal(err)
	}
	run(t, sink)
	api := importsAPI{sink}
	until(t, "the table is the sink's", func() bool {
		one, err := api.Import("customers")
		m, _ := one.(observe.MappingImports)
		return err == nil && m.SlotsLeft != nil
	})
	client, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	counted := func() int {
		commits, err := kadm.NewClient(client).FetchOffsets(t.Context(), "feedsink-batch")
		if err != nil {
			t.Fatal(err)
		}
		at, _ := commits.Lookup("crm", 0)
		ledger, err := ack.Decode(at.Metadata, at.At)
		if err != nil {
			t.Fatal(err)
		}
		return len(ledger.UsedSlots("profile/customers"))
	}
	if _, err := api.TakeSlot(t.Context(), "customers"); err != nil || counted() != 1 {
		t.Errorf("got %v and %d imports in the ledger, want 1", err, counted())
	}
	cluster.ControlKey(int16(kmsg.OffsetCommit), func(asked kmsg.Request) (kmsg.Response, error, bool) {
		answer := asked.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, topic := range asked.(*kmsg.OffsetCommitRequest).Topics {
			refused := kmsg.OffsetCommitResponseTopic{Topic: topic.Topic}
			for _, p := range topic.Partitions {
				refused.Partitions = append(refused.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: kerr.GroupAuthorizationFailed.Code})
			}
			answer.Topics = append(answer.Topics, refused)
		}
		return answer, nil, true
	})
	if _, err := api.TakeSlot(t.Context(), "customers"); err == nil || !strings.Contains(err.Error(), "mapping customers: an import is counted in this process, but Kafka may not have it yet") {
		t.Errorf("not committed: got %v, want an answer that says so", err)
	}
}

func TestPauseThatCannotBeIsRefused(t *testing.T) {
	d := mappingsAPI{newDesk(t).Sink}
	for _, c := range []struct {
		mapping string
		asked   admin.PauseRequest
		status  int
		words   string
	}{
		{"nobody", admin.PauseRequest{}, http.StatusNotFound, "mapping nobody: is not in the configuration, which has customers, orders"},
		{"orders", admin.PauseRequest{Lane: "batch"}, http.StatusConflict, "no route of it leads to the batch lane"},
		{"orders", admin.PauseRequest{Lane: "auto"}, http.StatusBadRequest, "must be immediate or batch"},
		{"customers", admin.PauseRequest{}, http.StatusConflict, "no place in its group yet: try again once it has (/readyz), or ask the other members: /status of each shows its partitions"},
		{"customers", admin.PauseRequest{Reason: strings.Repeat("é", 101)}, http.StatusBadRequest, "100 characters"},
		{"customers", admin.PauseRequest{Reason: "two\nlines"}, http.StatusBadRequest, "one line"},
		{"customers", admin.PauseRequest{Until: time.Now()}, http.StatusBadRequest, "in the future"},
	} {
		_, err := d.Pause(t.Context(), c.mapping, c.asked)
		refusal, ok := errors.AsType[*admin.Refusal](err)
		if !ok || refusal.Status != c.status || !strings.Contains(refusal.Message, c.words) {
			t.Errorf("%s, %+v: got %v, want %d and %q", c.mapping, c.asked, err, c.status, c.words)
		}
	}
	if _, err := d.Resume(t.Context(), "customers", ""); err == nil {
		t.Error("resume of what is not paused: got no error")
	}
}
