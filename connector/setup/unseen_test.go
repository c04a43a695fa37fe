package setup

import (
	"fmt"
	"strings"
	"testing"
)

const comesToNil = "# A kind that no sampled record has comes to nil: a dead letter (value, op)"

func TestKindsThatWereNotSeenAreNoUpserts(t *testing.T) {
	for name, c := range map[string]struct {
		records []string
		want    []string
	}{
		"beside patches and deletes": {
			[]string{
				`1 {"meta":{"eventType":"CustomerCreated"},"id":1,"mail":"a@example.com","b":2}`, `1 {"meta":{"eventType":"CustomerPatched"},"id":1,"b":3}`,
				`1 {"meta":{"eventType":"CustomerUpdated"},"id":1,"mail":"a@example.com","b":2}`, `1 {"meta":{"eventType":"CustomerRemoved"},"id":1}`,
			},
			[]string{
				`value.meta.eventType == "CustomerRemoved" ? "delete" : value.meta.eventType in ["CustomerCreated", "CustomerUpdated"] ? "upsert" : nil'`,
				comesToNil, `not: : "upsert"`,
			},
		},
		"beside upserts alone": {
			[]string{`1 {"type":"order.created","id":1,"a":1}`, `2 {"type":"order.updated","id":2,"a":1}`},
			[]string{`op: 'value.type in ["order.created", "order.updated"] ? "upsert" : nil'`, comesToNil, "The op is by value.type: order.created 50 %"},
		},
		"beside one kind": {
			[]string{`1 {"type":"order.created","id":1,"a":1}`, `2 {"type":"order.created","id":2,"a":1}`},
			[]string{`op: 'value.type == "order.created" ? "upsert" : nil'`, comesToNil},
		},
		"beside patches alone": {
			[]string{`1 {"type":"customer.patched","id":1,"mail":"a@example.com"}`, `2 {"type":"customer.patched","id":2,"mail":"b@example.com"}`},
			[]string{`op: 'value.type == "customer.patched" ? "patch" : nil'`, comesToNil, "routes: [{lane: batch}]", "      # upsert: {mode"},
		},
		"where kinds do not say which records are sparse": {
			[]string{`1 {"op":"u","id":1,"a":1,"b":2,"c":3,"d":4}`, `1 {"op":"u","id":1,"d":4}`, `2 {"op":"c","id":2,"a":1,"b":2,"c":3,"d":4}`, `2 {"op":"c","id":2,"d":4}`, `1 {"op":"d","id":1}`},
			[]string{`op: 'value.op == "d" ? "delete" : value.op in ["u", "c"] ? (value.a == nil ? "patch" : "upsert") : nil'`},
		},
		"where a mark deletes": {
			[]string{`1 {"type":"order.created","id":1,"deleted":false}`, `2 {"type":"order.updated","id":2,"deleted":true}`},
			[]string{`op: 'value.type in ["order.created", "order.updated"] ? (value.deleted == true ? "delete" : "upsert") : nil'`},
		},
		"where nothing says a kind": {
			[]string{`1 {"id":1,"a":1}`, `2 {"id":2,"a":1}`},
			[]string{"not: op:", "not: nil"},
		},
		"where when leaves them out": {
			[]string{
				`1 {"type":"order.created","orderId":1,"a":1}`, `2 {"type":"order.updated","orderId":2,"a":1}`,
				`3 {"type":"invoice.created","invoiceNo":3,"x":1,"y":1}`,
			},
			[]string{"not:     op:", "What no mapping takes is skipped, kinds that no sampled record has among it"},
		},
	} {
		got, _ := looked(t, append([]string{"t.things"}, c.records...))
		holds(t, name, got, c.want...)
	}
}

