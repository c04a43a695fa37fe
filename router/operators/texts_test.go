package operators_test

import (
	"testing"
	"unicode/utf8"

	"github.com/feedsink/feedsink/router/operators"
)

// TestTextsAreCutBetweenCharacters compares with the same of a list of the characters.
func TestTextsAreCutBetweenCharacters(t *testing.T) {
	for _, text := range []string{"", "a", "Ada", "Élodie", "aé", "日本語", "a\u0301b", "🙂x"} {
		var list []any
		for _, r := range text {
			list = append(list, string(r))
		}
		for from := -9; from < 9; from++ {
			for to := -9; to < 9; to++ {
				sameParts(t, text, list, from, to)
			}
			sameParts(t, text, list, from, nil)
			sameParts(t, text, list, nil, from)
			one, err := operators.OfExpressions[operators.Member](text, from)
			want, _ := operators.OfExpressions[operators.Member](list, from)
			if got, _ := operators.OfExpressions["get"](text, from); got != want || one != want || err != nil {
				t.Errorf("%q[%d]: got %v, %v, by get %v, want %v", text, from, one, err, got, want)
			}
		}
	}
}

func sameParts(t *testing.T, text string, list []any, from, to any) {
	t.Helper()
	got, err := operators.OfExpressions[operators.Slice](text, from, to)
	parts, _ := operators.OfExpressions[operators.Slice](list, from, to)
	want := ""
	for _, part := range parts.([]any) {
		want += part.(string)
	}
	if got != want || err != nil {
		t.Errorf("%q[%v:%v]: got %q, %v, want %q", text, from, to, got, err, want)
	}
}

func TestWhereATextIsFoundCountsCharacters(t *testing.T) {
	for _, c := range []struct {
		name, text, part string
		want             int
	}{
		{"indexOf", "élodie@x", "@", 6},
		{"indexOf", "x", "@", -1},
		{"indexOf", "é", "", 0},
		{"lastIndexOf", "é.é.c", ".", 3},
		{"lastIndexOf", "é", "", utf8.RuneCountInString("é")},
	} {
		if got, err := operators.OfConditions[c.name](c.text, c.part); got != c.want || err != nil {
			t.Errorf("%s(%q, %q): got %v, %v, want %d", c.name, c.text, c.part, got, err, c.want)
		}
	}
}
