package tables

import (
	"maps"
	"testing"

	"github.com/feedsink/feedsink/router"
)

// mapped is a mapping as far as groups looks at one.
func mapped(name string, topics []string, bundle string, after ...string) *router.Compiled {
	return &router.Compiled{Name: name, Config: router.Mapping{Topics: topics, Bundle: bundle, After: after}}
}

func TestTablesThatBelongTogetherAreOneGroup(t *testing.T) {
	on := func(topics ...string) []string { return topics }
	for _, c := range []struct {
		what     string
		mappings []*router.Compiled
		want     map[string]string // topic to group
	}{
		{"none", nil, map[string]string{}},
		{"strangers stay apart", []*router.Compiled{mapped("a", on("t1"), ""), mapped("b", on("t2"), "")}, map[string]string{"t1": "a", "t2": "b"}},
		{"a topic that feeds two tables", []*router.Compiled{mapped("a", on("t1", "t2"), ""), mapped("b", on("t2", "t3"), "")}, map[string]string{"t1": "a", "t2": "a", "t3": "a"}},
		{"a parent that comes first", []*router.Compiled{mapped("a", on("t1"), ""), mapped("b", on("t2"), "", "a")}, map[string]string{"t1": "a", "t2": "a"}},
		{"a parent that comes later", []*router.Compiled{mapped("b", on("t2"), "", "a"), mapped("a", on("t1"), "")}, map[string]string{"t1": "b", "t2": "b"}},
		{"a bundle", []*router.Compiled{mapped("a", on("t1"), "x"), mapped("b", on("t2"), "y"), mapped("c", on("t3"), "x")}, map[string]string{"t1": "a", "t2": "b", "t3": "a"}},
		{"mappings without a bundle are in none together", []*router.Compiled{mapped("a", on("t1"), ""), mapped("b", on("t2"), "x"), mapped("c", on("t3"), "")}, map[string]string{"t1": "a", "t2": "b", "t3": "c"}},
		{
			"friends of friends: two groups joined by the last mapping",
			[]*router.Compiled{mapped("a", on("t1"), ""), mapped("b", on("t2"), "x"), mapped("c", on("t3"), "x"), mapped("d", on("t4"), "", "a", "c"), mapped("e", on("t5"), "")},
			map[string]string{"t1": "a", "t2": "a", "t3": "a", "t4": "a", "t5": "e"},
		},
		{
			"a chain told backwards",
			[]*router.Compiled{mapped("d", on("t4"), "", "c"), mapped("c", on("t3"), "", "b"), mapped("b", on("t2"), "", "a"), mapped("a", on("t1"), "")},
			map[string]string{"t1": "d", "t2": "d", "t3": "d", "t4": "d"},
		},
		// One word may name a mapping, a topic and a bundle, which joins nothing.
		{"namesakes", []*router.Compiled{mapped("a", on("b"), ""), mapped("b", on("c"), "a"), mapped("c", on("d"), "")}, map[string]string{"b": "a", "c": "b", "d": "c"}},
	} {
		if got := groups(c.mappings); !maps.Equal(got, c.want) {
			t.Errorf("%s:\n got %v\nwant %v", c.what, got, c.want)
		}
	}
}
