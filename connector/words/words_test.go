package words_test

import (
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/words"
)

func TestTableHasADashForWhatIsEmpty(t *testing.T) {
	table := words.Table{{"A", "LONG NAME"}}
	table.Add("", "x")
	table.CountAny("none", 0, " of them")
	table.CountAny("some", 2, " of them")
	const want = "A     LONG NAME\n-     x\n  below x\nsome  2 of them"
	if got := table.Over([][]string{{"  below x"}, nil}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestNumbersAreSaidWithWhatTheyCount(t *testing.T) {
	for got, want := range map[string]string{
		words.Counted(1, "row"):                                  "1 row",
		words.Counted(0, "row"):                                  "0 rows",
		words.Counted(2, "place has", "places have"):             "2 places have",
		words.ByWord(map[string]int{"value": 3, "conflict": 12}): " (conflict 12, value 3)",
		words.ByWord(map[string]int64{}):                         "",
		words.Number(0) + words.Number(7):                        "7",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestTextFromOutsideCannotMoveTheCursor(t *testing.T) {
	for text, want := range map[string]string{"M. Dupont é": "M. Dupont é", "a\nb": `"a\nb"`, "\x1b[2J": `"\x1b[2J"`} {
		if got := words.OneLine(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func TestNotesThatAreTooManyAreLeftToJSON(t *testing.T) {
	each := func(n int) []string { return []string{words.Number(n), ""} }
	if got := words.Few(make([]int, 20), each); len(got) != 40 {
		t.Errorf("20 notes: got %d lines, want those of all", len(got))
	}
	if got := words.Few(make([]int, 21), each); len(got) != 41 || !strings.Contains(got[40], "-o json") {
		t.Errorf("21 notes: got %q, want the 20 first and where the others are", got)
	}
}
