package sandbox_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// shaped is the service with other answers.
func shaped(t *testing.T, set func(*sandbox.Shapes)) *service {
	t.Helper()
	c := config()
	set(&c.Shapes)
	return newService(t, c)
}

func TestIDsComeInEveryShape(t *testing.T) {
	for shape, want := range map[string]string{
		"":            `200 {"id":"1001"}`,
		"number":      `200 {"id":1001}`,
		"bare-string": `200 "1001"`,
		"bare-number": `200 1001`,
		"location":    `200 ` + massBase + `/etls/up/trigger-execution/1001`,
		"none":        `200 `,
	} {
		c := config()
		c.Shapes.ID = shape
		w := newService(t, c).push("up", "file.csv", []byte("customerNumber\nC1\n"))
		if got := fmt.Sprintf("%d %s%s", w.Code, w.Body, w.Header().Get("Location")); got != want {
			t.Errorf("shape %q: got %s, want %s", shape, got, want)
		}
	}
}

func TestRefusalsComeInEveryShape(t *testing.T) {
	for shape, want := range map[string]string{
		"":      `{"error":"no record has this business key","status":404}`,
		"list":  `{"errors":[{"code":"NOT_FOUND","message":"no record has this business key"}]}`,
		"text":  `"no record has this business key"`,
		"empty": ``,
	} {
		v := shaped(t, func(s *sandbox.Shapes) { s.Errors = shape })
		if got := v.must(404, http.MethodDelete, records+"/o1", ""); got != want {
			t.Errorf("shape %q: got %s, want %s", shape, got, want)
		}
	}
}

func TestStatusesThatAreNotShownCanBeOthers(t *testing.T) {
	unset := func(*sandbox.Statuses) {}
	const missing = massBase + "/etl-executions/1001/output-files"
	for _, c := range []struct {
		name               string
		set                func(*sandbox.Statuses)
		method, path, body string
		status             int
		answer             string
	}{
		{"invalid", unset, http.MethodPost, profiles, `{}`, 400, `{"error":"no unique key: one of customerNumber, emailAddress is needed","status":400}`},
		{"invalid", func(s *sandbox.Statuses) { s.Invalid = 422 }, http.MethodPost, profiles, `{}`, 422, `{"error":"no unique key: one of customerNumber, emailAddress is needed","status":422}`},
		{"invalid", func(s *sandbox.Statuses) { s.Invalid = 406 }, http.MethodPost, upsert, `{}`, 406, `{"error":"properties: required","status":406}`},
		{"profile", unset, http.MethodPatch, profiles + "/p9", `{}`, 404, `{"error":"no profile has this id","status":404}`},
		{"profile", func(s *sandbox.Statuses) { s.NoProfile = 400 }, http.MethodPatch, profiles + "/p9", `{}`, 400, `{"error":"no profile has this id","status":400}`},
		{"profile", func(s *sandbox.Statuses) { s.NoProfile = 410 }, http.MethodPatch, profiles + "/p9", `{}`, 410, `{"error":"no profile has this id","status":410}`},
		{"record", unset, http.MethodGet, records + "/o9", "", 404, `{"error":"no record has this business key","status":404}`},
		{"record", func(s *sandbox.Statuses) { s.NoRecord = 200 }, http.MethodGet, records + "/o9", "", 200, ""},
		{"record", func(s *sandbox.Statuses) { s.NoRecord = 204 }, http.MethodGet, records + "/o9", "", 204, ""},
		{"output", unset, http.MethodGet, missing, "", 404, `{"error":"the execution has no output files","status":404}`},
		{"output", func(s *sandbox.Statuses) { s.NoOutput = 200 }, http.MethodGet, missing, "", 200, ""},
		{"output", func(s *sandbox.Statuses) { s.NoOutput = 204 }, http.MethodGet, missing, "", 204, ""},
	} {
		v := shaped(t, func(s *sandbox.Shapes) { c.set(&s.Status) })
		v.load("up", "customerNumber\nC1\n")
		if status, answer := v.call(c.method, c.path, c.body); status != c.status || answer != c.answer {
			t.Errorf("%s: got %d %s, want %d %s", c.name, status, answer, c.status, c.answer)
		}
	}
}

