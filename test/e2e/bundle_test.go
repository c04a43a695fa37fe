package e2e_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/ops"
)

// crmBundle loads customers and orders by one ZIP. Orders come first in the
// configuration and link to customers.
const crmBundle = `
mappings:
  - name: orders
    topics: ["${PREFIX}orders"]
    customTable: orders
    key: businessKey
    after: [customers]
    bundle: crm
    routes: [{lane: batch}]
    imports:
      upsert: {etl: "201", mode: CREATE_OR_UPDATE}
      columns: [businessKey, seq, status]
      roll: {rows: 500, bytes: 1MiB, age: 1s}
      slotsPerDay: 1000
      fileName: shop-orders-$YYYYMMDD.csv
  - name: customers
    topics: ["${PREFIX}customers"]
    profileTable: customers
    key: customerNumber
    bundle: crm
    routes: [{lane: batch}]
    imports:
      upsert: {etl: "201", mode: CREATE_OR_UPDATE}
      delete: {etl: "102", mode: DELETE}
      columns: [customerNumber, emailAddress, lastName, seq, S_tier]
      roll: {rows: 500, bytes: 1MiB, age: 1s}
      slotsPerDay: 900
`

func withCRMBundle(c *sandbox.Config) {
	c.ETLs = append(c.ETLs, sandbox.ETL{ID: "201", Loads: []sandbox.Load{
		{Table: "customers", Mode: sandbox.CreateOrUpdate, GenerateErrorFiles: true, FileNamePattern: "customers.csv"},
		{Table: "orders", Mode: sandbox.CreateOrUpdate, GenerateErrorFiles: true, FileNamePattern: "shop-orders-$YYYYMMDD.csv"},
	}})
}

// bundled waits until the batch lane has committed all of both topics.
func (w *world) bundled() {
	w.t.Helper()
	w.until("the batch lane is at the end of both logs", func() bool { return w.lag("batch", "customers")+w.lag("batch", "orders") == 0 })
}

// wantSlots compares what both tables' days have seen with what the sink has on
// record.
func (w *world) wantSlots(sink *running, n int) {
	w.t.Helper()
	for table, perDay := range map[string]int{"customers": 900, "orders": 1000} {
		if got := w.service.SlotsUsed(table, time.Now()); got != n {
			w.t.Errorf("imports of %s: got %d, want %d", table, got, n)
		}
		want := fmt.Sprintf("feedsink_import_slots_remaining{table=%q} %d\n", table, perDay-n)
		if metrics := get(w.t, sink.AdminAddress(), "/metrics"); !strings.Contains(metrics, want) {
			w.t.Errorf("slots on record: want %s", want)
		}
	}
}

func TestABundleIsOneImportParentsFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withCRMBundle)
	w.produce(order("o1", "PAID", 3), order("o2", "PAID", 4), customer("C1", "gold", 1))
	sink := w.start(head + deadLetters + crmBundle)
	w.bundled()
	all := w.service.Executions()
	if len(all) != 1 || all[0].Status != sandbox.Finished || !strings.HasPrefix(all[0].File, "crm-") || !strings.HasSuffix(all[0].File, ".upsert.csv.zip") {
		t.Fatalf("executions: got %+v, want one of a ZIP of the bundle", all)
	}
	loads := all[0].Loads
	slices.Sort(loads[1].Keys)
	if loads[0].Table != "customers" || loads[1].Table != "orders" || loads[0].Seq > loads[1].Seq || !slices.Equal(loads[1].Keys, []string{"o1", "o2"}) {
		t.Errorf("loads: got %+v, want the customers before the orders", loads)
	}
	if got, want := loads[1].File, "shop-orders-"+all[0].Accepted.UTC().Format("20060102")+".csv"; got != want {
		t.Errorf("entry of the orders: got %s, want %s", got, want)
	}
	w.wantSlots(sink, 1)

	var status observe.Status
	if err := json.Unmarshal([]byte(get(t, sink.AdminAddress(), "/status")), &status); err != nil || len(status.Mappings) != 2 {
		t.Fatalf("status: got %v and %d mappings, want 2", err, len(status.Mappings))
	}
	for _, m := range status.Mappings {
		if m.Bundle != "crm" {
			t.Errorf("status of %s: got bundle %q, want crm", m.Name, m.Bundle)
		}
	}

	// One mapping alone has rows: the other's entry is a header.
	w.produce(customer("C2", "basic", 5))
	w.bundled()
	if last := w.service.Executions()[1]; last.Status != sandbox.Finished || last.Loads[1].Results.Read != 0 {
		t.Errorf("second import: got %+v, want no orders in it", last)
	}
	// What has one mapping's files alone is an ETL of one file.
	w.produce(event("customers", "C2", `{"op":"delete","key":{"customerNumber":"C2"}}`))
	w.bundled()
	if _, there := w.service.Row("customers", "C2"); there {
		t.Error("C2: is there, want it deleted")
	}
	if got := w.service.SlotsUsed("orders", time.Now()); got != 2 {
		t.Errorf("imports of orders: got %d, want 2: the ETL of deletes is the customers' alone", got)
	}
	if metrics := get(t, sink.AdminAddress(), "/metrics"); !strings.Contains(metrics, `feedsink_imports_total{mapping="orders",mode="CREATE_OR_UPDATE",status="FINISHED"} 2`) ||
		!strings.Contains(metrics, `feedsink_writes_total{lane="batch",mapping="orders",op="upsert",outcome="applied"} 2`) {
		t.Errorf("metrics: want both imports and both rows counted for orders, in\n%s", metrics)
	}
}

