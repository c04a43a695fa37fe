package sandbox_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// rules are what the document says of its operations, in its order, a row for
// each. Steps are calls, METHOD PATH BODY, where P stands for the profiles of
// customers, R for the records of orders, M for imports and {id} for the last
// id that was answered, or LOAD ETL FILE. The last one's answer, or the
// execution's status, results and error, begins with want. Then what a table
// holds: TABLE KEY FIELD=VALUE, or TABLE KEY alone for no such row.
var rules = []struct {
	op    int
	says  string
	steps []string
	want  string
	then  string
}{
	{
		1, "all keys match one profile: replaced by the body",
		[]string{`POST P {"attributes":{"customerNumber":"C1","emailAddress":"a@example.com","note":"x"}}`, `POST P {"attributes":{"customerNumber":"C1","emailAddress":"a@example.com"}}`},
		`200 {"id":"p1","_links":{"self":{"href":"` + profiles + `/p1"}}}`, "customers C1 note=",
	},
	{
		1, "keys match different profiles: 409, nothing applied",
		[]string{`POST P {"attributes":{"customerNumber":"C1","note":"x"}}`, `POST P {"attributes":{"customerNumber":"C2","emailAddress":"a@example.com"}}`, `POST P {"attributes":{"customerNumber":"C1","emailAddress":"a@example.com"}}`},
		`409 `, "customers C1 note=x",
	},
	{1, "no match: created", []string{`POST P {"attributes":{"customerNumber":"C1"}}`}, `200 {"id":"p1"`, "customers C1 customerNumber=C1"},
	{1, "multi-value attributes are arrays", []string{`POST P {"attributes":{"customerNumber":"C1","languages":["fr","en"]}}`}, `200 `, `customers C1 languages=["fr","en"]`},
	{1, "subscriptions are booleans", []string{`POST P {"attributes":{"customerNumber":"C1"},"subscriptions":{"newsletter":true}}`}, `200 `, "customers C1 subscriptions#newsletter=true"},
	{1, "a simple segmentation is a boolean", []string{`POST P {"attributes":{"customerNumber":"C1"},"segments":{"vip":false}}`}, `200 `, "customers C1 S_vip=false"},
	{1, "an exclusive segmentation is the name of a segment", []string{`POST P {"attributes":{"customerNumber":"C1"},"segments":{"tier":"gold"}}`}, `200 `, "customers C1 S_tier=gold"},
	{1, "a consent has its context", []string{`POST P {"attributes":{"customerNumber":"C1"},"dataCollection":{"date":"2026-11-21T10:00:00+01:00","source":"s","way":"w"}}`}, `200 `, "customers C1 dataCollection.way=w"},
	{1, "technical attributes come by CREATE_ONLY alone", []string{`POST P {"attributes":{"customerNumber":"C1","lastDevice":"x"}}`}, `400 `, "customers C1"},
	{2, "what is not mentioned stays", []string{`POST P {"attributes":{"customerNumber":"C1","note":"x"}}`, `PATCH P/{id} {"attributes":{"age":5}}`}, `200 {"id":"p1","_links"`, "customers C1 note=x"},
	{2, "an id that does not exist", []string{`PATCH P/p9 {"attributes":{"age":5}}`}, `404 `, ""},
	{3, "204 without a body when deleted", []string{`POST P {"attributes":{"customerNumber":"C1"}}`, `DELETE P/{id}`}, `204 `, "customers C1"},
	{3, "404 when no profile has the id", []string{`DELETE P/p9`}, `404 `, ""},
	{4, "without allowUpdate a record is created", []string{`POST R {"businessKey":"o1","properties":[{"name":"status","value":"NEW"}]}`}, `200 {"businessKey":"o1"}`, "orders o1 status=NEW"},
	{4, "a business key is optional on create", []string{`POST R {"properties":[]}`}, `200 {"businessKey":"`, ""},
	{4, "properties are required", []string{`POST R {"businessKey":"o1"}`}, `400 `, "orders o1"},
	{4, "409 where the key exists", []string{`POST R {"businessKey":"o1","properties":[]}`, `POST R?allowUpdate=false {"businessKey":"o1","properties":[{"name":"status","value":"x"}]}`}, `409 `, "orders o1 status="},
	{4, "allowUpdate needs a key", []string{`POST R?allowUpdate=true {"properties":[]}`}, `400 `, ""},
	{4, "allowUpdate updates the record of the key", []string{`POST R {"businessKey":"o1","properties":[]}`, `POST R?allowUpdate=true {"businessKey":"o1","properties":[{"name":"total","value":2}]}`}, `200 {"businessKey":"o1"}`, "orders o1 total=2"},
	{4, "allowUpdate creates what is not there", []string{`POST R?allowUpdate=true {"businessKey":"o1","properties":[{"name":"total","value":2}]}`}, `200 {"businessKey":"o1"}`, "orders o1 total=2"},
	{4, "a value is a number or a string", []string{`POST R {"businessKey":"o1","properties":[{"name":"paid","value":true}]}`}, `400 `, "orders o1"},
	{5, "never creates", []string{`PUT R/o1 {"properties":[]}`}, `404 `, "orders o1"},
	{5, "updates", []string{`POST R {"businessKey":"o1","properties":[]}`, `PUT R/o1 {"properties":[{"name":"total","value":2}]}`}, `200 `, "orders o1 total=2"},
	{6, "carries id and moments", []string{`POST R {"businessKey":"o1","properties":[]}`, `GET R/o1`}, `200 {"businessKey":"o1","properties":[{"name":"id","value":1},{"name":"creationMoment","value":"20`, ""},
	{6, "a record that does not exist", []string{`GET R/o9`}, `404 `, ""},
	{7, "200 without a body when deleted", []string{`POST R {"businessKey":"o1","properties":[]}`, `DELETE R/o1`}, `200 `, "orders o1"},
	{7, "404 when no record has the key", []string{`DELETE R/o9`}, `404 `, ""},
	{8, "the JSON form refers to a remote file", []string{`POST M/etl-executions ` + strings.ReplaceAll(remoteShot(`"file":{"fileNamePattern":"c.csv"}`), "\n", "")}, `400 {"error":"definition: no such remote location"`, ""},
	{9, "type is TRIGGERED and triggering API", []string{`POST M/etls {"type":"ONESHOT"}`}, `400 `, ""},
	{10, "an ETL that does not exist", []string{`POST M/etls/none/trigger-execution`}, `404 `, ""},
	{10, "CREATE_UPDATE is CREATE_OR_UPDATE", []string{`LOAD orders businessKey,total\no1,2\n`}, `FINISHED {Read:1 InError:0 Inserted:1 Updated:0 Deleted:0}`, "orders o1 total=2"},
	{10, "CREATE_ONLY refuses what exists", []string{`POST P {"attributes":{"customerNumber":"C1"}}`, `LOAD new customerNumber,age\nC1,1\nC2,2\n`}, `FINISHED {Read:2 InError:1 Inserted:1 Updated:0 Deleted:0}`, "customers C1 age="},
	{10, "CREATE_ONLY takes technical attributes", []string{`LOAD new customerNumber,lastMailActivityStatus\nC1,BOUNCED_HARD_BOUNCE\n`}, `FINISHED {Read:1 InError:0 Inserted:1`, "customers C1 lastMailActivityStatus=BOUNCED_HARD_BOUNCE"},
	{10, "UPDATE_ONLY creates nothing", []string{`LOAD change customerNumber,age\nC1,1\n`}, `FINISHED {Read:1 InError:1 Inserted:0 Updated:0 Deleted:0}`, "customers C1"},
	{10, "DELETE deletes, and misses nothing", []string{`POST P {"attributes":{"customerNumber":"C1"}}`, `LOAD drop customerNumber\nC1\nC2\n`}, `FINISHED {Read:2 InError:0 Inserted:0 Updated:0 Deleted:1}`, "customers C1"},
	{10, "technical names are case sensitive", []string{`LOAD up CustomerNumber\nC1\n`}, `FAILED {Read:0 InError:0 Inserted:0 Updated:0 Deleted:0} invalid file: header "CustomerNumber"`, ""},
	{10, "subscriptions#NAME and S_NAME are columns", []string{`LOAD up customerNumber,subscriptions#newsletter,S_tier\nC1,true,gold\n`}, `FINISHED {Read:1 InError:0`, "customers C1 S_tier=gold"},
	{10, "global: no valid CSV", []string{`LOAD up customerNumber\n"C1\n`}, `FAILED {Read:0 InError:0 Inserted:0 Updated:0 Deleted:0} invalid file: `, "customers C1"},
	{10, "global: wrong number of columns", []string{`LOAD up customerNumber,note\nC1,a,b\nC2,x\n`}, `FAILED {Read:0 InError:0 Inserted:0 Updated:0 Deleted:0} invalid file: line 2: 3 columns instead of 2`, "customers C2"},
	{10, "global: duplicate headers", []string{`LOAD up customerNumber,note,note\nC1,a,b\n`}, `FAILED {Read:0 InError:0 Inserted:0 Updated:0 Deleted:0} invalid file: duplicate header "note"`, "customers C1"},
	{11, "carries the status", []string{`LOAD up customerNumber\nC1\n`, `GET M/etl-executions/1001/integration-results`}, `200 {"id":"1001","integrationResults":{"deleted":0,"inserted":1,"linesInError":0,"linesRead":1,"updated":0},"status":"FINISHED"}`, ""},
	{11, "carries the error when FAILED", []string{`LOAD up customerNumber,customerNumber\n`, `GET M/etl-executions/1001/integration-results`}, `200 {"error":"invalid file: duplicate header \"customerNumber\"","id":"1001","status":"FAILED"}`, ""},
	{12, "the error file of an execution", []string{`LOAD up customerNumber,age\nC1,x\n`, `GET M/etl-executions/1001/output-files`}, "200 customerNumber,age,error\nC1,x,age: not a whole number", ""},
	{12, "none without the flag, or without a row", []string{`LOAD up customerNumber\nC1\n`, `GET M/etl-executions/1001/output-files`}, `404 `, ""},
	{13, "on is ETL_EXECUTION", []string{`POST /webhooks/v4/entity/acme/webhookSubscription {"on":"PROFILE","onElementId":"up","eventType":"FINISHED","targetUrl":"http://127.0.0.1:1/","webhookPushType":"ONE_BY_ONE"}`}, `400 `, ""},
	{13, "a subscription has an id", []string{`POST /webhooks/v4/entity/acme/webhookSubscription {"on":"ETL_EXECUTION","onElementId":"up","eventType":"FINISHED","targetUrl":"http://127.0.0.1:1/","headers":{"X":"y"},"webhookPushType":"ONE_BY_ONE","isActive":false}`}, `200 {"id":"1001"}`, ""},
	{15, "is gone", []string{`POST /mass-imports/v4/entity/acme/table/customers/import`}, `410 `, ""},
}

