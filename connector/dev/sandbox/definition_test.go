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

// triggered is a definition of operation 9 with every field of the document.
const triggered = `{
	"type":"TRIGGERED","name":"customers and orders","description":"nightly",
	"triggering":{"type":"API","paused":false},
	"reportRecipients":["ops@example.com"],
	"fileTransfer":{
		"input":{"files":[
			{"fileCode":"c","fileNamePattern":"customers_$YYYYMMDD.csv","compressionType":"ZIP","compressedFileNamePattern":"all_$YYYYMMDD.zip"},
			{"fileCode":"o","fileNamePattern":"orders_$YYYYMMDD.csv","compressionType":"ZIP","compressedFileNamePattern":"all_$YYYYMMDD.zip"}],
			"location":{"type":"REMOTE","remoteLocationId":"crm"},"deleteFilesOnSuccess":true},
		"output":{"location":{"type":"REMOTE","remoteLocationId":"crm"}}},
	"inputFilesProperties":[
		{"fileCode":"c","csvFormat":{"encoding":"ISO-8859-1","separator":";","enclosing":"'"}},
		{"fileCode":"o","csvFormat":{"encoding":"UTF-8","separator":"|","enclosing":"\""}}],
	"dataTransformations":[{"fileCode":"c","transformations":[
		{"header":"born","transformation":{"type":"DATE_FORMAT","format":"dd/MM/yyyy"}}]}],
	"dataLoadings":[
		{"fileCode":"c","destination":{"type":"PROFILE_TABLE","id":"customers","attributesMapping":[
			{"header":"no","attributeName":"customerNumber"},
			{"header":"note","attributeName":"note","ignoreEmptyValues":true},
			{"header":"age","attributeName":"age","ignoreInvalidValues":true},
			{"header":"sex","attributeName":"sex","ignoreValuesWhenAlreadyKnown":true},
			{"header":"lang","attributeName":"languages","mergeValuesWhenMultivalued":true},
			{"header":"subscriptions#newsletter","attributeName":"subscriptions#newsletter"},
			{"header":"born","attributeName":"birthDate"}]},
			"parameters":{"mode":"CREATE_UPDATE","generateResultFiles":true,"generateErrorFiles":true}},
		{"fileCode":"o","destination":{"type":"CUSTOM_TABLE","id":"orders","attributesMapping":[
			{"header":"key","attributeName":"businessKey"},{"header":"state","attributeName":"status"}]},
			"parameters":{"mode":"CREATE_OR_UPDATE","generateResultFiles":false,"generateErrorFiles":false}}]}`

func TestEveryFieldOfATriggeredDefinitionCounts(t *testing.T) {
	v := newService(t, config())
	v.profile(`{"attributes":{"customerNumber":"C1","note":"n","age":1,"sex":"F","languages":["fr"]}}`)
	v.remote(map[string][]byte{"all_20261121.zip": zipped(t, map[string]string{
		"orders_20261121.csv":    "key|state\no1|NEW\n",
		"customers_20261121.csv": "no;note;age;sex;lang;subscriptions#newsletter;born\nC1;;old;M;en;true;31/12/1999\n'C;2';\xe9;;;;;1999\n",
	})})
	id := field(t, v.must(200, http.MethodPost, massBase+"/etls", triggered), "id")
	e := v.finish(v.send(http.MethodPost, massBase+"/etls/"+id+"/trigger-execution", "", nil))
	if want := (sandbox.Results{Read: 3, InError: 1, Inserted: 1, Updated: 1}); e.Status != sandbox.Finished || e.Results != want {
		t.Fatalf("got %s %q %+v, want %+v", e.Status, e.Error, e.Results, want)
	}
	v.wantRow("customers", "C1", map[string]string{
		"customerNumber": "C1", "note": "n", "age": "1", "sex": "F", "languages": `["fr","en"]`,
		"subscriptions#newsletter": "true", "birthDate": "1999-12-31",
	})
	v.wantRow("orders", "o1", map[string]string{"businessKey": "o1", "status": "NEW"})
	if want := "remote/crm/" + e.ID + "-customers_20261121-error.zip"; e.Dropped != want {
		t.Errorf("got %s dropped, want %s", e.Dropped, want)
	}
	if len(e.Recipients) != 1 || e.Recipients[0] != "ops@example.com" {
		t.Errorf("got recipients %q", e.Recipients)
	}
}

func TestPausedETLIsNotTriggered(t *testing.T) {
	for _, status := range []int{0, 400, 423} {
		v := shaped(t, func(s *sandbox.Shapes) { s.Status.Paused = status })
		v.remote(nil)
		id := field(t, v.must(200, http.MethodPost, massBase+"/etls", strings.Replace(triggered, `"paused":false`, `"paused":true`, 1)), "id")
		want := status
		if want == 0 {
			want = http.StatusConflict
		}
		if w := v.push(id, "f.csv", nil); w.Code != want || len(v.Executions()) != 0 {
			t.Errorf("got %d and %d executions, want %d and none", w.Code, len(v.Executions()), want)
		}
	}
}

