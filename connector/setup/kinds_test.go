package setup

import (
	"fmt"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/config"
)

// looked is what is written for topics: each a name and its records.
func looked(t *testing.T, topics ...[]string) (string, *config.Config) {
	t.Helper()
	samples := make([]*Sample, len(topics))
	for i, topic := range topics {
		samples[i] = sampled(t, topic[0], topic[1:]...)
	}
	written, err := Write(place, samples...)
	if err != nil {
		t.Fatal(err)
	}
	return written, accepted(t, written)
}

// holds asks for lines, in any order.
func holds(t *testing.T, name, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if missing, unwanted := strings.CutPrefix(want, "not: "); unwanted == strings.Contains(text, missing) {
			t.Errorf("%s: got\n%s\nwant %s", name, text, want)
		}
	}
}

const (
	registered = `{"type":"customer.registered","customer":{"number":"C%d","mail":"c%d@example.com","first":"A","last":"B"}}`
	consented  = `{"type":"customer.consent.changed","customer":{"number":"C%d","consent":{"sms":"Y"}}}`
	placed     = `{"type":"order.placed","order":{"orderId":"O%d","customerNumber":"C%d","total":"1,50"}}`
)

func TestEachTableOfATopicHasItsMapping(t *testing.T) {
	var records []string
	for i := range 4 {
		records = append(records, fmt.Sprintf("C%d "+registered, i, i, i), fmt.Sprintf("C%d "+consented, i, i), fmt.Sprintf("C%d "+placed, i, i, i))
	}
	records[1] = strings.Replace(records[1], `"Y"`, `"N"`, 1)
	got, cfg := looked(t, append([]string{"shop.events"}, records...))
	if len(cfg.Mappings) != 2 {
		t.Fatalf("got %d mappings in\n%s\nwant customers and orders", len(cfg.Mappings), got)
	}
	holds(t, "customers and orders", got,
		`when: 'value.type in ["customer.registered", "customer.consent.changed"]'`, `when: 'value.type == "order.placed"'`,
		`profileTable: "customer"`, `customTable: "order"`, "# DECIDE: 67 % of the topic's records.",
		"customer.consent.changed (50 % of these records) never names 3 fields that customer.registered has",
		`op: 'value.type == "customer.consent.changed" ? "patch" : value.type == "customer.registered" ? "upsert" : nil'`, "patch: {mode: UPDATE_ONLY}",
		"{from: customer.number, to: customerNumber}", "{from: order.orderId, to: businessKey}",
		"# DECIDE: order.orderId is the key, because each record has it and it is named after order; the Kafka key is order.customerNumber.",
		"# - {from: type, to: type}   # says the kind of event", "{from: order.total, to: total, as: number, decimal: ','}",
		"{from: customer.mail, to: mail, as: email}   # 50 %",
		"{from: customer.consent.sms, to: 'subscriptions#sms', as: boolean, true: ['Y'], false: ['N']}   # 50 %; DECIDE")
	one := place
	one.CustomTable = "everything"
	if cfg := accepted(t, guessed(t, one, records...)); len(cfg.Mappings) != 1 || cfg.Mappings[0].When != "" {
		t.Errorf("with a table that was given: got %d mappings, want one of all records", len(cfg.Mappings))
	}
}

func TestTombstonesAreOfTheTableOfTheirKey(t *testing.T) {
	customers, orders := []string{"C1 " + fmt.Sprintf(registered, 1, 1)}, []string{}
	for i := range 3 {
		orders = append(orders, fmt.Sprintf("C1 "+placed, i, 1))
	}
	got, _ := looked(t, append(append([]string{"a", "C1"}, customers...), orders...))
	holds(t, "keyed by the customer", got, `when: 'value == nil or value.type == "customer.registered"'`, `when: 'value.type == "order.placed"'`)
	got, _ = looked(t, []string{"a", "x", "x " + fmt.Sprintf(registered, 1, 1), "x " + fmt.Sprintf(placed, 1, 1)})
	holds(t, "keyed by nothing of theirs", got, "# DECIDE: which table a record without a value deletes from.", "not: when: 'value == nil")
}

