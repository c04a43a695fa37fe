package router_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// named is an event with one attribute beside its key.
func named(attribute string) *router.Record {
	attributes := []schemas.Field{
		{Name: "customerNumber", Value: schemas.StringValue("C1")},
		{Name: attribute, Value: schemas.StringValue("x")},
	}
	event := []schemas.Field{
		{Name: "op", Value: schemas.StringValue("upsert")},
		{Name: "attributes", Value: schemas.ObjectValue(attributes)},
	}
	return &router.Record{Topic: "crm.customers", Value: schemas.ObjectValue(event)}
}

func TestCellsOfOneNameShareTheirPlace(t *testing.T) {
	r := compile(t, customers())
	place := func(attribute string) *schemas.Place {
		t.Helper()
		routed := r.Route(nil, named(attribute))
		if len(routed) != 1 || routed[0].Err != nil || len(routed[0].Write.Cells) != 2 {
			t.Fatalf("%.20q: got %+v, want a write of two cells", attribute, routed)
		}
		at := routed[0].Write.Cells[1].Place
		if at.Name != attribute || at.Section != schemas.Attributes {
			t.Errorf("got %.20q in section %d, want the attribute %.20q", at.Name, at.Section, attribute)
		}
		return at
	}
	city := place("city")
	if place("city") != city {
		t.Error("two cells of one name have places of their own")
	}
	name := strings.Repeat("n", 300)
	if long := place(name); place(name) == long {
		t.Error("a name of 300 bytes is kept for ever")
	}

	// Names that never come again are not kept beyond a bound.
	var together sync.WaitGroup
	for g := range 4 {
		together.Go(func() {
			for i := range 600 {
				place(fmt.Sprint("made-up-", g%2, "-", i))
			}
		})
	}
	together.Wait()
	if place("city") != city {
		t.Error("a name that was known is forgotten")
	}
	if late := place("late"); place("late") == late {
		t.Error("the 1,025th name is kept")
	}
}
