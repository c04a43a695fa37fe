package sandbox_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

const upsert = records + "?allowUpdate=true"

func TestRecordUpsertKeepsWhatItDoesNotName(t *testing.T) {
	v := newService(t, config())
	body := v.must(200, http.MethodPost, upsert, `{"businessKey":"o1","properties":[{"name":"total","value":12.50},{"name":"status","value":"NEW"}]}`)
	if want := `{"businessKey":"o1"}`; body != want {
		t.Errorf("got %s, want %s", body, want)
	}
	v.must(200, http.MethodPost, upsert, `{"businessKey":"o1","properties":[{"name":"status","value":"PAID"},{"name":"paid","value":"true"}]}`)
	v.wantRow("orders", "o1", map[string]string{"businessKey": "o1", "total": "12.50", "status": "PAID", "paid": "true"})
	v.must(200, http.MethodPost, upsert, `{"businessKey":"o1","properties":[{"name":"total","value":null}]}`)
	v.wantRow("orders", "o1", map[string]string{"businessKey": "o1", "status": "PAID", "paid": "true"})
	v.must(400, http.MethodPost, upsert, `{"properties":[]}`)
}

func TestCreateOfAnExistingRecordConflicts(t *testing.T) {
	v := newService(t, config())
	v.must(200, http.MethodPost, records, `{"businessKey":"o1","properties":[{"name":"status","value":"NEW"}]}`)
	v.must(409, http.MethodPost, records, `{"businessKey":"o1","properties":[{"name":"status","value":"PAID"}]}`)
	v.must(409, http.MethodPost, records+"?allowUpdate=false", `{"businessKey":"o1","properties":[]}`)
	v.wantRow("orders", "o1", map[string]string{"businessKey": "o1", "status": "NEW"})

	key := field(t, v.must(200, http.MethodPost, records, `{"properties":[{"name":"status","value":"NEW"}]}`), "businessKey")
	v.wantRow("orders", key, map[string]string{"businessKey": key, "status": "NEW"})
}

func TestUpdateNeverCreates(t *testing.T) {
	v := newService(t, config())
	v.must(404, http.MethodPut, records+"/o1", `{"properties":[{"name":"status","value":"PAID"}]}`)
	v.must(200, http.MethodPost, records, `{"businessKey":"o1","properties":[{"name":"status","value":"NEW"},{"name":"total","value":1}]}`)
	if got := v.must(200, http.MethodPut, records+"/o1", `{"properties":[{"name":"status","value":"PAID"}]}`); got != `{"businessKey":"o1"}` {
		t.Errorf("got %s", got)
	}
	v.wantRow("orders", "o1", map[string]string{"businessKey": "o1", "status": "PAID", "total": "1"})
	v.must(400, http.MethodPut, records+"/o1", `{"businessKey":"o2","properties":[]}`)
}

func TestRetrievedRecordCarriesIdAndMoments(t *testing.T) {
	c := config()
	now := newClock(t, fixedTime)
	c.Now = now.Now
	v := newService(t, c)
	v.must(404, http.MethodGet, records+"/o1", "")
	v.must(200, http.MethodPost, records, `{"businessKey":"o1","properties":[{"name":"total","value":7},{"name":"paid","value":"false"}]}`)
	now.now = now.now.Add(60e9)
	v.must(200, http.MethodPut, records+"/o1", `{"properties":[{"name":"status","value":"PAID"}]}`)
	got := v.must(200, http.MethodGet, records+"/o1", "")
	want := `{"businessKey":"o1","properties":[{"name":"id","value":1},` +
		`{"name":"creationMoment","value":"2026-11-21T10:00:00.000+00:00"},` +
		`{"name":"updateMoment","value":"2026-11-21T10:01:00.000+00:00"},` +
		`{"name":"paid","value":"false"},{"name":"status","value":"PAID"},{"name":"total","value":7}]}`
	if got != want {
		t.Errorf(" got %s\nwant %s", got, want)
	}
}

func TestDeleteRecordAnswers200Then404(t *testing.T) {
	v := newService(t, config())
	v.must(200, http.MethodPost, records, `{"businessKey":"o1","properties":[]}`)
	if body := v.must(200, http.MethodDelete, records+"/o1", ""); body != "" {
		t.Errorf("200 with body %q, want none", body)
	}
	v.must(404, http.MethodDelete, records+"/o1", "")
}

func TestPropertiesAreNumbersOrStrings(t *testing.T) {
	v := newService(t, config())
	for property, complaint := range map[string]string{
		`{"name":"paid","value":true}`:                          "property paid: not a number or a string",
		`{"name":"status","value":["a"]}`:                       "property status: not a number or a string",
		`{"name":"status","value":4}`:                           "property status: not a string",
		`{"name":"paid","value":"yes"}`:                         "property paid: not true or false",
		`{"name":"total","value":"much"}`:                       "property total: not a number",
		`{"name":"colour","value":"red"}`:                       "the table has no such field to write",
		`{"name":"id","value":1}`:                               "the table has no such field to write",
		`{"name":"total","value":1},{"name":"total","value":2}`: "property total: given twice",
		`{"name":"total","value":1,"type":"number"}`:            "unknown field",
	} {
		status, answer := v.call(http.MethodPost, upsert, `{"businessKey":"o1","properties":[`+property+`]}`)
		var body struct{ Error string }
		if err := json.Unmarshal([]byte(answer), &body); err != nil || status != 400 || !strings.Contains(body.Error, complaint) {
			t.Errorf("%s: got %d %s, want 400 %s", property, status, answer, complaint)
		}
	}
	v.must(400, http.MethodPost, upsert, `{"businessKey":"o1"}`)
	v.must(400, http.MethodPost, records+"?allowUpdate=perhaps", `{"businessKey":"o1","properties":[]}`)
	if got := v.Len("orders"); got != 0 {
		t.Errorf("got %d rows, want none", got)
	}
}

func TestBusinessKeysSurviveThePath(t *testing.T) {
	v := newService(t, config())
	for _, key := range []string{"a/b", "a//b", "..", ".", "a b", "ключ", "50%", "q?x=1#y", "+"} {
		b, err := json.Marshal(map[string]any{"businessKey": key, "properties": []any{}})
		if err != nil {
			t.Fatal(err)
		}
		v.must(200, http.MethodPost, records, string(b))
		// A lone dot would be resolved away by any path cleaner unless it is escaped too.
		path := records + "/" + strings.ReplaceAll(url.PathEscape(key), ".", "%2E")
		if got := field(t, v.must(200, http.MethodGet, path, ""), "businessKey"); got != key {
			t.Errorf("got %q, want %q", got, key)
		}
	}
}
