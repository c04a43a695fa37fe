package connector

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/observe"
)

// TestStoppingSinkSaysSo: while calls in flight end, and until when.
func TestStoppingSinkSaysSo(t *testing.T) {
	fake, api, _ := startBoth(t, kfake.SeedTopics(1, "crm", "shop", "dlq"))
	called, goOn := make(chan bool, 1), make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/profiles/") {
			called <- true
			<-goOn
		}
		api.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	broker := fake.ListenAddrs()[0]
	var log bytes.Buffer
	sink := assembled(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, "BROKER="+broker, "SERVICE="+server.URL)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- sink.Run(ctx) }()
	until(t, "the lanes have joined", func() bool { return len(sink.Unready()) == 0 })
	client, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "crm", Value: []byte(`{"op":"upsert","key":{"customerNumber":"C1"},"attributes":{"name":"now"}}`)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	<-called
	if st, _ := sink.Status().(observe.Status); !st.Stopping.IsZero() || !st.Ready {
		t.Errorf("before: got %+v, want that it is ready", st)
	}
	stop()
	until(t, "the batch lane, which has nothing to wait for, has left", func() bool {
		st, _ := sink.Status().(observe.Status)
		return !st.Lanes[1].Joined
	})
	st, _ := sink.Status().(observe.Status)
	if rest := time.Until(st.Stopping); st.Ready || rest <= 0 || rest > releaseTime(sink.now().cfg.Service.Timeout) {
		t.Errorf("got ready %t, stopping until in %v, want at most a call's time and a little", st.Ready, rest)
	}
	if got := sink.Unready(); len(got) != 1 || got[0] != "stopping until "+st.Stopping.Format(time.RFC3339) {
		t.Errorf("unready: got %q, want that it stops and until when", got)
	}
	close(goOn)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := log.String(); !strings.Contains(got, "feedsink is stopping: ") || !strings.Contains(got, "calls_in_flight=1 until=") {
		t.Errorf("log: got\n%s\nwant one call in flight and until when", got)
	}
}
