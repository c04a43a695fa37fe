package problem_test

import (
	"testing"

	"github.com/feedsink/feedsink/router/problem"
)

func TestSuggestionsNameNothingThatIsNotThere(t *testing.T) {
	for _, c := range []struct {
		candidates []string
		want       string
	}{
		{nil, ""},
		{[]string{""}, ""},
		{[]string{"total", "", "status"}, "one of total, status"},
		{[]string{"", "tootl"}, `did you mean "tootl"?`},
	} {
		if got := problem.Suggest("tootle", c.candidates...); got != c.want {
			t.Errorf("of %q: got %q, want %q", c.candidates, got, c.want)
		}
	}
}