func TestWhatEndsARowIsAsked(t *testing.T) {
	for _, word := range []string{"cancelled", "canceled", "closed", "terminated", "expired", "withdrawn"} {
		for _, kinds := range [][2]string{{"created", word}, {"order.created", "order." + word}} {
			got, cfg := looked(t, []string{"t.orders", `1 {"event":"` + kinds[0] + `","id":1,"total":1}`, `1 {"event":"` + kinds[1] + `","id":1}`})
			holds(t, kinds[1], got, "# DECIDE: does "+kinds[1]+` (50 %) delete the row? Here it does not; if it does, let its op be "delete".`)
			if len(cfg.Mappings) != 1 {
				t.Errorf("%s: got %d mappings, want one", kinds[1], len(cfg.Mappings))
			}
		}
	}
	got, _ := looked(t, []string{"t.orders", `1 {"event":"order.created","id":1}`, `1 {"event":"order.deleted","id":1}`})
	holds(t, "deleted", got, "not: delete the row?")
}

func TestNullIsLeftOutWhereItCannotBeWritten(t *testing.T) {
	got := guessed(t, place,
		`1 {"id":1,"mail":"a@example.com","newsletter":true,"tier":"gold","vip":true,"b":null}`, `2 {"id":2,"mail":"b@example.com","newsletter":null,"tier":null,"vip":null,"b":1}`,
		`3 {"id":3,"mail":"c@example.com","newsletter":false,"tier":"basic","vip":false,"b":1}`)
	holds(t, "a person", got,
		"{from: newsletter, to: 'subscriptions#newsletter', as: boolean, null: omit}   # 67 %; 33 % null, which is left out, for it cannot be null; DECIDE",
		"{from: tier, to: S_tier, null: omit}   # 67 %; 33 % null", "{from: vip, to: vip, as: boolean}", "{from: b, to: b, as: integer}")
	got = guessed(t, place, `1 {"id":1,"mail":"a@example.com","newsletter":true}`, `2 {"id":2,"mail":"b@example.com"}`, `3 {"id":3,"mail":"a@example.com","newsletter":false}`)
	holds(t, "what is missing is no null", got, "as: boolean}   # 67 %; DECIDE")
}

func TestANumberThatNamesAProfileIsText(t *testing.T) {
	got := guessed(t, place, `40 {"customerNo":40,"mail":"a@example.com","n":1}`, `41 {"customerNo":41,"mail":"b@example.com","n":1}`)
	holds(t, "a number", got, "{from: customerNo, to: customerNo, as: string}", "{from: 'n', to: 'n', as: integer}")
	got = guessed(t, place, `A {"customerNo":"A","mail":"a@example.com"}`, `B {"customerNo":"B","mail":"b@example.com"}`)
	holds(t, "text", got, "{from: customerNo, to: customerNo}")
	got = guessed(t, place, `40 {"orderNo":40}`, `41 {"orderNo":41}`)
	holds(t, "a custom table, whose key is text anyhow", got, "{from: orderNo, to: businessKey}")
}

