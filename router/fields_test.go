package router_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// mapped is a custom table's mapping with the key and one more field.
func mapped(f router.Field) router.Mapping {
	m := orders()
	m.Fields = []router.Field{{From: "id", To: "businessKey"}, f}
	return m
}

var fieldRecord = router.Record{
	Topic: "shop.orders", Partition: 3, Offset: 4711,
	Timestamp: time.Date(2026, 11, 21, 11, 0, 0, 5e6, time.FixedZone("", 3600)),
	Headers:   []router.Header{{Key: "source", Value: []byte("shop")}, {Key: "a.b", Value: []byte("dots")}, {Key: "none"}, {Key: "broken", Value: []byte("\xff")}},
	Key:       []byte(`{"region":"eu","nr":7,"big":12345678901234567890}`),
}

const fieldValue = `{"id":"k","n":12.50,"cents":1250,"text":"x","empty":"","flag":true,"null":null,"big":12345678901234567890,` +
	`"timestamp":"own","born":20778,"tags":["a","b"],"mixed":["FR","de"],"lines":[{"sku":"s1","qty":2},{"sku":"s2","qty":3}],"name":{"first":"Ada","last":"Lovelace"}}`

func TestFieldsReadConvertAndCompute(t *testing.T) {
	for _, tc := range []struct {
		name  string
		field router.Field
		want  string // what comes behind the key, or the rejection
	}{
		{"path", router.Field{From: "name.first"}, ` p.x="Ada"`},
		{"element", router.Field{From: "lines[-1].sku"}, ` p.x="s2"`},
		{"missing", router.Field{From: "lines[7].sku"}, ``},
		{"null", router.Field{From: "null"}, ` p.x=null`},
		{"boolean as text", router.Field{From: "flag"}, ` p.x="true"`},
		{"scaled number", router.Field{From: "cents", As: "number", Scale: -2}, ` p.x=12.5`},
		{"scaled integer", router.Field{From: "n", As: "integer", Scale: 2}, ` p.x=1250`},
		{"scaled to no integer", router.Field{From: "cents", As: "integer", Scale: -2}, `cents: must be a whole number from -2147483648 to 2147483647`},
		{"format", router.Field{From: "born", As: "date", Format: "epochDays"}, ` p.x="2026-11-21"`},

		{"header", router.Field{From: "headers.source"}, ` p.x="shop"`},
		{"header with dots", router.Field{From: `headers["a.b"]`}, ` p.x="dots"`},
		{"header without value", router.Field{From: "headers.none"}, ` p.x=null`},
		{"missing header", router.Field{From: "headers.nothing"}, ``},
		{"broken header", router.Field{From: "headers.broken"}, `headers.broken: must be valid UTF-8`},
		{"topic", router.Field{From: "topic"}, ` p.x="shop.orders"`},
		{"partition", router.Field{From: "partition"}, ` p.x=3`},
		{"offset", router.Field{From: "offset"}, ` p.x=4711`},
		{"timestamp", router.Field{From: "timestamp"}, ` p.x="2026-11-21T10:00:00Z"`},
		{"timestamp in a zone", router.Field{From: "timestamp", As: "timestamp", Timezone: "Europe/Paris"}, ` p.x="2026-11-21T11:00:00+01:00"`},
		{"own timestamp", router.Field{From: `["timestamp"]`}, ` p.x="own"`},
		{"kafka key", router.Field{From: "kafkaKey.region"}, ` p.x="eu"`},

		{"constant text", router.Field{Value: `"crm"`}, ` p.x="crm"`},
		{"constant number", router.Field{Value: `12.5`}, ` p.x=12.5`},
		{"constant boolean", router.Field{Value: `true`}, ` p.x="true"`},
		{"constant converted", router.Field{Value: `"12"`, As: "integer"}, ` p.x=12`},
		{"default for missing", router.Field{From: "nothing", Default: `"d"`}, ` p.x="d"`},
		{"default for null", router.Field{From: "null", Default: `0`}, ` p.x=0`},
		{"default is not scaled", router.Field{From: "nothing", As: "number", Scale: -2, Default: `9.99`}, ` p.x=9.99`},
		{"default not for empty", router.Field{From: "empty", Default: `"d"`}, ` p.x=""`},
		{"default for missing alone", router.Field{From: "null", Default: `0`, Null: router.AsNull}, ` p.x=null`},
		{"missing to null", router.Field{From: "nothing", Absent: router.AsNull}, ` p.x=null`},
		{"missing refused", router.Field{From: "nothing", Absent: router.Refuse}, `nothing: is missing`},
		{"null left out", router.Field{From: "null", Null: router.Omit}, ``},
		{"null refused", router.Field{From: "null", Null: router.Refuse}, `null: is null`},

		{"sum", router.Field{Expr: "n + cents"}, ` p.x=1262.5`},
		{"sum of decimals", router.Field{Expr: "0.1 + 0.2"}, ` p.x=0.3`},
		{"fold", router.Field{Expr: "sum(map(lines, .qty))"}, ` p.x=5`},
		{"text", router.Field{Expr: `name.first + " " + upper(name.last)`}, ` p.x="Ada LOVELACE"`},
		{"text of a number", router.Field{Expr: `"n" + string(n) + "/" + string(cents)`}, ` p.x="n12.5/1250"`},
		{"choice", router.Field{Expr: `text == "x" ? "yes" : "no"`}, ` p.x="yes"`},
		{"otherwise", router.Field{Expr: `nothing ?? text`}, ` p.x="x"`},
		{"nil says nothing", router.Field{Expr: `empty == "" ? nil : empty`}, ``},
		{"nil to null", router.Field{Expr: `nothing.more`, Absent: router.AsNull}, ` p.x=null`},
		{"nil to default", router.Field{Expr: `nothing.more`, Default: `"d"`}, ` p.x="d"`},
		{"sum with something missing", router.Field{Expr: "n + nothing"}, ``},
		{"text with something missing", router.Field{Expr: `"a" + string(nothing)`}, ``},
		{"sum with something else", router.Field{Expr: "n + text"}, `x: cannot be computed: its operands do not fit`},
		{"no text of a list", router.Field{Expr: "string(tags)"}, `x: cannot be computed: its operands do not fit`},
		{"division by zero", router.Field{Expr: "n / 0"}, `x: must be a number: digits with an optional leading - and a decimal point`},
		{"more digits than it can carry", router.Field{Expr: "big + 1"}, `x: must have at most 15 digits to be computed with`},
		{"an object", router.Field{Expr: "name"}, `x: the expression must come to text, a number, true, false or a list of them`},
		{"half a character", router.Field{Expr: `fromBase64("/w==")`}, `x: must be valid UTF-8`},
		{"record", router.Field{Expr: `headers.source + "-" + string(partition) + "-" + string(offset) + kafkaKey.region`}, ` p.x="shop-3-4711eu"`},
		{"more digits in the key", router.Field{Expr: "kafkaKey.big + 1"}, `x: must have at most 15 digits to be computed with`},
		{"headers as a whole", router.Field{Expr: `len(headers)`}, ` p.x=4`},
		{"moment", router.Field{Expr: "timestamp", As: "date"}, ` p.x="2026-11-21"`},
		{"converted", router.Field{Expr: "string(cents)", As: "number", Scale: -2}, ` p.x=12.5`},
		{"conversion fails", router.Field{Expr: "text", As: "integer"}, `x: must be a whole number from -2147483648 to 2147483647`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.field.To = "x"
			m := mapped(tc.field)
			m.KafkaKey = "json"
			rec := fieldRecord
			rec.Value = value(t, fieldValue)
			want := "immediate: upsert orders k" + tc.want
			if tc.want != "" && tc.want[0] != ' ' {
				want = "immediate: reject value: " + tc.want
			}
			if got := story(routeOne(t, compile(t, m), &rec)); got != want {
				t.Errorf("routed:\n got %s\nwant %s", got, want)
			}
		})
	}
}

