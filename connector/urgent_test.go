package connector

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// gate lets calls for tables pass one by one.
type gate struct {
	service http.Handler
	next    chan struct{} // closed: all pass
	mu      sync.Mutex
	tables  []string // of the calls that came in
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, table := range []string{"customers", "orders"} {
		if strings.Contains(r.URL.Path, table) {
			g.mu.Lock()
			g.tables = append(g.tables, table)
			g.mu.Unlock()
			<-g.next
		}
	}
	g.service.ServeHTTP(w, r)
}

// since are the tables of the nth call and those after it.
func (g *gate) since(n int) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.tables[min(n, len(g.tables)):])
}

// TestBacklogOfOneTopicHoldsUpNoOther: not where records are read, nor where calls start.
func TestBacklogOfOneTopicHoldsUpNoOther(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "crm", "shop", "dlq"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	api, _ := startService(t)
	door := &gate{service: api, next: make(chan struct{})}
	open := sync.OnceFunc(func() { close(door.next) })
	server := httptest.NewServer(door)
	t.Cleanup(server.Close)
	t.Cleanup(open)
	broker := cluster.ListenAddrs()[0]
	sink := assembled(t, Options{Lanes: []schemas.Lane{schemas.Immediate}}, "BROKER="+broker, "SERVICE="+server.URL)
	client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	produce := func(topic, value string, of ...any) {
		client.Produce(t.Context(), &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, value, of...)}, nil)
	}
	for i := range 10_000 {
		produce("shop", `{"op":"upsert","businessKey":"o%d","properties":{"status":"PAID"}}`, i)
	}
	if err := client.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	run(t, sink)
	until(t, "the backlog fills the lane, and as many calls as may are under way", func() bool {
		return sink.now().calls.PendingOf(ordersTable) >= maxPending && len(door.since(0)) == sink.now().calls.Limit()
	})
	if got := sink.now().lanes[0].filled(); !strings.Contains(got, "records wait, which is all there is room for") {
		t.Errorf("told of a lane that is full: got %q", got)
	}
	const urgent = 20
	for i := range urgent {
		produce("crm", `{"op":"upsert","key":{"customerNumber":"C%d"},"attributes":{"name":"now"}}`, i)
	}
	if err := client.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "the other topic's records are read", func() bool { return sink.now().calls.PendingOf(customersTable) == urgent })
	if st, _ := sink.Status().(observe.Status); len(st.Mappings) != 2 || st.Mappings[0].Pending != urgent || st.Mappings[1].Pending < maxPending {
		t.Errorf("pending writes on /status: got %+v, want %d of customers, at least %d of orders", st.Mappings, urgent, maxPending)
	}
	before := len(door.since(0))
	for n := 1; n <= 12; n++ {
		door.next <- struct{}{}
		until(t, "another call", func() bool { return len(door.since(before)) >= n })
	}
	got := strings.Join(door.since(before)[:12], " ")
	if n := strings.Count(got, "customers"); !strings.HasPrefix(got, "customers") || n < 8 || n > 10 {
		t.Errorf("12 calls after the other topic, of weight 3, has work: got %s, want its first, and 9 of them in all", got)
	}
	if got := sink.now().calls.PendingOf(ordersTable); got > 2*maxPending {
		t.Errorf("pending of the backlog: got %d, want it bounded near %d", got, maxPending)
	}
	open()
	until(t, "everything is confirmed, the backlog to its end", func() bool { return len(door.since(0)) >= 10_000+urgent && sink.now().calls.Pending() == 0 })
	if got := sink.now().lanes[0].filled(); got != "" {
		t.Errorf("told of a lane that has room: got %q, want nothing", got)
	}
}

func TestTopicsPartsOfTheRoomFollowTheirMostUrgentRoutes(t *testing.T) {
	mapping := func(table string, weights ...float64) router.Mapping {
		m := router.Mapping{Name: table, Topics: []string{table}, Format: "json", CustomTable: table, Key: "businessKey"}
		for _, weight := range weights {
			m.Routes = append(m.Routes, router.Route{When: `op == "delete"`, Lane: "immediate", Weight: &weight})
		}
		m.Routes[len(m.Routes)-1].When = ""
		return m
	}
	r, problems := router.Compile([]router.Mapping{mapping("orders", 1), mapping("consents", 0.5, 6), mapping("parcels", 1)})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	got := partsOf(r.Mappings())
	for topic, want := range map[string]int{"orders": 256, "consents": 1536, "parcels": 256} {
		if got[topic] != want+1 {
			t.Errorf("%s: got room for %d records, want %d", topic, got[topic], want+1)
		}
	}
}
