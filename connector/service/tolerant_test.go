package service

import (
	"net/http"
	"testing"
	"time"
)

func TestIdsAreFoundInEveryShape(t *testing.T) {
	cases := []struct {
		body, location string
		names          names
		want           string
	}{
		{`{"id":"e-1"}`, "", executionNames, "e-1"},
		{`{"id":12}`, "", executionNames, "12"},
		{`{"ID":12}`, "", executionNames, "12"},
		{`{"execution_id":"x"}`, "", executionNames, "x"},
		{`{"id":98765432109876543210}`, "", executionNames, "98765432109876543210"},
		{`"e-1"`, "", executionNames, "e-1"},
		{"\ufeff" + `{"id":"e-1"}`, "", executionNames, "e-1"},
		{`12`, "", executionNames, "12"},
		{"e-1\n", "", executionNames, "e-1"},
		{`"{\"id\":\"e-1\"}"`, "", executionNames, "e-1"},
		{`{"data":{"execution":{"id":"e-1"}}}`, "", executionNames, "e-1"},
		{`[{"id":"e-1"}]`, "", executionNames, "e-1"},
		{`{"id":"101","executionId":"e-1"}`, "", executionNames, "e-1"},
		{`{"etl":{"id":"101"},"execution":{"id":"e-1"}}`, "", executionNames, "e-1"},
		{`{"etl":{"id":"101"}}`, "", executionNames, ""},
		{`{"etlId":"101"}`, "", etlNames, "101"},
		{`{"_links":{"self":{"href":"/etl-executions/e-1/"}}}`, "", executionNames, "e-1"},
		{``, "/x/etl-executions/e-1", executionNames, "e-1"},
		{`{}`, "https://h/x/etl-executions/e%2D1?x=1", executionNames, "e-1"},
		{``, "/x/etl-executions/e-1/integration-results", executionNames, "e-1"},
		{`{"_links":{"self":{"href":"/x/etl-executions/e-1/output-files"}}}`, "", executionNames, "e-1"},
		{``, "/x/etl-executions/", executionNames, ""},
		{`<html>hello</html>`, "", executionNames, ""},
		{`accepted, thank you`, "", executionNames, ""},
		{`{"id":null}`, "", executionNames, ""},
		{`{"id":{"value":3}}`, "", executionNames, ""},
		{`{"id":".."}`, "", executionNames, ""},
		{`{"id":"a b"}`, "", executionNames, ""},
		{`[{"id":"a"},{"id":"b"}]`, "", executionNames, ""},
		{`true`, "", webhookNames, ""},
		{`OK`, "/x/etl-executions/77", executionNames, "77"},
		{`"Accepted"`, "/x/etl-executions/77", executionNames, "77"},
		{`"e-1"`, "/x/etl-executions/77", executionNames, "e-1"},
		{`started`, "", executionNames, ""},
		{`{"execution":"queued"}`, "", executionNames, ""},
		{``, "/mass-imports/v5/entities/acme/etls/101/trigger-execution", executionNames, ""},
		{``, "/mass-imports/v5/entities/acme/etls", etlNames, ""},
		{`{"_links":{"self":{"href":"/webhooks/v4/entity/acme/webhookSubscription"}}}`, "", webhookNames, ""},
		{`{"result":"success"}`, "", executionNames, ""},
		{`OK`, "", etlNames, ""},
		{`{"response":"Accepted"}`, "/x/etl-executions/77", executionNames, "77"},
		{`{"subscription":{"id":5}}`, "", webhookNames, "5"},
	}
	for _, tc := range cases {
		header := http.Header{}
		if tc.location != "" {
			header.Set("Location", tc.location)
		}
		if got := identifier([]byte(tc.body), header, tc.names); got != tc.want {
			t.Errorf("%s %s: got %q, want %q", tc.body, tc.location, got, tc.want)
		}
	}
}

func TestTheSameAnswerAlwaysMeansTheSame(t *testing.T) {
	for range 50 {
		if got := identifier([]byte(`{"ID":"a","Id":"b","iD":"c"}`), nil, executionNames); got != "a" {
			t.Fatalf("got %q, want the first in order, a", got)
		}
	}
}

