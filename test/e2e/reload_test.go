//go:build !image

package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/reload"
	"github.com/feedsink/feedsink/test/certs"
)

// reloadable is a sink whose configuration a test changes.
type reloadable struct {
	*running
	w    *world
	sink *connector.Sink
	yaml atomic.Pointer[string]
	read func() // called after the file was read; nil: nothing is
}

func (w *world) startReloadable(yaml string) *reloadable {
	w.t.Helper()
	r := &reloadable{w: w}
	r.yaml.Store(&yaml)
	load := func() (*config.Config, error) {
		cfg, err := config.Parse("feedsink.yaml", []byte(w.through.in(*r.yaml.Load())), w.env)
		if r.read != nil {
			r.read()
		}
		return cfg, err
	}
	r.running = w.begin(w.config(yaml), func(o *connector.Options) { o.Load = load })
	r.sink, _ = r.running.sink.(*connector.Sink)
	return r
}

// reload puts another configuration in force.
func (r *reloadable) reload(yaml string) reload.Report {
	r.w.t.Helper()
	report, err := r.tryReload(yaml)
	if err != nil {
		r.w.t.Fatalf("reload: %v", err)
	}
	return report
}

func (r *reloadable) tryReload(yaml string) (reload.Report, error) {
	r.yaml.Store(&yaml)
	ctx, cancel := context.WithTimeout(r.w.t.Context(), r.w.patience)
	defer cancel()
	told, err := r.sink.Reload(ctx)
	report, _ := told.(reload.Report)
	return report, err
}

// members are the members of a lane's group, by their ids.
func (w *world) memberIDs(lane string) string {
	w.t.Helper()
	described, err := w.admin.DescribeGroups(w.t.Context(), w.prefix+"sink-"+lane)
	if err != nil {
		w.t.Fatal(err)
	}
	var ids []string
	for _, m := range described[w.prefix+"sink-"+lane].Members {
		ids = append(ids, m.MemberID)
	}
	return strings.Join(ids, " ")
}

const customersToo = `
  - name: customers
    topics: ["${PREFIX}customers"]
    profileTable: customers
    key: customerNumber
    routes: [{when: 'segments.tier == "gold"', lane: immediate}, {lane: batch}]
    imports:
      upsert: {etl: "101", mode: CREATE_OR_UPDATE}
      columns: [customerNumber, seq, S_tier]
      roll: {rows: 500, bytes: 1MiB, age: 300ms}
      slotsPerDay: 1000
`

// TestReloadEndsHaltsThatSaySo: what a halt tells a person to set is in force after a
// reload, and ends it.
func TestReloadEndsHaltsThatSaySo(t *testing.T) {
	t.Parallel()
	const smallSpool = "spool: {dir: ${DIR}, maxBytes: 10MiB}"
	small := strings.Replace(head, "spool: {dir: ${DIR}}", smallSpool, 1)
	broken := event("orders", "broken", `{`)
	for name, c := range map[string]struct {
		yaml, says, next string
		record           *kgo.Record
	}{
		"a record":     {head + mappings, "Set dlq.topic and run feedsink reload, or fix the cause", head + deadLetters + mappings, broken},
		"a row":        {head + mappings, "Set dlq.topic and run feedsink reload: the record becomes a dead letter", head + deadLetters + mappings, customer("C1", "basic", 1)},
		"output files": {small + deadLetters + mappings, "Raise spool.maxBytes and run feedsink reload", head + deadLetters + mappings, customer("C1", "basic", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.outputsOf(func(to io.Writer) {
				_, _ = io.WriteString(to, "customerNumber,error\n"+strings.Repeat("C1,no such country\n", 1<<16))
			})
			sink := w.startReloadable(c.yaml)
			w.produce(c.record)
			w.until("/status says what to do", func() bool { return strings.Contains(get(t, sink.AdminAddress(), "/status"), c.says) })
			sink.reload(c.next)
			w.until("the record is a dead letter", func() bool { return len(w.dead()) == 1 })
			w.until("all is committed", func() bool { return w.lag("immediate", "orders")+w.lag("batch", "customers") == 0 })
		})
	}
}

