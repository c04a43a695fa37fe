package router_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

func TestProfileEventsBecomeWrites(t *testing.T) {
	long := strings.Repeat("x", 256)
	for _, tc := range []struct{ name, event, want string }{
		{
			"the documented event, by call",
			`{"op":"upsert","key":{"customerNumber":"C1"},"profileId":null,"attributes":{"customerNumber":"C1","languages":["fr","en"]},` +
				`"subscriptions":{"newsletter":true},"segments":{"vip":true,"tier":"gold"},"dataCollection":{"date":"2026-11-21T10:00:00Z","source":"shop","way":null}}`,
			`immediate: upsert customers C1 a.customerNumber="C1" a.languages=["fr","en"] n.newsletter=true s.vip=true s.tier="gold" ` +
				`d.date="2026-11-21T10:00:00Z" d.source="shop"`,
		},
		{
			"otherwise a row", `{"attributes":{"customerNumber":"C1"},"segments":{"tier":"silver"}}`,
			`batch: upsert customers C1 a.customerNumber="C1" s.tier="silver"`,
		},
		{"the key alone joins the attributes", `{"key":{"customerNumber":17}}`, `batch: upsert customers 17 a.customerNumber=17`},
		{
			"other unique keys join too", `{"key":{"customerNumber":"C1","emailAddress":"a@example.com","none":null},"attributes":{"customerNumber":"C1"}}`,
			`batch: upsert customers C1 a.emailAddress="a@example.com" a.customerNumber="C1"`,
		},
		{"null stays null", `{"attributes":{"customerNumber":"C1","age":null}}`, `batch: upsert customers C1 a.customerNumber="C1" a.age=null`},
		{"exponents are written out", `{"attributes":{"customerNumber":"C1","x":1.5e3,"l":[1,2E-1]}}`, `batch: upsert customers C1 a.customerNumber="C1" a.x=1500 a.l=[1,0.2]`},
		{"delete without id is a row", `{"op":"delete","key":{"customerNumber":"C1"},"segments":{"tier":"gold"}}`, `batch: delete customers C1`},
		{"delete with id by call", `{"op":"delete","profileId":"p1","key":{"customerNumber":"C1"},"segments":{"tier":"gold"}}`, `immediate: delete customers C1 (p1)`},
		{"patch with id by call", `{"op":"patch","profileId":"p1","key":{"customerNumber":"C1"},"segments":{"tier":"gold"}}`, `immediate: patch customers C1 (p1) s.tier="gold"`},
		{
			"patch without id and import", `{"op":"patch","key":{"customerNumber":"C1"},"segments":{"tier":"gold"}}`,
			`immediate: reject no_id: profileId: a call needs it for patch, and imports.patch is not configured`,
		},
		{"patch as a row without import", `{"op":"patch","profileId":"p1","key":{"customerNumber":"C1"}}`, `batch: reject value: op: no import loads it: imports.patch is not configured`},
		{
			"create by call", `{"op":"create","key":{"customerNumber":"C1"},"segments":{"tier":"gold"}}`,
			`immediate: reject value: op: a profile is created only by an import: imports.create is not configured`,
		},
		{"merge as a row without import", `{"op":"merge","key":{"customerNumber":"C1"}}`, `batch: reject value: op: no import loads it: imports.merge is not configured`},
		{
			"merge by call", `{"op":"merge","profileId":"p1","key":{"customerNumber":"C1"},"segments":{"tier":"gold"}}`,
			`immediate: reject value: op: a profile is merged only by an import: imports.merge is not configured`,
		},
		{"no key", `{"attributes":{"emailAddress":"a@example.com"}}`, `batch: reject value: attributes.customerNumber: the key is missing`},
		{"null key", `{"key":{"customerNumber":null}}`, `batch: reject value: attributes.customerNumber: the key is missing`},
		{"empty key", `{"key":{"customerNumber":""}}`, `batch: reject value: key.customerNumber: must not be empty`},
		{"key of 256", `{"key":{"customerNumber":"` + long + `"}}`, `batch: reject value: key.customerNumber: at most 255 characters`},
		{"key with a fraction", `{"key":{"customerNumber":1.0}}`, `batch: reject value: key.customerNumber: must be text or a whole number`},
		{"keys that differ", `{"key":{"customerNumber":"C1"},"attributes":{"customerNumber":"C2"}}`, `batch: reject value: attributes.customerNumber: must equal key.customerNumber`},
		{"key against null", `{"key":{"customerNumber":"C1"},"attributes":{"customerNumber":null}}`, `batch: reject value: attributes.customerNumber: must equal key.customerNumber`},
		{"256 characters", `{"attributes":{"customerNumber":"C1","name":"` + long + `"}}`, `batch: reject value: attributes.name: at most 255 characters`},
		{"256 characters in a list", `{"attributes":{"customerNumber":"C1","names":["` + long + `"]}}`, `batch: reject value: attributes.names: each element: at most 255 characters`},
		{"an object", `{"attributes":{"customerNumber":"C1","name":{}}}`, `batch: reject value: attributes.name: must be text, a number, true, false or a list of them`},
		{"a list in a list", `{"attributes":{"customerNumber":"C1","name":[[]]}}`, `batch: reject value: attributes.name: must be a list of text, numbers, true or false`},
		{"no name", `{"attributes":{"customerNumber":"C1","":1}}`, `batch: reject value: attributes.: must have a name`},
		{"subscription", `{"key":{"customerNumber":"C1"},"subscriptions":{"newsletter":"yes"}}`, `batch: reject value: subscriptions.newsletter: must be true or false`},
		{"segment", `{"key":{"customerNumber":"C1"},"segments":{"tier":1}}`, `batch: reject value: segments.tier: must be true, false or the name of a segment`},
		{
			"no segment, by a row", `{"key":{"customerNumber":"C1"},"segments":{"tier":""}}`,
			`batch: reject value: segments.tier: must be true, false or the name of a segment, not an empty text`,
		},
		{
			"no segment, by call", `{"key":{"customerNumber":"C1"},"segments":{"tier":"gold","other":""}}`,
			`immediate: reject value: segments.other: must be true, false or the name of a segment, not an empty text`,
		},
		{
			"simple segmentations as text", `{"key":{"customerNumber":"C1"},"segments":{"vip":"true","new":"false"}}`,
			`batch: upsert customers C1 a.customerNumber="C1" s.vip=true s.new=false`,
		},
		{
			"date without zone", `{"key":{"customerNumber":"C1"},"dataCollection":{"date":"2026-11-21T10:00:00"}}`,
			`batch: reject value: dataCollection.date: must be a timestamp like 2006-01-02T15:04:05 with Z or an offset`,
		},
		{
			"date with a fraction", `{"key":{"customerNumber":"C1"},"dataCollection":{"date":"2026-11-21T10:00:00.123Z"}}`,
			`batch: upsert customers C1 a.customerNumber="C1" d.date="2026-11-21T10:00:00Z"`,
		},
		{
			"date with a comma", `{"key":{"customerNumber":"C1"},"dataCollection":{"date":"2026-11-21T10:00:00,123+01:00"}}`,
			`batch: upsert customers C1 a.customerNumber="C1" d.date="2026-11-21T10:00:00+01:00"`,
		},
		{"consent", `{"key":{"customerNumber":"C1"},"dataCollection":{"where":"x"}}`, `batch: reject value: dataCollection.where: is not a member of dataCollection`},
		{"consent's source", `{"key":{"customerNumber":"C1"},"dataCollection":{"source":1}}`, `batch: reject value: dataCollection.source: must be text`},
		{
			"recency attribute", `{"attributes":{"customerNumber":"C1","lastDevice":"phone"}}`,
			`batch: reject value: attributes.lastDevice: is computed by the service and may be given only with op create`,
		},
		{"unknown member", `{"attribute":{}}`, `immediate: reject value: attribute: is not a member of a profile event`},
		{"unknown op", `{"op":"replace"}`, `immediate: reject value: op: must be upsert, patch, merge, create or delete`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := story(routeOne(t, compile(t, customers()), &router.Record{Topic: "crm.customers", Value: value(t, tc.event)}))
			if got != tc.want {
				t.Errorf("routed:\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestImportsTakeWhatCallsCannot(t *testing.T) {
	m := customers()
	m.Routes = []router.Route{{Lane: "immediate"}}
	m.Imports.Patch = &router.Import{ETL: "103", Mode: "UPDATE_ONLY", IgnoresEmpty: true}
	m.Imports.Create = &router.Import{ETL: "104", Mode: "CREATE_ONLY"}
	m.Imports.Merge = &router.Import{ETL: "105", Mode: "CREATE_OR_UPDATE", IgnoresEmpty: true}
	m.ProfileID = "attributes.serviceId"
	r := compile(t, m)
	for _, tc := range []struct{ event, want string }{
		{`{"key":{"customerNumber":"C1"}}`, `immediate: upsert customers C1 a.customerNumber="C1"`},
		{`{"op":"patch","key":{"customerNumber":"C1"},"attributes":{"age":3}}`, `batch: patch customers C1 a.age=3`},
		{`{"op":"patch","attributes":{"customerNumber":"C1","serviceId":9}}`, `immediate: patch customers C1 (9) a.customerNumber="C1" a.serviceId=9`},
		{`{"op":"delete","key":{"customerNumber":"C1"}}`, `batch: delete customers C1`},
		{`{"op":"create","key":{"customerNumber":"C1"}}`, `batch: create customers C1 a.customerNumber="C1"`},
		{`{"op":"merge","profileId":"p1","key":{"customerNumber":"C1"},"attributes":{"age":3}}`, `batch: merge customers C1 (p1) a.customerNumber="C1" a.age=3`},
		{
			`{"op":"create","key":{"customerNumber":"C1"},"attributes":{"lastMailActivityStatus":"OPENED","lastMailClickMoment":"2026-01-02T03:04:05","lastDevice":null}}`,
			`batch: create customers C1 a.customerNumber="C1" a.lastMailActivityStatus="OPENED" a.lastMailClickMoment="2026-01-02T03:04:05" a.lastDevice=null`,
		},
		{
			`{"op":"create","key":{"customerNumber":"C1"},"attributes":{"lastMailActivityStatus":"opened"}}`,
			`batch: reject value: attributes.lastMailActivityStatus: must be one of the service's mail activity statuses, such as SENT`,
		},
		{`{"op":"patch","key":{"customerNumber":"C1"},"attributes":{"serviceId":{}}}`, `immediate: reject value: attributes.serviceId: must be text or a whole number`},
	} {
		if got := story(routeOne(t, r, &router.Record{Topic: "crm.customers", Value: value(t, tc.event)})); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.event, got, tc.want)
		}
	}
}

func TestRecordEventsBecomeWrites(t *testing.T) {
	r := compile(t, orders())
	for _, tc := range []struct{ event, want string }{
		{
			`{"op":"upsert","businessKey":"4c1f0c1e","properties":{"orderTotal":12.5,"status":"PAID","gift":true,"note":null}}`,
			`immediate: upsert orders 4c1f0c1e p.orderTotal=12.5 p.status="PAID" p.gift="true" p.note=null`,
		},
		{`{"op":"create","businessKey":1}`, `immediate: create orders 1`},
		{`{"op":"patch","businessKey":"k","properties":{"a":1}}`, `immediate: patch orders k p.a=1`},
		{`{"op":"delete","businessKey":"k","properties":{"a":1}}`, `immediate: delete orders k`},
		{`{"properties":{"a":1}}`, `immediate: reject value: businessKey: must not be empty`},
		{`{"businessKey":"k","properties":{"a":[1]}}`, `immediate: reject value: properties.a: must be a number, text, true or false`},
		{`{"businessKey":"k","properties":{"a":"` + strings.Repeat("é", 256) + `"}}`, `immediate: reject value: properties.a: at most 255 characters`},
		{`{"businessKey":"k","properties":{"a":"` + strings.Repeat("é", 255) + `"}}`, `immediate: upsert orders k p.a="` + strings.Repeat("é", 255) + `"`},
	} {
		if got := story(routeOne(t, r, &router.Record{Topic: "shop.orders", Value: value(t, tc.event)})); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.event, got, tc.want)
		}
	}
}