func TestUpdateAnswersInEveryShape(t *testing.T) {
	now := newClock(t, fixedTime)
	for shape, want := range map[string]string{
		"": `200 {"businessKey":"o1"}`,
		"record": `200 {"businessKey":"o1","properties":[{"name":"id","value":1},` +
			`{"name":"creationMoment","value":"2026-11-21T10:00:00.000+00:00"},{"name":"updateMoment","value":"2026-11-21T10:00:00.000+00:00"},` +
			`{"name":"status","value":"PAID"}]}`,
		"empty": `204 `,
	} {
		c := config()
		c.Now, c.Shapes.Updated = now.Now, shape
		v := newService(t, c)
		v.must(200, http.MethodPost, records, `{"businessKey":"o1","properties":[]}`)
		status, answer := v.call(http.MethodPut, records+"/o1", `{"properties":[{"name":"status","value":"PAID"}]}`)
		if got := fmt.Sprint(status, " ", answer); got != want {
			t.Errorf("shape %q: got %s, want %s", shape, got, want)
		}
	}
}

func TestNoSlotIsSaidInEveryShape(t *testing.T) {
	const text = `"no import slot left for table customers today: 1 of 1 used"`
	now := newClock(t, "2026-11-21T23:59:00Z")
	for shape, want := range map[string]string{
		"":       `429 60 {"error":` + text + `,"status":429}`,
		"text":   `429  {"error":` + text + `,"status":429}`,
		"header": `429 60 `,
		"403":    `403  {"error":` + text + `,"status":403}`,
	} {
		c := config()
		c.Now, c.SlotsPerDay, c.Shapes.NoSlot = now.Now, 1, shape
		v := newService(t, c)
		v.load("up", "customerNumber\nC1\n")
		w := v.push("up", "f.csv", []byte("customerNumber\nC1\n"))
		if got := fmt.Sprint(w.Code, " ", w.Header().Get("Retry-After"), " ", w.Body); got != want {
			t.Errorf("shape %q: got %s, want %s", shape, got, want)
		}
	}
}

func TestResultsComeInEveryShape(t *testing.T) {
	results := func(v *service, id string) string {
		return v.must(200, http.MethodGet, massBase+"/etl-executions/"+id+"/integration-results", "")
	}
	for _, c := range []struct {
		set  func(*sandbox.Shapes)
		want string
	}{
		{func(*sandbox.Shapes) {}, `{"deleted":0,"inserted":1,"linesInError":1,"linesRead":2,"updated":0}`},
		{func(s *sandbox.Shapes) { s.Counters = [5]string{"read", "errors", "created", "modified", "removed"} }, `{"created":1,"errors":1,"modified":0,"read":2,"removed":0}`},
		{func(s *sandbox.Shapes) {
			s.Counters = [5]string{"lines_read", "lines_in_error", "lines_inserted", "lines_updated", "lines_deleted"}
		}, `{"lines_deleted":0,"lines_in_error":1,"lines_inserted":1,"lines_read":2,"lines_updated":0}`},
		{func(s *sandbox.Shapes) {
			s.Counters = [5]string{"totalLineCount", "rejectedLineCount", "insertedLineCount", "updatedLineCount", "deletedLineCount"}
		}, `{"deletedLineCount":0,"insertedLineCount":1,"rejectedLineCount":1,"totalLineCount":2,"updatedLineCount":0}`},
		{func(s *sandbox.Shapes) { s.Results = "text" }, `{"deleted":"0","inserted":"1","linesInError":"1","linesRead":"2","updated":"0"}`},
		{func(s *sandbox.Shapes) { s.Results = "nested" }, `{"counters":{"deleted":0,"inserted":1,"linesInError":1,"linesRead":2,"updated":0}}`},
		{func(s *sandbox.Shapes) { s.Results = "files" }, `[{"deleted":0,"fileName":"file.csv","inserted":1,"linesInError":1,"linesRead":2,"updated":0}]`},
	} {
		v := shaped(t, c.set)
		e := v.load("up", "customerNumber,age\nC1,1\nC2,x\n")
		if got, want := results(v, e.ID), `{"id":"1001","integrationResults":`+c.want+`,"status":"FINISHED"}`; got != want {
			t.Errorf(" got %s\nwant %s", got, want)
		}
	}
	for shape, want := range map[string]string{
		"":       `"broken"`,
		"object": `{"code":"IMPORT_FAILED","message":"broken"}`,
		"list":   `[{"code":"IMPORT_FAILED","message":"broken"}]`,
	} {
		v := shaped(t, func(s *sandbox.Shapes) { s.Failure = shape })
		v.FailImports("customers", 1, "broken")
		e := v.load("up", "customerNumber\nC1\n")
		if got, want := results(v, e.ID), `{"error":`+want+`,"id":"1001","status":"FAILED"}`; got != want {
			t.Errorf(" got %s\nwant %s", got, want)
		}
	}
	for initial, want := range map[sandbox.ExecutionStatus]string{"": "IN_PROGRESS", "CREATED": "CREATED", "PENDING": "PENDING"} {
		v := shaped(t, func(s *sandbox.Shapes) { s.Initial = initial })
		v.Hold()
		v.push("up", "f.csv", []byte("customerNumber\nC1\n"))
		if got := field(t, results(v, "1001"), "status"); got != want {
			t.Errorf("first: got %s, want %s", got, want)
		}
		if got := field(t, results(v, "1001"), "status"); got != "IN_PROGRESS" {
			t.Errorf("second after %s: got %s, want IN_PROGRESS", want, got)
		}
	}
}

