package sandbox_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

func TestExecutionStaysInProgressForItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config()
		c.Processing = time.Hour
		v := newService(t, c)
		v.push("up", "file.csv", []byte("customerNumber\nC1\n"))
		results := massBase + "/etl-executions/1001/integration-results"

		time.Sleep(time.Hour - time.Nanosecond)
		synctest.Wait()
		v.login() // a token does not live that long
		if got, want := v.must(200, http.MethodGet, results, ""), `{"id":"1001","status":"IN_PROGRESS"}`; got != want {
			t.Errorf("before its time: got %s, want %s", got, want)
		}
		if got := v.Len("customers"); got != 0 {
			t.Errorf("before its time: got %d rows, want none", got)
		}

		time.Sleep(time.Nanosecond)
		synctest.Wait()
		want := `{"id":"1001","integrationResults":{"deleted":0,"inserted":1,"linesInError":0,"linesRead":1,"updated":0},"status":"FINISHED"}`
		if got := v.must(200, http.MethodGet, results, ""); got != want {
			t.Errorf("after its time: got %s, want %s", got, want)
		}
	})
}

func TestHeldExecutionsWaitForFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newService(t, config())
		v.Hold()
		one := v.push("up", "1.csv", []byte("customerNumber\nC1\n"))
		two := v.push("up", "2.csv", []byte("customerNumber\nC2\n"))
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if got := v.Len("customers"); got != 0 {
			t.Fatalf("held: got %d rows, want none", got)
		}
		if e := v.finish(two); e.Status != sandbox.Finished || v.Len("customers") != 1 {
			t.Errorf("finished one: got %s and %d rows", e.Status, v.Len("customers"))
		}
		v.Release()
		v.finish(one)
		if got := v.Len("customers"); got != 2 {
			t.Errorf("released: got %d rows, want 2", got)
		}
		if err := v.Finish("77"); err == nil {
			t.Error("finishing an unknown execution: got no error")
		}
	})
}

func TestModesDoWhatTheirNamesSay(t *testing.T) {
	const before = `{"attributes":{"customerNumber":"C1","firstName":"Ann","note":"kept"}}`
	const file = "customerNumber,firstName\nC1,Bea\nC2,Cid\n"
	for _, c := range []struct {
		etl     string
		results sandbox.Results
		first   string // C1's name afterwards, "" for none
		second  bool   // C2 exists afterwards
		keys    []string
	}{
		{"up", sandbox.Results{Read: 2, Inserted: 1, Updated: 1}, "Bea", true, []string{"C1", "C2"}},
		{"new", sandbox.Results{Read: 2, InError: 1, Inserted: 1}, "Ann", true, []string{"C2"}},
		{"change", sandbox.Results{Read: 2, InError: 1, Updated: 1}, "Bea", false, []string{"C1"}},
		{"drop", sandbox.Results{Read: 2, Deleted: 1}, "", false, []string{"C1", "C2"}},
	} {
		t.Run(c.etl, func(t *testing.T) {
			v := newService(t, config())
			v.profile(before)
			e := v.load(c.etl, file)
			if e.Status != sandbox.Finished || e.Results != c.results {
				t.Errorf("got %s %s %+v, want %+v", e.Status, e.Error, e.Results, c.results)
			}
			if !reflect.DeepEqual(e.Loads[0].Keys, c.keys) {
				t.Errorf("keys: got %v, want %v", e.Loads[0].Keys, c.keys)
			}
			row, _ := v.Row("customers", "C1")
			if row.Text("firstName") != c.first || c.first != "" && row.Text("note") != "kept" {
				t.Errorf("C1: got %v, want firstName %q and note kept", row.Values, c.first)
			}
			if _, ok := v.Row("customers", "C2"); ok != c.second {
				t.Errorf("C2: got %t, want %t", ok, c.second)
			}
		})
	}
}

