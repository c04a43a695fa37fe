package connector

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/schemas"
)

// visits are the moments at which calls came in.
type visits struct {
	service http.Handler
	mu      sync.Mutex
	at      []time.Time
}

func (a *visits) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		a.mu.Lock()
		a.at = append(a.at, time.Now())
		a.mu.Unlock()
	}
	a.service.ServeHTTP(w, r)
}

// since are those from the nth on.
func (a *visits) since(n int) []time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.at[min(n, len(a.at)):]
}

// TestMembersShareTheRate: three sinks together make no more calls than
// service.rate allows, and no fewer once one of them has gone.
func TestMembersShareTheRate(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(12, "crm", "shop", "dlq"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	api, _ := startService(t)
	door := &visits{service: api}
	server := httptest.NewServer(door)
	t.Cleanup(server.Close)
	broker := cluster.ListenAddrs()[0]
	client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.DefaultProduceTopic("shop"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()

	const perSecond = 100
	var leave func()
	for i := range 3 {
		sink := assembled(t, Options{Lanes: []schemas.Lane{schemas.Immediate}}, "BROKER="+broker, "SERVICE="+server.URL, fmt.Sprint("CALLS=", 60*perSecond))
		if i > 0 {
			run(t, sink)
			continue
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- sink.Run(ctx) }()
		leave = sync.OnceFunc(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("Run: %v", err)
			}
		})
		t.Cleanup(leave)
	}
	if _, err := cluster.WaitGroupStable(t.Context(), "feedsink-immediate", 3); err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		client.Produce(t.Context(), &kgo.Record{Value: fmt.Appendf(nil, `{"op":"upsert","businessKey":"o%d","properties":{"status":"PAID"}}`, i)}, nil)
	}
	if err := client.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	within := func(when string) {
		t.Helper()
		calls, from, begun := 150, len(door.since(0)), time.Now()
		until(t, when, func() bool { return len(door.since(from)) >= calls })
		// A burst of a few calls is each member's own, and some that began before come late.
		const others = 40
		// The mapping with both lanes leaves a tenth to reconciling.
		if took, least := door.since(from)[calls-1].Sub(begun), time.Duration(float64(calls-others)/perSecond/(1-build.ReconcilingPart)*float64(time.Second)); took < least {
			t.Errorf("%s: %d calls came within %v, want at least %v", when, calls, took, least)
		}
	}
	within("three members call")
	leave()
	within("two members call")
}
