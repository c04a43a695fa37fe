package sandbox_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

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
