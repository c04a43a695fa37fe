package sandbox_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

func TestRowsCanBeRefusedByRulesThatNoClientKnows(t *testing.T) {
	c := config()
	c.Shapes.Reasons = sandbox.ReasonCodes
	v := newService(t, c)
	if err := v.RejectRows(
		sandbox.Rejection{Table: "orders", Column: "customerNumber", Match: "."},
		sandbox.Rejection{Table: "customers", Column: "customerNumber", Match: "7$", Code: "SEVEN", Reason: "ends with seven"},
		sandbox.Rejection{Column: "age", Match: "^1[0-9]$"},
	); err != nil {
		t.Fatal(err)
	}
	var file strings.Builder
	file.WriteString("customerNumber,age\n")
	for i := 5; i < 12; i++ {
		fmt.Fprintf(&file, "C%d,%d\n", i, i)
	}
	e := v.load("up", file.String())
	if want := (sandbox.Results{Read: 7, InError: 3, Inserted: 4}); e.Results != want {
		t.Errorf("got %+v, want %+v", e.Results, want)
	}
	got := v.must(200, http.MethodGet, massBase+"/etl-executions/"+e.ID+"/output-files", "")
	want := "customerNumber,age,ERROR_CODE,ERROR_MESSAGE\nC7,7,SEVEN,ends with seven\n" +
		"C10,10,REFUSED,refused by a rule of the table\nC11,11,REFUSED,refused by a rule of the table"
	if got != want {
		t.Errorf("error file:\n got %s\nwant %s", got, want)
	}
	v.ClearRejections()
	if e := v.load("up", file.String()); e.Results.InError != 0 {
		t.Errorf("cleared: got %+v, want no row in error", e.Results)
	}
	for _, bad := range []sandbox.Rejection{{Column: "age", Match: "("}, {Match: "x"}} {
		if err := v.RejectRows(bad); err == nil {
			t.Errorf("%+v: got no error", bad)
		}
	}
}

// TestRowErrorsHaveTheirReasons has one row for each reason for which a row
// may be in error.
func TestRowErrorsHaveTheirReasons(t *testing.T) {
	for _, c := range []struct {
		etl, header, row, code string
	}{
		{"up", "note", strings.Repeat("x", 256), "TOO_LONG"},
		{"up", "age", "2147483648", "NOT_INTEGER"},
		{"up", "score", "+1", "NOT_NUMBER"},
		{"up", "adult", "yes", "NOT_BOOLEAN"},
		{"up", "birthDate", "31/12/1999", "NOT_DATE"},
		{"up", "lastLogin", "2026-11-21 10:00:00", "NOT_TIMESTAMP"},
		{"up", "emailAddress", "nobody", "NOT_EMAIL"},
		{"up", "phone", "012", "NOT_PHONE"},
		{"up", "languages", "fr|xx", "NOT_LANGUAGE"},
		{"up", "languages", "[1", "NOT_LIST"},
		{"up", "country", "QQ", "NOT_COUNTRY"},
		{"up", "sex", "X", "NOT_SEX"},
		{"up", "title", "Dr", "NOT_TITLE"},
		{"up", "home", "1;2", "NOT_COORDINATES"},
		{"up", "subscriptions#newsletter", "1", "NOT_BOOLEAN"},
		{"up", "S_vip", "gold", "NOT_BOOLEAN"},
		{"up", "S_tier", "bronze", "NOT_SEGMENT"},
		{"new", "lastMailActivityStatus", "SOLD", "NOT_STATUS"},
		{"new", "blacklistMoment", "yesterday", "NOT_TIMESTAMP"},
		{"new", "note", "exists", "ALREADY_THERE"},
		{"change", "note", "misses", "NOT_THERE"},
		{"up", "emailAddress", "b@example.com", "KEYS_CONFLICT"},
	} {
		cfg := config()
		cfg.Shapes.Reasons = sandbox.ReasonCodes
		v := newService(t, cfg)
		v.profile(`{"attributes":{"customerNumber":"C1"}}`)
		v.profile(`{"attributes":{"customerNumber":"C2","emailAddress":"b@example.com"}}`)
		key := "C1"
		if c.code == "NOT_THERE" {
			key = "C9"
		}
		e := v.load(c.etl, "customerNumber,"+c.header+"\n"+key+","+c.row+"\n")
		if e.Results.InError != 1 {
			t.Errorf("%s %s: got %s %s %+v, want one row in error", c.header, c.row, e.Status, e.Error, e.Results)
			continue
		}
		got := v.must(200, http.MethodGet, massBase+"/etl-executions/"+e.ID+"/output-files", "")
		if !strings.Contains(got, ","+c.code+",") {
			t.Errorf("%s %s: got %s, want the code %s", c.header, c.row, got, c.code)
		}
	}
}
