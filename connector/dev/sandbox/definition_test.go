package sandbox_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

const oneShot = `{
	"fileTransfer":{"input":{"file":{"compressionType":"NONE"}}},
	"inputFileProperties":{"csvFormat":{"encoding":"UTF-8","separator":";","enclosing":"\""}},
	"dataLoading":{
		"destination":{"type":"PROFILE_TABLE","id":"customers","attributesMapping":[
			{"header":"no","attributeName":"customerNumber"},{"header":"first","attributeName":"firstName","ignoreEmptyValues":true}]},
		"parameters":{"mode":"CREATE_OR_UPDATE","generateErrorFiles":true}}}`

func TestOneShotExecutionBringsItsDefinition(t *testing.T) {
	v := newService(t, config())
	shoot := func(definition string) *httptest.ResponseRecorder {
		kind, body := form(t, map[string][]byte{"inputFile": []byte("no;first\nC1;Ann\nC2;\n"), "oneshotEtl": []byte(definition)}, "f.csv")
		return v.send(http.MethodPost, massBase+"/etl-executions", kind, body)
	}
	e := v.finish(shoot(oneShot))
	if want := (sandbox.Results{Read: 2, Inserted: 2}); e.Results != want || e.ETL != "" || e.File != "f.csv" {
		t.Errorf("got %+v", e)
	}
	v.wantRow("customers", "C1", map[string]string{"customerNumber": "C1", "firstName": "Ann"})
	if got := v.SlotsUsed("customers", time.Now()); got != 1 {
		t.Errorf("got %d slots used, want 1", got)
	}
	for change, complaint := range map[string]string{
		`"id":"customers"`:          "no table",
		`"type":"PROFILE_TABLE"`:    "its type is PROFILE_TABLE",
		`"mode":"CREATE_OR_UPDATE"`: "no import mode",
	} {
		name, _, _ := strings.Cut(change, ":")
		w := shoot(strings.Replace(oneShot, change, name+`:"OTHER"`, 1))
		if w.Code != 400 || !strings.Contains(w.Body.String(), complaint) {
			t.Errorf("%s: got %d %s, want 400 %s", change, w.Code, w.Body, complaint)
		}
	}
	if status, _ := v.call(http.MethodPost, massBase+"/etl-executions", oneShot); status != 400 {
		t.Errorf("remote location: got %d, want 400", status)
	}
}

func TestCreatedETLCanBeTriggered(t *testing.T) {
	v := newService(t, config())
	id := field(t, v.must(200, http.MethodPost, massBase+"/etls", `{
		"type":"TRIGGERED","name":"orders","description":"","triggering":{"type":"API","paused":false},
		"reportRecipients":["ops@example.com"],
		"fileTransfer":{"input":{"files":[{"fileCode":"o","fileNamePattern":"o.csv","compressionType":"ZIP"}]},
			"output":{"location":{"type":"TRANSFERBOX","entity":"acme"}}},
		"inputFilesProperties":[{"fileCode":"o","csvFormat":{"encoding":"UTF-8","separator":"|","enclosing":"'"}}],
		"dataTransformations":[{"fileCode":"o","transformations":[
			{"header":"when","transformation":{"type":"DATE_FORMAT","format":"dd/MM/yyyy HH:mm"}}]}],
		"dataLoadings":[{"fileCode":"o","destination":{"type":"CUSTOM_TABLE","id":"orders","attributesMapping":[
			{"header":"key","attributeName":"businessKey"},{"header":"state","attributeName":"status"},{"header":"when","attributeName":"placed"}]},
			"parameters":{"mode":"CREATE_UPDATE","generateResultFiles":false,"generateErrorFiles":true}}]}`), "id")
	e := v.load(id, "key|state|when\no1|'a|b'|31/12/2025 23:59\no2|x|2025\n")
	if want := (sandbox.Results{Read: 2, InError: 1, Inserted: 1}); e.Results != want {
		t.Fatalf("got %s %s %+v, want %+v", e.Status, e.Error, e.Results, want)
	}
	v.wantRow("orders", "o1", map[string]string{"businessKey": "o1", "status": "a|b", "placed": "2025-12-31T23:59:00"})
	v.must(400, http.MethodPost, massBase+"/etls", `{"type":"ONESHOT"}`)
}

func TestWebhookFiresWhenAnExecutionIsFinished(t *testing.T) {
	hooks := make(chan string, 10)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		hooks <- r.Header.Get("X-Secret") + " " + string(body)
	}))
	defer target.Close()
	v := newService(t, config())
	subscribe := func(element, active, secret string) {
		v.must(200, http.MethodPost, "/webhooks/v4/entity/acme/webhookSubscription", `{"on":"ETL_EXECUTION","onElementId":"`+element+
			`","eventType":"FINISHED","targetUrl":"`+target.URL+`","headers":{"X-Secret":"`+secret+`"},"webhookPushType":"ONE_BY_ONE","isActive":`+active+`}`)
	}
	subscribe("up", "false", "inactive")
	subscribe("up", "true", "active")
	subscribe("other", "true", "other")
	v.FailImports("customers", 1, "broken")
	v.load("up", "customerNumber\nC1\n") // FAILED: no event
	e := v.load("up", "customerNumber\nC1\n")
	want := `active {"etlId":"up","eventType":"FINISHED","executionId":"` + e.ID + `","status":"FINISHED"}`
	if err := v.Close(); err != nil { // waits for what is still under way
		t.Error(err)
	}
	close(hooks)
	var got []string
	for hook := range hooks {
		got = append(got, hook)
	}
	if !slices.Equal(got, []string{want}) {
		t.Errorf("got %q, want %q alone", got, want)
	}
}
