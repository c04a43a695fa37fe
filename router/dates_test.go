package router_test

import (
	"testing"
	"time"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/problem"
)

// TestDatesAreTheSameInEveryZoneOfAMachine: members of two lanes may run with different ones, and
// have to agree on whose a record is.
func TestDatesAreTheSameInEveryZoneOfAMachine(t *testing.T) {
	before := time.Local
	t.Cleanup(func() { time.Local = before })
	for _, name := range []string{"UTC", "Europe/Paris", "America/New_York"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		time.Local = zone
		for _, c := range []struct{ text, in, want string }{
			{`date(at)`, `{"at":"Mon, 02 Mar 2026 10:00:00 CET"}`, "dead letter"},
			{`date(at)`, `{"at":"02 Mar 26 10:00 EST"}`, "dead letter"},
			{`date(at, "2006-01-02 15:04 MST")`, `{"at":"2026-03-02 10:00 CET"}`, "dead letter"},
			{`date(at, "2006-01-02 15:04 MST")`, `{"at":"2026-03-02 10:00 +01"}`, "dead letter"},
			{`date(at, "2006-01-02 15:04 MST", "Europe/Paris")`, `{"at":"2026-03-02 10:00 CET"}`, `"2026-03-02T10:00:00+01:00"`},
			{`date(at, "2006-01-02 15:04 MST", "Europe/Paris")`, `{"at":"2026-03-02 10:00 EST"}`, "dead letter"},
			{`date(at)`, `{"at":"Mon, 02 Mar 2026 10:00:00 GMT"}`, `"2026-03-02T10:00:00Z"`},
			{`date(at)`, `{"at":"Mon, 02 Mar 2026 10:00:00 UTC"}`, `"2026-03-02T10:00:00Z"`},
			{`date(at) + duration("2h")`, `{"at":"2026-03-29T01:30:00+01:00"}`, `"2026-03-29T03:30:00+01:00"`},
			{`date(at, "02.01.2006 15:04", "Europe/Paris")`, `{"at":"02.07.2026 10:00"}`, `"2026-07-02T10:00:00+02:00"`},
			{`date(at, "02.01.2006 15:04", zone)`, `{"at":"02.07.2026 10:00","zone":"Local"}`, "dead letter"},
			{`date(at, "02.01.2006 15:04", zone)`, `{"at":"02.07.2026 10:00","zone":"localtime"}`, "dead letter"},
			{`date(at, "02.01.2006", zone)`, `{"at":"02.07.2026"}`, "nothing"},
			{`date(at)`, `{"at":"10:00"}`, "dead letter"},
			{`date(at)`, `{"at":"2026-07-02 10:00:00"}`, `"2026-07-02T10:00:00Z"`},
			{`date(at) > date("2026-01-01")`, `{"at":"2026-07-02"}`, `true`},
			{`date(at, "2006", "Local")`, `{}`, "refused"},
		} {
			if got := computed(t, c.text, c.in); got != c.want {
				t.Errorf("%s, %s of %s: got %s, want %s", name, c.text, c.in, got, c.want)
			}
		}
		m := mappedOrders()
		if !holds(t, m, `not (date(at) > date("2026-03-01"))`, router.Record{Value: value(t, `{"at":"Mon, 02 Mar 2026 10:00:00 CET"}`)}) {
			t.Errorf("%s: an abbreviation that many zones share is understood in a condition", name)
		}
	}
}

func TestADateInTheMachinesZoneIsRefused(t *testing.T) {
	m := mappedOrders()
	m.When = `date(at, "2006-01-02", "Local") > timestamp`
	_, problems := router.Compile([]router.Mapping{m})
	want := problem.Problem{Path: "mappings[0].when", Message: `column 1: "Local" is not a time zone`, Hint: "write an IANA name such as Europe/Paris or UTC"}
	if len(problems) != 1 || problems[0] != want {
		t.Errorf("got %v, want %v", problems, want)
	}
}