func TestEachRuleOfTheDocumentHolds(t *testing.T) {
	for _, r := range rules {
		t.Run(fmt.Sprintf("%d %s", r.op, r.says), func(t *testing.T) {
			v := newService(t, config())
			got, id := "", ""
			for _, step := range r.steps {
				got = v.step(strings.ReplaceAll(step, "{id}", id))
				if _, rest, ok := strings.Cut(got, `"id":"`); ok {
					id, _, _ = strings.Cut(rest, `"`)
				}
			}
			if !strings.HasPrefix(got, r.want) || strings.HasPrefix(r.want, "204") && got != r.want {
				t.Errorf("got %s, want %s", got, r.want)
			}
			v.holds(r.then)
		})
	}
}

// step carries out one step of a rule.
func (v *service) step(s string) string {
	v.t.Helper()
	method, rest, _ := strings.Cut(s, " ")
	path, body, _ := strings.Cut(rest, " ")
	if method == "LOAD" {
		e := v.load(path, strings.ReplaceAll(body, `\n`, "\n"))
		return fmt.Sprintf("%s %+v %s", e.Status, e.Results, e.Error)
	}
	for letter, long := range map[string]string{"P": profiles, "R": records, "M": massBase} {
		if after, ok := strings.CutPrefix(path, letter); ok {
			path = long + after
		}
	}
	status, answer := v.call(method, path, body)
	return fmt.Sprintf("%d %s", status, answer)
}

