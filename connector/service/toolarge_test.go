package service

import (
	"net/http"
	"strings"
	"testing"
)

func TestFileThatIsTooLargeIsToldByTheReason(t *testing.T) {
	for words, want := range map[string]bool{
		"File too large":                                       true,
		"the file is too large: 104857601 bytes":               true,
		"FILE_TOO_LARGE":                                       true,
		"request body too large":                               true,
		"too many rows":                                        true,
		"Too many data rows in file":                           true,
		"number of rows exceeds 500000":                        true,
		"The maximum file size is 100 MB":                      true,
		"Maximum number of records exceeded":                   true,
		"file size limit exceeded":                             true,
		"":                                                     false,
		"row 4: expected 5 columns but found 6":                false,
		"Line #3 has too many fields (7)":                      false,
		"too many columns":                                     false,
		"the value of emailAddress is too long":                false,
		"maximum number of imports per day exceeded":           false,
		"internal error":                                       false,
		"not enough storage for the file":                      false,
		"header emailAddress appears more than once":           false,
		"row with the wrong number of columns":                 false,
		"invalid file format":                                  false,
		"Rate limit exceeded: maximum of 100 calls per minute": false,

		`{"errors":[{"code":"FILE_TOO_LARGE","field":null}]}`:               true,
		`{"error":"Bad Request","message":"number of rows exceeds 500000"}`: true,
		"Error: too many rows":                                              true,
		"INVALID_FILE_SIZE: the file size exceeds 100 MB":                   true,
		"Maximum of 500000 records per file exceeded":                       true,
		"Invalid file: 3 rows have more than 12 columns":                    false,
		"INVALID_COLUMN_COUNT: lines 2, 9 contain more than the 5 expected": false,
		"lines 2, 9 contain more than the 5 expected columns":               false,
		"The number of columns in lines 3 and 5 exceeds the header":         false,
		"Too many rejected rows: 60 %":                                      false,
		"Too many rows failed: 60 %":                                        false,
		"Import failed: too many rows":                                      true,
		"Too many invalid records":                                          false,
		"Error threshold exceeded: 120 rows in error":                       false,
		"maximum of 100 errors exceeded after 2000 rows":                    false,
		"line 4, field bio: content too long":                               false,
		"The maximum share of failed rows is 10 %":                          false,
		`{"message":"values of lines 3 and 5 are longer than the maximum"}`: false,
	} {
		if got := (Results{Status: Failed, Error: words}).TooLarge(); got != want {
			t.Errorf("%q: got %v, want %v", words, got, want)
		}
	}
	if (Results{Status: Finished, Error: "too many rows"}).TooLarge() {
		t.Error("FINISHED: got too large, want not")
	}
	for _, c := range []struct {
		e    Error
		want bool
	}{
		{Error{op: opTrigger, kind: Rejected, status: 413}, true},
		{Error{op: opTrigger, kind: Rejected, status: 400, reason: "file too large"}, true},
		{Error{op: opTrigger, kind: Rejected, status: 400, reason: "invalid file format"}, false},
		{Error{op: opTrigger, kind: Transient, status: 413}, true}, // a gateway's: it bounds the size as well
		{Error{op: opOneShot, kind: Transient, status: 413}, true},
		{Error{op: opUpsertRecord, kind: Transient, status: 413}, false},
		{Error{op: opTrigger, kind: Transient, status: 400, reason: "file too large"}, false},
		{Error{op: opTrigger, kind: NoSlot, status: 409, reason: "too many rows"}, false},
	} {
		if got := c.e.TooLarge(); got != c.want {
			t.Errorf("%d %q: got %v, want %v", c.e.status, c.e.reason, got, c.want)
		}
	}
}

// TestGatewaysPageOfA413SaysWhatToDo: the file is never taken, and the page's own words say nothing.
func TestGatewaysPageOfA413SaysWhatToDo(t *testing.T) {
	const page = "<html><head><title>413 Request Entity Too Large</title></head></html>"
	for op, want := range map[operation]string{opTrigger: "set imports.maxFile", opOneShot: "divide it", opUpsertRecord: "it is a web page"} {
		e := refusal(op, 413, http.Header{"Content-Type": {"text/html"}}, []byte(page), nil)
		if got := e.TooLarge(); got != op.uploads() || e.Unknown() {
			t.Errorf("%v: got too large %v, unknown %v, want %v and false", op, got, e.Unknown(), op.uploads())
		}
		if !strings.Contains(e.Error(), want) || !strings.Contains(e.Error(), "check service.baseURL") {
			t.Errorf("%v: got %q, want %q and what to check in it", op, e, want)
		}
	}
}
