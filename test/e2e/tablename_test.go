//go:build !image

package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// contacts is a profile table and a custom table, both fed by files from one topic.
func contacts(c *sandbox.Config) {
	c.Tables = []sandbox.Table{
		{Name: "contacts", Keys: []string{"customerNumber"}, Fields: []sandbox.Field{{Name: "customerNumber"}, {Name: "seq", Type: sandbox.Integer}}},
		{Name: "contacts", Custom: true, Fields: []sandbox.Field{{Name: "seq", Type: sandbox.Number}}},
	}
	c.ETLs = []sandbox.ETL{
		{ID: "101", Loads: []sandbox.Load{{Table: "profile/contacts", Mode: sandbox.CreateOrUpdate, GenerateErrorFiles: true}}},
		{ID: "102", Loads: []sandbox.Load{{Table: "custom/contacts", Mode: sandbox.CreateOrUpdate, GenerateErrorFiles: true}}},
	}
}

const contactMappings = `
mappings:
  - name: people
    topics: ["${PREFIX}customers"]
    profileTable: contacts
    key: customerNumber
    fields: [{from: number, to: customerNumber}, {from: seq, to: seq, as: integer}]
    routes: [{lane: batch}]
    imports: {upsert: {etl: "101", mode: CREATE_OR_UPDATE}, columns: [customerNumber, seq], roll: {rows: 500, age: 300ms}, slotsPerDay: 1000}
  - name: visits
    topics: ["${PREFIX}customers"]
    customTable: contacts
    key: businessKey
    fields: [{from: visit, to: businessKey}, {from: seq, to: seq, as: integer}]
    routes: [{lane: batch}]
    imports: {upsert: {etl: "102", mode: CREATE_OR_UPDATE}, columns: [businessKey, seq], roll: {rows: 500, age: 300ms}, slotsPerDay: 1000}
`

func contact(n int) *kgo.Record {
	return event("customers", fmt.Sprint(n), fmt.Sprintf(`{"number":"C%[1]d","visit":"b%[1]d","seq":%[1]d}`, n))
}

// Both imports are on record when the member dies, and both are awaited.
func TestTablesOfOneNameHaveTheirOwnImports(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contacts)
	w.service.Hold() // the imports take as long as the test wants
	first := w.run(head + deadLetters + contactMappings)
	for n := range 8 {
		w.produce(contact(n))
	}
	w.until("both imports are on record", func() bool {
		return strings.Count(first.out.String(), "execution is on record") == 2
	})
	if err := first.signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = first.wait() // it was killed
	running := len(w.service.Executions())
	second := w.run(head + deadLetters + contactMappings)
	w.until("the next owner has found both", func() bool {
		return strings.Count(second.out.String(), "adopting the import of a former owner") == 2
	})
	w.service.Release()
	w.until("both tables have all rows and the group is at its end", func() bool {
		return w.service.Len("profile/contacts") == 8 && w.service.Len("custom/contacts") == 8 && w.lag("batch", "customers") == 0
	})
	var files []string
	for _, e := range w.service.Executions()[:running] {
		files = append(files, e.Loads[0].Table)
	}
	slices.Sort(files)
	if want := []string{"custom/contacts", "profile/contacts"}; !slices.Equal(slices.Compact(files), want) {
		t.Errorf("tables of the imports before the kill: got %q, want %q", files, want)
	}
	all := w.service.Executions()
	for _, table := range []string{"profile/contacts", "custom/contacts"} {
		n := 0
		for _, e := range all {
			if e.Loads[0].Table == table {
				n++
			}
		}
		if used := w.service.SlotsUsed(table, time.Now()); used != n {
			t.Errorf("imports of %s: got %d executions, want %d, one for each slot", table, n, used)
		}
	}
	second.terminate(t)
}

// TestTablesOfOneNameAreToldApartWhereverTheyShow: in dead letters, metrics and the status.
func TestTablesOfOneNameAreToldApartWhereverTheyShow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contacts)
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4}, Answer: sandbox.Status(http.StatusServiceUnavailable)})
	w.produce(event("customers", "bad", `{"number":"C0","visit":"b0","seq":"none"}`))
	for n := range 30 {
		w.produce(contact(n))
	}
	sink := w.start(head + deadLetters + strings.ReplaceAll(contactMappings, "lane: batch", "lane: immediate"))
	w.until("both mappings have refused the bad record", func() bool { return len(w.dead()) == 2 })
	var tables []string
	for _, l := range w.dead() {
		for _, h := range l.Headers {
			if h.Key == "feedsink.table" {
				tables = append(tables, string(h.Value))
			}
		}
	}
	slices.Sort(tables)
	if want := []string{"custom/contacts", "profile/contacts"}; !slices.Equal(tables, want) {
		t.Errorf("feedsink.table of the dead letters: got %q, want %q", tables, want)
	}
	w.until("the breaker of the table that fails is open, and no other", func() bool {
		metrics := get(t, sink.AdminAddress(), "/metrics")
		return strings.Contains(metrics, `feedsink_breaker_state{table="custom/contacts"} 2`) &&
			strings.Contains(metrics, `feedsink_breaker_state{table="profile/contacts"} 0`)
	})
	if logs := w.logs.String(); !strings.Contains(logs, "table=custom/contacts") || strings.Contains(logs, "table=contacts") {
		t.Errorf("got logs of a table without its kind:\n%s", logs)
	}
}
