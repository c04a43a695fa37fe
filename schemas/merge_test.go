package schemas_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/schemas"
)

// parse reads "op name=value …": names are attributes, or properties of a custom
// table; dc.x is of the data collection, id= the profile's id.
func parse(t *testing.T, text string, custom bool) schemas.Write {
	t.Helper()
	words := strings.Fields(text)
	op, ok := schemas.ParseOp(words[0])
	if !ok {
		t.Fatalf("no op in %q", text)
	}
	w := schemas.Write{Op: op, Table: schemas.Table{Name: "t", Custom: custom}, Key: "k"}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		if name == "id" {
			w.ProfileID = value
			continue
		}
		section := schemas.Attributes
		if custom {
			section = schemas.Properties
		}
		if rest, found := strings.CutPrefix(name, "dc."); found {
			section, name = schemas.DataCollection, rest
		}
		w.Cells = append(w.Cells, schemas.Cell{Place: &schemas.Place{Section: section, Name: name}, Value: schemas.StringValue(value)})
	}
	return w
}

func format(w *schemas.Write) string {
	text := w.Op.String()
	if w.ProfileID != "" {
		text += " id=" + w.ProfileID
	}
	for _, c := range w.Cells {
		name := c.Name
		if c.Section == schemas.DataCollection {
			name = "dc." + name
		}
		text += fmt.Sprintf(" %s=%s", name, c.Value.Text())
	}
	return text
}

// TestMergeIsWhatBothWouldLeave is the truth table of merging.
func TestMergeIsWhatBothWouldLeave(t *testing.T) {
	const apart = "" // two calls
	for _, c := range []struct {
		custom               bool
		waiting, newer, want string
	}{
		{false, "upsert a=1 b=1", "upsert a=2", "upsert a=2"},
		{false, "patch id=p a=1 b=1", "upsert a=2", "upsert id=p a=2"},
		{false, "upsert a=1 b=1", "patch id=p b=2 c=2", "upsert id=p a=1 b=2 c=2"},
		{false, "patch id=p a=1 b=1", "patch id=p b=2", "patch id=p a=1 b=2"},
		{false, "patch id=p a=1", "patch id=q a=2", apart},
		{false, "upsert a=1", "create a=2", apart},
		{false, "upsert a=1", "delete", apart},
		{false, "create a=1", "upsert a=2", apart},
		{false, "create a=1", "patch a=2", apart},
		{false, "delete", "upsert a=2", apart},
		{false, "delete", "delete", apart},
		{false, "upsert a=1 dc.date=1 dc.way=1", "patch dc.date=2", apart},
		{false, "patch dc.way=1", "patch dc.date=2", apart},
		{false, "upsert a=1 dc.date=1", "patch dc.date=2 dc.way=2", "upsert a=1 dc.date=2 dc.way=2"},
		{false, "upsert a=1 dc.date=1 dc.way=1", "patch a=2", "upsert a=2 dc.date=1 dc.way=1"},
		{false, "upsert date=1", "patch dc.date=2", "upsert date=1 dc.date=2"},

		{true, "upsert a=1 b=1", "upsert a=2 b=2 c=2", "upsert a=2 b=2 c=2"},
		{true, "upsert a=1 b=1", "upsert a=2", apart},
		{true, "patch a=1", "upsert a=2 b=2", "upsert a=2 b=2"},
		{true, "patch a=1 b=1", "upsert a=2", apart},
		{true, "upsert a=1", "patch b=2", "upsert a=1 b=2"},
		{true, "patch a=1", "patch a=2 b=2", "patch a=2 b=2"},
		{true, "create a=1", "upsert a=2", apart},
		{true, "upsert a=1", "delete", apart},
	} {
		waiting, newer := parse(t, c.waiting, c.custom), parse(t, c.newer, c.custom)
		got := apart
		if schemas.Merge(&waiting, &newer) {
			got = format(&waiting)
		} else if left := format(&waiting); left != c.waiting {
			t.Errorf("custom %v: %s, then %s: not merged, but left %q", c.custom, c.waiting, c.newer, left)
		}
		if got != c.want {
			t.Errorf("custom %v: %s, then %s: got %q, want %q", c.custom, c.waiting, c.newer, got, c.want)
		}
	}
}
