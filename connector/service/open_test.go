package service

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// reply is one way in which a service may answer.
type reply struct {
	status   int
	location string
	body     string
}

func (r reply) String() string {
	return fmt.Sprintf("%d %q %q", r.status, r.location, r.body)
}

// openAnswer is an answer whose shape the interface does not show: what the
// caller has to learn from it (want, as learn puts it), whatever its shape.
type openAnswer struct {
	name    string
	learn   func(c *Client) string
	want    string
	replies []reply
}

// told is what a caller learns: a value, or the kind of the error.
func told(value string, err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind().String()
	}
	if err != nil {
		return err.Error()
	}
	return value
}

func openAnswers(t *testing.T) []openAnswer {
	ctx := t.Context()
	body := JSON(`{"properties":[]}`)
	ids := []reply{
		{200, "", `{"id":"12"}`},
		{201, "", `{"id":12}`},
		{200, "", `"12"`},
		{202, "", "12\n"},
		{201, "/x/12", ""},
		{200, "", `{"data":{"id":"12"}}`},
		{200, "", `{"_links":{"self":{"href":"/x/12"}}}`},
	}
	nothing := []reply{{200, "", ""}, {204, "", ""}, {200, "", "accepted, thank you"}, {200, "", "{}"}}
	missing := []reply{{404, "", ""}, {404, "", `{"status":404,"error":"no such thing"}`}, {404, "", `"no such thing"`}}
	execution := func(c *Client) string {
		e, err := c.Trigger(ctx, "101", fileOf("a\n"), nil)
		return told(e.ID, err)
	}
	oneShot := func(c *Client) string {
		e, err := c.OneShotRemote(ctx, remoteETL(), nil)
		return told(e.ID, err)
	}
	etl := func(c *Client) string { return told(c.CreateETL(ctx, triggeredETL())) }
	subscription := func(c *Client) string { return told(c.CreateWebhook(ctx, webhook())) }
	record := func(c *Client) string {
		r, err := c.GetRecord(ctx, "orders", "k")
		return told(r.BusinessKey+" "+r.ID()+" "+string(r.Value("total")), err)
	}
	update := func(c *Client) string {
		_, err := c.UpdateRecord(ctx, "orders", "k", body)
		return told("yes", err)
	}
	results := func(c *Client) string {
		r, err := c.Results(ctx, "12")
		return told(fmt.Sprintf("%s %v %q %d %d", r.Status, r.Status.Ended(), r.Error, r.Counters.Read, r.Counters.InError), err)
	}
	return []openAnswer{
		{"2: the id does not exist", func(c *Client) string {
			_, err := c.PatchProfile(ctx, "customers", "p1", body)
			return told("yes", err)
		}, "not found", missing},
		{"5: success", update, "yes", append(nothing, reply{200, "", `{"businessKey":"k"}`})},
		{"6: the record", record, "k 7 12.50", []reply{
			{200, "", `{"businessKey":"k","properties":[{"name":"id","value":7},{"name":"total","value":12.50}]}`},
			{200, "", `{"business_key":"k","Properties":[{"Name":"ID","Value":1},{"name":"id","value":"7"},{"name":"total","value":12.50}]}`},
			{200, "", `{"businessKey":"k","properties":{"id":7,"total":12.50}}`},
		}},
		{"6: no record", record, "not found", append([]reply{{200, "", ""}, {204, "", ""}, {200, "", "null"}, {200, "", "{}"}}, missing...)},
		{"8: id of the execution", oneShot, "12", append(ids, reply{200, "", `{"etlExecution":{"executionId":12}}`})},
		{"8: no id", oneShot, "", nothing},
		{"9: id of the ETL", etl, "12", append(ids, reply{200, "", `{"etlId":12}`})},
		{"9: no id", etl, "", nothing},
		{"10: id of the execution", execution, "12", append(ids, reply{200, "", `{"id":"101","executionId":"12"}`})},
		{"10: no id", execution, "", append(nothing, reply{200, "", `{"etlId":"101"}`})},
		{"11: not ended", results, `IN_PROGRESS false "" -1 -1`, []reply{
			{200, "", `{"status":"IN_PROGRESS"}`},
			{200, "", `{"status":"in_progress","error":null,"integrationResults":null}`},
			{200, "", `{"execution":{"id":"12","status":"IN_PROGRESS"}}`},
		}},
		{"11: FAILED", results, `FAILED true "duplicate headers" -1 -1`, []reply{
			{200, "", `{"status":"FAILED","error":"duplicate headers"}`},
			{200, "", `{"data":{"Status":"failed","Error":" duplicate\nheaders "}}`},
			{200, "", `{"id":12,"status":"FAILED","integrationResults":{},"error":"duplicate headers"}`},
		}},
		{"11: the initial state", func(c *Client) string {
			r, err := c.Results(ctx, "12")
			return told(fmt.Sprint(r.Status.Ended(), r.Error), err)
		}, "false", []reply{
			{200, "", `{"status":"CREATED"}`},
			{200, "", `{"status":"queued","position":3}`},
			{200, "", `{"id":12,"status":"Waiting","integrationResults":{}}`},
			{202, "", `{"status":"IN_PROGRESS"}`},
		}},
		{"11: the error of FAILED", func(c *Client) string {
			r, err := c.Results(ctx, "12")
			return told(fmt.Sprint(r.Status, strings.Contains(r.Error, "duplicate headers")), err)
		}, "FAILEDtrue", []reply{
			{200, "", `{"status":"FAILED","error":"duplicate headers"}`},
			{200, "", `{"status":"FAILED","error":{"code":"E7","message":"duplicate headers"}}`},
			{200, "", `{"status":"FAILED","error":[{"message":"duplicate headers","line":1}]}`},
		}},
		{"11: no such execution", results, "not found", missing},
		{"11: counters", results, `FINISHED true "" 10 1`, []reply{
			{200, "", `{"status":"FINISHED","integrationResults":{"linesRead":10,"linesInError":1}}`},
			{200, "", `{"status":"FINISHED","integrationResults":{"read":"10","errors":"1","merged":3}}`},
			{200, "", `{"status":"FINISHED","integrationResults":[{"totalLines":6,"rejected":1},{"totalLines":4,"rejected":0}]}`},
			{200, "", `{"result":{"status":"FINISHED","integration-results":{"lines":{"received":10,"invalid":1}}}}`},
		}},
		{"12: no output files", func(c *Client) string {
			out, err := c.OutputFiles(ctx, "12", io.Discard)
			if told("", err) == NotFound.String() || err == nil && out.Bytes == 0 {
				return "none"
			}
			return told(fmt.Sprint(out.Bytes), err)
		}, "none", []reply{{404, "", `"none"`}, {204, "", ""}, {200, "", ""}}},
		{"13: id of the subscription", subscription, "12", append(ids, reply{200, "", `{"webhookSubscription":{"id":"12"}}`})},
		{"13: no id", subscription, "", nothing},
		{"a refused import of the day", execution, "no slot left", []reply{
			{429, "", `{"error":"daily import limit reached"}`},
			{400, "", `{"code":"DAILY_IMPORT_LIMIT_REACHED"}`},
			{403, "", "Maximum number of imports per day reached"},
		}},
		{"a missing access right", update, "unauthorized", []reply{
			{403, "", ""}, {403, "", `{"error":"access right missing"}`}, {403, "", "<html>forbidden</html>"},
		}},
		{"a refused body", update, "rejected", []reply{
			{400, "", ""}, {422, "", `{"errors":[{"field":"total"}]}`}, {400, "", "\x00\xff bad"},
		}},
	}
}