func TestAnETLMadeForABundleLoadsItsZIP(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	yaml := head + deadLetters + crmBundle
	file := config.File{Name: "feedsink.yaml", Data: []byte(strings.ReplaceAll(yaml, `etl: "201", `, ""))}
	cfg, err := file.Unfinished(w.env)
	if err != nil {
		t.Fatal(err)
	}
	client, err := build.NewService(cfg.Service)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	made, err := ops.ETLs(cfg, "orders", 0)
	if err != nil || len(made) != 1 {
		t.Fatalf("definitions: got %+v, %v, want that of upserts", made, err)
	}
	if err := made[0].Create(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	w.produce(customer("C1", "basic", 1), order("o1", "PAID", 2))
	w.start(strings.ReplaceAll(yaml, `upsert: {etl: "201", mode: CREATE_OR_UPDATE}`, made[0].Line))
	w.bundled()
	if w.service.Len("customers") != 1 || w.service.Len("orders") != 1 || len(w.service.Executions()) != 1 {
		t.Errorf("got executions %+v, want one that loads both tables", w.service.Executions())
	}
}

func TestBundleOfAKilledMemberIsAdoptedNotRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withCRMBundle)
	w.service.Hold()
	first := w.run(head + deadLetters + crmBundle)
	w.produce(customer("C1", "basic", 1), order("o1", "PAID", 2))
	w.until("the import is on record", func() bool { return strings.Contains(first.out.String(), "execution is on record") })
	if err := first.signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = first.wait() // it was killed
	second := w.start(head + deadLetters + crmBundle)
	w.until("the next owner has found the import", func() bool {
		return strings.Contains(w.logs.String(), "adopting the import of a former owner")
	})
	w.produce(order("o1", "SHIPPED", 3))
	for _, m := range importsOf(t, second) {
		if m.Import == nil || m.Import.Bundle != "crm" {
			t.Errorf("%s while the import is awaited: got %+v, want it shown as its own", m.Mapping, m)
		}
	}
	w.service.Release()
	w.bundled()
	w.wantSlots(second, 2)
	if got := len(w.service.Executions()); got != 2 {
		t.Errorf("imports: got %d, want the adopted one and that of the newer record", got)
	}
	if row, ok := w.service.Row("orders", "o1"); !ok || row.Text("status") != "SHIPPED" {
		t.Errorf("o1: got %v, want its newest state", row.Values)
	}
	if _, ok := w.service.Row("customers", "C1"); !ok {
		t.Error("C1: is missing")
	}
}

// importsOf is what /imports shows.
func importsOf(t *testing.T, sink *running) (list []observe.MappingImports) {
	t.Helper()
	if err := json.Unmarshal([]byte(get(t, sink.AdminAddress(), "/imports")), &list); err != nil || len(list) != 2 {
		t.Fatalf("/imports: got %+v, %v, want both mappings", list, err)
	}
	return list
}