func TestTheKafkaKeyIsTheKeyRatherThanAName(t *testing.T) {
	const (
		guest = `G1 {"type":"guest.registered","guest":{"number":"G1","born":"1990-04-01"}}`
		berth = `%s {"type":"berth.%s","reservation":{"code":"%s","berth":{"nr":%d}},"nights":2}`
	)
	for name, c := range map[string]struct {
		records []string
		want    string
	}{
		"one for each": {
			[]string{fmt.Sprintf(berth, "R1", "reserved", "R1", 1), fmt.Sprintf(berth, "R2", "reserved", "R2", 2)},
			"# reservation.code is the key, because its value is the Kafka key of every record",
		},
		"several of one name": {
			[]string{fmt.Sprintf(berth, "R1", "reserved", "R1", 1), fmt.Sprintf(berth, "R2", "reserved", "R2", 1), fmt.Sprintf(berth, "R2", "released", "R2", 2)},
			"# reservation.code is the key, because its value is the Kafka key of every record",
		},
		"several names of one": {
			[]string{fmt.Sprintf(berth, "R1", "reserved", "R1", 1), fmt.Sprintf(berth, "R1", "reserved", "R1", 2)},
			"# DECIDE: reservation.berth.nr is the key, because each record has it and it is named after berth; the Kafka key is reservation.code.",
		},
		"not the Kafka key of each": {
			[]string{fmt.Sprintf(berth, "R1", "reserved", "R1", 1), fmt.Sprintf(berth, "x", "reserved", "R2", 2)},
			"# DECIDE: reservation.berth.nr is the key, because each record has it and it is named after berth.",
		},
		"that of another table": {
			[]string{`G1 {"type":"stay.started","stay":{"stayNo":1,"guestNumber":"G1"}}`},
			"# DECIDE: stay.stayNo is the key, because each record has it and it is named after stay; the Kafka key is stay.guestNumber.",
		},
		"both": {
			[]string{`R1 {"type":"berth.reserved","code":"R1","berth":{"nr":"R1"}}`},
			"# berth.nr is the key, because its value is the Kafka key of every record",
		},
	} {
		got, _ := looked(t, append([]string{"marina.events", guest}, c.records...))
		holds(t, name, got, c.want)
	}
}

