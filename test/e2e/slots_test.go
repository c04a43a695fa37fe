package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// threeSlots are the mappings with three imports a day for customers, two of
// them for further tries, and files of five rows.
func threeSlots(zone string) string {
	return strings.NewReplacer(
		"slotsPerDay: 1000", "slotsPerDay: 3\n      reserve: 2\n      timezone: "+zone,
		"rows: 500,", "rows: 5,",
	).Replace(mappings)
}

func TestNoRestartFindsAFourthSlotAndTheNextDayGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	// Every import is begun, and nobody is ever told.
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 10}, Apply: true, Answer: sandbox.Reset()})
	const customers = 100 // of which a file takes five
	for i := range customers {
		w.produce(customer(fmt.Sprint("C", i), "basic", 1))
	}
	// Far from midnight, whenever this test runs.
	config := head + deadLetters + threeSlots(midnightAt(t, time.Now().Add(6*time.Hour)))
	sink := w.start(config)
	w.until("three imports were begun", func() bool { return len(w.service.Executions()) == 3 })
	for restart := range 10 {
		w.produce(customer("C0", "basic", 2+restart))
		sink.stop()
		sink = w.start(config)
		w.until("the sink has read its ledger", func() bool { return len(sink.Unready()) == 0 })
		w.until("no slot is left, and the sink knows it", func() bool { return w.slotsLeft(sink) == "0" })
	}
	w.until("the file waits for the next day", func() bool {
		return strings.Contains(get(t, sink.AdminAddress(), "/status"), "waiting for a slot")
	})
	if got := len(w.service.Executions()); got != 3 {
		t.Errorf("imports of the day: got %d, want the 3 it has slots for", got)
	}

	// Midnight comes while the sink runs: first the file that was begun goes, and
	// on the day after that all the rest in one.
	w.service.ClearFaults()
	for day := 2; day <= 3; day++ {
		begun := len(w.service.Executions())
		sink.stop()
		midnight := time.Now().Add(10 * time.Second).Truncate(time.Second) // by then a slow sink has read all there is, too
		midnightAt(t, midnight)
		sink = w.start(config)
		w.until("day "+fmt.Sprint(day)+" has an import", func() bool { return len(w.service.Executions()) > begun })
		if first := w.service.Executions()[begun]; first.Accepted.Before(midnight) {
			t.Errorf("first import of day %d: was accepted at %v, want none before midnight, at %v", day, first.Accepted, midnight)
		}
		w.until("the import has ended", func() bool { return w.service.Executions()[begun].Status == sandbox.Finished })
	}
	w.settled()
	if got := len(w.service.Executions()); got != 5 {
		t.Errorf("imports of three days: got %d, want 3, 1 and 1", got)
	}
	for i := range customers {
		want := "1"
		if i == 0 {
			want = "11"
		}
		key := fmt.Sprint("C", i)
		if row, ok := w.service.Row("customers", key); !ok || row.Text("seq") != want {
			t.Errorf("%s: got %v, want seq %s", key, row.Values, want)
		}
	}
}

// dated is what a service says whose clock shows another time.
type dated struct {
	http.ResponseWriter
	now time.Time
}

func (d dated) WriteHeader(code int) {
	d.Header().Set("Date", d.now.UTC().Format(http.TimeFormat))
	d.ResponseWriter.WriteHeader(code)
}

// For the service it is two seconds before midnight until it has refused an import, and for the
// sink the new day has begun, on a quarter of an hour as everywhere: the refusal takes none of its slots.
func TestAServiceThatIsStillOfYesterdayCostsNoneOfTodaysSlots(t *testing.T) {
	t.Parallel()
	midnight := time.Now().Truncate(15 * time.Minute)
	zone := midnightAt(t, midnight)
	location, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	var today atomic.Bool
	clock := func() time.Time {
		if today.Load() {
			return time.Now()
		}
		return midnight.Add(-2 * time.Second)
	}
	w := newWorld(t, func(c *sandbox.Config) {
		c.SlotsPerDay, c.Location, c.Now = 1, location, clock
	})
	w.between(func(service http.Handler) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			service.ServeHTTP(dated{rw, clock()}, r)
		}
	})
	sink := w.start(head + deadLetters + strings.Replace(mappings, "slotsPerDay: 1000", "slotsPerDay: 1000\n      timezone: "+zone, 1))
	w.produce(customer("C1", "basic", 1))
	w.until("an import was made", func() bool { return len(w.service.Executions()) == 1 })
	w.settled()
	w.produce(customer("C2", "basic", 2))
	w.until("the service refuses in its old day", func() bool { return strings.Contains(w.logs.String(), "are used up; the file waits") })
	today.Store(true)
	w.settled()
	w.until("two slots are taken", func() bool { return w.slotsLeft(sink) == "998" })
}

func TestRecordsThatWaitForASlotAreCountedAsSuch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	zone := midnightAt(t, time.Now().Add(6*time.Hour))
	sink := w.start(head + deadLetters + strings.Replace(mappings, "slotsPerDay: 1000", "slotsPerDay: 1\n      reserve: 0\n      timezone: "+zone, 1))
	w.produce(customer("C1", "basic", 1))
	w.settled() // by the one import of the day
	w.produce(customer("C2", "basic", 2), customer("C3", "basic", 3))
	w.until("both records wait for a slot", func() bool { return w.unconfirmed(sink, "waiting for a slot") == 2 })
	if got := w.unconfirmed(sink, "buffered") + w.unconfirmed(sink, "importing"); got != 0 {
		t.Errorf("counted elsewhere as well: got %d, want 0", got)
	}
}

// unconfirmed is what the sink counts in a state, over all partitions.
func (w *world) unconfirmed(sink *running, state string) (n int) {
	w.t.Helper()
	for line := range strings.Lines(get(w.t, sink.AdminAddress(), "/metrics")) {
		if strings.HasPrefix(line, "feedsink_unconfirmed_records{") && strings.Contains(line, `state="`+state+`"`) {
			var of int
			if _, err := fmt.Sscan(line[strings.LastIndex(line, " "):], &of); err != nil {
				w.t.Fatal(err)
			}
			n += of
		}
	}
	return n
}

// slotsLeft is what the sink shows for customers, "" if it does not own the table.
func (w *world) slotsLeft(sink *running) string {
	w.t.Helper()
	_, rest, _ := strings.Cut(get(w.t, sink.AdminAddress(), "/metrics"), `feedsink_import_slots_remaining{table="customers"} `)
	n, _, _ := strings.Cut(rest, "\n")
	return n
}
