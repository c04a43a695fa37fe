package connector

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/waits"
	"github.com/feedsink/feedsink/schemas"
)

// TestWaitsAreTold: what a lane waits for is in the status and the metric while it does.
func TestWaitsAreTold(t *testing.T) {
	fake, api, server := startBoth(t, kfake.SeedTopics(1, "crm", "dlq"))
	broker := fake.ListenAddrs()[0]
	client, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	sink := running(t, Options{}, "BROKER="+broker, "SERVICE="+server.URL)
	told := func(cause, lane, of, why string) func() bool {
		return func() bool {
			st, _ := sink.Status().(observe.Status)
			in := slices.ContainsFunc(st.Waits, func(w observe.Wait) bool {
				return w.Cause == cause && w.Lane == lane && w.Topic+w.Table+w.Mapping == of && strings.Contains(w.Why, why) &&
					(cause != waits.Throttled || w.Until.After(time.Now().Add(9*time.Minute)))
			})
			return in && gauged(gathered(t, sink), "feedsink_waiting", cause+" "+lane) == 1
		}
	}
	until(t, "the topic that is missing is told", told(cluster.NoTopic, "immediate", "shop", "topic shop does not exist"))

	api.Inject(sandbox.Fault{Match: sandbox.Match{Op: 1}, Answer: sandbox.StatusAfter(429, 10*time.Minute)})
	now := `{"op":"upsert","key":{"customerNumber":"C1"},"attributes":{"name":"now"}}`
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "crm", Value: []byte(now)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	until(t, "429 is told, and until when", told(waits.Throttled, "immediate", "", "429"))
}

// TestTriesThatFailAreTold: no answer names a time, and what is tried again is told all the
// while.
func TestTriesThatFailAreTold(t *testing.T) {
	now, later := `{"op":"upsert","key":{"customerNumber":"C1"},"attributes":{"name":"now"}}`, `{"op":"upsert","key":{"customerNumber":"C1"},"attributes":{"name":"later"}}`
	for name, c := range map[string]struct {
		make     func(api *sandbox.Sandbox, spool string) error
		record   string
		wait     observe.Wait // its Why is a part of it
		topics   []string
		mappings int // whose imports list the wait
	}{
		"429 to a call": {
			func(api *sandbox.Sandbox, _ string) error {
				api.Inject(sandbox.Fault{Match: sandbox.Match{Op: 1}, Answer: sandbox.Status(429)})
				return nil
			}, now, observe.Wait{Cause: waits.Throttled, Lane: "immediate", Why: "429"}, []string{"dlq"}, 0,
		},
		"403 to a call": {
			func(api *sandbox.Sandbox, _ string) error {
				api.Inject(sandbox.Fault{Match: sandbox.Match{Op: 1}, Answer: sandbox.Status(403)})
				return nil
			}, now, observe.Wait{Cause: waits.Unauthorized, Lane: "immediate", Why: "lacks the right for the table (service.apiKeyFile or service.apiKey)"}, []string{"dlq"}, 0,
		},
		"403 to an import": {
			func(api *sandbox.Sandbox, _ string) error {
				api.Inject(sandbox.Fault{Match: sandbox.Match{Op: 10}, Answer: sandbox.Status(403)})
				return nil
			}, later, observe.Wait{Cause: waits.Unauthorized, Lane: "batch", Mapping: "customers", Why: "(service.apiKeyFile or service.apiKey)"}, []string{"dlq"}, 1,
		},
		"429 to an import": {
			func(api *sandbox.Sandbox, _ string) error {
				api.Inject(sandbox.Fault{Match: sandbox.Match{Op: 10}, Answer: sandbox.Status(429)})
				return nil
			}, later, observe.Wait{Cause: waits.Throttled, Lane: "batch", Mapping: "customers", Why: "the service answered 429"}, []string{"dlq"}, 1,
		},
		"503 to an import": {
			func(api *sandbox.Sandbox, _ string) error {
				api.Inject(sandbox.Fault{Match: sandbox.Match{Op: 11}, Answer: sandbox.Status(503)})
				return nil
			}, later, observe.Wait{Cause: waits.Service, Lane: "batch", Mapping: "customers", Why: "the service answered 503"}, []string{"dlq"}, 1,
		},
		"an answer to an import that names no execution": {
			func(api *sandbox.Sandbox, _ string) error {
				api.Inject(sandbox.Fault{Match: sandbox.Match{Op: 10}, Answer: sandbox.Status(204)})
				return nil
			}, later, observe.Wait{Cause: waits.Service, Lane: "batch", Mapping: "customers", Why: "the webhook of ETL 101. Subscribe to it with feedsink webhook create"}, []string{"dlq"}, 1,
		},
		"no answer to an import": {
			func(api *sandbox.Sandbox, _ string) error {
				api.Inject(sandbox.Fault{Match: sandbox.Match{Op: 11}, Answer: sandbox.Reset()})
				return nil
			}, later, observe.Wait{Cause: waits.Service, Lane: "batch", Mapping: "customers", Why: "importing: the service does not answer: get results of execution 1"}, []string{"dlq"}, 1,
		},
		"a disk that takes no file": {
			func(_ *sandbox.Sandbox, spool string) error {
				return errors.Join(os.RemoveAll(spool), os.WriteFile(spool, nil, 0o600))
			},
			later,
			observe.Wait{Cause: waits.Disk, Lane: "batch", Mapping: "customers", Why: "sealing"},
			[]string{"dlq"},
			1,
		},
		"no dead-letter topic": {
			func(*sandbox.Sandbox, string) error { return nil },
			"{",
			observe.Wait{Cause: cluster.NoTopic, Lane: "immediate", Topic: "dlq", Why: "dead-letter topic dlq does not exist"},
			nil, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, append(c.topics, "crm", "shop")...))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(cluster.Close)
			api, _ := startService(t)
			server := httptest.NewServer(api)
			t.Cleanup(server.Close)
			broker, dir := cluster.ListenAddrs()[0], t.TempDir()+"/spool"
			client, err := kgo.NewClient(kgo.SeedBrokers(broker))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.Close)
			sink := running(t, Options{}, "BROKER="+broker, "SERVICE="+server.URL, "DIR="+dir)
			until(t, "the lanes have joined", func() bool { return len(sink.Unready()) == 0 })
			if err := c.make(api, dir); err != nil {
				t.Fatal(err)
			}
			if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "crm", Value: []byte(c.record)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
			is := func(w observe.Wait) bool {
				return w.Cause == c.wait.Cause && w.Lane == c.wait.Lane && w.Mapping == c.wait.Mapping && w.Topic == c.wait.Topic && strings.Contains(w.Why, c.wait.Why)
			}
			until(t, "it is told", func() bool {
				st, _ := sink.Status().(observe.Status)
				return slices.ContainsFunc(st.Waits, is) && gauged(gathered(t, sink), "feedsink_waiting", c.wait.Cause+" "+c.wait.Lane) == 1
			})
			until(t, "imports list has it", func() bool {
				list, _ := importsAPI{sink}.Imports().([]observe.MappingImports)
				return len(slices.DeleteFunc(list, func(m observe.MappingImports) bool { return !slices.ContainsFunc(m.Waits, is) })) == c.mappings
			})
		})
	}
}