func TestTokenLivesAreReadInEveryShape(t *testing.T) {
	cases := map[string]time.Duration{
		`"900s"`:  900 * time.Second,
		`"900"`:   900 * time.Second,
		`900`:     900 * time.Second,
		`"15m"`:   900 * time.Second,
		`"900 s"`: 900 * time.Second,
		`2.5`:     2500 * time.Millisecond,
		`null`:    defaultLife,
		`"soon"`:  defaultLife,
		`"NaN"`:   defaultLife,
		`{}`:      defaultLife,
		`0`:       minLife,
		`-5`:      minLife,
		`1e300`:   maxLife,
		`"Inf"`:   maxLife,
	}
	for text, want := range cases {
		token, got, err := tokenAnswer([]byte(`{"access_token":"T","expires_in":` + text + `}`))
		if err != nil || token != "T" || got != want {
			t.Errorf("%s: got %q, %v, %v; want T, %v", text, token, got, err, want)
		}
	}
	if _, got, err := tokenAnswer([]byte(`{"accessToken":"T"}`)); err != nil || got != defaultLife {
		t.Errorf("missing: got %v, %v; want %v", got, err, defaultLife)
	}
	for _, bad := range []string{``, `{}`, `"T"`, `{"accessToken":""}`, `{"accessToken":"a b"}`, `{"accessToken":"a\nb"}`, `{"accessToken":5}`} {
		if token, _, err := tokenAnswer([]byte(bad)); err == nil {
			t.Errorf("%s: got token %q, want an error", bad, token)
		}
	}
}