// holds checks what a rule says of a table.
func (v *service) holds(then string) {
	v.t.Helper()
	if then == "" {
		return
	}
	place := strings.SplitN(then, " ", 3)
	row, there := v.Row(place[0], place[1])
	if len(place) == 2 {
		if there {
			v.t.Errorf("%s: got %v, want no such row", then, row.Values)
		}
		return
	}
	field, want, _ := strings.Cut(place[2], "=")
	if got := row.Text(field); !there || got != want {
		v.t.Errorf("%s: got %q, there %t", then, got, there)
	}
}

// TestEveryRouteWantsAToken covers the errors that all routes share.
func TestEveryRouteWantsAToken(t *testing.T) {
	v := newService(t, config())
	v.token = "expired"
	for op, route := range map[int]string{
		1: "POST " + profiles, 2: "PATCH " + profiles + "/p1", 3: "DELETE " + profiles + "/p1",
		4: "POST " + records, 5: "PUT " + records + "/o1", 6: "GET " + records + "/o1", 7: "DELETE " + records + "/o1",
		8: "POST " + massBase + "/etl-executions", 9: "POST " + massBase + "/etls", 10: "POST " + massBase + "/etls/up/trigger-execution",
		11: "GET " + massBase + "/etl-executions/1/integration-results", 12: "GET " + massBase + "/etl-executions/1/output-files",
		13: "POST /webhooks/v4/entity/acme/webhookSubscription", 15: "POST /mass-imports/v4/entity/acme/table/customers/import",
	} {
		method, path, _ := strings.Cut(route, " ")
		v.must(http.StatusUnauthorized, method, path, "")
		if got := v.CallCount(op); got != 1 {
			t.Errorf("operation %d: got %d calls counted, want 1", op, got)
		}
	}
}

func TestTokenLives15Minutes(t *testing.T) {
	c := config()
	now := newClock(t, fixedTime)
	c.Now = now.Now
	v := newService(t, c)
	if got := field(t, v.askToken(apiKey).Body.String(), "expiresIn"); got != "900s" {
		t.Errorf("expiresIn: got %s, want 900s", got)
	}
	now.now = now.now.Add(15*time.Minute - 1)
	v.profile(`{"attributes":{"customerNumber":"C1"}}`)
	now.now = now.now.Add(1)
	v.must(http.StatusUnauthorized, http.MethodPost, profiles, `{}`)
}