func TestGlobalErrorsFailTheExecutionAndApplyNothing(t *testing.T) {
	for file, want := range map[string]string{
		"":                                   "there is no header line",
		"customerNumber,age\nC1,1\nC2\n":     "line 3: 1 columns instead of 2",
		"customerNumber,age\nC1,1\n\nC2,2\n": "line 3: 1 columns instead of 2",
		"customerNumber,note\nC1,a,b\n":      "line 2: 3 columns instead of 2",
		"customerNumber,note\nC1,\"a\n":      "an enclosed value is never closed",
		"customerNumber,note\nC1,a\"b\n":     "line 2: an enclosing character inside",
		"customerNumber,note\nC1,\"a\"b\n":   "line 2: a value goes on behind its enclosing",
		"customerNumber,note,note\nC1,a,b\n": `duplicate header "note"`,
		"customerNumber,nope\nC1,a\n":        `the table has no field "nope"`,
		"customerNumber,lastDevice\nC1,a\n":  `header "lastDevice": a technical attribute`,
		"customerNumber,note\nC1,\xff\n":     "line 2: not valid text",
		"\x1f\x8bnot a gzip":                 "invalid file: gzip: invalid header",
		"PK\x03\x04not a zip":                "invalid file: zip:",
	} {
		v := newService(t, config())
		e := v.load("up", file)
		if e.Status != sandbox.Failed || !strings.Contains(e.Error, want) {
			t.Errorf("%q: got %s %s, want FAILED %s", file, e.Status, e.Error, want)
		}
		if got := v.Len("customers"); got != 0 {
			t.Errorf("%q: got %d rows applied, want none", file, got)
		}
		answer := v.must(200, http.MethodGet, massBase+"/etl-executions/"+e.ID+"/integration-results", "")
		if got := field(t, answer, "status") + " " + field(t, answer, "error"); got != "FAILED "+e.Error {
			t.Errorf("%q: answered %s", file, got)
		}
	}
}

func TestTechnicalAttributesComeWithCreateOnly(t *testing.T) {
	v := newService(t, config())
	e := v.load("new", "customerNumber,lastMailActivityStatus,blacklistMoment\nC1,SENT,2026-01-01T00:00:00\nC2,SOLD,\n")
	if want := (sandbox.Results{Read: 2, InError: 1, Inserted: 1}); e.Results != want {
		t.Errorf("got %+v %s, want %+v", e.Results, e.Error, want)
	}
}

func TestReportsAreALogLineForEachRecipient(t *testing.T) {
	var log bytes.Buffer
	c := config()
	c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	c.ETLs[0].Recipients = []string{"ann@example.com", "bob@example.com"}
	c.ETLs[0].Output = sandbox.Location{Remote: "gone"}
	v := newService(t, c)
	v.load("up", "customerNumber,age\nC1,1\nC2,x\n")
	v.load("up", "nope\n")
	v.load("new", "customerNumber\nC1\n") // has no recipients
	want := strings.Join([]string{
		`level=WARN msg="output files were not dropped" execution=1001 error="no such remote location"`,
		`level=INFO msg="e-mail report" to=ann@example.com execution=1001 etl=up file=file.csv status=FINISHED error="" read=2 in_error=1 inserted=1 updated=0 deleted=0`,
		`level=INFO msg="e-mail report" to=bob@example.com execution=1001 etl=up file=file.csv status=FINISHED error="" read=2 in_error=1 inserted=1 updated=0 deleted=0`,
		`level=INFO msg="e-mail report" to=ann@example.com execution=1002 etl=up file=file.csv status=FAILED error="invalid file: header \"nope\": the table has no field \"nope\"" read=0 in_error=0 inserted=0 updated=0 deleted=0`,
		`level=INFO msg="e-mail report" to=bob@example.com execution=1002 etl=up file=file.csv status=FAILED error="invalid file: header \"nope\": the table has no field \"nope\"" read=0 in_error=0 inserted=0 updated=0 deleted=0`,
		``,
	}, "\n")
	if got := log.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
