package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// rowsAlone make files of all orders.
const rowsAlone = `
mappings:
  - name: orders
    topics: ["${PREFIX}orders"]
    customTable: orders
    key: businessKey
    routes: [{lane: batch}]
    imports:
      upsert: {etl: "103", mode: CREATE_OR_UPDATE}
      columns: [businessKey, seq, status]
      roll: {rows: 400, bytes: 1MiB, age: 500ms}
      slotsPerDay: 1000
`

// TestEveryRecordOfABacklogIsTakenInItsTurn: where records wait by the thousand,
// several are read at once. Among them are some that are broken, that the table
// does not take and that are long, which only their turn decides.
func TestEveryRecordOfABacklogIsTakenInItsTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOrdersETL)
	want, broken := map[string]string{}, map[string]bool{}
	records := make([]*kgo.Record, 8000)
	for i := range records {
		key, status := fmt.Sprintf("o%d", i%700), fmt.Sprintf("S%d", i)
		switch {
		case i%97 == 0:
			records[i] = event("orders", key, fmt.Sprintf(`{"broken":"%d"`, i))
			broken[string(records[i].Value)] = true
			continue
		case i%89 == 0:
			records[i] = event("orders", key, fmt.Sprintf(`{"businessKey":%q,"propertiez":{"seq":%d}}`, key, i))
			broken[string(records[i].Value)] = true
			continue
		}
		records[i], want[key] = order(key, status, i), status
		if i%83 == 0 { // but not too long for the table
			records[i].Value = append(records[i].Value, strings.Repeat(" ", 5000)...)
		}
	}
	w.produce(records...)
	w.start(head + deadLetters + rowsAlone)
	w.until("the batch lane is at the end of the log", func() bool { return w.lag("batch", "orders") == 0 })
	for key, status := range want {
		if row, _ := w.service.Row("orders", key); row.Text("status") != status {
			t.Errorf("%s: got %.20q, want %.20q", key, row.Text("status"), status)
		}
	}
	letters := w.dead()
	for _, l := range letters {
		if !broken[string(l.Value)] {
			t.Errorf("dead letter %.60q: is none, or is one twice", l.Value)
		}
		delete(broken, string(l.Value))
	}
	if len(broken) > 0 {
		t.Errorf("%d records, of %d letters, are missing", len(broken), len(letters))
	}
}
