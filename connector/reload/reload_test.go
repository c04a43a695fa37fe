package reload_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/reload"
)

const file = `
kafka: {brokers: ["localhost:9092"]}
service: {baseURL: "http://localhost:1", authURL: "http://localhost:1", entity: acme, apiKey: the-key, rate: {calls: 100}}
log: {level: info}
mappings:
  - {name: customers, topics: [crm], customTable: customers, key: businessKey, routes: [{lane: immediate}]}
  - {name: orders, topics: [shop], customTable: orders, key: businessKey, routes: [{lane: immediate}]}
`

// parsed is the file with changes, old and new text by turns.
func parsed(t *testing.T, changes ...string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("feedsink.yaml", []byte(strings.NewReplacer(changes...).Replace(file)), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestCompareNamesKeysAndNeverValues(t *testing.T) {
	for _, c := range []struct {
		changes []string
		want    string
		quick   bool
	}{
		{nil, "[] []", true},
		{[]string{"the-key", "another-key", "calls: 100", "calls: 200"}, "[service.apiKey service.rate.calls] []", false},
		{[]string{"level: info", "level: debug"}, "[log.level] []", true},
		{[]string{"level: info", "level: debug, format: json"}, "[log.level] [log.format]", true},
		{[]string{"localhost:9092", "localhost:9093"}, "[] [kafka.brokers]", true},
		{[]string{"name: orders", "name: sales"}, "[mapping sales: added mapping orders: removed] []", false},
		{[]string{"[shop]", "[shop, sales]", "[{lane: immediate}]", "[{lane: immediate, weight: 2}]"}, "[mapping customers: routes mapping orders: topics mapping orders: routes] []", false},
		{[]string{"rate:", "timeout: 10s, rate:"}, "[] [service.timeout]", true},
	} {
		_, report, err := reload.Compare(parsed(t), parsed(t, c.changes...))
		if got := fmt.Sprint(report.Changed, report.Restart); err != nil || got != c.want || report.Quick() != c.quick {
			t.Errorf("%q: got %s, quick %t, %v, want %s, quick %t", c.changes, got, report.Quick(), err, c.want, c.quick)
		}
	}
}

func TestCompareKeepsWhatNeedsARestart(t *testing.T) {
	cfg, _, err := reload.Compare(parsed(t), parsed(t, "localhost:9092", "localhost:9093", "rate:", "timeout: 10s, rate:", "calls: 100", "calls: 200"))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Kafka.Brokers[0] != "localhost:9092" || cfg.Service.Timeout != 30*time.Second || cfg.Service.Rate.Calls != 200 {
		t.Errorf("got brokers %v, timeout %v, %d calls, want the former two and the new rate", cfg.Kafka.Brokers, cfg.Service.Timeout, cfg.Service.Rate.Calls)
	}
}

func TestCompareRefusesMappingsTogetherWithAnotherCluster(t *testing.T) {
	_, _, err := reload.Compare(parsed(t), parsed(t, "localhost:9092", "localhost:9093", "name: orders", "name: sales"))
	if !errors.Is(err, reload.ErrRestart) {
		t.Errorf("got %v, want ErrRestart", err)
	}
}

// TestWatchTellsOfEachContentOnce: also where links lead to other files, as those of a
// ConfigMap, and never of a file that is gone or being written.
func TestWatchTellsOfEachContentOnce(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to string) {
		path := filepath.Join(dir, "feedsink.yaml")
		_ = os.Remove(path) // at first there is none
		if err := os.Symlink(filepath.Join(dir, to), path); err != nil {
			t.Fatal(err)
		}
	}
	write("one", "1")
	write("two", "2")
	link("one")
	synctest.Test(t, func(t *testing.T) {
		watch, told := reload.NewWatch(filepath.Join(dir, "feedsink.yaml")), atomic.Int32{}
		ctx, cancel := context.WithCancel(t.Context())
		go watch.Run(ctx, func(context.Context) { told.Add(1) })
		for _, c := range []struct {
			what   string
			change func()
			want   int32
		}{
			{"nothing", func() {}, 0},
			{"another file", func() { link("two") }, 1},
			{"no file", func() { _ = os.Remove(filepath.Join(dir, "feedsink.yaml")) }, 0},
			{"the same again", func() { link("two") }, 0},
			{"the first one", func() { link("one") }, 1},
			{"a file in three pieces", func() {
				for _, text := range []string{"a", "ab", "abc"} {
					write("one", text)
					time.Sleep(1500 * time.Millisecond)
				}
			}, 1},
		} {
			told.Store(0)
			c.change()
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := told.Load(); got != c.want {
				t.Errorf("%s: told %d times, want %d", c.what, got, c.want)
			}
		}
		cancel()
		synctest.Wait()
	})
}