func TestBrokenDefinitionsAreRefused(t *testing.T) {
	v := newService(t, config())
	v.remote(nil)
	for _, c := range []struct{ old, changed, complaint string }{
		{`"type":"TRIGGERED"`, `"type":"ONESHOT"`, "type TRIGGERED"},
		{`"type":"API"`, `"type":"CRON"`, "triggering.type API"},
		{`"triggering":{"type":"API","paused":false},`, ``, "triggering.type API"},
		{`"reportRecipients":["ops@example.com"]`, `"reportRecipients":["ops"]`, "reportRecipients: not a valid e-mail address"},
		{`{"fileCode":"o","fileName`, `{"fileCode":"c","fileName`, `fileCode "c" stands there twice`},
		{`{"fileCode":"o","destination"`, `{"fileCode":"x","destination"`, `no file has the fileCode "x"`},
		{`{"fileCode":"o","destination"`, `{"fileCode":"c","destination"`, `one item per file is expected, "c" has two`},
		{`"input":{"files":[`, `"input":{"files":[{"fileCode":"z","fileNamePattern":"z.csv"},`, "one item per file is expected, there are 2 for 3 files"},
		{`{"fileCode":"o","csvFormat"`, `{"fileCode":"x","csvFormat"`, `inputFilesProperties: no file has the fileCode "x"`},
		{`{"fileCode":"o","csvFormat":{"encoding":"UTF-8","separator":"|","enclosing":"\""}}`, `{"fileCode":"o"}`, `file "o": its csvFormat is missing`},
		{`"separator":"|"`, `"separator":"||"`, "csvFormat.separator: one ASCII character"},
		{`"encoding":"UTF-8"`, `"encoding":"UTF-9"`, `csvFormat.encoding: "UTF-9" is not known`},
		{`[{"fileCode":"c","transformations"`, `[{"fileCode":"x","transformations"`, `dataTransformations: no file has the fileCode "x"`},
		{`{"header":"born","transformation"`, `{"header":"x","transformation"`, `header "x" is not in the attribute mapping`},
		{`"type":"DATE_FORMAT"`, `"type":"UPPERCASE"`, "type DATE_FORMAT with a format"},
		{`"format":"dd/MM/yyyy"`, `"format":"dd/QQ/yyyy"`, `header "born": DATE_FORMAT: yyyy,`},
		{`"compressionType":"ZIP"`, `"compressionType":"RAR"`, `no compressionType "RAR"`},
		{`"fileNamePattern":"orders_$YYYYMMDD.csv"`, `"fileNamePattern":""`, "needs a fileNamePattern"},
		{`"input":{"files"`, `"input":{"folders"`, "unknown field"},
		{`"ignoreEmptyValues":true`, `"ignoreEmptyValues":3`, "field dataLoadings.destination.attributesMapping.ignoreEmptyValues has the wrong type"},
		{`"location":{"type":"REMOTE","remoteLocationId":"crm"},"del`, `"location":{"type":"TRANSFERBOX","entity":"acme"},"del`, "input.location: type REMOTE"},
		{`"output":{"location":{"type":"REMOTE","remoteLocationId":"crm"}}`, `"output":{"location":{"type":"REMOTE"}}`, "output.location: type REMOTE"},
		{`"id":"orders"`, `"id":"nothing"`, `no table "nothing"`},
		{`"type":"CUSTOM_TABLE"`, `"type":"PROFILE_TABLE"`, "destination orders: its type is CUSTOM_TABLE"},
		{`"mode":"CREATE_UPDATE"`, `"mode":"UPSERT"`, `no import mode "UPSERT"`},
		{`"attributeName":"status"`, `"attributeName":"Status"`, `the table has no field "Status"`},
		{`"attributeName":"status"`, `"attributeName":"businessKey"`, `"state" to "businessKey": a header and an attribute stand there once`},
		{`{"header":"state"`, `{"header":"key"`, `"key" to "status": a header and an attribute stand there once`},
		{`{"header":"state"`, `{"header":""`, "header and attributeName are required"},
		{`"attributeName":"note"`, `"attributeName":"lastDevice"`, "lastDevice: a technical attribute"},
		{`{"header":"key","attributeName":"businessKey"},`, ``, `a unique key is required, one of ["businessKey"]`},
		{`"dataLoadings":[`, `"dataLoading":{},"dataLoadings":[`, "dataLoading and its transformations are fields of a one-shot definition"},
	} {
		body := strings.Replace(triggered, c.old, c.changed, 1)
		if body == triggered {
			t.Fatalf("%s: is not in the definition", c.old)
		}
		if status, answer := v.call(http.MethodPost, massBase+"/etls", body); status != 400 || !strings.Contains(unescaped(answer), c.complaint) {
			t.Errorf("%s:\n got %d %s\nwant 400 %s", c.changed, status, answer, c.complaint)
		}
	}
}

// unescaped takes the backslashes out of a JSON text.
func unescaped(s string) string { return strings.ReplaceAll(s, `\"`, `"`) }