// Kafka says -1 of a record that has no timestamp.
func TestARecordWithoutATimestampHasNone(t *testing.T) {
	for _, tc := range []struct {
		name  string
		field router.Field
		want  string
	}{
		{"path", router.Field{From: "timestamp"}, ``},
		{"converted", router.Field{From: "timestamp", As: "date"}, ``},
		{"default", router.Field{From: "timestamp", Default: `"d"`}, ` p.x="d"`},
		{"refused", router.Field{From: "timestamp", Absent: router.Refuse}, `timestamp: is missing`},
		{"expression", router.Field{Expr: "timestamp"}, ``},
		{"computed", router.Field{Expr: `timestamp - duration("1h")`}, ``},
		{"otherwise", router.Field{Expr: `timestamp ?? text`}, ` p.x="x"`},
		{"as text", router.Field{Expr: `"at " + string(timestamp)`}, ``},
	} {
		tc.field.To = "x"
		rec := fieldRecord
		rec.Value, rec.Timestamp = value(t, fieldValue), time.UnixMilli(-1)
		want := "immediate: upsert orders k" + tc.want
		if tc.want != "" && tc.want[0] != ' ' {
			want = "immediate: reject value: " + tc.want
		}
		if got := story(routeOne(t, compile(t, mapped(tc.field)), &rec)); got != want {
			t.Errorf("%s:\n got %s\nwant %s", tc.name, got, want)
		}
	}
	for when, want := range map[string]bool{
		`timestamp == nil`:                     true,
		`timestamp < date("2026-11-21")`:       false,
		`timestamp >= date("2026-11-21")`:      false,
		`not (timestamp > date("2026-11-21"))`: true,
	} {
		rec := router.Record{Value: value(t, fieldValue), Timestamp: time.UnixMilli(-1)}
		if got := holds(t, mapped(router.Field{From: "text", To: "x"}), when, rec); got != want {
			t.Errorf("%s: got %v, want %v", when, got, want)
		}
		rec.Timestamp = time.UnixMilli(0)
		if got := holds(t, mapped(router.Field{From: "text", To: "x"}), `timestamp == date("1970-01-01")`, rec); !got {
			t.Error("the first moment that Kafka knows: got none")
		}
	}
}

