package fieldpath

import (
	"testing"

	"github.com/feedsink/feedsink/schemas"
)

const nested = `{"id":7,"a":{"b":{"c":"deep"},"b.c":"dotted","x[0]":"odd"},"it's":1,` +
	`"items":[{"sku":"s1","tags":["t1","t2"]},{"sku":null,"tags":[]},{"qty":3,"tags":["t3"]},{"sku":"s4"}],` +
	`"matrix":[[1,2],[3]],"empty":[],"null":null}`

func TestPathsLeadIntoObjectsAndLists(t *testing.T) {
	v, err := schemas.NewJSON().Decode([]byte(nested))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		`id`:                 `7`,
		`a.b.c`:              `"deep"`,
		`a."b.c"`:            `"dotted"`,
		`a["b.c"]`:           `"dotted"`,
		`a['x[0]']`:          `"odd"`,
		`"it's"`:             `1`,
		`["a"]["b"]["c"]`:    `"deep"`,
		`items[0].sku`:       `"s1"`,
		`items[-1].sku`:      `"s4"`,
		`items[4].sku`:       `absent`,
		`items[-5].sku`:      `absent`,
		`items[1].sku`:       `null`,
		`matrix[0][1]`:       `2`,
		`items[*].sku`:       `["s1","s4"]`,
		`items[*].tags[*]`:   `["t1","t2","t3"]`,
		`items[*].tags[0]`:   `["t1","t3"]`,
		`items[*].tags`:      `[["t1","t2"],[],["t3"]]`,
		`matrix[*][*]`:       `[1,2,3]`,
		`empty[*].x`:         `[]`,
		`id[*]`:              `absent`,
		`nothing[*].x`:       `absent`,
		`null[*]`:            `absent`,
		`null`:               `null`,
		`a.b.c.d`:            `absent`,
		`a[0]`:               `absent`,
		`items.sku`:          `absent`,
		`total-cents`:        `absent`,
		`Name With Blanks`:   `absent`,
		`items[0]["sku"]`:    `"s1"`,
		`items[0]."tags"[1]`: `"t2"`,
	} {
		steps, _, err := Parse(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		got := "absent"
		if at := Follow(v, steps); at.Kind() != schemas.Absent {
			got = string(at.AppendJSON(nil))
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

func TestPathMistakesSayWhere(t *testing.T) {
	for path, want := range map[string]string{
		``:              `column 1: a name is missing`,
		`.a`:            `column 1: a name is missing`,
		`a..b`:          `column 3: a name is missing`,
		`a.`:            `column 3: a name is missing`,
		`a[x]`:          `column 2: [ wants a number, * or a name in quotes, and ]`,
		`a[0`:           `column 2: [ wants a number, * or a name in quotes, and ]`,
		`a[]`:           `column 2: [ wants a number, * or a name in quotes, and ]`,
		`a[+1]`:         `column 2: [ wants a number, * or a name in quotes, and ]`,
		`a[0]b`:         `column 5: a dot or [ is missing`,
		`a"b"`:          `column 2: a dot or [ is missing`,
		`a."b`:          `column 3: the quote has no end`,
		`a.""`:          `column 3: a name is missing`,
		`a["b"`:         `column 6: [ wants a number, * or a name in quotes, and ]`,
		`a]`:            `column 2: a dot or [ is missing`,
		`a[1e3]`:        `column 2: [ wants a number, * or a name in quotes, and ]`,
		`a[9999999999]`: `column 2: [ wants a number, * or a name in quotes, and ]`,
	} {
		if _, _, err := Parse(path); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
}

// FuzzPath: no text makes reading or following a path fail, and what is read
// again after being written in quotes leads to the same place.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{`a.b`, `items[0].sku`, `items[*].tags[*]`, `a["b.c"]`, `"x"['y'][-1]`, `a[`, `..`} {
		f.Add(seed)
	}
	v, err := schemas.NewJSON().Decode([]byte(nested))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		steps, _, err := Parse(text)
		if err != nil {
			return
		}
		if len(steps) == 0 {
			t.Fatalf("%q: got no steps and no error", text)
		}
		at := Follow(v, steps)
		if s := steps[0]; s.Kind == Member && len(steps) == 1 && !at.Equal(v.Get(s.Name)) {
			t.Fatalf("%q: got %v, want the member %q", text, at, s.Name)
		}
	})
}