func TestWhatTheRecordsSayIsTheOp(t *testing.T) {
	for name, c := range map[string]struct {
		records []string
		want    []string
	}{
		"Debezium's letters without its envelope": {
			[]string{`1 {"op":"c","id":1,"a":1}`, `1 {"op":"u","id":1,"a":2}`, `1 {"op":"d","id":1,"a":2}`},
			[]string{`op: 'value.op == "d" ? "delete" : value.op in ["c", "u"] ? "upsert" : nil'   # DECIDE`, "# The op is by value.op: c 33 %, u 33 %, d 33 %.", "# - {from: op, to: op}   # says the kind"},
		},
		"words": {
			[]string{`1 {"meta":{"action":"INSERT"},"id":1}`, `2 {"meta":{"action":"REMOVE"},"id":2}`, `3 {"meta":{"action":"Deleted"},"id":3}`},
			[]string{`op: 'value.meta.action in ["REMOVE", "Deleted"] ? "delete" : value.meta.action == "INSERT" ? "upsert" : nil'`},
		},
		"kinds of one table": {
			[]string{`1 {"event":"OrderCreated","id":1,"total":1,"x":2}`, `1 {"event":"OrderPaid","id":1,"paid":true}`, `1 {"event":"OrderDeleted","id":1,"why":"x"}`},
			[]string{
				`op: 'value.event == "OrderPaid" ? "patch" : value.event == "OrderDeleted" ? "delete" : value.event == "OrderCreated" ? "upsert" : nil'`,
				"OrderPaid (33 % of these records) never names 2 fields that OrderCreated has", "# - {from: why, to: why}   # only deletes have it",
				"# DECIDE: an upsert may erase what its record does not name",
			},
		},
		"a mark": {
			[]string{`1 {"id":1,"deleted":false}`, `2 {"id":2,"deleted":true}`},
			[]string{`op: 'value.deleted == true ? "delete" : "upsert"'`},
		},
		"a mark of text": {
			[]string{`1 {"id":1,"a":1,"deleted":"false"}`, `2 {"id":2,"a":1,"deleted":"true"}`},
			[]string{`op: 'value.deleted == "true" ? "delete" : "upsert"'`},
		},
		"a mark of words": {
			[]string{`1 {"id":1,"a":1,"isDeleted":"n"}`, `2 {"id":2,"a":1,"isDeleted":"Y"}`, `3 {"id":3,"a":1,"isDeleted":"y"}`},
			[]string{`op: 'value.isDeleted in ["Y", "y"] ? "delete" : "upsert"'`},
		},
		"a kind of customer": {
			[]string{`1 {"id":1,"type":"B2B","a":1}`, `2 {"id":2,"type":"B2C","a":1}`},
			[]string{"{from: type, to: type}", "not: op:", "not: when: 'value"},
		},
		"sparse records of one kind": {
			[]string{`1 {"id":1,"a":1,"b":2,"c":3}`, `1 {"id":1,"c":4}`, `2 {"id":2,"a":1,"b":2,"c":3}`},
			[]string{`op: 'value.a == nil ? "patch" : "upsert"'`, "33 % of these records name at most 2 of 4 fields", "not: \n    imports:"},
		},
		"sparse profiles": {
			[]string{`1 {"id":1,"mail":"a@example.com","b":2,"c":3}`, `1 {"id":1,"c":4}`},
			[]string{`op: 'value.mail == nil ? "patch" : "upsert"'`, "an upsert replaces the whole profile", "patch: {mode: UPDATE_ONLY}", "write merge for patch", "routes: [{lane: auto}]", "# Every op has an import here"},
		},
		"sparse profiles that say when": {
			[]string{`1 {"id":1,"mail":"a@example.com","consents":{"sms":"Y","date":"2026-11-21T10:00:00Z"},"b":2,"c":3}`, `2 {"id":2,"mail":"b@example.com","consents":{"sms":"N","date":"2026-11-21T10:00:00Z"},"b":2,"c":3}`, `1 {"id":1,"c":4}`},
			[]string{"patch: {mode: UPDATE_ONLY}", "routes: [{lane: immediate}]             # DECIDE: not auto, for a file would lose dataCollection", "      # upsert: {mode"},
		},
		"sparse records that nothing tells": {
			[]string{`1 {"id":1,"a":1,"b":2,"c":3}`, `1 {"id":1,"a":4}`, `2 {"id":2,"b":4}`, `3 {"id":3,"c":4}`},
			[]string{"op: merge", "no field tells them from the records that name all", "lane: immediate", "not: \n    imports:"},
		},
		"sparse profiles that nothing tells": {
			[]string{`1 {"id":1,"mail":"a@example.com","b":2,"c":3}`, `1 {"id":1,"mail":"a@example.com"}`, `2 {"id":2,"b":4}`, `3 {"id":3,"c":4}`},
			[]string{"op: merge", "an upsert replaces the whole profile", "merge: {mode: CREATE_OR_UPDATE}", "routes: [{lane: batch}]", "not: patch: {"},
		},
		"sparse profiles of which one comes before its profile": {
			[]string{`1 {"id":1,"c":4}`, `1 {"id":1,"mail":"a@example.com","b":2,"c":3}`, `2 {"id":2,"mail":"b@example.com","b":2,"c":3}`, `2 {"id":2,"c":4}`},
			[]string{
				`op: 'value.mail == nil ? "merge" : "upsert"'`, "some of them come before the record that names the rest", "merge: {mode: CREATE_OR_UPDATE}",
				"so these are merges, which change what they name, and create the row", "routes: [{lane: auto}]", "      upsert: {mode: CREATE_OR_UPDATE}", "not: UPDATE_ONLY",
			},
		},
		"a consent before its customer": {
			[]string{"1 " + fmt.Sprintf(consented, 1), "1 " + fmt.Sprintf(registered, 1, 1)},
			[]string{`op: 'value.type == "customer.consent.changed" ? "merge" : value.type == "customer.registered" ? "upsert" : nil'`, "merge: {mode: CREATE_OR_UPDATE}"},
		},
		"a row that is deleted and made again by its parts": {
			[]string{`1 {"id":1,"a":1,"b":2,"c":3}`, `1 {"id":1,"deleted":true}`, `1 {"id":1,"c":4}`, `1 {"id":1,"a":1,"b":2,"c":3}`},
			[]string{`value.a == nil ? "merge" : "upsert"`, `value.deleted == true ? "delete"`},
		},
		"nulls name their field": {
			[]string{`1 {"id":1,"a":1,"b":2,"c":3}`, `1 {"id":1,"a":null,"b":null,"c":3}`},
			[]string{"not: op:"},
		},
		"ids of events are no kinds": {
			[]string{`1 {"id":1,"event":"9f-1"}`, `2 {"id":2,"event":"9f-2"}`},
			[]string{"{from: event, to: event}", "not: op:"},
		},
	} {
		got, _ := looked(t, append([]string{"t.things"}, c.records...))
		holds(t, name, got, c.want...)
	}
}