func TestReloadChangesRoutesWithoutLeavingTheGroups(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	sink := w.startReloadable(routed(nowByCall))
	w.produce(now(order("o1", "A", 1)), order("o2", "A", 1))
	w.bothSettled()
	before := w.memberIDs("immediate") + " " + w.memberIDs("batch")
	report := sink.reload(routed(nowByFile))
	if got := fmt.Sprint(report.Changed, report.Restart); got != "[mapping orders: routes] []" {
		t.Errorf("report: got %s, want the routes of orders alone", got)
	}
	calls := w.service.CallCount(4)
	w.produce(now(order("o1", "B", 2)), order("o2", "B", 2))
	w.bothSettled()
	w.ordersAre(map[string]string{"o1": "2 B", "o2": "2 B"})
	if got := w.service.CallCount(4) - calls; got != 1 {
		t.Errorf("calls after the reload: got %d, want o2's alone", got)
	}
	if got := w.memberIDs("immediate") + " " + w.memberIDs("batch"); got != before {
		t.Errorf("members: got %s, want those of before, %s", got, before)
	}
	if got := sink.reload(routed(nowByFile)); !got.Nothing() {
		t.Errorf("the same file again: got %+v, want nothing changed", got)
	}
	w.noDeadLetters()
}

func TestReloadAddsAndRemovesMappingsWithTheirTopicsAndMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	sink := w.startReloadable(routed(nowByCall))
	w.produce(customer("C1", "gold", 1), customer("C2", "basic", 1), now(order("o1", "A", 1)))
	w.bothSettled()
	sink.reload(routed(nowByCall) + customersToo)
	w.settled()
	if got := w.seq("customers", "C1") + w.seq("customers", "C2"); got != "11" {
		t.Errorf("customers after their mapping was added: got %q, want both, from the topic's start", got)
	}
	const series = `{mapping="customers"`
	if page := get(t, sink.AdminAddress(), "/metrics"); !strings.Contains(page, series) {
		t.Errorf("metrics: no series of customers, want some")
	}
	sink.reload(routed(nowByCall))
	w.produce(customer("C1", "gold", 2), now(order("o1", "B", 2)))
	w.bothSettled()
	for line := range strings.Lines(get(t, sink.AdminAddress(), "/metrics")) {
		// The Kafka client's own counters stay.
		if strings.Contains(line, series) || strings.Contains(line, `topic="`+w.topic("customers")) && !strings.HasPrefix(line, "feedsink_kafka_") {
			t.Errorf("metrics after the mapping was removed: got %s", line)
		}
	}
	sink.reload(routed(nowByCall) + customersToo)
	w.settled()
	if got := w.seq("customers", "C1"); got != "2" {
		t.Errorf("C1 after its mapping was added again: got %q, want 2, which was written meanwhile", got)
	}
	w.ordersAre(map[string]string{"o1": "2 B"})
	w.noDeadLetters()
}

func TestReloadThatIsRefusedChangesNothingAndSaysWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	good := routed(nowByCall)
	sink := w.startReloadable(good)
	w.produce(now(order("o1", "A", 1)))
	w.bothSettled()
	for _, c := range []struct{ what, yaml, want string }{
		{"a key that does not exist", strings.Replace(good, "customTable:", "customtable:", 1), "feedsink.yaml:"},
		{"a lane less", routed(allByCall), "no mapping uses the batch lane any more"},
		{"another group and another mapping", strings.Replace(good, "group: ", "group: other-", 1) + customersToo, "kafka.group has changed together with mappings"},
	} {
		if report, err := sink.tryReload(c.yaml); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %+v, %v, want an error that says %q", c.what, report, err, c.want)
		}
		if page := get(t, sink.AdminAddress(), "/metrics"); !strings.Contains(page, "feedsink_config_last_reload_successful 0") {
			t.Errorf("%s: the metric does not say that the reload has failed", c.what)
		}
		if page := get(t, sink.AdminAddress(), "/status"); !strings.Contains(page, c.want) {
			t.Errorf("%s: /status does not say %q", c.what, c.want)
		}
	}
	report := sink.reload(strings.Replace(strings.Replace(good, "sessionTimeout: 10s", "sessionTimeout: 11s", 1), "max: 300ms", "max: 400ms", 1))
	if got := fmt.Sprint(report.Changed, report.Restart); got != "[retry.max] [kafka.sessionTimeout]" {
		t.Errorf("a file with a key that needs a restart: got %s, want retry.max changed", got)
	}
	w.produce(now(order("o1", "B", 2)), order("o2", "B", 2))
	w.bothSettled()
	w.ordersAre(map[string]string{"o1": "2 B", "o2": "2 B"})
	if page := get(t, sink.AdminAddress(), "/metrics"); !strings.Contains(page, "feedsink_config_last_reload_successful 1") {
		t.Error("the metric does not say that the last reload has succeeded")
	}
}