func TestOneShotDefinitionsAreCheckedInBothForms(t *testing.T) {
	v := newService(t, config())
	v.remote(nil)
	json := remoteShot(`"file":{"fileNamePattern":"c.csv"}`)
	for _, c := range []struct{ old, changed, complaint string }{
		{`"type":"ONESHOT",`, ``, "type ONESHOT is expected"},
		{`"location":{"type":"REMOTE","remoteLocationId":"crm"},`, ``, "either the part inputFile or an input location"},
		{`"inputFileProperties":{"csvFormat":{"separator":","}},`, ``, "dataLoading and inputFileProperties are required"},
		{`"csvFormat":{"separator":","}`, ``, "its csvFormat is missing"},
		{`"file":{"fileNamePattern":"c.csv"}`, `"file":{}`, "one to fetch, needs a fileNamePattern"},
		{`"file":{"fileNamePattern":"c.csv"}`, `"files":[]`, "are fields of a triggered definition"},
		{`"mode":"CREATE_OR_UPDATE"`, `"mode":""`, `no import mode ""`},
	} {
		body := strings.Replace(json, c.old, c.changed, 1)
		if status, answer := v.call(http.MethodPost, massBase+"/etl-executions", body); status != 400 || !strings.Contains(unescaped(answer), c.complaint) {
			t.Errorf("%s:\n got %d %s\nwant 400 %s", c.changed, status, answer, c.complaint)
		}
	}
	kind, body := form(t, map[string][]byte{"inputFile": []byte("x"), "oneshotEtl": []byte(json)}, "f.csv")
	if w := v.send(http.MethodPost, massBase+"/etl-executions", kind, body); w.Code != 400 || !strings.Contains(w.Body.String(), "either the part inputFile") {
		t.Errorf("pushed and fetched: got %d %s, want 400", w.Code, w.Body)
	}
	kind, body = form(t, map[string][]byte{"inputFile": []byte("x"), "oneshotEtl": []byte(oneShot)}, "f.csv")
	wrong := strings.NewReader(strings.Replace(body.String(), "application/json", "text/plain", 1))
	if w := v.send(http.MethodPost, massBase+"/etl-executions", kind, wrong); w.Code != 400 || !strings.Contains(w.Body.String(), "content type") {
		t.Errorf("content type of the definition: got %d %s, want 400", w.Code, w.Body)
	}
}

func TestOneShotTransformationComesInEveryShape(t *testing.T) {
	const one = `[{"header":"first","transformation":{"type":"DATE_FORMAT","format":"d.M.yyyy"}}]`
	for _, shape := range []string{
		`"dataTransformations":[{"fileCode":"f","transformations":` + one + `}]`,
		`"dataTransformation":{"transformations":` + one + `}`,
		`"transformations":` + one,
	} {
		v := newService(t, config())
		definition := strings.Replace(oneShot, `"attributeName":"firstName"`, `"attributeName":"birthDate"`, 1)
		definition = strings.TrimSuffix(definition, "}") + "," + shape + "}"
		kind, body := form(t, map[string][]byte{"inputFile": []byte("no;first\nC1;1.2.2003\n"), "oneshotEtl": []byte(definition)}, "f.csv")
		v.finish(v.send(http.MethodPost, massBase+"/etl-executions", kind, body))
		v.wantRow("customers", "C1", map[string]string{"customerNumber": "C1", "birthDate": "2003-02-01"})
	}
}

func TestDateFormatsAreReadAsTheyAreWritten(t *testing.T) {
	for _, c := range []struct{ format, cell, want string }{
		{"yyyyMMdd", "20261121", "2026-11-21T00:00:00"},
		{"d/M/yy H:mm", "1/2/26 3:04", "2026-02-01T03:04:00"},
		{"yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2026-11-21T10:00:00.123+02:00", "2026-11-21T10:00:00+02:00"},
		{"dd MM yyyy hh:mm a", "21 11 2026 11:30 PM", "2026-11-21T23:30:00"},
		{"dd/MM/yyyy", "11/21/2026", ""},
	} {
		cfg := config()
		cfg.ETLs = []sandbox.ETL{{ID: "up", Loads: []sandbox.Load{{Table: "customers", Mode: sandbox.CreateOrUpdate, Columns: []sandbox.Column{
			{Header: "customerNumber", Attribute: "customerNumber"}, {Header: "when", Attribute: "lastLogin", DateFormat: c.format},
		}}}}}
		v := newService(t, cfg)
		v.load("up", "customerNumber,when\nC1,"+c.cell+"\n")
		row, _ := v.Row("customers", "C1")
		if got := row.Text("lastLogin"); got != c.want {
			t.Errorf("%s of %s: got %q, want %q", c.format, c.cell, got, c.want)
		}
	}
	for _, format := range []string{"yyyy-MM-dd 'at", "QQ", "yyyy 2006", "'15'"} {
		cfg := config()
		cfg.ETLs[0].Loads[0].Columns = []sandbox.Column{{Header: "a", Attribute: "birthDate", DateFormat: format}}
		if _, err := sandbox.New(cfg); err == nil {
			t.Errorf("format %s: got no error", format)
		}
	}
}
