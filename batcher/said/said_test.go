package said

import (
	"slices"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/spool"
)

func TestMembersThatAnswersHaveAreNoColumns(t *testing.T) {
	k := New("customers")
	k.Add([]spool.Column{{Header: "k"}, {Header: "a"}, {Header: "status"}})
	for words, want := range map[string][]string{
		`{"error":"no such ETL","status":404}`:               nil,
		`{"error":"status is not known", "status": 400}`:     {"status"},
		`{"errors":{"k":"is not known"},"status":"refused"}`: {"k"},
	} {
		if got := k.named(words); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", words, got, want)
		}
	}
}

func TestNothingButColumnsIsSaidOfTheServicesWords(t *testing.T) {
	k := New("customers")
	k.Add([]spool.Column{{Header: "email"}})
	k.Add([]spool.Column{{Header: "email"}})
	const words = "email of Anna Berg: anna@example.com"
	imp := contract.Import{File: "d.csv.gz", Execution: "e1"}
	text := k.Failure(&imp, contract.Results{Cause: "INVALID_VALUE", Reason: words})
	if !strings.HasPrefix(text, "INVALID_VALUE (it names email); ") || strings.Contains(text, "Anna") || strings.Contains(text, "example") {
		t.Errorf("got %q, want the cause and the column", text)
	}
	if last, ok := k.Last(); !ok || last.Words != words || last.File != "d.csv.gz" || last.Execution != "e1" {
		t.Errorf("got %+v, want all words kept for a person who asks", last)
	}
}