func TestTextsThatMayBeNumbersOrTimesAreRemarkedOn(t *testing.T) {
	for values, want := range map[string]string{
		`"1.234,56" "0,50"`:                `# - {expr: 'replace(value.f, ".", "")', to: f, as: number, decimal: ','}   # DECIDE: instead of the text above, if . stands between thousands`,
		`"1,234.56" "999"`:                 `# - {expr: 'replace(value.f, ",", "")', to: f, as: number}   # DECIDE: instead of the text above, if , stands`,
		`"-1.234.567,5" "1"`:               `as: number, decimal: ','}   # DECIDE`,
		`"1.23,4" "5"`:                     "not: instead of the text",
		`"1,234" "2,500"`:                  "not: instead of the text",
		`"1.234,56" null`:                  `{expr: 'replace(value.f, ".", "")'`,
		`"1700000040" "1700000041"`:        "# - {from: f, to: f, as: timestamp, format: epochSeconds}   # DECIDE: instead of the text above, if it is a time",
		`"1700000040123" "17000000411"`:    "not: instead of the text",
		`"1700000040123"  "1700000041123"`: "format: epochMillis}   # DECIDE: instead",
		`"4100000000" "1700000041"`:        "not: instead of the text",
		`"12.3" "-4"`:                      "to: f, as: number}   # DECIDE: these are texts; without as they stay texts",
		`"12.3" null`:                      "to: f, as: number}   # 50 %; DECIDE: these are texts",
		`"12.3" "007.5"`:                   "to: f}",
		`"1.2.3" "1.2"`:                    "to: f}",
		`"1.234" "2.500"`:                  "to: f}",
		`"12.3" "4,5"`:                     "to: f}",
		`"12.3" 4`:                         "to: f}",
		`{"code":"12.3"} {"code":"4.5"}`:   "to: fCode}",
		`12.3 4`:                           "to: f, as: number}\n",
		`1764000000 1764000001`:            "as: integer}\n      # - {from: f, to: f, as: timestamp, format: epochSeconds}   # DECIDE: instead of the number above, if it is a time since 1970",
		`1764000000000 null`:               "# - {from: f, to: f, as: timestamp, format: epochMillis}   # DECIDE: instead of the number above",
		`1764000000 17`:                    "not: instead of the number",
		`946684799 946684800`:              "not: instead of the number",
		`1764000000.5 1764000001`:          "not: instead of the number",
		`{"orderNo":1764000000} {"orderNo":1764000001}`:     "not: instead of the number",
		`{"since":1764000000} {"since":1764000001}`:         "not: instead of the number",
		`{"no":"1700000040"} {"no":"170000"}`:               "not: instead of the text",
		`{"phoneNo":"1700000040"} {"phoneNo":"1700000041"}`: "not: instead of the text",
	} {
		var records []string
		for i, value := range strings.Fields(values) {
			records = append(records, fmt.Sprintf(`%d {"id":"%d","f":%s}`, i, i, value))
		}
		at := place
		at.ProfileTable = "people"
		got := guessed(t, at, records...)
		holds(t, values, got, want)
		accepted(t, taken(got))
	}
}

// taken takes the remarks in the place of the lines above them.
func taken(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.Contains(line, "# DECIDE: instead of") {
			lines[i-1], lines[i] = "", strings.Replace(line, "# - ", "- ", 1)
		}
	}
	return strings.Join(lines, "\n")
}

func TestAnObjectThatIsNullHereAndThereIsNoField(t *testing.T) {
	for name, c := range map[string]struct {
		records []string
		want    []string
	}{
		"an object": {
			[]string{`1 {"id":1,"site":null}`, `2 {"id":2,"site":{"town":"Oslo"}}`},
			[]string{"{from: site.town, to: siteTown}   # 50 %", "not: from: site,"},
		},
		"one inside another": {
			[]string{`1 {"id":1,"site":{"at":{"town":"Oslo"}}}`, `2 {"id":2,"site":{"at":null}}`, `3 {"id":3,"site":null}`},
			[]string{"{from: site.at.town, to: siteAtTown}   # 33 %", "not: from: site,", "not: from: site.at,"},
		},
		"one in a list": {
			[]string{`1 {"id":1,"lines":[{"unit":null},{"unit":{"sku":"a"}}]}`, `2 {"id":2,"lines":[]}`},
			[]string{"# - {from: 'lines[0].unit.sku'", "not: 'lines[0].unit'"},
		},
		"one without members": {[]string{`1 {"id":1,"site":null}`, `2 {"id":2,"site":{}}`}, []string{"not: from: site"}},
		"what it would hold is not left out by the record": {
			[]string{`1 {"id":1,"a":1,"b":1,"site":null}`, `2 {"id":2,"a":1,"b":1,"site":{"a":1,"b":2,"c":3,"d":4}}`},
			[]string{"not: op:", "not: from: site,"},
		},
		"null alone": {[]string{`1 {"id":1,"site":null}`, `2 {"id":2}`}, []string{"{from: site, to: site}   # always null in the sample"}},
	} {
		holds(t, name, guessed(t, place, c.records...), c.want...)
	}
}
