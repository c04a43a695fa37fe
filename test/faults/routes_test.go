package main

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// routedCourtroom is a sink with one event for a row of stock, number 5, judged
// while every table has a mapping.
func routedCourtroom(t *testing.T) *routesSink {
	t.Helper()
	g := newRoutedEvents(1)
	id := name{stock, "stock-1"}
	g.rows[id], g.from[id], g.last[id], g.seq[id] = row{"seq": "7", "status": "paid"}, 5, &kgo.Record{Topic: stock}, 7
	return &routesSink{
		events: g, say: t.Logf, wrong: map[name]bool{}, letters: map[string]bool{},
		now: anyFile(rand.New(rand.NewPCG(1, 1)), true),
	}
}

func TestRoutesJudgeFindsRowsThatDiffer(t *testing.T) {
	good := sandbox.Row{Key: "stock-1", Values: map[string]any{"seq": "7", "status": "paid"}}
	stale := sandbox.Row{Key: "stock-1", Values: map[string]any{"seq": "6", "status": "paid"}}
	for what, c := range map[string]struct {
		stock, copies map[string]sandbox.Row
		whole         int
		want          int
	}{
		"as it should be":               {map[string]sandbox.Row{"stock-1": good}, map[string]sandbox.Row{"stock-1": good}, 0, 0},
		"stale":                         {map[string]sandbox.Row{"stock-1": stale}, map[string]sandbox.Row{"stock-1": stale}, 0, 2},
		"missing":                       {nil, nil, 0, 2},
		"missing before its mapping":    {map[string]sandbox.Row{"stock-1": good}, nil, 5, 0},
		"missing with its mapping":      {map[string]sandbox.Row{"stock-1": good}, nil, 4, 1},
		"one too many":                  {map[string]sandbox.Row{"stock-1": good, "stock-2": good}, map[string]sandbox.Row{"stock-1": good}, 0, 1},
		"one too many in the other one": {map[string]sandbox.Row{"stock-1": good}, map[string]sandbox.Row{"stock-1": good, "stock-2": good}, 0, 1},
	} {
		r := routedCourtroom(t)
		r.whole = c.whole
		have := func(table string) map[string]sandbox.Row {
			return map[string]map[string]sandbox.Row{stock: c.stock, copies: c.copies}[table]
		}
		if got := r.compare(have); got != c.want {
			t.Errorf("%s: got %d lost, want %d", what, got, c.want)
		}
		if got := r.compare(have); got != 0 {
			t.Errorf("%s, looked at again: got %d lost, want 0", what, got)
		}
	}
}

func TestRoutesJudgeAccountsForDeadLetters(t *testing.T) {
	letter := func(number string) *kgo.Record {
		return &kgo.Record{Headers: []kgo.RecordHeader{{Key: numberHeader, Value: []byte(number)}}}
	}
	for what, c := range map[string]struct {
		letters []*kgo.Record
		lost    int
		both    int
	}{
		"as it should be":     {[]*kgo.Record{letter("3")}, 0, 0},
		"twice":               {[]*kgo.Record{letter("3"), letter("3")}, 0, 0},
		"none":                {nil, 1, 0},
		"of a good event":     {[]*kgo.Record{letter("3"), letter("4")}, 0, 1},
		"without coordinates": {[]*kgo.Record{letter("3"), letter("")}, 0, 1},
	} {
		r := routedCourtroom(t)
		r.events.broken["3"] = parcels
		if lost, both := r.account(c.letters); lost != c.lost || both != c.both {
			t.Errorf("%s: got %d lost, %d both, want %d, %d", what, lost, both, c.lost, c.both)
		}
		if lost, both := r.account(nil); lost+both != 0 {
			t.Errorf("%s, looked at again: got %d lost, %d both, want none", what, lost, both)
		}
	}
}

// refused fails the test where the sink would refuse a file: its member would end, and with it
// the suite.
func refused(t *testing.T, f *routesFile) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "routes.yaml")
	if err := os.WriteFile(path, []byte(f.text), 0o600); err != nil {
		t.Fatal(err)
	}
	given := map[string]string{"BROKERS": "localhost:9092", "SERVICE": "http://localhost", "API_KEY": "key", "SPOOL": t.TempDir()}
	if _, err := config.Load(path, func(name string) (string, bool) { value, is := given[name]; return value, is }); err != nil {
		t.Errorf("%s: %v", f.name, err)
	}
}

func TestRoutesFilesAreOfEveryKind(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	kinds := map[string]int{}
	for range 1000 {
		f := anyFile(rnd, false)
		kind, _, _ := strings.Cut(f.name, ",")
		kinds[kind]++
		refused(t, f)
		for _, table := range slices.Sorted(maps.Keys(f.mappings)) {
			if table != copies && !f.readsTopic(table) {
				t.Errorf("%s: got a mapping of %s that reads no topic", f.name, table)
			}
		}
		if kind == "immediate lane alone" && f.uses(batch) {
			t.Errorf("%s: got a use for the batch lane", f.name)
		}
		if kind == "batch lane alone" && f.uses(immediate) {
			t.Errorf("%s: got a use for the immediate lane", f.name)
		}
	}
	for _, kind := range []string{"both lanes", "immediate lane alone", "batch lane alone"} {
		if kinds[kind] == 0 {
			t.Errorf("kinds of 1000 files: got none of %q", kind)
		}
	}
	if f := anyFile(rnd, true); len(f.mappings) != len(routedTables) || !f.readsTopic(moreContacts) {
		t.Errorf("a whole file: got %s, want every mapping and topic", f.name)
	}
}
