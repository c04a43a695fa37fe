package e2e_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

const changes = `
mappings:
  - name: orders
    topics: ["${PREFIX}orders"]
    envelope: debezium
    customTable: orders
    key: businessKey
    fields: [{from: id, to: businessKey}, {from: seq, to: seq}, {from: status, to: status}]
    routes: [{lane: immediate}]
`

// What Debezium itself writes is tried in test/debezium; here, what becomes of
// events that change no row, or every row.
func TestRowsAreReadFromTheirEnvelope(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	sink := w.start(head + deadLetters + changes)
	const key = `{"schema":{"type":"struct","fields":[{"type":"int32","field":"id"}]},"payload":{"id":7}}`
	w.produce(
		event("orders", key, `{"op":"c","source":{},"after":{"id":7,"seq":1,"status":"NEW","loyalty":"gold"}}`),
		event("orders", key, `{"op":"u","source":{},"after":{"id":7,"seq":2,"status":"__debezium_unavailable_value"}}`),
		event("orders", `{"id":8}`, `{"op":"c","source":{},"after":{"id":8,"seq":3}}`),
		event("orders", `{"id":8}`, `{"op":"d","source":{},"before":{"id":8},"after":null}`),
		&kgo.Record{Topic: "orders", Key: []byte(`{"id":8}`)},
		event("orders", `{"prefix":"note"}`, `{"op":"m","source":{},"message":{"prefix":"note"}}`),
		&kgo.Record{Topic: "orders", Value: []byte(`{"op":"t","source":{},"before":null,"after":null}`)},
	)
	w.until("everything is committed", func() bool { return w.lag("immediate", "orders") == 0 })
	sink.stop()

	rows := w.service.Rows("orders")
	row := rows["7"]
	if len(rows) != 1 || row.Text("seq") != "2" || row.Text("status") != "NEW" {
		t.Errorf("orders: got %v, want 7 with seq 2 and the status of before", rows)
	}
	if got := strings.Count(w.logs.String(), "new fields that no mapping reads"); got != 1 || !strings.Contains(w.logs.String(), "loyalty") || strings.Contains(w.logs.String(), "gold") {
		t.Errorf("the log names the column that is not mapped %d times, want once, without its value", got)
	}
	letters := w.dead()
	if len(letters) != 1 || !strings.Contains(string(letters[0].Value), `"op":"t"`) {
		t.Errorf("dead letters: got %d, want the truncate alone", len(letters))
	}
}