// What is computed is written, and may be a key: two records whose numbers differ never
// come to the same one since a digit was lost.
func TestWhatIsComputedIsExactOrADeadLetter(t *testing.T) {
	const long, digits = "12345678901234567", "businessKey: must have at most 15 digits to be computed with"
	in := `{"id":` + long + `,"max":9223372036854775807,"least":-9223372036854775808,"order":92233720368547759,"line":0,` +
		`"safe":9007199254740991,"round":1230000000000000000,"odd":1000000000000000001,` +
		`"payload":"{\"id\":` + long + `,\"more\":[1.5]}","longer":"{\"id\":123456789012345678901234}","text":"` + long + `"}`
	for expression, want := range map[string]string{
		`fromJSON(payload).id`:          long,
		`fromJSON(payload).more[0] * 2`: "3",
		`fromJSON(longer).id`:           digits,
		`order * 100 + line`:            digits,
		`nothing ?? (order * 100)`:      digits,
		`id + 1`:                        "12345678901234568",
		`id - 12345678901234568`:        "-1",
		`id * 2`:                        "24691357802469134",
		`max + 1`:                       digits,
		`9223372036854775807 + 1`:       digits,
		`least - 1`:                     digits,
		`-least`:                        digits,
		`abs(least)`:                    digits,
		`-max - 1`:                      "-9223372036854775808",
		`least * -1`:                    digits,
		`id / 2`:                        digits,
		`odd / 1`:                       digits,
		`safe / 1`:                      "9007199254740991",
		`safe * 1.0`:                    "9007199254740991",
		`safe / 2`:                      digits,
		`safe * 3.0`:                    digits,
		`round / 2`:                     "615000000000000000",
		`id * 1.0`:                      digits,
		`id + 0.5`:                      digits,
		`3 ** 40`:                       digits,
		`10 ^ 18`:                       "1000000000000000000",
		`int(1e300)`:                    digits,
		`int(0.0 / 0)`:                  digits,
		`int(3 ** 40)`:                  digits,
		`int(12.9)`:                     "12",
		`int(text) + 1`:                 "12345678901234568",
		`float(text)`:                   digits,
		`float(id)`:                     digits,
		`string(float(text))`:           digits,
		`round(id)`:                     digits,
		`ceil(odd)`:                     digits,
		`floor(max)`:                    digits,
		`mean([odd, odd])`:              digits,
		`median([[odd]])`:               digits,
		`sum([max, max])`:               digits,
		`sum([id, 1])`:                  "12345678901234568",
		`sum([id], # * 2)`:              "24691357802469134",
		`sum([id], # * 1000)`:           digits,
		`sum([max, 1], # + 0)`:          digits,
		`sum(9223372036854775806..9223372036854775807)`: digits,
		`sum(1..10)`:                 "55",
		`reduce([max, 1], #acc + #)`: digits,
		`reduce(1..20, #acc * #, 1)`: "2432902008176640000",
		`reduce(1..21, #acc * #, 1)`: digits,
		`"n" + string(id)`:           "n" + long,
	} {
		m := mapped(router.Field{Value: `"x"`, To: "x"})
		m.Fields[0] = router.Field{Expr: expression, To: "businessKey"}
		rec := fieldRecord
		rec.Value = value(t, in)
		want = "immediate: upsert orders " + want + ` p.x="x"`
		if strings.Contains(want, digits) {
			want = "immediate: reject value: " + digits
		}
		if got := story(routeOne(t, compile(t, m), &rec)); got != want {
			t.Errorf("%s:\n got %s\nwant %s", expression, got, want)
		}
	}
}

