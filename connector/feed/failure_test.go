package feed

import (
	"net/http"
	"strings"
	"testing"
)

func TestTheCauseOfAFailureIsToldInOurWords(t *testing.T) {
	const (
		headers = "duplicate headers"
		columns = "a row has the wrong number of columns"
		format  = "the file's format is invalid"
		missing = "the file is missing"
	)
	for words, want := range map[string]string{
		"":                                       "",
		"Duplicate header: emailAddress":         headers,
		"the column emailAddress appears twice":  headers,
		"DUPLICATED_HEADERS: headers duplicated": headers,
		"row 17: wrong number of columns, M. Dupont; Paris":      columns,
		"line 3 has too many fields":                             columns,
		"expected 5 columns but found 6":                         columns,
		"column count mismatch at line 9":                        columns,
		"the file is missing":                                    missing,
		"No such file: customers.csv":                            missing,
		"invalid file format":                                    format,
		"Unsupported encoding":                                   format,
		"the archive is corrupt":                                 format,
		"M. Dupont does not like this":                           "",
		"the value a@example.com of emailAddress is not allowed": "",
	} {
		if got := causeOf(words); got != want {
			t.Errorf("%q: got %q, want %q", words, got, want)
		}
	}
}

func TestErrorsQuoteTheServiceOnlyWhereItCannotKnowValues(t *testing.T) {
	for op := OpUpsertProfile; op <= OpToken; op++ {
		e := refusal(op, 422, http.Header{}, []byte("M. Dupont"), nil)
		quoted := op == OpCreateETL || op == OpCreateWebhook || op == OpToken
		if got := strings.Contains(e.Error(), "Dupont"); got != quoted || e.Reason() != "M. Dupont" {
			t.Errorf("%v: got %q with the reason %q, want it quoted: %v", op, e, e.Reason(), quoted)
		}
	}
	const want = "net/http: HTTP/1.x transport connection broken: what came is not HTTP"
	if got := unquoted(`net/http: HTTP/1.x transport connection broken: malformed HTTP response "M. Dupont"`); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