// TestCallsOfRowsThatFailAreTold as long as there are rows: without one no call is tried.
func TestCallsOfRowsThatFailAreTold(t *testing.T) {
	for status, want := range map[int]struct {
		cause, table, why string
		breaker           float64
	}{
		503: {waits.Breaker, "customers", "calls fail, and the breaker is open: ", 2},
		403: {waits.Unauthorized, "customers", "the service answered 403: the API key is wrong, or lacks the right for the table", 0},
		429: {waits.Throttled, "", "the service answered 429", 0},
	} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			fake, api, server := startBoth(t, kfake.SeedTopics(1, "crm", "shop", "dlq"))
			api.Inject(sandbox.Fault{Match: sandbox.Match{Op: 1}, Answer: sandbox.Status(status)})
			broker := fake.ListenAddrs()[0]
			client, err := kgo.NewClient(kgo.SeedBrokers(broker))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.Close)
			sink := running(t, Options{Lanes: []schemas.Lane{schemas.Batch}}, "BROKER="+broker, "SERVICE="+server.URL, "ROUTES=[{lane: auto, within: 1m}]", "AGE=1h")
			for i := range 20 {
				value := fmt.Sprintf(`{"op":"upsert","key":{"customerNumber":"C%d"},"attributes":{"name":"a"}}`, i)
				if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "crm", Value: []byte(value)}).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			is := func(w observe.Wait) bool {
				return w.Cause == want.cause && w.Lane == "batch" && w.Table == want.table && strings.Contains(w.Why, want.why)
			}
			until(t, "it is told", func() bool {
				st, _ := sink.Status().(observe.Status)
				metrics := gathered(t, sink)
				return slices.ContainsFunc(st.Waits, is) && gauged(metrics, "feedsink_waiting", want.cause+" batch") == 1 &&
					gauged(metrics, "feedsink_breaker_state", "customers") == want.breaker
			})
			if status != 403 { // what it did is not known, and the file waits until it has landed
				return
			}
			if _, err := (importsAPI{sink}).Roll(t.Context(), "customers", false); err != nil {
				t.Fatal(err)
			}
			until(t, "with the file gone, nothing waits for calls", func() bool {
				st, _ := sink.Status().(observe.Status)
				return len(st.Waits) == 0 && gauged(gathered(t, sink), "feedsink_breaker_state", "customers") == 0
			})
		})
	}
}

