package connector

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/waits"
	"github.com/feedsink/feedsink/schemas"
)

// next is there unless the day is almost over.
var next = regexp.MustCompile(` *"next": .*\n`)

// masked is what differs from run to run.
var masked = regexp.MustCompile(`"(member|started|at|limit|lag|freeBytes|begins|ends|began|ended|file|execution)": [^,\n]*`)

func TestStatusShowsTheRunningSink(t *testing.T) {
	sink := atWork(t)
	until(t, "the import is over", func() bool {
		st, _ := sink.Status().(observe.Status)
		return st.Mappings[0].Batch.Import == nil
	})
	body, err := json.MarshalIndent(sink.Status(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/status.json")
	if err != nil {
		t.Fatal(err)
	}
	got := masked.ReplaceAllString(next.ReplaceAllString(string(body), ""), `"$1": "-"`) + "\n"
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if strings.Contains(string(body), "the-api-key") {
		t.Error("the status holds the API key")
	}
}

func TestSinkIsUnreadyUntilItHasAPlaceAndAToken(t *testing.T) {
	for _, c := range []struct {
		lanes []schemas.Lane
		want  []string
	}{
		{nil, []string{"the immediate lane has not joined its consumer group", "the batch lane has not joined its consumer group", "the service has given no token"}},
		{[]schemas.Lane{schemas.Batch}, []string{"the batch lane has not joined its consumer group", "the service has given no token"}},
	} {
		sink := assembled(t, Options{Lanes: c.lanes})
		if got := sink.Unready(); !slices.Equal(got, c.want) {
			t.Errorf("lanes %v: got %q, want %q", c.lanes, got, c.want)
		}
		st, _ := sink.Status().(observe.Status)
		if st.Ready || st.Token || !slices.Equal(st.Unready, c.want) {
			t.Errorf("lanes %v: status: got %+v, want the same reasons", c.lanes, st)
		}
		sink.close()
	}
}

// TestStatusSaysWhyThereIsNoToken: of each lane, as none can go on.
func TestStatusSaysWhyThereIsNoToken(t *testing.T) {
	sink := assembled(t, Options{})
	_ = sink.now().client.Authenticate(t.Context())
	st, _ := sink.Status().(observe.Status)
	for _, lane := range schemas.Lanes {
		if !slices.ContainsFunc(st.Waits, func(w observe.Wait) bool {
			return w.Cause == waits.Service && w.Lane == lane.String() && strings.Contains(w.Why, "connection refused") && strings.Contains(w.Why, "check service.authURL")
		}) || gauged(gathered(t, sink), "feedsink_waiting", waits.Service+" "+lane.String()) != 1 {
			t.Errorf("%s lane: got %+v, want why no token could be had", lane, st.Waits)
		}
	}
}

// TestHaltIsShownOfMappingsThatItHoldsUp: those of the topic that use the lane. Orders goes on
// in the other one.
func TestHaltIsShownOfMappingsThatItHoldsUp(t *testing.T) {
	fake, _, server := startBoth(t, kfake.SeedTopics(1, "customers", "dead"))
	yaml := strings.NewReplacer("127.0.0.1:1\"]", fake.ListenAddrs()[0]+"\"]", "http://127.0.0.1:1", server.URL, "[orders]", "[customers]", "apiKey: k", "apiKey: the-api-key").Replace(deskConfig)
	sink := sinkOf(t, yaml)
	run(t, sink)
	until(t, "the lanes have joined", func() bool { return len(sink.Unready()) == 0 })
	i := slices.IndexFunc(sink.now().lanes, func(l *lane) bool { return l.which == schemas.Batch })
	sink.now().lanes[i].floods.Ended("customers", 1000, 1000)
	st, _ := sink.Status().(observe.Status)
	if halted := st.Mappings[0].Halted; len(halted) != 1 || !strings.HasPrefix(halted[0], "mapping customers is halted in the batch lane: ") {
		t.Errorf("customers: got %q, want why it is halted", halted)
	}
	if halted := st.Mappings[1].Halted; len(halted) > 0 {
		t.Errorf("orders: got %q, want nothing", halted)
	}
	for mapping, want := range map[string]float64{"customers": 1, "orders": 0} {
		if got := gauged(gathered(t, sink), "feedsink_halted", mapping); got != want {
			t.Errorf("feedsink_halted of %s: got %v, want %v", mapping, got, want)
		}
	}
}