func TestFieldsMapAnyValue(t *testing.T) {
	r := compile(t, mappedOrders())
	for _, tc := range []struct{ value, want string }{
		{`{"id":7,"total":{"cents":1250},"status":"PAID","paid":1}`, `immediate: upsert orders 7 p.orderTotal=12.5 p.status="PAID" p.paid="true"`},
		{`{"id":"k","total":null,"status":null}`, `immediate: upsert orders k p.status=null`},
		{`{"id":"k","total":{"cents":"x"}}`, `immediate: reject value: total.cents: must be a number: digits with an optional leading - and a decimal point`},
		{`{"id":"k","status":[1]}`, `immediate: reject value: status: must be a number, text, true or false`},
		{`{"status":"PAID"}`, `immediate: reject value: id: the key is missing`},
		{`"text"`, `immediate: reject value: must be an object`},
		{`null`, `immediate: reject value: must be an object`},
		{`[{"id":7}]`, `immediate: reject value: must be an object`},
	} {
		if got := story(routeOne(t, r, &router.Record{Topic: "shop.orders", Value: value(t, tc.value)})); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.value, got, tc.want)
		}
	}
}

func TestFieldsReachEverySectionOfAProfile(t *testing.T) {
	m := customers()
	m.Fields = []router.Field{
		{From: "nr", To: "customerNumber", As: "integer"},
		{From: "mail", To: "emailAddress", As: "email"},
		{From: "optin", To: "subscriptions#newsletter", As: "boolean"},
		{From: "tier", To: "S_tier"},
		{From: "at", To: "dataCollection.date", As: "timestamp"},
	}
	m.Routes[0].When = `tier == "gold"`
	r := compile(t, m)
	for _, tc := range []struct{ value, want string }{
		{
			`{"nr":"7","mail":"a@example.com","optin":"true","tier":"gold","at":"2026-11-21T10:00:00.123Z"}`,
			`immediate: upsert customers 7 a.customerNumber=7 a.emailAddress="a@example.com" n.newsletter=true s.tier="gold" d.date="2026-11-21T10:00:00Z"`,
		},
		{`{"nr":7,"optin":null}`, "batch: reject value: optin: is null, and must be true or false; the field's `null: omit` says nothing in its place"},
		{`{"nr":7,"tier":null}`, "batch: reject value: tier: is null, and must be true, false or the name of a segment; the field's `null: omit` says nothing in its place"},
		{`{"nr":7,"tier":""}`, "batch: reject value: tier: must be true, false or the name of a segment, not an empty text"},
		{`{"nr":7,"tier":"true"}`, "batch: upsert customers 7 a.customerNumber=7 s.tier=true"},
		{`{"nr":7,"optin":"maybe"}`, `batch: reject value: optin: must be true or false`},
		{`{"nr":7,"mail":"secret"}`, `batch: reject value: mail: must be an e-mail address`},
	} {
		if got := story(routeOne(t, r, &router.Record{Topic: "crm.customers", Value: value(t, tc.value)})); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.value, got, tc.want)
		}
	}
}

