package sandbox_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestUpsertCreatesThenReplacesTheWholeProfile(t *testing.T) {
	v := newService(t, config())
	answer := v.must(200, http.MethodPost, profiles, `{
		"attributes":{"customerNumber":"C1","emailAddress":"a@example.com","age":40,"languages":["fr","en"]},
		"subscriptions":{"newsletter":true},"segments":{"vip":true,"tier":"gold"},
		"dataCollection":{"date":"2026-11-21T10:00:00Z","source":"shop","way":"checkout"}}`)
	id := field(t, answer, "id")
	if want := `"_links":{"self":{"href":"` + profiles + "/" + id + `"}}`; !strings.Contains(answer, want) {
		t.Errorf("got %s, want it to hold %s", answer, want)
	}
	v.wantRow("customers", "C1", map[string]string{
		"customerNumber": "C1", "emailAddress": "a@example.com", "age": "40", "languages": `["fr","en"]`,
		"subscriptions#newsletter": "true", "S_vip": "true", "S_tier": "gold",
		"dataCollection.date": "2026-11-21T10:00:00Z", "dataCollection.source": "shop", "dataCollection.way": "checkout",
	})

	if again := v.profile(`{"attributes":{"customerNumber":"C1","firstName":"Ann","age":null}}`); again != id {
		t.Errorf("second upsert: got id %s, want %s", again, id)
	}
	v.wantRow("customers", "C1", map[string]string{"customerNumber": "C1", "firstName": "Ann"})
	if _, ok := v.Row("customers", "a@example.com"); ok {
		t.Error("the replaced e-mail address still finds the profile")
	}
}

func TestUpsertMatchesByAnyUniqueKey(t *testing.T) {
	v := newService(t, config())
	id := v.profile(`{"attributes":{"customerNumber":"C1"}}`)
	if got := v.profile(`{"attributes":{"customerNumber":"C1","emailAddress":"a@example.com"}}`); got != id {
		t.Errorf("one key known, one new: got id %s, want %s", got, id)
	}
	if got := v.profile(`{"attributes":{"emailAddress":"a@example.com"}}`); got != id {
		t.Errorf("by the second key: got id %s, want %s", got, id)
	}
}

func TestKeysOfDifferentProfilesConflictAndChangeNothing(t *testing.T) {
	v := newService(t, config())
	v.profile(`{"attributes":{"customerNumber":"C1","note":"one"}}`)
	id := v.profile(`{"attributes":{"customerNumber":"C2","emailAddress":"b@example.com"}}`)
	v.must(409, http.MethodPost, profiles, `{"attributes":{"customerNumber":"C1","emailAddress":"b@example.com"}}`)
	v.must(409, http.MethodPatch, profiles+"/"+id, `{"attributes":{"customerNumber":"C1"}}`)
	v.wantRow("customers", "C1", map[string]string{"customerNumber": "C1", "note": "one"})
	v.wantRow("customers", "C2", map[string]string{"customerNumber": "C2", "emailAddress": "b@example.com"})
	v.must(400, http.MethodPost, profiles, `{"attributes":{"note":"nobody"}}`)
}

func TestPatchChangesOnlyWhatItNames(t *testing.T) {
	v := newService(t, config())
	id := v.profile(`{"attributes":{"customerNumber":"C1","firstName":"Ann","age":1},"subscriptions":{"newsletter":true}}`)
	answer := v.must(200, http.MethodPatch, profiles+"/"+id, `{"attributes":{"age":2,"firstName":null,"customerNumber":"C9"}}`)
	if got := field(t, answer, "id"); got != id {
		t.Errorf("got id %s, want %s", got, id)
	}
	v.wantRow("customers", "C9", map[string]string{"customerNumber": "C9", "age": "2", "subscriptions#newsletter": "true"})
	if _, ok := v.Row("customers", "C1"); ok {
		t.Error("the old key still finds the profile")
	}
	v.must(404, http.MethodPatch, profiles+"/p999", `{"attributes":{"age":2}}`)
}

func TestDeleteProfileAnswers204Then404(t *testing.T) {
	v := newService(t, config())
	id := v.profile(`{"attributes":{"customerNumber":"C1"}}`)
	if body := v.must(204, http.MethodDelete, profiles+"/"+id, ""); body != "" {
		t.Errorf("204 with body %q", body)
	}
	v.must(404, http.MethodDelete, profiles+"/"+id, "")
	if got := v.Len("customers"); got != 0 {
		t.Errorf("got %d rows, want 0", got)
	}
	if again := v.profile(`{"attributes":{"customerNumber":"C1"}}`); again == id {
		t.Errorf("id %s was given twice", id)
	}
}