func TestResultsAreReadInEveryShape(t *testing.T) {
	type counts [5]int64 // read, in error, inserted, updated, deleted
	none := counts{Unknown, Unknown, Unknown, Unknown, Unknown}
	cases := []struct {
		body   string
		status ExecutionStatus
		reason string
		want   counts
	}{
		{`{"status":"IN_PROGRESS"}`, InProgress, "", none},
		{`{"status":"created"}`, "CREATED", "", none},
		{`{"id":"e","status":"FAILED","error":"duplicate\nheaders"}`, Failed, "duplicate headers", none},
		{`{"status":"FAILED","error":{"code":7,"message":"bad"}}`, Failed, `{"code":7,"message":"bad"}`, none},
		{`{"Status":"finished","integration_results":{"linesRead":"10","linesInError":1,"linesInserted":2,` +
			`"linesUpdated":3,"linesDeleted":4}}`, Finished, "", counts{10, 1, 2, 3, 4}},
		{`{"status":"FINISHED","integrationResults":{"read":10,"errors":0,"created":2,"modified":3,"removed":4,` +
			`"duration":"12s","ignored":9}}`, Finished, "", counts{10, 0, 2, 3, 4}},
		{
			`{"status":"FINISHED","integrationResults":{"lines":{"total":10,"read":9,"inError":1},"inserted":2}}`,
			Finished, "",
			counts{10, 1, 2, Unknown, Unknown},
		},
		{
			`{"status":"FINISHED","integrationResults":[{"read":1,"rejected":1},{"read":2}]}`,
			Finished, "",
			counts{3, 1, Unknown, Unknown, Unknown},
		},
		{
			`{"status":"FINISHED","integrationResults":[{"read":9223372036854775807},{"read":2}]}`,
			Finished, "",
			counts{9223372036854775807, Unknown, Unknown, Unknown, Unknown},
		},
		{
			`{"status":"FINISHED","integrationResults":{"linesRead":100,"linesWithoutError":98,"linesWithError":2,"errorRate":50,"linesUpdated":7}}`,
			Finished, "",
			counts{100, 2, Unknown, 7, Unknown},
		},
		{
			`{"status":"FINISHED","integrationResults":{"creationDate":1795829897,"updatedAt":1795829897,"lastUpdate":1795829897,"linesRead":5.0,"linesInError":1.5}}`,
			Finished, "",
			counts{5, Unknown, Unknown, Unknown, Unknown},
		},
		{
			`{"status":"FINISHED","integrationResults":{"files":[{"linesRead":5,"linesInError":2},{"linesRead":1}]}}`,
			Finished, "",
			counts{6, 2, Unknown, Unknown, Unknown},
		},
		{
			`{"status":"FINISHED","integrationResults":[{"linesRead":2,"linesInError":0},{"linesRead":1,"linesInError":null}]}`,
			Finished, "",
			counts{3, Unknown, Unknown, Unknown, Unknown},
		},
		{
			`{"status":"FINISHED","integrationResults":[{"linesRead":2,"linesInError":0},{"linesRead":1}]}`,
			Finished, "",
			counts{3, Unknown, Unknown, Unknown, Unknown},
		},
		{
			`{"status":"FINISHED","integrationResults":{"customers":{"linesRead":2,"linesInError":1},"deleted_orders":{"linesRead":1,"linesInError":1,"linesInserted":0}}}`,
			Finished, "",
			counts{3, 2, 0, Unknown, Unknown},
		},
		{
			`{"status":"FINISHED","integrationResults":{"tables":{"a":{"read":2,"errors":0},"b":{"read":1,"errors":null}}}}`,
			Finished, "",
			counts{3, Unknown, Unknown, Unknown, Unknown},
		},
		{
			`{"status":"FINISHED","integrationResults":{"total":{"read":3,"errors":1},"a":{"read":2,"errors":1},"b":{"read":1,"errors":0}}}`,
			Finished, "",
			counts{3, 1, Unknown, Unknown, Unknown},
		},
		{
			`{"status":"FINISHED","integrationResults":{"file":{"read":5,"errors":2},"a":{"read":3,"errors":1},"b":{"read":2,"errors":1}}}`,
			Finished, "",
			counts{5, 2, Unknown, Unknown, Unknown},
		},
		{
			`{"status":"FINISHED","integrationResults":{"read":3,"errors":2,"a":{"read":2,"errors":1},"b":{"read":1,"errors":1}}}`,
			Finished, "",
			counts{3, 2, Unknown, Unknown, Unknown},
		},
		{
			`{"status":"FINISHED","integrationResults":{"linesRead":3,"linesKo":1,"linesInserted":2,"linesUpdated":0,"errorCode":0}}`,
			Finished, "",
			counts{3, 1, 2, 0, Unknown},
		},
		{
			`{"status":"FINISHED","integrationResults":{"linesRead":3,"linesInError":0,"linesInserted":3,"invalidValuesIgnored":1,"errorFiles":1,"duplicatesRemoved":2,"errorMessageId":7}}`,
			Finished, "",
			counts{3, 0, 3, Unknown, Unknown},
		},
		{
			`{"status":"FINISHED","integrationResults":{"linesRead":3,"linesInserted":2,"errorCode":0,"errorFileSize":0,"fatalErrors":0}}`,
			Finished, "",
			counts{3, Unknown, 2, Unknown, Unknown},
		},
		{
			`{"status":"FINISHED","integrationResults":{"file":{"read":3,"totalErrors":0,"refused":1,"errorId":5}}}`,
			Finished, "",
			counts{3, 1, Unknown, Unknown, Unknown},
		},
		{
			`{"status":"FINISHED","integrationResults":{"lines":{"read":3,"withError":0}}}`,
			Finished, "",
			counts{3, 0, Unknown, Unknown, Unknown},
		},
		{`{"status":"FINISHED","integrationResults":{"read":3,"invalid":0}}`, Finished, "", counts{3, 0, Unknown, Unknown, Unknown}},
		{`{"status":"FINISHED","integrationResults":{"read":3,"nbErrors":0}}`, Finished, "", counts{3, 0, Unknown, Unknown, Unknown}},
		{"\ufeff" + `{"status":"FINISHED","integrationResults":{"read":3}}`, Finished, "", counts{3, Unknown, Unknown, Unknown, Unknown}},
		{`{"status":"success","data":{"status":"FINISHED"}}`, Finished, "", none},
		{`{"status":200,"result":{"status":"FAILED","error":"no"}}`, Failed, "no", none},
		{`{"status":"CANCELLED","data":{"status":"unknown"}}`, "CANCELLED", "", none},
		{
			`{"status":"FINISHED","integrationResults":{"linesRead":5,"files":[{"linesRead":5,"linesInError":2}]}}`,
			Finished, "",
			counts{5, Unknown, Unknown, Unknown, Unknown},
		},
		{`{"status":"FINISHED","integrationResults":{"read":-1,"inserted":1.5,"updated":null}}`, Finished, "", none},
		{`{"data":{"status":"FINISHED"}}`, Finished, "", none},
	}
	for _, tc := range cases {
		r, err := parseResults([]byte(tc.body))
		c := r.Counters
		got := counts{c.Read, c.InError, c.Inserted, c.Updated, c.Deleted}
		if err != nil || r.Status != tc.status || r.Error != tc.reason || got != tc.want {
			t.Errorf("%s: got %q, %q, %v, %v; want %q, %q, %v", tc.body, r.Status, r.Error, got, err, tc.status, tc.reason, tc.want)
		}
	}
	for _, bad := range []string{``, `<html>`, `{}`, `[]`, `"FINISHED"`, `{"status":{}}`, `{"status":"a"} {}`} {
		if r, err := parseResults([]byte(bad)); err == nil {
			t.Errorf("%s: got %+v, want an error", bad, r)
		}
	}
}