func TestEveryOpenAnswerIsUnderstoodInThreeShapes(t *testing.T) {
	var next reply
	s := &service{calls: func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if next.location != "" {
			w.Header().Set("Location", next.location)
		}
		w.WriteHeader(next.status)
		_, _ = io.WriteString(w, next.body)
	}}
	c := s.start(t)
	for _, open := range openAnswers(t) {
		if len(open.replies) < 3 {
			t.Errorf("%s: got %d shapes, want at least 3", open.name, len(open.replies))
		}
		for _, next = range open.replies {
			if got := open.learn(c); got != open.want {
				t.Errorf("%s: %v: got %q, want %q", open.name, next, got, open.want)
			}
		}
	}
}

// The reasons of refusals go into dead letters as they come, whatever wraps
// them.
func TestReasonsOfRefusalsAreKeptInEveryShape(t *testing.T) {
	for _, shape := range []string{
		`{"status":409,"error":"taken"}`, `taken`, `"taken"`, `["taken"]`, "taken" + strings.Repeat(".", 1000),
	} {
		s := &service{calls: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, shape)
		}}
		_, err := s.start(t).UpsertProfile(t.Context(), "customers", JSON(`{}`))
		want := shape[:min(len(shape), reasonLength)]
		if e := errorOf(t, err); e.Kind() != Conflict || e.Reason() != want {
			t.Errorf("got %v with reason %q, want a conflict with %q", e.Kind(), e.Reason(), want)
		}
	}
}
