package router_test

import (
	"strings"
	"testing"

	"github.com/feedsink/feedsink/router"
)

func TestTypesCheckCanonicalEvents(t *testing.T) {
	m := customers()
	m.Types = []router.Type{
		{Name: "customerNumber", As: "string"},
		{Name: "emailAddress", As: "email"},
		{Name: "born", As: "date"},
		{Name: "age", As: "integer"},
		{Name: "languages", As: "list", Of: "language"},
		{Name: "note", Length: 300},
		{Name: "code", As: "string", Length: 3},
		{Name: "codes", As: "list", Of: "string", Length: 3},
	}
	r := compile(t, m)
	long := strings.Repeat("é", 300)
	for _, tc := range []struct{ attributes, want string }{
		{`"emailAddress":"a@example.com","born":"1990-01-02","age":"44"`, ` a.emailAddress="a@example.com" a.born="1990-01-02" a.age=44`},
		{`"languages":["FR","iw"]`, ` a.languages=["fr","he"]`},
		{`"emailAddress":null,"age":null`, ` a.emailAddress=null a.age=null`},
		{`"note":"` + long + `"`, ` a.note="` + long + `"`},
		{`"note":"` + long + `x"`, `attributes.note: at most 300 characters`},
		{`"other":"` + long + `"`, `attributes.other: at most 255 characters`},
		{`"code":"abcd"`, `attributes.code: at most 3 characters`},
		{`"codes":["abc","abcd"]`, `attributes.codes: each element: at most 3 characters`},
		{`"emailAddress":"a"`, `attributes.emailAddress: must be an e-mail address`},
		{`"born":"2026-02-30"`, `attributes.born: must be a date like 2006-01-02`},
		{`"age":2147483648`, `attributes.age: must be a whole number from -2147483648 to 2147483647`},
		{`"languages":["xx"]`, `attributes.languages: each element: must be an ISO 639-1 language of two letters`},
	} {
		for _, lane := range []string{"immediate", "batch"} {
			tier := map[string]string{"immediate": "gold", "batch": "silver"}[lane]
			rec := &router.Record{
				Topic: "crm.customers",
				Value: value(t, `{"attributes":{"customerNumber":"C1",`+tc.attributes+`},"segments":{"tier":"`+tier+`"}}`),
			}
			want := lane + `: upsert customers C1 a.customerNumber="C1"` + tc.want + ` s.tier="` + tier + `"`
			if tc.want[0] != ' ' {
				want = lane + ": reject value: " + tc.want
			}
			if got := story(routeOne(t, r, rec)); got != want {
				t.Errorf("%s:\n got %s\nwant %s", tc.attributes, got, want)
			}
		}
	}
}

func TestTypesHoldForMappedFieldsAndProperties(t *testing.T) {
	m := mapped(router.Field{From: "note", To: "note", As: "string"})
	m.Fields = append(m.Fields, router.Field{From: "paid", To: "paid"})
	m.Types = []router.Type{{Name: "note", Length: 300}, {Name: "paid", As: "boolean"}}
	r := compile(t, m)
	for in, want := range map[string]string{
		`{"id":"k","note":"` + strings.Repeat("x", 300) + `"}`: `immediate: upsert orders k p.note="` + strings.Repeat("x", 300) + `"`,
		`{"id":"k","note":"` + strings.Repeat("x", 301) + `"}`: `immediate: reject value: note: at most 300 characters`,
		`{"id":"k","paid":1}`:     `immediate: upsert orders k p.paid="true"`,
		`{"id":"k","paid":"yes"}`: `immediate: reject value: paid: must be true or false`,
	} {
		if got := story(routeOne(t, r, &router.Record{Topic: "shop.orders", Value: value(t, in)})); got != want {
			t.Errorf("%s:\n got %s\nwant %s", in, got, want)
		}
	}
}

// A row for each technical attribute and each status of the interface.
func TestTechnicalAttributesComeWithCreateOnly(t *testing.T) {
	const moment, computed = `must be a timestamp like 2006-01-02T15:04:05, optionally with Z or an offset`, `is computed by the service and may be given only with op create`
	m := customers()
	m.Routes = []router.Route{{Lane: "batch"}}
	m.Imports.Create = &router.Import{ETL: "104", Mode: "CREATE_ONLY"}
	m.Imports.Patch = &router.Import{ETL: "103", Mode: "UPDATE_ONLY", IgnoresEmpty: true}
	r := compile(t, m)
	check := func(op, name, in, want string) {
		t.Helper()
		rec := &router.Record{Topic: "crm.customers", Value: value(t, `{"op":"`+op+`","key":{"customerNumber":"C1"},"attributes":{"`+name+`":`+in+`}}`)}
		full := `batch: create customers C1 a.customerNumber="C1" a.` + name + `=` + want
		if want[0] != '"' && want != "null" {
			full = `batch: reject value: attributes.` + name + `: ` + want
		}
		if got := story(routeOne(t, r, rec)); got != full {
			t.Errorf("%s of %s %s:\n got %s\nwant %s", op, name, in, got, full)
		}
	}
	for _, name := range []string{
		"lastMailOpeningMoment", "lastMailClickMoment", "lastMailTargetingMoment", "mobileTargetingRecency",
		"mobileDeliveryRecency", "goalReachedRecency", "participationRecency", "blacklistMoment",
	} {
		check("create", name, `"2026-11-21T10:00:00"`, `"2026-11-21T10:00:00"`)
		check("create", name, `"2026-11-21T10:00:00.123Z"`, `"2026-11-21T10:00:00Z"`)
		check("create", name, `null`, `null`)
		check("create", name, `"2026-11-21"`, moment)
		check("create", name, `1795255200`, moment)
		check("upsert", name, `"2026-11-21T10:00:00"`, computed)
		check("patch", name, `null`, computed)
	}
	for _, name := range []string{"lastDevice", "lastUserAgent"} {
		check("create", name, `"some text"`, `"some text"`)
		check("create", name, `null`, `null`)
		check("create", name, `1`, `must be text`)
		check("create", name, `"`+strings.Repeat("x", 256)+`"`, `at most 255 characters`)
		check("upsert", name, `"some text"`, computed)
		check("patch", name, `"some text"`, computed)
	}
	for status := range strings.FieldsSeq(`SENT OPENED CLICKED ERROR FILTERED_NO_EMAIL_ADDRESS FILTERED_INVALID_EMAIL_ADDRESS
		FILTERED_DUPLICATE_EMAIL_ADDRESS FILTERED_EMAIL_SCORE_TOO_LOW FILTERED_BLACKLISTED_BY_RECIPIENT FILTERED_LONG_QUARANTINE
		FILTERED_TEMPORARY_QUARANTINE FILTERED_LOW_EMAIL_ACTIVITY FILTERED_CATCH_ALL_DOMAIN FILTERED_COMMERCIAL_PRESSURE
		FILTERED_OTHER BOUNCED_HARD_BOUNCE BOUNCED_SOFT_BOUNCE BOUNCED_AUTO_REPLY`) {
		check("create", "lastMailActivityStatus", `"`+status+`"`, `"`+status+`"`)
		check("upsert", "lastMailActivityStatus", `"`+status+`"`, computed)
	}
	for _, in := range []string{`"sent"`, `"BOUNCED"`, `""`} {
		check("create", "lastMailActivityStatus", in, `must be one of the service's mail activity statuses, such as SENT`)
	}
	check("create", "lastMailActivityStatus", `1`, `must be text`)
}