func TestOutputFilesComeInEveryShape(t *testing.T) {
	for _, shape := range []string{"", "gzip", "zip"} {
		c := config()
		c.Shapes.Output = shape
		v := newService(t, c)
		e := v.load("up", "customerNumber,age\nC1,x\n")
		w := v.send(http.MethodGet, massBase+"/etl-executions/"+e.ID+"/output-files", "", nil)
		got := unpacked(t, w.Body.Bytes())
		if want := []string{"customerNumber,age,error\nC1,x,age: not a whole number from -2147483648 to 2147483647\n"}; !slices.Equal(got, want) {
			t.Errorf("shape %q: got %q, want %q", shape, got, want)
		}
	}
	c := config()
	c.ETLs[0].Loads[0].GenerateResultFiles = true
	v := newService(t, c)
	e := v.load("up", "customerNumber,age\nC1,x\nC2,5\n")
	got := unpacked(t, v.send(http.MethodGet, massBase+"/etl-executions/"+e.ID+"/output-files", "", nil).Body.Bytes())
	if len(got) != 2 || got[1] != "customerNumber,age,result\nC2,5,INSERTED\n" {
		t.Errorf("errors and results: got %q", got)
	}
	e = v.load("change", "customerNumber\nC2\n")
	v.must(404, http.MethodGet, massBase+"/etl-executions/"+e.ID+"/output-files", "")
	v.must(404, http.MethodGet, massBase+"/etl-executions/77/output-files", "")
	v.must(404, http.MethodGet, massBase+"/etl-executions/77/integration-results", "")
}

func TestReasonsComeInEveryShape(t *testing.T) {
	for shape, want := range map[string]string{
		"":      "customerNumber,age,error\nC2,x,age: not a whole number from -2147483648 to 2147483647",
		"codes": "customerNumber,age,ERROR_CODE,ERROR_MESSAGE\nC2,x,NOT_INTEGER,age: not a whole number from -2147483648 to 2147483647",
		"first": "lineNumber,reason,customerNumber,age\n3,age: not a whole number from -2147483648 to 2147483647,C2,x",
	} {
		v := shaped(t, func(s *sandbox.Shapes) { s.Reasons = shape })
		e := v.load("up", "customerNumber,age\nC1,1\nC2,x\n")
		if got := v.must(200, http.MethodGet, massBase+"/etl-executions/"+e.ID+"/output-files", ""); got != want {
			t.Errorf("shape %q:\n got %s\nwant %s", shape, got, want)
		}
	}
}

func TestWebhookCarriesEveryShape(t *testing.T) {
	for shape, want := range map[string]string{
		"":       `{"etlId":"up","eventType":"FINISHED","executionId":"1002","status":"FINISHED"}`,
		"nested": `{"event":{"on":"ETL_EXECUTION","type":"FINISHED"},"execution":{"etl":{"id":"up"},"id":1002}}`,
		"empty":  ``,
	} {
		var got []string
		target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			got = append(got, string(body))
		}))
		v := shaped(t, func(s *sandbox.Shapes) { s.Webhook = shape })
		v.must(200, http.MethodPost, "/webhooks/v4/entity/acme/webhookSubscription", `{"on":"ETL_EXECUTION","onElementId":"up",
			"eventType":"FINISHED","targetUrl":"`+target.URL+`","headers":{},"webhookPushType":"ONE_BY_ONE","isActive":true}`)
		v.load("up", "customerNumber\nC1\n")
		if err := v.Close(); err != nil { // waits for the call
			t.Error(err)
		}
		target.Close()
		if !slices.Equal(got, []string{want}) {
			t.Errorf("shape %q: got %q, want %q once", shape, got, want)
		}
	}
}