func TestProfileValuesKeepTheFormats(t *testing.T) {
	long := strings.Repeat("é", 255)
	for _, c := range []struct {
		attributes string
		status     int
		complaint  string
	}{
		{`"note":"` + long + `"`, 200, ""},
		{`"note":"` + long + `é"`, 400, "attributes.note: longer than 255 characters"},
		{`"firstName":"12345678901"`, 400, "attributes.firstName: longer than 10 characters"},
		{`"note":5`, 400, "attributes.note: not a string"},
		{`"note":["a"]`, 400, "attributes.note: one value is expected, not an array"},
		{`"age":-2147483648`, 200, ""},
		{`"age":2147483648`, 400, "attributes.age: not a whole number"},
		{`"age":1.5`, 400, "attributes.age: not a whole number"},
		{`"age":"7"`, 400, "attributes.age: not a whole number"},
		{`"score":-12.50`, 200, ""},
		{`"score":1e3`, 400, "attributes.score: not a number"},
		{`"adult":false`, 200, ""},
		{`"adult":"false"`, 400, "attributes.adult: not true or false"},
		{`"birthDate":"2024-02-29"`, 200, ""},
		{`"birthDate":"2023-02-29"`, 400, "attributes.birthDate: not a date"},
		{`"lastLogin":"2026-11-21T10:00:00"`, 200, ""},
		{`"lastLogin":"2026-11-21T10:00:00+02:00"`, 200, ""},
		{`"lastLogin":"2026-11-21T10:00:00.5Z"`, 400, "attributes.lastLogin: not a timestamp"},
		{`"lastLogin":"2026-11-21"`, 400, "attributes.lastLogin: not a timestamp"},
		{`"languages":["fr","xx"]`, 400, "attributes.languages: not an ISO 639-1 language"},
		{`"languages":"fr"`, 400, "attributes.languages: not an array"},
		{`"emailAddress":"a@example.com"`, 200, ""},
		{`"emailAddress":"Ann <a@example.com>"`, 400, "attributes.emailAddress: not a valid e-mail"},
		{`"phone":"+33 (0)1.23-45/67"`, 200, ""},
		{`"phone":"01 23 45"`, 400, "attributes.phone: not a phone number"},
		{`"phone":"+33 +1"`, 400, "attributes.phone: not a phone number"},
		{`"phone":"0033 1"`, 200, ""},
		{`"phone":"+33 x"`, 400, "attributes.phone: not a phone number"},
		{`"country":"BE"`, 200, ""},
		{`"country":"BEL"`, 400, "attributes.country: not an ISO 3166-1"},
		{`"country":"UK"`, 400, "attributes.country: not an ISO 3166-1"},
		{`"country":"QQ"`, 400, "attributes.country: not an ISO 3166-1"},
		{`"sex":"F"`, 200, ""},
		{`"sex":"f"`, 400, "attributes.sex: not M or F"},
		{`"title":"Mrs"`, 200, ""},
		{`"title":"Dr"`, 400, "attributes.title: not Mr, Mrs or Ms"},
		{`"home":"50.85|-4.35"`, 200, ""},
		{`"home":"50.85;4.35"`, 400, "attributes.home: not coordinates"},
		{`"home":"91|4"`, 400, "attributes.home: not coordinates"},
		{`"NOTE":"case matters"`, 400, "attributes.NOTE: the table has no such field"},
		{`"S_vip":true`, 400, "attributes.S_vip: the table has no such field"},
		{`"lastDevice":"phone"`, 400, "attributes.lastDevice: a technical attribute"},
	} {
		v := newService(t, config())
		status, answer := v.call(http.MethodPost, profiles, `{"attributes":{"customerNumber":"C1",`+c.attributes+`}}`)
		if status != c.status || !strings.Contains(answer, c.complaint) {
			t.Errorf("%s: got %d %s, want %d %s", c.attributes, status, answer, c.status, c.complaint)
		}
		if applied := v.Len("customers") == 1; applied != (status == 200) {
			t.Errorf("%s: applied %t with %d", c.attributes, applied, status)
		}
	}
}

func TestProfileBodiesAreReadStrictly(t *testing.T) {
	v := newService(t, config())
	for body, complaint := range map[string]string{
		`{"attributes":{"customerNumber":"C1"},"extra":1}`:                                       "unknown field",
		`{"attributes":{"customerNumber":"C1"}`:                                                  "it ends early",
		`{"attributes":{"customerNumber":"C1"}} x`:                                               "goes on after its end",
		`{"attributes":[]}`:                                                                      "field attributes has the wrong type",
		`{"attributes":{"customerNumber":"C1"},"subscriptions":{"newsletter":"yes"}}`:            "subscriptions.newsletter: not true or false",
		`{"attributes":{"customerNumber":"C1"},"subscriptions":{"other":true}}`:                  "subscriptions.other: the table has no such field",
		`{"attributes":{"customerNumber":"C1"},"segments":{"tier":"bronze"}}`:                    "segments.tier: not a segment",
		`{"attributes":{"customerNumber":"C1"},"segments":{"vip":"gold"}}`:                       "segments.vip: not true or false",
		`{"attributes":{"customerNumber":"C1"},"dataCollection":{"date":"2026-11-21T10:00:00"}}`: "dataCollection.date",
	} {
		status, answer := v.call(http.MethodPost, profiles, body)
		if status != 400 || !strings.Contains(answer, complaint) {
			t.Errorf("%s: got %d %s, want 400 %s", body, status, answer, complaint)
		}
	}
	other := strings.Replace(profiles, "customers", "nobody", 1)
	v.must(404, http.MethodPost, other, `{}`)
	v.must(404, http.MethodPost, strings.Replace(profiles, "customers", "orders", 1), `{}`)
	v.must(404, http.MethodPost, strings.Replace(profiles, "acme", "other", 1), `{}`)
}
