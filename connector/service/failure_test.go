package service

import (
	"net/http"
	"strings"
	"testing"
)

func TestOnlyPlainWordsOfAFailureAreTold(t *testing.T) {
	for words, want := range map[string]string{
		"":                               "",
		"duplicate headers":              "duplicate headers",
		"Duplicate header: emailAddress": "Duplicate header: …",
		"row 17: wrong number of columns, M. Dupont; Paris":        "row 17: wrong number of columns, …",
		"expected 5 columns but found 6":                           "expected 5 columns but found …",
		"Line #3 has too many fields (7)":                          "Line #3 has too many fields (…)",
		"No such file: customers.csv":                              "No such file: …",
		"the archive is corrupt":                                   "the archive is corrupt",
		"The archive is corrupt. Try again at 08:15, please.":      "The archive is corrupt. …, please.",
		"row 4: invalid value 19800214":                            "row 4: invalid value …",
		"row 4: invalid value 1980-02-14":                          "row 4: invalid value …",
		"row 4: the number 0612345678 is not allowed":              "row 4: the number … is not allowed",
		`the value "a@example.com" of column 3 is not allowed`:     "the value … of column 3 is not allowed",
		`the value "a@example.com" of emailAddress is not allowed`: "",
		"duplicate header 'first name', in the file":               "duplicate header …, in the file",
		`the value "Dupont of the first row is not allowed`:        "",
		"row 4: expected integer, got 42":                          "row 4: expected integer, got …",
		"row 4: x42failed is unknown":                              "row 4: …",
		"Jane O'Neill":                                             "",
		"42":                                                       "",
		"Dupont, 12 rue Haute":                                     "",
		"row 12 rue Haute":                                         "",
		"the broken pipe lets this import fail":                    "",
		`{"code":"IMPORT_FAILED","message":"the disk is full"}`:    "IMPORT_FAILED: the disk is full",
		`{"code":"IMPORT_FAILED","message":"the file is empty"}`:   "IMPORT_FAILED: the file is empty",
		`["row 3: too many fields", "Dupont"]`:                     "row 3: too many fields: …",
	} {
		if got := plainly(words); got != want {
			t.Errorf("%q: got %q, want %q", words, got, want)
		}
	}
}

func TestErrorsQuoteTheServiceOnlyWhereItCannotKnowValues(t *testing.T) {
	for op := opUpsertProfile; op <= opToken; op++ {
		e := refusal(op, 422, http.Header{}, []byte("M. Dupont"), nil)
		quoted := op == opCreateETL || op == opCreateWebhook || op == opToken
		if got := strings.Contains(e.Error(), "Dupont"); got != quoted || e.Reason() != "M. Dupont" {
			t.Errorf("%v: got %q with the reason %q, want it quoted: %v", op, e, e.Reason(), quoted)
		}
	}
	const want = "net/http: HTTP/1.x transport connection broken: what came is not HTTP"
	if got := unquoted(`net/http: HTTP/1.x transport connection broken: malformed HTTP response "M. Dupont"`); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