func TestTombstonesDeleteTheirKey(t *testing.T) {
	profile := customers()
	profile.Routes = []router.Route{{When: `op == "delete"`, Lane: "batch"}, {Lane: "immediate"}}
	json := orders()
	json.KafkaKey = "json"
	mapped := mappedOrders()
	mapped.KafkaKey = "json"
	mapped.Fields[0].From = "order.id"
	for _, tc := range []struct {
		name string
		m    router.Mapping
		key  string
		want string
	}{
		{"text", profile, "C1", `batch: delete customers C1`},
		{"text of an object", profile, `{"a":1}`, `batch: delete customers {"a":1}`},
		{"not UTF-8", profile, "C\xff", `immediate: reject decode: kafka key: not valid UTF-8`},
		{"none", profile, "", `immediate: reject decode: kafka key: missing, but the record has no value: nothing says what to delete`},
		{"too long", profile, strings.Repeat("x", 256), `immediate: reject decode: kafka key: at most 255 characters`},
		{"json string", json, `"k"`, `immediate: delete orders k`},
		{"json number", json, `17`, `immediate: delete orders 17`},
		{"json object", json, `{"other":1,"businessKey":"k"}`, `immediate: delete orders k`},
		{"json object without it", json, `{"other":1}`, `immediate: reject decode: kafka key: must be text or a whole number`},
		{"json list", json, `[1]`, `immediate: reject decode: kafka key: must be text or a whole number`},
		{"no json", json, `secret`, `immediate: reject decode: kafka key: json: offset 0: not valid JSON`},
		{"named as in the value", mapped, `{"order":{"id":5}}`, `immediate: delete orders 5`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rec := &router.Record{Topic: tc.m.Topics[0], Key: []byte(tc.key), Tombstone: true}
			if got := story(routeOne(t, compile(t, tc.m), rec)); got != tc.want {
				t.Errorf("routed:\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestTombstoneOfAProfileNeedsAnImport(t *testing.T) {
	m := customers()
	m.Imports.Delete = nil
	m.Routes = []router.Route{{Lane: "immediate"}}
	rec := &router.Record{Topic: "crm.customers", Key: []byte("C1"), Tombstone: true}
	want := `immediate: reject no_id: profileId: a call needs it for delete, and imports.delete is not configured`
	if got := story(routeOne(t, compile(t, m), rec)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestColumnsMaySendRowsToTheImmediateLane(t *testing.T) {
	m := customers()
	m.Routes = []router.Route{{Lane: "batch"}}
	m.Imports.Patch = &router.Import{ETL: "103", Mode: "UPDATE_ONLY", IgnoresEmpty: true}
	m.Imports.Columns = []router.Column{{Name: "customerNumber"}, {Name: "age", Absent: "immediate"}, {Name: "name", Null: "immediate"}}
	r := compile(t, m)
	for _, tc := range []struct{ event, want string }{
		{`{"key":{"customerNumber":"C1"},"attributes":{"age":1,"name":"x"}}`, `batch: upsert customers C1 a.customerNumber="C1" a.age=1 a.name="x"`},
		{`{"key":{"customerNumber":"C1"},"attributes":{"name":"x"}}`, `immediate: upsert customers C1 a.customerNumber="C1" a.name="x"`},
		{`{"key":{"customerNumber":"C1"},"attributes":{"age":null,"name":null}}`, `immediate: upsert customers C1 a.customerNumber="C1" a.age=null a.name=null`},
		{`{"op":"delete","key":{"customerNumber":"C1"}}`, `batch: delete customers C1`},
		{
			`{"op":"patch","key":{"customerNumber":"C1"}}`,
			`batch: reject no_id: profileId: a column sends this patch to the immediate lane, where it cannot be written without one`,
		},
	} {
		if got := story(routeOne(t, r, &router.Record{Topic: "crm.customers", Value: value(t, tc.event)})); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.event, got, tc.want)
		}
	}
	for _, lane := range schemas.Lanes {
		if !r.Reads("crm.customers", lane) {
			t.Errorf("lanes: the %v lane does not read the topic, want both to", lane)
		}
	}
}

func TestEveryMappingOfATopicAnswers(t *testing.T) {
	second := orders()
	second.Topics = []string{"crm.customers"}
	batch := customers()
	batch.Routes = []router.Route{{Lane: "batch"}}
	r := compile(t, batch, second)
	routed := r.Route(nil, &router.Record{Topic: "crm.customers", Value: value(t, `{"key":{"customerNumber":"C1"}}`)})
	if len(routed) != 2 || routed[0].Mapping.Name != "customers" || routed[1].Mapping.Name != "orders" {
		t.Fatalf("routed: got %d, want customers and orders", len(routed))
	}
	if routed[0].Err != nil || routed[1].Err == nil {
		t.Errorf("errors: got %v and %v, want only the second", routed[0].Err, routed[1].Err)
	}
	// What the batch mapping cannot read is the immediate lane's: both read the topic.
	routed = r.Route(nil, &router.Record{Topic: "crm.customers", Value: value(t, `1`)})
	for _, got := range routed {
		if got.Lane != schemas.Immediate {
			t.Errorf("%s: a value nobody can read: got lane %v, want immediate", got.Mapping.Name, got.Lane)
		}
	}
	if got := r.Route(nil, &router.Record{Topic: "unknown"}); len(got) != 0 {
		t.Errorf("unknown topic: got %d, want none", len(got))
	}
	alone := compile(t, batch).Route(nil, &router.Record{Topic: "crm.customers", Value: value(t, `1`)})
	if alone[0].Lane != schemas.Batch {
		t.Errorf("a topic of one lane: got %v, want batch", alone[0].Lane)
	}
}

func TestRoutingIsSafeForConcurrentUse(t *testing.T) {
	r := compile(t, customers())
	gold, silver := value(t, `{"key":{"customerNumber":"C1"},"segments":{"tier":"gold"}}`), value(t, `{"key":{"customerNumber":"C2"}}`)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 500 {
				a := r.Route(nil, &router.Record{Topic: "crm.customers", Value: gold})
				b := r.Route(nil, &router.Record{Topic: "crm.customers", Value: silver})
				if a[0].Lane != schemas.Immediate || b[0].Lane != schemas.Batch {
					t.Errorf("lanes: got %v and %v, want immediate and batch", a[0].Lane, b[0].Lane)
					return
				}
			}
		})
	}
	wg.Wait()
}

// Where a profile's patch and delete go: by call with the service's id, which
// the event carries or profileId leads to; else as a row where an import loads
// it, whatever the route says; else nowhere.
func TestPatchAndDeleteNeedAnIDOrAnImport(t *testing.T) {
	patch, remove := &router.Import{ETL: "103", Mode: "UPDATE_ONLY", IgnoresEmpty: true}, &router.Import{ETL: "102", Mode: "DELETE"}
	const noID = `reject no_id: profileId: a call needs it for `
	for _, tc := range []struct {
		name      string
		profileID string
		imports   router.Imports
		event     string
		want      string
	}{
		{"patch, id of the event", "", router.Imports{}, `{"op":"patch","profileId":"p1","key":{"customerNumber":"C1"}}`, `immediate: patch customers C1 (p1)`},
		{"delete, id of the event", "", router.Imports{}, `{"op":"delete","profileId":"p1","key":{"customerNumber":"C1"}}`, `immediate: delete customers C1 (p1)`},
		{"the call is asked for, though an import could", "", router.Imports{Patch: patch}, `{"op":"patch","profileId":"p1","key":{"customerNumber":"C1"}}`, `immediate: patch customers C1 (p1)`},
		{"id by path", "attributes.sid", router.Imports{}, `{"op":"patch","key":{"customerNumber":"C1"},"attributes":{"sid":9}}`, `immediate: patch customers C1 (9) a.sid=9`},
		{"the event's id before the path's", "attributes.sid", router.Imports{}, `{"op":"delete","profileId":"p1","key":{"customerNumber":"C1"},"attributes":{"sid":9}}`, `immediate: delete customers C1 (p1)`},
		{"id by header", "headers.sid", router.Imports{}, `{"op":"delete","key":{"customerNumber":"C1"}}`, `immediate: delete customers C1 (h1)`},
		{"patch by import", "", router.Imports{Patch: patch}, `{"op":"patch","key":{"customerNumber":"C1"},"attributes":{"age":3}}`, `batch: patch customers C1 a.age=3`},
		{"delete by import", "", router.Imports{Delete: remove}, `{"op":"delete","key":{"customerNumber":"C1"}}`, `batch: delete customers C1`},
		{"a null id is none", "attributes.sid", router.Imports{Delete: remove}, `{"op":"delete","key":{"customerNumber":"C1"},"attributes":{"sid":null}}`, `batch: delete customers C1`},
		{"an empty id is none", "attributes.sid", router.Imports{Delete: remove}, `{"op":"delete","key":{"customerNumber":"C1"},"attributes":{"sid":""}}`, `batch: delete customers C1`},
		{"nor does an upsert need it", "attributes.sid", router.Imports{}, `{"key":{"customerNumber":"C1"},"attributes":{"sid":""}}`, `immediate: upsert customers C1 a.customerNumber="C1" a.sid=""`},
		{"an import of another op does not help", "", router.Imports{Delete: remove}, `{"op":"patch","key":{"customerNumber":"C1"}}`, `immediate: ` + noID + `patch, and imports.patch is not configured`},
		{"patch without either", "", router.Imports{}, `{"op":"patch","key":{"customerNumber":"C1"}}`, `immediate: ` + noID + `patch, and imports.patch is not configured`},
		{"delete without either", "attributes.sid", router.Imports{}, `{"op":"delete","key":{"customerNumber":"C1"}}`, `immediate: ` + noID + `delete, and imports.delete is not configured`},
		{"an id that is none", "attributes.sid", router.Imports{}, `{"op":"delete","key":{"customerNumber":"C1"},"attributes":{"sid":true}}`, `immediate: reject value: attributes.sid: must be text or a whole number`},
		{"an upsert needs none", "", router.Imports{}, `{"key":{"customerNumber":"C1"}}`, `immediate: upsert customers C1 a.customerNumber="C1"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := customers()
			m.ProfileID = tc.profileID
			m.Routes = []router.Route{{Lane: "immediate"}}
			m.Imports.Upsert, m.Imports.Patch, m.Imports.Delete = nil, tc.imports.Patch, tc.imports.Delete
			m.Imports.Columns = []router.Column{{Name: "customerNumber"}, {Name: "age"}}
			rec := &router.Record{
				Topic: "crm.customers", Value: value(t, tc.event),
				Headers: []router.Header{{Key: "sid", Value: []byte("h1")}},
			}
			if got := story(routeOne(t, compile(t, m), rec)); got != tc.want {
				t.Errorf("routed:\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}

// What types say of the key's attribute holds of the key of every op, wherever it is read, so that
// a row has one key.
func TestKeysAreOfTheirAttributesType(t *testing.T) {
	long := strings.Repeat("k", 290)
	typed := func(as string, length int) router.Mapping {
		m := customers()
		m.Types = []router.Type{{Name: "customerNumber", As: as, Length: length}, {Name: "emailAddress", As: "email"}}
		m.Routes = []router.Route{{Lane: "immediate"}}
		return m
	}
	number, country, short, mapped := typed("integer", 0), typed("country", 0), typed("", 8), typed("integer", 0)
	mapped.Fields = []router.Field{{From: "id", To: "customerNumber"}}
	custom := orders()
	custom.Types = []router.Type{{Name: "businessKey", Length: 300}}
	change := custom
	change.Envelope, change.KafkaKey = "debezium", "text"
	change.Fields = []router.Field{{From: "id", To: "businessKey"}}
	const whole = "must be a whole number from -2147483648 to 2147483647"
	for _, tc := range []struct {
		name             string
		m                router.Mapping
		value, key, want string
	}{
		{"a number", number, `{"key":{"customerNumber":12}}`, "", `upsert customers 12 a.customerNumber=12`},
		{"a number's text", number, `{"key":{"customerNumber":"12.0"}}`, "", `upsert customers 12 a.customerNumber=12`},
		{"in the attributes", number, `{"attributes":{"customerNumber":"12.0"}}`, "", `upsert customers 12 a.customerNumber=12`},
		{"in both", number, `{"key":{"customerNumber":"12.0"},"attributes":{"customerNumber":"12.0"}}`, "", `upsert customers 12 a.customerNumber=12`},
		{"of a patch", number, `{"op":"patch","profileId":"p","key":{"customerNumber":"12.0"}}`, "", `patch customers 12 (p)`},
		{"of a delete", number, `{"op":"delete","profileId":"p","key":{"customerNumber":"12.0"}}`, "", `delete customers 12 (p)`},
		{"of a tombstone", number, ``, "12.0", `delete customers 12`},
		{"of a field", mapped, `{"id":"12.0"}`, "", `upsert customers 12 a.customerNumber=12`},
		{"of a field's tombstone", mapped, ``, "12.0", `delete customers 12`},
		{"no number", number, `{"key":{"customerNumber":"C1"}}`, "", `reject value: key.customerNumber: ` + whole},
		{"no number in the attributes", number, `{"attributes":{"customerNumber":"C1"}}`, "", `reject value: attributes.customerNumber: ` + whole},
		{"no number of a delete", number, `{"op":"delete","profileId":"p","key":{"customerNumber":"C1"}}`, "", `reject value: key.customerNumber: ` + whole},
		{"no number of a tombstone", number, ``, "C1", `reject decode: kafka key: ` + whole},
		{"no number of a field", mapped, `{"id":"C1"}`, "", `reject value: id: ` + whole},
		{"in another spelling", country, `{"key":{"customerNumber":"fr"}}`, "", `upsert customers FR a.customerNumber="FR"`},
		{"as short as it may be", short, `{"key":{"customerNumber":"12345678"}}`, "", `upsert customers 12345678 a.customerNumber="12345678"`},
		{"too long", short, `{"key":{"customerNumber":"123456789"}}`, "", `reject value: key.customerNumber: at most 8 characters`},
		{"too long, of a patch", short, `{"op":"patch","profileId":"p","key":{"customerNumber":"123456789"}}`, "", `reject value: key.customerNumber: at most 8 characters`},
		{"too long, of a tombstone", short, ``, "123456789", `reject decode: kafka key: at most 8 characters`},
		{"another of the key's", short, `{"key":{"customerNumber":"1","emailAddress":"a@example.com"}}`, "", `upsert customers 1 a.customerNumber="1" a.emailAddress="a@example.com"`},
		{"another that is none", short, `{"key":{"customerNumber":"1","emailAddress":"nope"}}`, "", `reject value: key.emailAddress: must be an e-mail address`},
		{"what the service computes", short, `{"key":{"customerNumber":"1","lastDevice":"phone"}}`, "", `reject value: key.lastDevice: is computed by the service and may be given only with op create`},
		{"a long business key", custom, `{"businessKey":"` + long + `","properties":{}}`, "", `upsert orders ` + long},
		{"of a tombstone, long", custom, ``, long, `delete orders ` + long},
		{"of a change, long", change, `{"op":"d","source":{},"before":{"id":"` + long + `"},"after":null}`, "", `delete orders ` + long},
		{"too long a business key", custom, `{"businessKey":"` + long + long + `","properties":{}}`, "", `reject value: businessKey: at most 300 characters`},
	} {
		rec := &router.Record{Topic: tc.m.Topics[0], Key: []byte(tc.key), Tombstone: tc.value == ""}
		if tc.value != "" {
			rec.Value = value(t, tc.value)
		}
		_, got, _ := strings.Cut(story(routeOne(t, compile(t, tc.m), rec)), ": ")
		if got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.name, got, tc.want)
		}
	}
}

// A tombstone has no value to lead to: its id can only be the record's.
func TestTombstonesFindTheirIDInTheRecord(t *testing.T) {
	m := customers()
	m.ProfileID, m.KafkaKey = "kafkaKey.sid", "json"
	m.Routes, m.Imports = []router.Route{{Lane: "immediate"}}, router.Imports{}
	rec := &router.Record{Topic: "crm.customers", Key: []byte(`{"customerNumber":"C1","sid":"p1"}`), Tombstone: true}
	if got, want := story(routeOne(t, compile(t, m), rec)), `immediate: delete customers C1 (p1)`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// An Avro key arrives decoded: the router knows no registry.
func TestAvroKeysOfTombstonesNameTheirRow(t *testing.T) {
	canonical, mapped := orders(), mappedOrders()
	canonical.KafkaKey, mapped.KafkaKey = "avro", "avro"
	mapped.Fields[0].From = "id"
	byDefault, changes := orders(), rows()
	const unsaid = `begins with a zero byte, as a key in the format of a schema registry does: say in kafkaKey which it is`
	object := func(name, text string) schemas.Value {
		return schemas.ObjectValue([]schemas.Field{{Name: name, Value: schemas.NumberValue(text)}})
	}
	for _, tc := range []struct {
		name string
		m    router.Mapping
		key  schemas.Value
		err  error
		want string
	}{
		{"a string", canonical, schemas.StringValue("k"), nil, `immediate: delete orders k`},
		{"a record", canonical, object("businessKey", "17"), nil, `immediate: delete orders 17`},
		{"named as in the value", mapped, object("id", "5"), nil, `immediate: delete orders 5`},
		{"another record", canonical, object("other", "1"), nil, `immediate: reject decode: kafka key: must be text or a whole number`},
		{"where text is expected", byDefault, schemas.Value{}, nil, `immediate: reject decode: kafka key: ` + unsaid},
		{"where Connect's JSON is expected", changes, schemas.Value{}, nil, `immediate: reject decode: kafka key: ` + unsaid},
		{"broken", canonical, schemas.Value{}, errors.New("avro: offset 5: ends too early"), `immediate: reject decode: kafka key: avro: offset 5: ends too early`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rec := &router.Record{Topic: tc.m.Topics[0], Key: []byte{0, 0, 0, 0, 1, 2}, KeyValue: tc.key, KeyErr: tc.err, Tombstone: true}
			if got := story(routeOne(t, compile(t, tc.m), rec)); got != tc.want {
				t.Errorf("routed:\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestFormatsHaveDefaults(t *testing.T) {
	for _, c := range []struct{ envelope, format, key, wantFormat, wantKey string }{
		{"", "", "", "json", "text"},
		{"none", "protobuf", "avro", "protobuf", "avro"},
		{"debezium", "avro", "", "avro", "json"},
		{"debezium", "", "text", "json", "text"},
	} {
		m := router.Mapping{Envelope: c.envelope, Format: c.format, KafkaKey: c.key}
		if m.ValueFormat() != c.wantFormat || m.KeyFormat() != c.wantKey {
			t.Errorf("%+v: got %q and %q", c, m.ValueFormat(), m.KeyFormat())
		}
	}
}

func TestAnAttributeOfAnEventCanBeTheKey(t *testing.T) {
	m := mappedOrders()
	m.Envelope = router.CloudEvents
	m.Fields[0].From = "headers.ce_subject"
	text := compile(t, m)
	m.KafkaKey = "json"
	object := compile(t, m)
	m.Fields[0].From = "headers.number" // no attribute: a tombstone has to say it
	other := compile(t, m)
	subject := []router.Header{{Key: "ce_subject", Value: []byte("S1")}, {Key: "number", Value: []byte("N1")}}
	for _, tc := range []struct {
		name    string
		r       *router.Router
		headers []router.Header
		key     string
		value   string
		want    string
	}{
		{"an event", text, subject, "K", `{"status":"PAID"}`, `immediate: upsert orders S1 p.status="PAID"`},
		{"a tombstone with it", text, subject, "K", "", `immediate: delete orders S1`},
		{"a tombstone", text, nil, "S1", "", `immediate: delete orders S1`},
		{"a tombstone of a JSON key", object, nil, `"S1"`, "", `immediate: delete orders S1`},
		{"a tombstone of an object", object, nil, `{"businessKey":"S1"}`, "", `immediate: delete orders S1`},
		{"a tombstone of another object", object, nil, `{"id":"S1"}`, "", `immediate: reject decode: kafka key: must be text or a whole number`},
		{"a header that is no attribute", other, subject, `"S1"`, "", `immediate: delete orders N1`},
		{"and is not there", other, nil, `"S1"`, "", `immediate: reject decode: kafka key: must be text or a whole number`},
		{"an event without it", text, nil, "S1", `{"status":"PAID"}`, `immediate: reject value: headers.ce_subject: the key is missing`},
	} {
		rec := &router.Record{Topic: "shop.orders", Headers: tc.headers, Key: []byte(tc.key), Tombstone: tc.value == ""}
		if !rec.Tombstone {
			rec.Value = value(t, tc.value)
		}
		if got := story(routeOne(t, tc.r, rec)); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.name, got, tc.want)
		}
	}
}