// Mappings join a bundle, or leave it, while their imports are on their way. Those
// are awaited before anything newer goes out, and take no further slots.
func TestMappingsJoinAndLeaveABundleWhileTheirImportsRun(t *testing.T) {
	t.Parallel()
	apart := strings.NewReplacer("    bundle: crm\n", "", "      fileName: shop-orders-$YYYYMMDD.csv\n", "", "    after: [customers]\n", "").Replace(crmBundle)
	apart = strings.Replace(strings.Replace(apart, `etl: "201"`, `etl: "103"`, 1), `etl: "201"`, `etl: "101"`, 1)
	for _, c := range []struct {
		name, before, after string
		running             int // imports
	}{{"leave", crmBundle, apart, 1}, {"join", apart, crmBundle, 2}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, func(c *sandbox.Config) { withCRMBundle(c); withOrdersETL(c) })
			w.service.Hold()
			w.produce(customer("C1", "basic", 1), order("o1", "PAID", 2))
			first := w.start(head + deadLetters + c.before)
			w.until("the imports run", func() bool { return len(w.service.Executions()) == c.running })
			w.until("they are on record", func() bool { return strings.Count(w.logs.String(), "import triggered") == c.running })
			first.stop()
			w.produce(customer("C1", "basic", 3), order("o1", "SHIPPED", 4))
			second := w.start(head + deadLetters + c.after)
			w.until("both mappings wait for what was sent", func() bool {
				return !slices.ContainsFunc(importsOf(t, second), func(m observe.MappingImports) bool { return m.Import == nil || m.Import.Step != "importing" })
			})
			w.until("newer rows are there too", func() bool {
				return !slices.ContainsFunc(importsOf(t, second), func(m observe.MappingImports) bool { return m.Open == nil })
			})
			if got := len(w.service.Executions()); got != c.running {
				t.Errorf("imports while the others run: got %d, want %d", got, c.running)
			}
			w.service.Release()
			w.bundled()
			order, _ := w.service.Row("orders", "o1")
			customer, _ := w.service.Row("customers", "C1")
			if order.Text("status") != "SHIPPED" || customer.Text("seq") != "3" {
				t.Errorf("rows: got %v and %v, want their newest states", order.Values, customer.Values)
			}
		})
	}
}

func TestAFailedBundleHaltsAllOfItsMappings(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withCRMBundle)
	w.service.FailImports("orders", 1, "duplicate headers")
	w.produce(customer("C1", "basic", 1), order("o1", "PAID", 2))
	sink := w.start(head + deadLetters + crmBundle)
	w.until("both mappings are halted", func() bool {
		metrics := get(t, sink.AdminAddress(), "/metrics")
		return strings.Contains(metrics, `feedsink_halted{mapping="customers"} 1`) && strings.Contains(metrics, `feedsink_halted{mapping="orders"} 1`)
	})
	for _, m := range importsOf(t, sink) {
		if !strings.Contains(m.Halted, "duplicate headers") || len(m.Kept) != 1 || !strings.HasSuffix(m.Kept[0], ".csv.zip.failed") {
			t.Errorf("%s: got halted %q, kept %q, want the reason and the whole ZIP", m.Mapping, m.Halted, m.Kept)
		}
	}
	if out, code := execute(t, "imports", "release", "--mapping", "orders", "--server", "http://"+sink.AdminAddress()); code != 0 {
		t.Errorf("release: got exit code %d, %s", code, out)
	}
	w.bundled()
	w.wantSlots(sink, 2)
}

func TestRowsInErrorOfABundleComeBackWithTheirMapping(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withCRMBundle)
	if err := w.service.RejectRows(
		sandbox.Rejection{Column: "lastName", Match: "Nemo", Reason: "nobody of this name"},
		sandbox.Rejection{Column: "status", Match: "LOST", Reason: "no such status"},
	); err != nil {
		t.Fatal(err)
	}
	nemo := event("customers", "C1", `{"op":"upsert","key":{"customerNumber":"C1"},"attributes":{"lastName":"Nemo"}}`)
	// One key in both tables: each row in error is its own table's.
	lost, twin := order("o1", "LOST", 1), order("C1", "PAID", 2)
	sink := w.start(head + deadLetters + crmBundle)
	for _, c := range []struct {
		name string
		rows []string // mapping and reason
	}{{"of both", []string{"customers nobody of this name", "orders no such status"}}, {"of one", []string{"orders no such status"}}} {
		before := len(w.dead())
		if len(c.rows) == 2 {
			w.produce(nemo, twin, lost, customer("C2", "basic", 3))
		} else {
			w.produce(order("o1", "LOST", 4), customer("C1", "basic", 5))
		}
		w.bundled()
		var got []string
		for _, l := range w.dead()[before:] {
			got = append(got, header(l, "feedsink.mapping")+" "+strings.TrimPrefix(header(l, "__connect.errors.exception.message"), "lastName: "))
		}
		slices.Sort(got)
		if !slices.Equal(got, c.rows) {
			t.Errorf("rows in error %s: got %q, want %q", c.name, got, c.rows)
		}
	}
	if row, ok := w.service.Row("orders", "C1"); !ok || row.Text("status") != "PAID" {
		t.Errorf("order C1: got %v, want it loaded: it is the customer of this key that was refused", row.Values)
	}
	if metrics := get(t, sink.AdminAddress(), "/metrics"); !strings.Contains(metrics, `feedsink_writes_total{lane="batch",mapping="orders",op="upsert",outcome="rejected"} 2`) {
		t.Errorf("metrics: want two rejected orders in\n%s", metrics)
	}
}