// TestReloadThatCannotBeBuiltLeavesTheFormerConfigurationInForce: a file is there while the
// configuration is checked and gone when it is used.
func TestReloadThatCannotBeBuiltLeavesTheFormerConfigurationInForce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	sink := w.startReloadable(routed(nowByCall))
	w.produce(now(order("o1", "A", 1)), order("o2", "A", 1))
	w.bothSettled()
	authority := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority, certs.NewAuthority(t, "authority").PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	sink.read = func() { _ = os.Remove(authority) }
	with := strings.Replace(routed(nowByFile), "baseURL:", "tls: {caFile: "+authority+"}\n  baseURL:", 1)
	if report, err := sink.tryReload(with); err == nil || !strings.Contains(err.Error(), "service.tls.caFile") {
		t.Errorf("reload: got %+v, %v, want an error that names service.tls.caFile", report, err)
	}
	calls := w.service.CallCount(4)
	w.produce(now(order("o1", "B", 2)), order("o2", "B", 2))
	w.bothSettled()
	w.ordersAre(map[string]string{"o1": "2 B", "o2": "2 B"})
	if got := w.service.CallCount(4) - calls; got != 1 {
		t.Errorf("calls: got %d, want o1's alone, as the former file routes", got)
	}
	w.noDeadLetters()
}

func TestReloadTakesAnotherKeyFileAndAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	dir := t.TempDir()
	with := func(name, key string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(key), 0o600); err != nil {
			t.Fatal(err)
		}
		return strings.Replace(routed(nowByCall), "apiKey: ${API_KEY}", "apiKeyFile: "+path, 1)
	}
	wrong := strings.Replace(with("wrong", "not-the-key"), "baseURL: ${SERVICE}", "baseURL: http://127.0.0.1:1", 1)
	sink := w.startReloadable(wrong)
	w.produce(now(order("o1", "A", 1)), order("o2", "A", 1))
	w.until("the service gives no token", func() bool { return strings.Contains(fmt.Sprint(sink.Unready()), "no token") })
	report := sink.reload(with("right", apiKey))
	if got := fmt.Sprint(report.Changed); got != "[service.baseURL service.apiKeyFile]" {
		t.Errorf("changed: got %s, want address and key file", got)
	}
	w.bothSettled()
	w.ordersAre(map[string]string{"o1": "1 A", "o2": "1 A"})
}

func TestReloadStillWaitsForTheTimeThatTheServiceNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	sink := w.startReloadable(routed(nowByCall))
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4}, Answer: sandbox.StatusAfter(http.StatusTooManyRequests, time.Hour)})
	w.produce(now(order("o1", "A", 1)))
	throttled := func() bool { return strings.Contains(get(t, sink.AdminAddress(), "/status"), `"throttled"`) }
	w.until("the service has named a time", throttled)
	sink.reload(routed(nowByFile))
	if !throttled() {
		t.Error("status after the reload: got no wait for the service, want that of before")
	}
}

// TestReloadWithTheSameLoginStaysReady: also while the service gives no other token, with
// another topic and with a file that cannot be used. Another key has to be tried first.
func TestReloadWithTheSameLoginStaysReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	sink := w.startReloadable(routed(nowByCall))
	w.produce(now(order("o1", "A", 1)), order("o2", "A", 1))
	w.bothSettled()
	w.until("the sink is ready", func() bool { return get(t, sink.AdminAddress(), "/readyz") == "ok\n" })
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 14}, Answer: sandbox.Status(503)})

	ctx, stop := context.WithCancel(t.Context())
	var looking sync.WaitGroup
	defer looking.Wait()
	defer stop()
	looking.Go(func() {
		for look := time.NewTicker(time.Millisecond); ctx.Err() == nil; <-look.C {
			if why := sink.Unready(); len(why) > 0 {
				t.Errorf("/readyz amid reloads: got %q, want it to stay ready", why)
				return
			}
		}
	})
	for range 3 {
		sink.reload(routed(nowByFile))
		sink.reload(routed(nowByCall) + customersToo)
		if _, err := sink.tryReload(routed(nowByCall) + "nonsense: 1\n"); err == nil {
			t.Error("reload of a wrong file: got no error")
		}
	}
	w.produce(customer("C1", "gold", 1), customer("C2", "basic", 1), now(order("o1", "B", 2)), order("o2", "B", 2))
	w.bothSettled()
	w.settled()
	w.ordersAre(map[string]string{"o1": "2 B", "o2": "2 B"})
	stop()
	looking.Wait()

	sink.reload(strings.Replace(routed(nowByCall), "${API_KEY}", "not-the-key", 1))
	if got := get(t, sink.AdminAddress(), "/readyz"); !strings.Contains(got, "no token") {
		t.Errorf("/readyz with another key: got %q, want that there is no token", got)
	}
}

