package router_test

import (
	"strings"
	"testing"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// lanesOf are the lanes of what becomes of a record, with the mapping's name where
// one takes it.
func lanesOf(r *router.Router, rec *router.Record) string {
	var all []string
	for _, routed := range r.Route(nil, rec) {
		text := routed.Lane.String()
		if routed.Mapping != nil {
			text = routed.Mapping.Name + " " + text
		}
		if routed.Err != nil {
			text += " reject"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func TestRoutesSkipRecords(t *testing.T) {
	m := customers()
	m.Routes = []router.Route{{When: `attributes.test == true`, Lane: "skip"}, {When: `segments.tier == "gold"`, Lane: "immediate"}, {Lane: "batch"}}
	only := customers()
	only.Routes = []router.Route{{When: `segments.tier == "gold"`, Lane: "batch"}, {Lane: "skip"}}
	for _, tc := range []struct{ event, want, only string }{
		{`{"attributes":{"customerNumber":"C1","test":true},"segments":{"tier":"gold"}}`, "customers skip", "customers batch"},
		{`{"attributes":{"customerNumber":"C1"},"segments":{"tier":"gold"}}`, "customers immediate", "customers batch"},
		{`{"attributes":{"customerNumber":"C1"}}`, "customers batch", "customers skip"},
		{`{"attributes":{"test":true}}`, "customers skip", "customers skip"},                                    // without a key
		{`{"op":"patch","attributes":{"customerNumber":"C1","test":true}}`, "customers skip", "customers skip"}, // no import loads it
		{`{"op":"replace","attributes":{"test":true}}`, "customers immediate reject", "customers batch reject"}, // no event
		{``, "customers batch", "customers skip"},                                                               // a tombstone
	} {
		rec := &router.Record{Topic: "crm.customers", Key: []byte("C1"), Tombstone: tc.event == ""}
		if !rec.Tombstone {
			rec.Value = value(t, tc.event)
		}
		if got := lanesOf(compile(t, m), rec); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.event, got, tc.want)
		}
		if got := lanesOf(compile(t, only), rec); got != tc.only {
			t.Errorf("%s, the last route skips: got %s, want %s", tc.event, got, tc.only)
		}
	}
}

// Who writes an op for what is known has to hear of what is not: only the mapping's `when` says that
// a record is not wanted.
func TestRoutesSkipNothingThatHasNoOp(t *testing.T) {
	m := mappedOrders()
	m.Op = `status == "PAID" ? "upsert" : nil`
	m.Routes = []router.Route{{When: `status == "PING"`, Lane: "skip"}, {Lane: "immediate"}}
	rec := &router.Record{Topic: m.Topics[0], Value: value(t, `{"id":1,"status":"PING"}`)}
	if got, want := lanesOf(compile(t, m), rec), "orders immediate reject"; got != want {
		t.Errorf("a route skips it: got %s, want %s", got, want)
	}
	m.When = `status != "PING"`
	m.Routes = []router.Route{{Lane: "immediate"}}
	if got, want := lanesOf(compile(t, m), rec), "skip"; got != want {
		t.Errorf("the mapping's when leaves it out: got %s, want %s", got, want)
	}
}

func TestRoutesThatAllSkipAreRefused(t *testing.T) {
	m := customers()
	m.Routes = []router.Route{{When: `op == "delete"`, Lane: "skip"}, {Lane: "skip"}}
	_, problems := router.Compile([]router.Mapping{m})
	const want = "mappings[0].routes[1].lane: every route is skip, so nothing would ever be written; hint: write immediate or batch, or remove the mapping"
	if len(problems) != 1 || problems[0].String() != want {
		t.Errorf("got %v, want %s", problems, want)
	}
}

func TestMappingsDivideATopicByWhen(t *testing.T) {
	paid, open := mappedOrders(), mappedOrders()
	paid.Name, paid.When = "paid", `status == "PAID"`
	open.Name, open.CustomTable, open.When, open.Routes = "open", "carts", `status == "OPEN"`, []router.Route{{When: `id == 2`, Lane: "skip"}, {Lane: "immediate"}}
	r := compile(t, paid, open)
	for event, want := range map[string]string{
		`{"id":1,"status":"PAID"}`: "paid immediate",
		`{"id":1,"status":"OPEN"}`: "open immediate",
		`{"id":2,"status":"OPEN"}`: "open skip",
		`{"id":1}`:                 "skip",
		`{"status":"PAID"}`:        "paid immediate reject",
		`{}`:                       "skip",
	} {
		if got := lanesOf(r, &router.Record{Topic: paid.Topics[0], Value: value(t, event)}); got != want {
			t.Errorf("%s: got %s, want %s", event, got, want)
		}
	}
	tombstone := &router.Record{Topic: paid.Topics[0], Key: []byte("1"), Tombstone: true}
	if got := lanesOf(r, tombstone); got != "skip" {
		t.Errorf("a tombstone: got %s, want skip", got)
	}
	paid.When = `value == nil or ` + paid.When
	if got := lanesOf(compile(t, paid, open), tombstone); got != "paid immediate" {
		t.Errorf("a tombstone, which has no value: got %s, want paid immediate", got)
	}
}

// What is no event of a mapping's table may be one of another's.
func TestWhenIsAskedOfWhatIsNoEventOfTheTable(t *testing.T) {
	c, o := customers(), orders()
	o.Topics = c.Topics
	c.When, o.When = `businessKey == nil`, `businessKey != nil`
	r := compile(t, c, o)
	for event, want := range map[string]string{
		`{"key":{"customerNumber":"C1"}}`:          "customers batch",
		`{"businessKey":"k","properties":{"a":1}}`: "orders immediate",
		`{"op":"replace","businessKey":"k"}`:       "orders immediate reject",
		`{"op":"replace","key":{}}`:                "customers immediate reject",
		`[]`:                                       "customers immediate reject, orders immediate reject",
	} {
		if got := lanesOf(r, &router.Record{Topic: c.Topics[0], Value: value(t, event)}); got != want {
			t.Errorf("%s: got %s, want %s", event, got, want)
		}
	}
}

// A write takes the memory of what was skipped before it.
func TestSkippedRecordsLeaveNoCells(t *testing.T) {
	m := customers()
	m.Routes = []router.Route{{When: `segments.tier == "gold"`, Lane: "skip"}, {Lane: "batch"}}
	m.When = `segments.tier != "none"`
	topic := compile(t, m).Topic("crm.customers")
	var routed []router.Routed
	for _, tier := range []string{"gold", "silver", "none", "silver", "gold"} {
		routed = topic.RouteOver(routed, &router.Record{Topic: "crm.customers", Value: value(t, `{"key":{"customerNumber":"C1"},"segments":{"tier":"`+tier+`"}}`)})
		cells, lane := 0, schemas.Skip
		if tier == "silver" {
			cells, lane = 2, schemas.Batch
		}
		if len(routed) != 1 || len(routed[0].Write.Cells) != cells || routed[0].Lane != lane {
			t.Errorf("%s: got %+v, want %d cells for %v", tier, routed, cells, lane)
		}
	}
}
