package router_test

import (
	"strings"
	"testing"

	"github.com/feedsink/feedsink/router"
)

// rows is a custom table's mapping of a database table's changes.
func rows() router.Mapping {
	m := orders()
	m.Envelope = "debezium"
	m.Fields = []router.Field{
		{From: "id", To: "businessKey"},
		{From: "status", To: "status"},
		{From: "note", To: "note"},
		{From: "total", To: "total", As: "number"},
	}
	m.Routes = []router.Route{{When: `op == "delete" or __op == "r" or id == 7`, Lane: "batch"}, {Lane: "immediate"}}
	m.Imports = router.Imports{
		Upsert:      &router.Import{ETL: "1", Mode: "CREATE_OR_UPDATE"},
		Delete:      &router.Import{ETL: "2", Mode: "DELETE"},
		Columns:     []router.Column{{Name: "businessKey"}, {Name: "status"}, {Name: "note"}, {Name: "total"}},
		Roll:        router.Roll{Rows: 10},
		SlotsPerDay: 12, Timezone: "UTC",
	}
	return m
}

func TestChangesOfRowsBecomeWrites(t *testing.T) {
	const missing = `"__debezium_unavailable_value"`
	r := compile(t, rows())
	for _, tc := range []struct{ name, key, value, want string }{
		{"create", `{"id":1}`, `{"op":"c","source":{},"after":{"id":1,"status":"NEW","note":null}}`, `immediate: upsert orders 1 p.status="NEW" p.note=null`},
		{"conditions see Debezium's letter", `{"id":1}`, `{"op":"r","source":{},"after":{"id":1}}`, `batch: upsert orders 1`},
		{"conditions see columns", `{"id":7}`, `{"op":"u","source":{},"after":{"id":7}}`, `batch: upsert orders 7`},
		{"conditions see op", `{"id":1}`, `{"op":"d","source":{},"before":{"id":1,"status":null}}`, `batch: delete orders 1`},
		{"a delete without its row", `{"id":1}`, `{"op":"d","source":{},"before":null}`, `batch: delete orders 1`},
		{"a delete whose row lacks the key", `{"id":1}`, `{"op":"d","source":{},"before":{"status":"NEW"}}`, `batch: delete orders 1`},
		{"a tombstone", `{"id":1}`, ``, `batch: delete orders 1`},
		{"with a schema", `{"schema":{"type":"struct","fields":[{"type":"int32","field":"id"}]},"payload":{"id":1}}`, ``, `batch: delete orders 1`},
		{"a tombstone of a bare key", `1`, ``, `batch: delete orders 1`},
		{
			"a tombstone of another key", `{"number":1}`, ``,
			`batch: reject value: id: the key is neither in the deleted row nor in the record's key; make it part of Debezium's key (message.key.columns) and of the table's replica identity`,
		},
		{"a tombstone without a key", ``, ``, `immediate: reject decode: kafka key: missing, but the record has no value: nothing says what to delete`},
		{"a key that is no JSON", `C1`, ``, `immediate: reject decode: kafka key: json: offset 0: not valid JSON`},
		{
			"a key against its schema", `{"schema":{"type":"int32","name":"io.debezium.time.Date"},"payload":0.5}`, ``,
			`immediate: reject decode: kafka key: does not hold what its schema says`,
		},
		{"an unchanged value is not overwritten", `{"id":1}`, `{"op":"u","source":{},"after":{"id":1,"status":"PAID","note":` + missing + `}}`, `immediate: patch orders 1 p.status="PAID"`},
		{"one that nobody reads does not matter", `{"id":1}`, `{"op":"u","source":{},"after":{"id":1,"status":"PAID","blob":` + missing + `}}`, `immediate: upsert orders 1 p.status="PAID"`},
		{
			"under a new key nothing is there to be patched", `{"id":1}`, `{"op":"c","source":{},"after":{"id":1,"note":` + missing + `}}`,
			`immediate: reject value: note: did not change when the row's key did, so that its value is not in the event; set the source table's replica identity to full`,
		},
		{
			"a patch as a row needs its import", `{"id":7}`, `{"op":"u","source":{},"after":{"id":7,"note":` + missing + `}}`,
			`batch: reject value: op: no import loads it: imports.patch is not configured`,
		},
		{"of a deleted row nothing is written", `{"id":1}`, `{"op":"d","source":{},"before":{"id":1,"note":` + missing + `}}`, `batch: delete orders 1`},
		{"flattened", `{"id":1}`, `{"id":1,"status":"NEW","__deleted":"false"}`, `immediate: upsert orders 1 p.status="NEW"`},
		{"flattened delete", `{"id":1}`, `{"id":1,"status":"NEW","__deleted":"true"}`, `batch: delete orders 1`},
		{"no row", `{"id":1}`, `[]`, `immediate: reject value: must be an object`},
		{"no key", ``, `{"op":"c","source":{},"after":{"id":null}}`, `immediate: reject value: id: the key is missing`},
		{
			"a value that is none", `{"id":1}`,
			`{"schema":{"type":"struct","fields":[{"field":"total","type":"bytes","name":"org.apache.kafka.connect.data.Decimal"}]},"payload":{"total":"BOI=","id":1}}`,
			`immediate: reject value: total: a decimal needs a scale from -1000 to 1000`,
		},
		{
			"one that nobody reads", `{"id":1}`,
			`{"schema":{"type":"struct","fields":[{"field":"until","type":"int32","name":"io.debezium.time.Date"}]},"payload":{"until":2147483647,"id":1}}`,
			`immediate: upsert orders 1`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rec := &router.Record{Topic: "shop.orders", Key: []byte(tc.key), Tombstone: tc.value == ""}
			if tc.value != "" {
				rec.Value = value(t, tc.value)
			}
			if got := story(routeOne(t, r, rec)); got != tc.want {
				t.Errorf("routed:\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestAKeyOfTextIsReadAsText(t *testing.T) {
	m := rows()
	m.KafkaKey = "text"
	got := story(routeOne(t, compile(t, m), &router.Record{Topic: "shop.orders", Key: []byte("C1"), Tombstone: true}))
	if want := "batch: delete orders C1"; got != want {
		t.Errorf("routed:\n got %s\nwant %s", got, want)
	}
}

func TestThePlaceholderIsTheOneConfigured(t *testing.T) {
	m := rows()
	m.UnavailableValue = "~"
	got := story(routeOne(t, compile(t, m), &router.Record{
		Topic: "shop.orders", Value: value(t, `{"id":1,"note":"~","status":"__debezium_unavailable_value"}`),
	}))
	if want := `immediate: patch orders 1 p.status="__debezium_unavailable_value"`; got != want {
		t.Errorf("routed:\n got %s\nwant %s", got, want)
	}
}

// A profile's patch needs the service's id, which a row of the mapping's own
// database may hold.
func TestUnchangedValuesOfProfilesNeedAnIdOrAnImport(t *testing.T) {
	m := customers()
	m.Envelope = "debezium"
	m.Fields = []router.Field{{From: "number", To: "customerNumber"}, {From: "note", To: "note"}}
	m.Routes = []router.Route{{Lane: "immediate"}}
	m.Imports.Columns = []router.Column{{Name: "customerNumber"}, {Name: "note"}}
	const partial = `{"number":1,"service_id":"p1","note":"__debezium_unavailable_value"}`
	rec := &router.Record{Topic: "crm.customers", Value: value(t, partial)}
	want := `immediate: reject no_id: profileId: a call needs it for patch, and imports.patch is not configured`
	if got := story(routeOne(t, compile(t, m), rec)); got != want {
		t.Errorf("without an id:\n got %s\nwant %s", got, want)
	}
	m.Imports.Patch = &router.Import{ETL: "103", Mode: "UPDATE_ONLY", IgnoresEmpty: true}
	want = `batch: patch customers 1 a.customerNumber=1`
	if got := story(routeOne(t, compile(t, m), rec)); got != want {
		t.Errorf("with an import:\n got %s\nwant %s", got, want)
	}
	m.ProfileID = "service_id"
	want = `immediate: patch customers 1 (p1) a.customerNumber=1`
	if got := story(routeOne(t, compile(t, m), rec)); got != want {
		t.Errorf("with an id:\n got %s\nwant %s", got, want)
	}
}

// TestNothingIsDecidedByAValueThatIsNotInTheEvent: it did not change, so that it is not nil, and may be anything.
func TestNothingIsDecidedByAValueThatIsNotInTheEvent(t *testing.T) {
	const reject = `reject value: note: did not change, so that its value is not in the event, and the mapping's op, when or routes look at it; ` +
		`set the source table's replica identity to full`
	for name, c := range map[string]struct {
		change func(*router.Mapping)
		want   string
	}{
		"op":   {func(m *router.Mapping) { m.Op = `note == nil ? "delete" : "upsert"` }, `immediate: ` + reject},
		"when": {func(m *router.Mapping) { m.When = `note != nil` }, `immediate: ` + reject},
		"routes": {func(m *router.Mapping) {
			m.Routes = []router.Route{{When: `note == nil`, Lane: "skip"}, {Lane: "immediate"}}
		}, reject},
		"when, which looks at another column, and does not take it": {func(m *router.Mapping) {
			m.When = `status == "PAID"`
			m.Routes = []router.Route{{When: `note == nil`, Lane: "skip"}, {Lane: "immediate"}}
		}, ``},
	} {
		t.Run(name, func(t *testing.T) {
			m := rows()
			m.Routes = []router.Route{{Lane: "immediate"}}
			c.change(&m)
			got := compile(t, m).Route(nil, &router.Record{Topic: "shop.orders", Value: value(t, `{"id":1,"status":"NEW","note":"__debezium_unavailable_value"}`)})
			switch {
			case c.want == "" && len(got) == 0:
			case len(got) != 1 || !strings.HasSuffix(story(got[0]), c.want):
				t.Errorf("got %d, %v, want %q", len(got), got, c.want)
			}
		})
	}
}

func TestARowUnderANewKeyIsKnownByItsHeader(t *testing.T) {
	got := story(routeOne(t, compile(t, rows()), &router.Record{
		Topic: "shop.orders", Headers: []router.Header{{Key: "__debezium.oldkey", Value: []byte(`{"id":1}`)}},
		Value: value(t, `{"id":2,"note":"__debezium_unavailable_value"}`),
	}))
	want := `immediate: reject value: note: did not change when the row's key did, so that its value is not in the event; set the source table's replica identity to full`
	if got != want {
		t.Errorf("routed:\n got %s\nwant %s", got, want)
	}
}

// Keys of several columns, deletes that are updates in the database, and values
// that are computed: all from the row, or for a tombstone from the record's key.
func TestExpressionsReadColumns(t *testing.T) {
	m := rows()
	m.Op = `deleted_at != nil ? "delete" : "upsert"`
	m.Fields = []router.Field{
		{Expr: `shop + "-" + string(number)`, To: "businessKey"},
		{Expr: `upper(note)`, To: "note"},
		{From: "status", To: "status"},
		{Expr: `op`, To: "total"},
	}
	m.Routes = []router.Route{{Lane: "immediate"}}
	r := compile(t, m)
	const key = `{"shop":"lyon","number":4}`
	for _, tc := range []struct{ value, want string }{
		{`{"op":"c","source":{},"after":{"shop":"lyon","number":4,"note":"a","status":"NEW"}}`, `immediate: upsert orders lyon-4 p.note="A" p.status="NEW" p.total="upsert"`},
		{
			`{"op":"u","source":{},"after":{"shop":"lyon","number":4,"note":"__debezium_unavailable_value","status":"NEW"}}`,
			`immediate: patch orders lyon-4 p.status="NEW" p.total="patch"`,
		},
		{`{"op":"u","source":{},"after":{"shop":"lyon","number":4,"deleted_at":5}}`, `immediate: delete orders lyon-4`},
		{`{"op":"d","source":{},"before":{"shop":"lyon","number":4,"status":null}}`, `immediate: delete orders lyon-4`},
		{`{"op":"d","source":{},"before":null}`, `immediate: delete orders lyon-4`},
		{``, `immediate: delete orders lyon-4`},
	} {
		rec := &router.Record{Topic: "shop.orders", Key: []byte(key), Tombstone: tc.value == ""}
		if tc.value != "" {
			rec.Value = value(t, tc.value)
		}
		if got := story(routeOne(t, r, rec)); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.value, got, tc.want)
		}
	}
}

func TestALogicalMessageIsNobodys(t *testing.T) {
	got := compile(t, rows()).Route(nil, &router.Record{Topic: "shop.orders", Value: value(t, `{"op":"m","source":{},"message":{}}`)})
	if len(got) != 0 {
		t.Errorf("routed: got %d, want none", len(got))
	}
}
