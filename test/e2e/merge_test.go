package e2e_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// mergingBoth has an import of merges for both tables; an order chooses its lane, and
// customers that are gold have calls.
const mergingBoth = `
mappings:
  - name: customers
    topics: ["${PREFIX}customers"]
    profileTable: customers
    key: customerNumber
    routes: [{when: 'segments.tier == "gold"', lane: immediate}, {lane: batch}]
    imports:
      upsert: {etl: "101", mode: CREATE_OR_UPDATE}
      merge: {etl: "106", mode: CREATE_OR_UPDATE, ignoresEmpty: true}
      delete: {etl: "102", mode: DELETE}
      columns: [customerNumber, emailAddress, lastName, seq, S_tier]
      roll: {rows: 500, bytes: 1MiB, age: 400ms}
      slotsPerDay: 1000
  - name: orders
    topics: ["${PREFIX}orders"]
    customTable: orders
    key: businessKey
    routes: [{when: 'headers.lane == "now"', lane: immediate}, {lane: batch}]
    imports:
      upsert: {etl: "103", mode: CREATE_OR_UPDATE}
      merge: {etl: "107", mode: CREATE_OR_UPDATE, ignoresEmpty: true}
      columns: [businessKey, seq, status]
      roll: {rows: 500, bytes: 1MiB, age: 400ms}
      slotsPerDay: 1000
`

func withMergeETLs(c *sandbox.Config) {
	withOrdersETL(c)
	for id, table := range map[string]string{"106": "customers", "107": "orders"} {
		c.ETLs = append(c.ETLs, sandbox.ETL{ID: id, Loads: []sandbox.Load{
			{Table: table, Mode: sandbox.CreateOrUpdate, Flags: sandbox.Flags{IgnoreEmptyValues: true}, GenerateErrorFiles: true},
		}})
	}
}

func mergeCustomer(key, attributes, tier string) *kgo.Record {
	return event("customers", key, `{"op":"merge","key":{"customerNumber":"`+key+`"},"attributes":{`+attributes+`},"segments":{"tier":"`+tier+`"}}`)
}

func (w *world) mergingSettled() {
	w.t.Helper()
	w.until("both groups are at the end of the logs", func() bool {
		return w.lag("immediate", "orders")+w.lag("batch", "orders")+w.lag("immediate", "customers")+w.lag("batch", "customers") == 0
	})
}

// TestMergesMakeWhatIsNotThereAndKeepWhatTheyDoNotName: profiles by files whatever their
// routes say, orders in both lanes.
func TestMergesMakeWhatIsNotThereAndKeepWhatTheyDoNotName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withMergeETLs)
	sink := w.start(head + deadLetters + mergingBoth)
	defer sink.stop()
	w.produce(
		event("customers", "C1", `{"key":{"customerNumber":"C1"},"attributes":{"lastName":"Lovelace","seq":1},"segments":{"tier":"gold"}}`),
		now(change("upsert", "o1", `"seq":1,"status":"OLD"`)), now(change("upsert", "o2", `"seq":1,"status":"OLD"`)))
	w.mergingSettled()
	w.produce(
		mergeCustomer("C1", `"seq":2`, "gold"), mergeCustomer("C2", `"seq":2`, "gold"), mergeCustomer("C2", `"lastName":"Hopper"`, "basic"),
		now(change("merge", "o1", `"seq":2`)), change("merge", "o2", `"seq":2`),
		now(change("merge", "o3", `"seq":3`)), change("merge", "o4", `"seq":4`), change("merge", "o4", `"status":"NEW"`))
	w.mergingSettled()
	w.ordersAre(map[string]string{"o1": "2 OLD", "o2": "2 OLD", "o3": "3 ", "o4": "4 NEW"})
	for key, want := range map[string]string{"C1": "Lovelace 2 gold", "C2": "Hopper 2 basic"} {
		row, _ := w.service.Row("customers", key)
		if got := row.Text("lastName") + " " + row.Text("seq") + " " + row.Text("S_tier"); got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
	if dead := w.dead(); len(dead) > 0 {
		t.Errorf("dead letters: got %d, want none", len(dead))
	}
}

// TestAdoptedMergesAreTheirOwnFile: upserts and merges have one import mode, and the next
// owner of a running import of merges knows which records its rows in error are of.
func TestAdoptedMergesAreTheirOwnFile(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"merge", "upsert"} {
		t.Run(bad, func(t *testing.T) {
			w := newWorld(t, withMergeETLs)
			if err := w.service.RejectRows(sandbox.Rejection{Table: "orders", Column: "status", Match: "REFUSED"}); err != nil {
				t.Fatal(err)
			}
			w.service.Hold()
			w.produce(change("upsert", "o1", `"seq":1,"status":"UPSERT"`), change("merge", "o2", `"status":"MERGE"`), change(bad, "o3", `"status":"REFUSED"`))
			yaml := head + deadLetters + strings.ReplaceAll(mergingBoth, "rows: 500, bytes: 1MiB, age: 400ms", "rows: 3, bytes: 1MiB, age: 10s")
			sink := w.start(yaml)
			files := map[string]int{"upsert": 1, "merge": 2}[bad]
			for n := range files {
				w.until("the file is being imported", func() bool { return len(w.service.Executions()) == n+1 })
				if n+1 < files {
					if err := w.service.Finish(w.service.Executions()[n].ID); err != nil {
						t.Fatal(err)
					}
				}
			}
			sink.stop()
			sink = w.start(yaml)
			defer sink.stop()
			w.service.Release()
			w.mergingSettled()
			w.ordersAre(map[string]string{"o1": "1 UPSERT", "o2": " MERGE", "o3": ""})
			dead := w.dead()
			if len(dead) != 1 || string(dead[0].Key) != "o3" || header(dead[0], "__connect.errors.exception.class.name") != "import_row" {
				t.Errorf("dead letters: got %d, want the one of the row in error", len(dead))
			}
			if got := len(w.service.Executions()); got != 2 {
				t.Errorf("imports: got %d, want one for each op: none was repeated", got)
			}
		})
	}
}
