package dev_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/dev"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

func start(t *testing.T) *dev.Playground {
	t.Helper()
	p, err := dev.Start(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func TestGeneratorRepeatsItselfForASeed(t *testing.T) {
	one, same, other := dev.NewGenerator(7), dev.NewGenerator(7), dev.NewGenerator(8)
	differs := false
	for i := range 2000 {
		a, b := one.Next(), same.Next()
		if a.Topic != b.Topic || !bytes.Equal(a.Key, b.Key) || !bytes.Equal(a.Value, b.Value) {
			t.Fatalf("event %d: got %s %s %s, want %s %s %s", i, b.Topic, b.Key, b.Value, a.Topic, a.Key, a.Value)
		}
		differs = differs || !bytes.Equal(a.Value, other.Next().Value)
	}
	if !differs {
		t.Error("another seed makes the same events")
	}
	if one.Model.Dead != same.Model.Dead {
		t.Errorf("dead letters to come: got %d, want %d", same.Model.Dead, one.Model.Dead)
	}
}

func TestGeneratorMakesEventsOfEveryKind(t *testing.T) {
	g := dev.NewGenerator(1)
	kinds := map[string]int{}
	for range 20_000 {
		r := g.Next()
		kind := "upsert"
		switch {
		case r.Value == nil:
			kind = "tombstone"
		case bytes.Contains(r.Value, []byte(`"op":"patch"`)):
			kind = "patch"
		}
		kinds[r.Topic+" "+kind]++
	}
	for _, kind := range []string{"crm.customers upsert", "crm.customers tombstone", "shop.orders upsert", "shop.orders patch", "shop.orders tombstone"} {
		if kinds[kind] == 0 {
			t.Errorf("%s: got none in %v", kind, kinds)
		}
	}
	if g.Model.Dead == 0 {
		t.Error("no event is broken")
	}
}

// differences is what Compare finds, by table.
func differences(p *dev.Playground, g *dev.Generator) map[string][]string {
	found := map[string][]string{}
	for _, c := range g.Model.Compare(p.Service) {
		if len(c.Differences) > 0 {
			found[c.Table] = c.Differences
		}
	}
	return found
}

func TestModelFindsWhatIsMissing(t *testing.T) {
	p, g := start(t), dev.NewGenerator(1)
	if got := differences(p, g); len(got) != 0 {
		t.Fatalf("before any event: got %v, want no difference", got)
	}
	for range 50 {
		g.Next()
	}
	for table, lines := range differences(p, g) {
		for _, line := range lines {
			if !strings.HasSuffix(line, ": is missing") {
				t.Errorf("%s: got %q, want only missing rows in an empty service", table, line)
			}
		}
	}
	if got := differences(p, g); len(got) != 2 {
		t.Errorf("tables with differences: got %v, want both", got)
	}
}

func TestModelFindsWhatShouldNotBeThere(t *testing.T) {
	p, g := start(t), dev.NewGenerator(1)
	put(t, p, "o1", `{"businessKey":"o1","properties":[{"name":"status","value":"PAID"}]}`)
	want := map[string][]string{"orders": {"o1: should not be there"}}
	if got := differences(p, g); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// put writes an order as any client could.
func put(t *testing.T, p *dev.Playground, key, body string) {
	t.Helper()
	token := strings.SplitN(send(t, p, http.MethodGet, "/auth/token", "playground-key", ""), `"accessToken":"`, 2)[1]
	token, _, _ = strings.Cut(token, `"`)
	send(t, p, http.MethodPost, "/custom-data/v4/entity/acme/customTable/orders/record?allowUpdate=true", "Bearer "+token, body)
	if _, ok := p.Service.Row("orders", key); !ok {
		t.Fatalf("order %s was not written", key)
	}
}

func send(t *testing.T, p *dev.Playground, method, path, authorization, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, p.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", authorization)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: got %d %s, %v, want 200", method, path, resp.StatusCode, answer, err)
	}
	return string(answer)
}

func TestConfigurationCanWork(t *testing.T) {
	p := start(t)
	path, env, err := p.Configuration()
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(path, env)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Service.BaseURL != p.URL || cfg.Kafka.Brokers[0] != p.Brokers[0] || cfg.Kafka.Group != dev.Group {
		t.Errorf("got service %s, brokers %v, group %s, want the playground's own", cfg.Service.BaseURL, cfg.Kafka.Brokers, cfg.Kafka.Group)
	}
}

func TestProgressCountsWhatNobodyHasConfirmed(t *testing.T) {
	p := start(t)
	got, err := p.Progress(t.Context())
	if err != nil || got != (dev.Progress{}) || !got.Done() {
		t.Fatalf("before any event: got %+v, %v, want nothing to do", got, err)
	}
	g := dev.NewGenerator(1)
	records := make([]*kgo.Record, 30)
	for i := range records {
		records[i] = g.Next()
	}
	if err := p.Produce(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
	if err := p.Produce(t.Context(), &kgo.Record{Topic: dev.DeadLetters}); err != nil {
		t.Fatal(err)
	}
	want := dev.Progress{Produced: 30, Dead: 1}
	if got, err := p.Progress(t.Context()); err != nil || got != want || got.Done() {
		t.Errorf("got %+v, %v, want %+v and not done", got, err, want)
	}
}

func TestBrokersThatRunElsewhereGetTheTopicsTheyLack(t *testing.T) {
	first := start(t)
	second, err := dev.StartWith(t.Context(), t.TempDir(), first.Brokers)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := second.Produce(t.Context(), dev.NewGenerator(1).Next()); err != nil {
		t.Fatal(err)
	}
	if got, err := first.Progress(t.Context()); err != nil || got.Produced != 1 {
		t.Errorf("the shared broker: got %+v, %v, want one record", got, err)
	}
	if second.URL == first.URL {
		t.Errorf("services: got %s for both, want one each", first.URL)
	}
}

func TestTheServicesETLForPatchesKeepsWhatARowDoesNotName(t *testing.T) {
	s, err := dev.StartService(t.TempDir(), "127.0.0.1:0", slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, etl := range s.ETLs {
		for _, load := range etl.Loads {
			if want := load.Mode == sandbox.UpdateOnly; load.IgnoreEmptyValues != want {
				t.Errorf("ETL %s, %s: ignores empty values: got %v, want %v", etl.ID, load.Mode, load.IgnoreEmptyValues, want)
			}
		}
	}
}
