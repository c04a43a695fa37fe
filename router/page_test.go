package router_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/expr-lang/expr/builtin"

	"github.com/feedsink/feedsink/router"
)

// TestEveryExampleOfTheExpressionsPageHolds runs what deploy/expressions.md shows.
func TestEveryExampleOfTheExpressionsPageHolds(t *testing.T) {
	data, err := os.ReadFile("../deploy/expressions.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	table, examples := "", 0
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.ReplaceAll(strings.Trim(line, "| \n"), `\|`, "\x00"), " | ")
		for i := range cells {
			cells[i] = strings.Trim(strings.ReplaceAll(cells[i], "\x00", "|"), "`")
		}
		if !strings.HasPrefix(line, "|") {
			table = ""
			continue
		}
		if table == "" {
			table = strings.Join(cells, " | ")
			continue
		}
		if strings.HasPrefix(line, "|---") {
			continue
		}
		examples++
		got, want := "", cells[len(cells)-1]
		switch table {
		case "condition | value | result":
			got = example(t, mappedOrders(), cells[0], cells[1])
		case "condition | event | result":
			got = example(t, customers(), cells[0], cells[1])
		case "expression | value | result":
			got = computed(t, cells[0], cells[1])
		case "refused | why":
			m := mappedOrders()
			m.Routes = []router.Route{{When: cells[0], Lane: "skip"}, {Lane: "immediate"}}
			if _, problems := router.Compile([]router.Mapping{m}); len(problems) == 1 {
				continue
			}
			got, want = "taken", "refused"
		case "name | is":
			continue
		default:
			t.Fatalf("a table of %q", table)
		}
		if got != want {
			t.Errorf("%s of %s: got %s, want %s", cells[0], cells[1], got, want)
		}
	}
	if examples < 100 {
		t.Errorf("got %d examples, want the whole page", examples)
	}
	for _, name := range builtin.Names {
		unavailable := slices.Contains([]string{"now", "timezone", "keys", "values", "toPairs"}, name)
		if !unavailable && !strings.Contains(page, name+"(") || !strings.Contains(page, name) {
			t.Errorf("the function %s: want it on the page", name)
		}
	}
}

func recordOfThePage(t *testing.T, text string) router.Record {
	t.Helper()
	return router.Record{
		Topic: "shop.orders", Partition: 3, Offset: 4711, Timestamp: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC),
		Key: []byte("7"), Headers: []router.Header{{Key: "source", Value: []byte("shop")}}, Value: value(t, text),
	}
}

func example(t *testing.T, m router.Mapping, when, text string) string {
	t.Helper()
	m.Topics = []string{"shop.orders"}
	if holds(t, m, when, recordOfThePage(t, text)) {
		return "true"
	}
	return "false"
}

// computed is what an expression comes to in an attribute of a profile.
func computed(t *testing.T, text, in string) string {
	t.Helper()
	m := customers()
	m.Topics, m.Imports, m.Routes = []string{"shop.orders"}, router.Imports{}, []router.Route{{Lane: "immediate"}}
	m.Fields = []router.Field{{Value: `"C1"`, To: "customerNumber"}, {Expr: text, To: "x"}}
	r, problems := router.Compile([]router.Mapping{m})
	if len(problems) > 0 {
		return "refused"
	}
	rec := recordOfThePage(t, in)
	routed := routeOne(t, r, &rec)
	_, cell, found := strings.Cut(story(routed), " a.x=")
	switch {
	case routed.Err != nil:
		return "dead letter"
	case !found:
		return "nothing"
	}
	return cell
}