func TestListsBecomeMultiValues(t *testing.T) {
	for _, tc := range []struct {
		field router.Field
		want  string
	}{
		{router.Field{From: "tags"}, ` a.x=["a","b"]`},
		{router.Field{From: "text", As: "list"}, ` a.x=["x"]`},
		{router.Field{From: "lines[*].sku", As: "list"}, ` a.x=["s1","s2"]`},
		{router.Field{From: "lines[*].qty", As: "list", Of: "string"}, ` a.x=["2","3"]`},
		{router.Field{From: "lines[*].qty", As: "list", Of: "number", Scale: -1}, ` a.x=[0.2,0.3]`},
		{router.Field{From: "mixed", As: "list", Of: "country"}, ` a.x=["FR","DE"]`},
		{router.Field{From: "tags", As: "list", Of: "integer"}, `tags: each element: must be a whole number from -2147483648 to 2147483647`},
		{router.Field{Expr: `map(lines, "sku-" + .sku)`}, ` a.x=["sku-s1","sku-s2"]`},
		{router.Field{Expr: `split("a,b", ",")`, As: "list"}, ` a.x=["a","b"]`},
		{router.Field{From: "tags", As: "string"}, `tags: must be text`},
	} {
		tc.field.To = "x"
		m := customers()
		m.Routes = []router.Route{{Lane: "immediate"}}
		m.Fields = []router.Field{{From: "id", To: "customerNumber"}, tc.field}
		m.Imports = router.Imports{}
		rec := fieldRecord
		rec.Topic, rec.Value = "crm.customers", value(t, fieldValue)
		want := `immediate: upsert customers k a.customerNumber="k"` + tc.want
		if tc.want[0] != ' ' {
			want = "immediate: reject value: " + tc.want
		}
		if got := story(routeOne(t, compile(t, m), &rec)); got != want {
			t.Errorf("%+v:\n got %s\nwant %s", tc.field, got, want)
		}
	}
}