// TestHundredReloadsUnderLoadLoseNothing reloads at random while both lanes have work: at
// the end each table says what the topic says, each import had a slot, and nothing is left
// of former configurations.
func TestHundredReloadsUnderLoadLoseNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	// Goroutines have the labels of those that start them: others' tests run beside this one.
	pprof.SetGoroutineLabels(pprof.WithLabels(t.Context(), pprof.Labels("test", t.Name())))
	sink := w.startReloadable(routed(nowByCall) + customersToo)
	w.produce(now(order("o1", "A", 1)), customer("C1", "gold", 1))
	w.settled()
	begun := labelled(t)

	ctx, stop := context.WithCancel(t.Context())
	wanted, customers := map[string]string{}, map[string]string{}
	var feeding sync.WaitGroup
	feeding.Go(func() {
		chance := rand.New(rand.NewPCG(seed, 2))
		for seq := 2; ctx.Err() == nil; seq++ {
			var some []*kgo.Record
			for range 20 {
				key := fmt.Sprint("o", chance.IntN(200))
				wanted[key] = fmt.Sprint(seq, " S", seq%7)
				r := order(key, fmt.Sprint("S", seq%7), seq)
				if chance.IntN(2) == 0 {
					now(r)
				}
				some = append(some, r)
			}
			number := fmt.Sprint("C", chance.IntN(50))
			customers[number] = fmt.Sprint(seq)
			some = append(some, customer(number, []string{"gold", "basic"}[chance.IntN(2)], seq))
			for _, r := range some {
				r.Topic = w.topic(r.Topic)
			}
			if err := w.client.ProduceSync(context.WithoutCancel(ctx), some...).FirstErr(); err != nil {
				t.Errorf("produce: %v", err)
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	changes := []string{nowByCall, nowByFile, oddByCall, evenByCall, nowByCall}
	for n := range 100 {
		yaml := routed(changes[random.IntN(len(changes))])
		yaml = strings.Replace(yaml, "age: 400ms", fmt.Sprintf("age: %dms", 200+random.IntN(600)), 1)
		if random.IntN(3) > 0 {
			yaml += customersToo
		}
		if random.IntN(10) == 0 {
			if _, err := sink.tryReload(yaml + "nonsense: 1\n"); err == nil {
				t.Error("reload of a wrong file: got no error")
			}
			continue
		}
		if _, err := sink.tryReload(yaml); err != nil {
			t.Errorf("reload %d: %v", n, err)
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(random.IntN(300)) * time.Millisecond):
		}
	}
	stop()
	feeding.Wait()
	sink.reload(routed(nowByCall) + customersToo)
	w.bothSettled()
	w.settled()
	w.ordersAre(wanted)
	for number, want := range customers {
		if got := w.seq("customers", number); got != want {
			t.Errorf("customer %s: got %q, want %q", number, got, want)
		}
	}
	w.noDeadLetters()
	left := -1
	w.until("the slots that are left are known", func() bool { // not while partitions begin anew
		told := regexp.MustCompile(`feedsink_import_slots_remaining\{table="orders"\} (\d+)`).FindStringSubmatch(get(t, sink.AdminAddress(), "/metrics"))
		if told != nil {
			left, _ = strconv.Atoi(told[1])
		}
		return told != nil
	})
	imports := 0
	for _, e := range w.service.Executions() {
		if e.ETL != "101" {
			imports++
		}
	}
	if left > 1000-imports {
		t.Errorf("slots left of orders: got %d, want at most %d: %d were imported", left, 1000-imports, imports)
	}
	http.DefaultClient.CloseIdleConnections()
	w.until("as many goroutines run as before", func() bool { return labelled(t) <= begun+10 })
}

// labelled counts the goroutines that have the test's name as their label "test".
func labelled(t *testing.T) int {
	t.Helper()
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		t.Fatal(err)
	}
	count := 0
	stacks := regexp.MustCompile(`(?m)^(\d+) @.*\n# labels: .*"test":"` + t.Name() + `"`)
	for _, stack := range stacks.FindAllSubmatch(profile.Bytes(), -1) {
		alike, _ := strconv.Atoi(string(stack[1]))
		count += alike
	}
	return count
}
