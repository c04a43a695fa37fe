package router_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

const (
	visitA = `{"customer":"C1","languages":["fr","en"],"newsletter":true,"points":1,"updated":"2026-11-21T10:00:00Z"}`
	visitB = `{"customer":"C2","languages":["de","nl","it"],"newsletter":false,"points":2,"updated":"2026-11-22T10:00:00Z"}`
)

func decoded(t *testing.T, d schemas.Decoder, text string) *router.Record {
	t.Helper()
	v, err := d.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &router.Record{Topic: "crm.customers", Value: v}
}

// TestWritesOutliveTheValueOfADecoder has a second record take the
// memory of the first one's lists.
func TestWritesOutliveTheValueOfADecoder(t *testing.T) {
	r, d := compile(t, visits()), schemas.NewJSON()
	decoded(t, d, visitA) // from the second record on there is memory to take over
	first := r.Route(nil, decoded(t, d, visitA))
	want := story(first[0])
	second := r.Route(nil, decoded(t, d, visitB))
	if got := story(first[0]); got != want {
		t.Errorf("after the next record: got %s, want %s", got, want)
	}
	if got := story(second[0]); got == want {
		t.Errorf("got %s for both records", got)
	}
}

// TestWritesOfOneSlabAreTheirOwn fills several pieces with writes of different
// sizes, rejected ones among them.
func TestWritesOfOneSlabAreTheirOwn(t *testing.T) {
	r, d := compile(t, visits()), schemas.NewJSON()
	var arena router.Arena
	var kept []router.Routed
	var want []string
	for range 30 {
		for _, text := range []string{visitA, `{"customer":"C9","points":"none"}`, visitB, `{"customer":"C3"}`} {
			rec := decoded(t, d, text)
			want = append(want, story(routeOne(t, r, rec)))
			kept = r.RouteFrom(kept, rec, &arena)
		}
	}
	for i := range kept { // merging appends to a write's cells
		if kept[i].Err == nil {
			_ = append(kept[i].Write.Cells, schemas.Cell{Place: &schemas.Place{Name: "another's"}})
		}
	}
	for i := range want {
		if got := story(kept[i]); got != want[i] {
			t.Fatalf("write %d: got %s, want %s", i, got, want[i])
		}
	}
}

// TestKeysOfAnEventFindRoom has an event whose key adds cells to its attributes,
// more than one of them.
func TestKeysOfAnEventFindRoom(t *testing.T) {
	r, d := compile(t, customers()), schemas.NewJSON()
	var arena router.Arena
	const text = `{"op":"upsert","key":{"customerNumber":"C1","emailAddress":"a@b.fr","phone":"+3312345"},"attributes":{"customerNumber":"C1","city":"Paris"}}`
	for range 20 {
		rec := decoded(t, d, text)
		got, want := story(r.RouteFrom(nil, rec, &arena)[0]), story(routeOne(t, r, rec))
		if got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
}

func TestRoutingOverIsRouting(t *testing.T) {
	r, d := compile(t, visits()), schemas.NewJSON()
	var over []router.Routed
	for _, text := range []string{visitA, visitB, `{"customer":7,"points":"none"}`, `{"customer":"C3"}`, visitA} {
		rec := decoded(t, d, text)
		over = r.Topic(rec.Topic).RouteOver(over, rec)
		if got, want := story(over[0]), story(routeOne(t, r, rec)); len(over) != 1 || got != want {
			t.Errorf("%s: got %d, first %s, want one, %s", text, len(over), got, want)
		}
	}
}

// TestRecordForAFileTakesOnlyItsText: a record of the batch lane leaves nothing
// behind but the copy of its text.
func TestRecordForAFileTakesOnlyItsText(t *testing.T) {
	r, d, data := compile(t, visits()), schemas.NewJSON(), []byte(visitA)
	var routed []router.Routed
	got := testing.AllocsPerRun(100, func() {
		v, err := d.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		if routed = r.Topic("crm.customers").RouteOver(routed, &router.Record{Value: v}); routed[0].Err != nil {
			t.Fatal(routed[0].Err)
		}
	})
	if got > 1 {
		t.Errorf("got %v allocations, want one", got)
	}
}

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