func TestKeysMayBeComposed(t *testing.T) {
	composed := mapped(router.Field{From: "n", To: "n"})
	composed.Fields[0] = router.Field{Expr: `order + "/" + string(line)`, To: "businessKey"}
	composed.KafkaKey = "json"
	single := composed
	single.Fields = []router.Field{{Expr: "upper(id)", To: "businessKey"}, composed.Fields[1]}
	ofRecord := composed
	ofRecord.Fields = []router.Field{{Expr: `topic + "/" + kafkaKey`, To: "businessKey"}, composed.Fields[1]}
	ofHeader := composed
	ofHeader.Fields = []router.Field{{From: "headers.source", To: "businessKey"}, composed.Fields[1]}
	ofElement, ofNothing, ofDelete := ofHeader, ofHeader, ofHeader
	ofElement.Fields = []router.Field{ofHeader.Fields[0], {From: "[0]", To: "n"}}
	ofNothing.Fields = []router.Field{ofHeader.Fields[0], {From: "topic", To: "n"}}
	ofDelete.Op = "delete"
	required := composed
	required.Fields = []router.Field{{From: "id", To: "businessKey", Absent: router.Refuse}, composed.Fields[1]}
	nested := composed
	nested.Fields = []router.Field{{From: "ids[0]", To: "businessKey"}, composed.Fields[1]}
	for _, tc := range []struct {
		name       string
		m          router.Mapping
		key, value string // no value: a tombstone
		want       string
	}{
		{"of several members", composed, ``, `{"order":"o1","line":2}`, `immediate: upsert orders o1/2`},
		{"one of them missing", composed, ``, `{"order":"o1"}`, `immediate: reject value: businessKey: the key is missing`},
		{"none of its members, for there is no object", composed, ``, `[]`, `immediate: reject value: must be an object`},
		{"required of what is no object", required, ``, `null`, `immediate: reject value: must be an object`},
		{"of a header, beside what is no object", ofHeader, ``, `null`, `immediate: reject value: must be an object`},
		{"of a header, beside a text", ofHeader, ``, `"text"`, `immediate: reject value: must be an object`},
		{"of a header, beside a list", ofHeader, ``, `[{"n":1}]`, `immediate: reject value: must be an object`},
		{"of a header, beside a list whose element is read", ofElement, ``, `[1]`, `immediate: upsert orders shop p.n=1`},
		{"of a header, beside what nothing is read of", ofNothing, ``, `"text"`, `immediate: upsert orders shop p.n="shop.orders"`},
		{"of a header, deleted beside what is no object", ofDelete, ``, `null`, `immediate: delete orders shop`},
		{"deleted", composed, `{"order":"o1","line":2}`, ``, `immediate: delete orders o1/2`},
		{"deleted by half a key", composed, `{"order":"o1"}`, ``, `immediate: reject decode: kafka key: must be text or a whole number`},
		{"deleted by a bare key", composed, `"o1/2"`, ``, `immediate: reject value: kafka key: must be an object with what the key is computed from`},
		{"of one member", single, ``, `{"id":"a"}`, `immediate: upsert orders A`},
		{"of one member, deleted by a bare key", single, `"a"`, ``, `immediate: delete orders A`},
		{"of one member, deleted by its name", single, `{"id":"a"}`, ``, `immediate: delete orders A`},
		{"of the record", ofRecord, `"k"`, `{"n":1}`, `immediate: upsert orders shop.orders/k p.n=1`},
		{"of the record, deleted", ofRecord, `"k"`, ``, `immediate: delete orders shop.orders/k`},
		{"of a header", ofHeader, `"k"`, `{}`, `immediate: upsert orders shop`},
		{"of a header, deleted", ofHeader, `"k"`, ``, `immediate: delete orders shop`},
		{"of an element", nested, ``, `{"ids":["e1"]}`, `immediate: upsert orders e1`},
		{"of an element, deleted by its place", nested, `{"ids":["e1"]}`, ``, `immediate: delete orders e1`},
		{"of an element, deleted by a bare key", nested, `"e1"`, ``, `immediate: delete orders e1`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rec := fieldRecord
			rec.Key = []byte(tc.key)
			if rec.Tombstone = tc.value == ""; !rec.Tombstone {
				rec.Value = value(t, tc.value)
			}
			if got := story(routeOne(t, compile(t, tc.m), &rec)); got != tc.want {
				t.Errorf("routed:\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestMappedRecordsMaySayTheirOp(t *testing.T) {
	for _, tc := range []struct{ op, value, want string }{
		{"", `{"id":"k","a":1}`, `upsert orders k p.a=1 p.b="d"`},
		{"upsert", `{"id":"k","a":null}`, `upsert orders k p.a=null p.b="d"`},
		{"create", `{"id":"k"}`, `create orders k p.b="d"`},
		{"delete", `{"id":"k","a":1}`, `delete orders k`},
		{"patch", `{"id":"k","a":1}`, `patch orders k p.a=1`},
		{"patch", `{"id":"k","b":null}`, `patch orders k p.b="d"`},
		{`action == "D" ? "delete" : "upsert"`, `{"id":"k","action":"D"}`, `delete orders k`},
		{`action == "D" ? "delete" : "upsert"`, `{"id":"k"}`, `upsert orders k p.b="d"`},
		{`action`, `{"id":"k"}`, `upsert orders k p.b="d"`},
		{`headers.source == "shop" ? "patch" : "upsert"`, `{"id":"k"}`, `patch orders k`},
		{`action == "D" ? "delete" : action == "U" ? "upsert" : nil`, `{"id":"k","action":"U"}`, `upsert orders k p.b="d"`},
		{`action == "D" ? "delete" : action == "U" ? "upsert" : nil`, `{"id":"k","action":"X"}`, `reject value: op: comes to nil, and must come to upsert, patch, merge, create or delete`},
		{`action == "D" ? "delete" : action == "U" ? "upsert" : nil`, `{"id":"k"}`, `reject value: op: comes to nil, and must come to upsert, patch, merge, create or delete`},
		{`if action == "D" { "delete" } else { nil }`, `{"id":"k"}`, `reject value: op: comes to nil, and must come to upsert, patch, merge, create or delete`},
		{`action ?? nil`, `{"id":"k"}`, `reject value: op: comes to nil, and must come to upsert, patch, merge, create or delete`},
		{`action`, `{"id":"k","action":"secret"}`, `reject value: op: must come to upsert, patch, merge, create or delete`},
		{`action`, `{"id":"k","action":1}`, `reject value: op: must come to upsert, patch, merge, create or delete`},
	} {
		m := mapped(router.Field{From: "a", To: "a"})
		m.Fields = append(m.Fields, router.Field{From: "b", To: "b", Default: `"d"`})
		m.Op = tc.op
		rec := fieldRecord
		rec.Value = value(t, tc.value)
		if got, want := story(routeOne(t, compile(t, m), &rec)), "immediate: "+tc.want; got != want {
			t.Errorf("op %q of %s:\n got %s\nwant %s", tc.op, tc.value, got, want)
		}
	}
}

func TestRequiredFieldsDoNotBindPatches(t *testing.T) {
	m := mapped(router.Field{From: "a", To: "a", Absent: router.Refuse})
	m.Op = "patch"
	rec := fieldRecord
	rec.Value = value(t, `{"id":"k"}`)
	if got, want := story(routeOne(t, compile(t, m), &rec)), "immediate: patch orders k"; got != want {
		t.Errorf("a patch without it: got %s, want %s", got, want)
	}
}

func TestTopicsAndMappingsMeetInAnyNumber(t *testing.T) {
	profile, table := customers(), orders()
	profile.Topics = []string{"a", "b"}
	profile.Fields = []router.Field{{From: "customer", To: "customerNumber"}}
	profile.Routes, profile.Imports = []router.Route{{Lane: "immediate"}}, router.Imports{}
	table.Topics = []string{"b", "c"}
	table.Fields = []router.Field{{From: "order", To: "businessKey"}, {From: "topic", To: "origin"}}
	r := compile(t, profile, table)
	for topic, want := range map[string]string{
		"a": `immediate: upsert customers C1 a.customerNumber="C1";`,
		"b": `immediate: upsert customers C1 a.customerNumber="C1";immediate: upsert orders o1 p.origin="b";`,
		"c": `immediate: upsert orders o1 p.origin="c";`,
	} {
		got := ""
		for _, routed := range r.Route(nil, &router.Record{Topic: topic, Value: value(t, `{"customer":"C1","order":"o1"}`)}) {
			got += fmt.Sprint(story(routed), ";")
		}
		if got != want {
			t.Errorf("topic %s: got %s, want %s", topic, got, want)
		}
	}
}

func TestAnUnreadableValueIsRefusedWhereItIsMapped(t *testing.T) {
	v := schemas.ObjectValue([]schemas.Field{
		{Name: "id", Value: schemas.StringValue("k")}, {Name: "n", Value: schemas.NumberValue("1")}, {Name: "day", Value: unreadable(t)},
	})
	for from, want := range map[string]string{"n": "", "day": "day: must be of the years 1 to 9999: infinity has no place in the table"} {
		r, problems := router.Compile([]router.Mapping{mapped(router.Field{From: from, To: "x", Null: router.Omit})})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		got := ""
		if out := r.Route(nil, &router.Record{Topic: "shop.orders", Value: v}); out[0].Err != nil {
			got = out[0].Err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", from, got, want)
		}
	}
}

func TestAnUnreadableValueIsRefusedWhereItDecides(t *testing.T) {
	v := schemas.ObjectValue([]schemas.Field{
		{Name: "id", Value: schemas.StringValue("k")},
		{Name: "day", Value: unreadable(t)},
		{Name: "days", Value: schemas.ListValue([]schemas.Field{{Value: unreadable(t)}})},
	})
	const rule = "must be of the years 1 to 9999: infinity has no place in the table"
	for name, c := range map[string]struct {
		change func(*router.Mapping)
		want   string // "nobody": it is not the mapping's
	}{
		"an expression":         {func(m *router.Mapping) { m.Fields = append(m.Fields, router.Field{Expr: "string(day)", To: "x"}) }, "x: " + rule},
		"an element":            {func(m *router.Mapping) { m.Fields = append(m.Fields, router.Field{Expr: "days[0]", To: "x"}) }, "x: " + rule},
		"op":                    {func(m *router.Mapping) { m.Op = `day == nil ? "delete" : "upsert"` }, "op: " + rule},
		"op, not the mapping's": {func(m *router.Mapping) { m.Op, m.When = `day == nil ? "delete" : "upsert"`, `id == "j"` }, "nobody"},
		"op and when":           {func(m *router.Mapping) { m.Op, m.When = `day == nil ? "delete" : "upsert"`, `day != nil` }, "op: " + rule},
		"when":                  {func(m *router.Mapping) { m.When = `day != nil` }, "day: " + rule},
		"a route": {func(m *router.Mapping) {
			m.Routes = []router.Route{{When: "day != nil", Lane: "skip"}, {Lane: "immediate"}}
		}, "day: " + rule},
		"a route of another one": {func(m *router.Mapping) {
			m.When, m.Routes = `id == "j"`, []router.Route{{When: "day != nil", Lane: "skip"}, {Lane: "immediate"}}
		}, "nobody"},
	} {
		m := mapped(router.Field{From: "id", To: "y"})
		c.change(&m)
		got := ""
		switch out := compile(t, m).Route(nil, &router.Record{Topic: "shop.orders", Value: v}); {
		case out[0].Mapping == nil:
			got = "nobody"
		case out[0].Err != nil:
			got = out[0].Err.Error()
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// unreadable is a date of no year, as an Avro decoder reads it.
func unreadable(t *testing.T) schemas.Value {
	t.Helper()
	registry := srfake.New()
	t.Cleanup(registry.Close)
	registry.SeedSchema("days", 1, 1, sr.Schema{Schema: `{"type":"int","logicalType":"date"}`, Type: sr.TypeAvro})
	r, err := schemas.NewRegistry(schemas.RegistryConfig{URL: registry.URL(), HTTP: http.DefaultClient, Backoff: func(int) time.Duration { return time.Millisecond }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for {
		v, err := r.Decoder(schemas.FormatAvro).Decode([]byte{0, 0, 0, 0, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f})
		if err == nil {
			return v
		}
		if !errors.Is(err, schemas.ErrSchemaUnavailable) {
			t.Fatal(err)
		}
		<-look.C
	}
}