func TestResultsOfAnotherExecutionAreAskedForAgain(t *testing.T) {
	status, contentType, body := 200, "application/json", ""
	client := gives(&status, &contentType, &body).start(t)
	for text, own := range map[string]bool{
		`{"executionId":"1001","status":"FINISHED"}`:                                        true,
		`{"executionId":1001,"status":"FINISHED"}`:                                          true,
		`{"id":"7","executionId":"1001","status":"FINISHED"}`:                               true,
		`{"id":"7","status":"FINISHED"}`:                                                    true, // it may be that of the results
		`{"executionId":"999999","status":"FINISHED","integrationResults":{"linesRead":7}}`: false,
		`{"status":"ok","data":{"etlExecutionId":"999999","status":"FAILED"}}`:              false,
	} {
		body = text
		_, err := client.Results(t.Context(), "1001")
		if own != (err == nil) {
			t.Errorf("%s: got %v, want it taken: %v", text, err, own)
		}
		if err != nil && !errorOf(t, err).Transient() {
			t.Errorf("%s: got %v, want it transient", text, err)
		}
	}
}

func TestExecutionInAWebhookIsUnderstoodAsInAnAnswer(t *testing.T) {
	for body, want := range map[string]string{
		`{"executionId":"12"}`:                   "12",
		`{"executionId":12}`:                     "12",
		`{"id":"12"}`:                            "12",
		`{"id":12}`:                              "12",
		`"12"`:                                   "12",
		`12`:                                     "12",
		` 12` + "\n":                             "12",
		`[{"executionId":"12"}]`:                 "12",
		`{"execution":{"id":12}}`:                "12",
		`{"execution":"12"}`:                     "12",
		`{"data":{"executionId":"12"}}`:          "12",
		`{"payload":{"execution":{"id":12}}}`:    "12",
		`{"id":"evt-1","execution_id":"12"}`:     "12",
		`{"id":"evt-1","execution":{"id":"12"}}`: "12",
		`{"id":12,"execution":{"status":"FINISHED"}}`:            "12",
		`{"id":"s-7","onElementId":"101"}`:                       "", // the subscription's
		`{"id":"s-7","onElementId":"101","execution":{"id":12}}`: "12",
		`{"status":"FINISHED"}`:                                  "",
		`<html>12</html>`:                                        "",
		``:                                                       "",
	} {
		if got, _ := Ended([]byte(body)); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
}

func TestETLIsFoundInAWebhookCall(t *testing.T) {
	for body, want := range map[string]string{
		`{"id":12,"etlId":"101"}`:                          "101",
		`{"executionId":"12","etl_id":101}`:                "101",
		`{"executionId":"12","etl":{"id":101,"name":"x"}}`: "101",
		`{"executionId":"12","etl":"101"}`:                 "101",
		`{"id":"s-7","onElementId":"101"}`:                 "101",
		`{"data":{"execution":{"id":12,"etlId":"101"}}}`:   "101",
		`{"execution":12}`:                                 "",
		`{"id":12}`:                                        "",
		`12`:                                               "",
		``:                                                 "",
	} {
		if _, got := Ended([]byte(body)); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
}