func TestEventsAreToldApartByTheirAttributes(t *testing.T) {
	s := NewSample("shop.orders", "json")
	for i, typ := range []string{"com.example.order.created", "com.example.order.deleted"} {
		id := fmt.Sprint(i)
		s.Add(Record{Key: []byte(id), Event: true, Headers: map[string]string{"ce_type": typ, "ce_subject": id}, Value: value(t, `{"total":3.5}`)})
	}
	got, err := Write(place, s)
	if err != nil {
		t.Fatal(err)
	}
	accepted(t, got)
	holds(t, "binary or structured", got, "{from: headers.ce_subject, to: businessKey}", "envelope: cloudevents",
		`op: 'headers.ce_type == "com.example.order.deleted" ? "delete" : headers.ce_type == "com.example.order.created" ? "upsert" : nil'`)
}

func TestSeveralTopicsHaveTheirMappings(t *testing.T) {
	got, cfg := looked(t,
		[]string{"crm.customers", `1 {"customerNumber":"1","mail":"a@example.com"}`, `2 {"customerNumber":"2","mail":"b@example.com"}`},
		[]string{"shop.orders", `A {"ref":"A","customer_number":"1","total":3}`, `B {"ref":"B","customer_number":"2","total":4}`},
		[]string{"web.orders", `A {"ref":"A","customer":{"id":1}}`, `B {"ref":"B","customer":{"id":2}}`},
	)
	if len(cfg.Mappings) != 3 {
		t.Fatalf("got %d mappings, want 3", len(cfg.Mappings))
	}
	holds(t, "three topics", got, "- name: customers\n", "- name: orders\n", "- name: web-orders\n", "# And from 2 records of the topic web.orders",
		"# after: [customers]   # with imports: customer_number seems to be", "# after: [customers]   # with imports: customer.id seems to be",
		"a table has one mapping")
	if _, err := Write(place, sampled(t, "a", `1 {"id":1}`), sampled(t, "b")); err == nil || !strings.Contains(err.Error(), "topic b: ") {
		t.Errorf("a topic without records: got %v, want it named", err)
	}
}

func TestNamesOfMappingsCanBeRead(t *testing.T) {
	for topic, want := range map[string]string{
		"null": "null", "no": "no", "-": "-", "1e5": "1e5", "007": "007", ".5": "5", "shop.Orders": "orders",
		strings.Repeat("a", 249): strings.Repeat("a", 100),
	} {
		written, err := Write(place, sampled(t, topic, `1 {"id":"1"}`, `2 {"id":"2"}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := accepted(t, written).Mappings[0].Name; got != want {
			t.Errorf("topic %s: got the name %q, want %q", topic, got, want)
		}
	}
	long := strings.Repeat("a", 200)
	written, err := Write(place, sampled(t, long+"b", `1 {"id":"1"}`), sampled(t, long+"c", `1 {"id":"1"}`), sampled(t, long+"d", `1 {"id":"1"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := accepted(t, written).Mappings; len(got) != 3 || got[2].Name != long[:96]+"-3" {
		t.Errorf("names that are alike where they are cut: got %+v", got)
	}
}

func TestConsentsAndTiersAreWhatTheServiceHas(t *testing.T) {
	got := guessed(t, place,
		`1 {"id":1,"mail":"a@example.com","optInSms":1,"consents":{"email":"granted","push":"Yes","date":"2026-11-21T10:00:00Z","channel":"app"},"tier":"gold","tags":["vip","new"],"segments":{"club":true}}`,
		`2 {"id":2,"mail":"b@example.com","optInSms":0,"consents":{"email":"denied","push":"NO","date":"2026-11-22T10:00:00Z","channel":"web"},"tier":"basic","tags":["vip","new"],"segments":{"club":false}}`)
	holds(t, "a person", got,
		"{from: optInSms, to: 'subscriptions#sms', as: boolean}", "{from: consents.email, to: 'subscriptions#email', as: boolean, true: ['granted'], false: ['denied']}",
		"to: 'subscriptions#push', as: boolean, true: ['Yes'], false: ['NO']}", "{from: consents.date, to: dataCollection.date, as: timestamp}",
		"{from: consents.channel, to: dataCollection.way}", "{from: tier, to: S_tier}", "{from: segments.club, to: S_club, as: boolean}",
		`to: S_vip}`, `to: S_new}`)
	at := place
	at.CustomTable = "people"
	got = guessed(t, at, `1 {"id":1,"tier":"gold","newsletter":true}`, `2 {"id":2,"tier":"gold","newsletter":false}`)
	holds(t, "a custom table has neither", got, "{from: tier, to: tier}", "{from: newsletter, to: newsletter, as: boolean}")
}