func TestBrokersThatDoNotAnswerAreTold(t *testing.T) {
	sink := running(t, Options{})
	until(t, "brokers that cannot be reached are told", func() bool {
		all := sink.now().waits()
		all = slices.DeleteFunc(all, func(w observe.Wait) bool { return w.Cause == waits.Service }) // it has given no token either
		return len(all) == 2 && all[0].Cause == cluster.Unreachable && all[1].Lane == "batch"
	})
}

// TestWaitsOfCallsSayTheirCause: each table's its own.
func TestWaitsOfCallsSayTheirCause(t *testing.T) {
	s := newDesk(t).now()
	orders := s.router.Mappings()[1].Table
	since := time.Date(2026, 11, 28, 2, 0, 0, 0, time.UTC)
	observer{s}.BreakerTurned(orders, calls.Open, errors.New("upsert record orders: connection refused"))
	observer{s}.BreakerTurned(schemas.Table{Name: "other"}, calls.Open, errors.New("500"))
	soon := time.Now().Add(time.Hour)
	for _, c := range []struct {
		held calls.Wait
		want observe.Wait
	}{
		{
			calls.Wait{Table: orders, Until: soon},
			observe.Wait{Cause: waits.Breaker, Table: "orders", Until: soon, Why: "calls fail, and the breaker is open: upsert record orders: connection refused; then one call is tried"},
		},
		{
			calls.Wait{Table: orders}, // its time has come
			observe.Wait{Cause: waits.Breaker, Table: "orders", Why: "calls fail, and the breaker is open: upsert record orders: connection refused; it is tried again"},
		},
		{
			calls.Wait{Table: orders, Again: &calls.Again{Keys: 1, Mapping: "orders", Since: since, Tries: 7, Err: errors.New("upsert record orders: 500 Internal Server Error")}},
			observe.Wait{
				Cause: waits.Retried, Table: "orders", Mapping: "orders",
				Why: "1 key is tried again since 2026-11-28T02:00:00Z, 7 times so far: upsert record orders: 500 Internal Server Error; other keys go on. retry.giveUpAfter ends what never succeeds. All room is taken",
			},
		},
		{
			calls.Wait{Table: orders, Again: &calls.Again{Keys: 2, Mapping: "orders", Since: since, Tries: 7, Err: errors.New("405")}},
			observe.Wait{
				Cause: waits.Retried, Table: "orders", Mapping: "orders",
				Why: "2 keys are tried again, the one that fails the longest since 2026-11-28T02:00:00Z, 7 times so far: 405; other keys go on. retry.giveUpAfter ends what never succeeds. All room is taken",
			},
		},
		{
			calls.Wait{Every: 67*time.Minute + 20*time.Second},
			observe.Wait{Cause: waits.Rate, Why: "this member's part of service.rate is a call every 1h7m20s: by its partitions, and by the weights of the routes that make calls (weight)"},
		},
	} {
		if got := s.callWaits([]calls.Wait{c.held}, ". All room is taken"); len(got) != 1 || got[0] != c.want {
			t.Errorf("got  %+v\nwant %+v", got, c.want)
		}
	}
}

// TestRegistryThatDoesNotAnswerIsToldWhileRecordsNeedIt in both lanes, which share it.
func TestRegistryThatDoesNotAnswerIsToldWhileRecordsNeedIt(t *testing.T) {
	yaml := strings.ReplaceAll(deskConfig, "    topics: [customers]", "    topics: [customers]\n    format: avro") + "schemaRegistry: {url: \"http://" + closed + "\"}\n"
	sink := sinkOf(t, yaml)
	t.Cleanup(sink.close)
	s := sink.now()
	if got := s.schemaWaits(); got != nil {
		t.Errorf("before a record needs a schema: got %+v, want nothing", got)
	}
	decoder := s.writers.Decoder(schemas.FormatAvro)
	until(t, "it is told", func() bool {
		_, err := decoder.Decode([]byte{0, 0, 0, 0, 1, 2})
		told := map[string]bool{}
		for _, w := range s.waits() {
			told[w.Lane] = told[w.Lane] || w.Cause == waits.Schemas && strings.Contains(w.Why, "connection refused") && strings.Contains(w.Why, "Check schemaRegistry.url")
		}
		return errors.Is(err, schemas.ErrSchemaUnavailable) && told["immediate"] && told["batch"]
	})
}
