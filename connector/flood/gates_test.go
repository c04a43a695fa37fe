package flood

import (
	"log/slog"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

func TestLimitsAreTheShareOfTheLastRecords(t *testing.T) {
	for _, c := range []struct {
		topic string
		flood config.Flood
		want  Limits
	}{
		{"dlq", config.Flood{Records: 100, Share: 0.95}, Limits{Window: 100, Alike: 95}},
		{"dlq", config.Flood{Records: 100, Share: 1}, Limits{Window: 100, Alike: 100}},
		{"dlq", config.Flood{Records: 7, Share: 0.9}, Limits{Window: 7, Alike: 7}},
		{"dlq", config.Flood{Records: 10, Share: 0.7}, Limits{Window: 10, Alike: 7}},
		{"dlq", config.Flood{Records: 1, Share: 0.01}, Limits{Window: 1, Alike: 1}},
		{"dlq", config.Flood{Records: 0, Share: 0.95}, Limits{}},
		{"", config.Flood{Records: 100, Share: 0.95}, Limits{}},
	} {
		if got := NewLimits(config.DLQ{Topic: c.topic, Flood: c.flood}); got != c.want {
			t.Errorf("%q %+v: got %+v, want %+v", c.topic, c.flood, got, c.want)
		}
	}
}

// TestRefusalsCountTheLastRecordsOfAKind compares with looking at all results.
func TestRefusalsCountTheLastRecordsOfAKind(t *testing.T) {
	l := Limits{Window: 10, Alike: 6}
	what, other := Refusal{Code: "rejected", Status: 400}, Refusal{Code: "rejected", Status: 422}
	r := Refusals{}
	var results []byte
	for i, kind := range []byte("++aa+aab++++aaa+aaaaaaaaaabbaaaabbbbbbbbb+++++++++++aaaaa+aaaa") {
		results = append(results, kind)
		seen := int64(i + 1)
		kinds := map[byte]Refusal{'a': what, 'b': other}
		refused, is := kinds[kind]
		if !is {
			continue
		}
		want := int64(0)
		for _, k := range results[max(len(results)-int(l.Window), 0):] {
			if k == kind {
				want++
			}
		}
		if got := r.Add(refused, seen, l); got != min(want, l.Alike) {
			t.Errorf("after %s: got %d alike, want %d", results, got, min(want, l.Alike))
		}
		if n := len(r[refused]); n > int(l.Alike) {
			t.Errorf("after %s: %d are kept, want at most %d", results, n, l.Alike)
		}
	}
}

func TestFileStandsInTheWindowWithItsShare(t *testing.T) {
	for name, c := range map[string]struct {
		files [][2]int64 // rows, in error
		halts int        // the file that halts the mapping, from 1; 0: none
	}{
		"nearly all of a large file":             {[][2]int64{{100_000, 95_000}}, 1},
		"a little less":                          {[][2]int64{{100_000, 94_999}}, 0},
		"many rows, but few of them":             {[][2]int64{{1_000_000, 50_000}, {1_000_000, 50_000}}, 0},
		"all of a small file":                    {[][2]int64{{60, 60}}, 0},
		"all of two small files":                 {[][2]int64{{60, 60}, {40, 40}}, 2},
		"a good small file between":              {[][2]int64{{60, 60}, {10, 0}, {40, 40}}, 0},
		"a good one long ago":                    {[][2]int64{{100, 0}, {50, 50}, {50, 50}}, 3},
		"a large good one washes out what was":   {[][2]int64{{90, 90}, {10_000, 0}, {90, 90}}, 0},
		"more in error than rows, as some count": {[][2]int64{{100, 300}}, 1},
	} {
		f := batchGates(t)
		for i, file := range c.files {
			suspected := f.Suspects("customers", file[0], file[1])
			halted := f.Ended("customers", file[0], file[1]) != ""
			if want := c.halts == i+1; halted != want || suspected != want {
				t.Errorf("%s: file %d: got suspected %t, halted %t, want %t", name, i+1, suspected, halted, want)
			}
		}
	}
}

// batchGates are those of a batch lane that has not joined its group.
func batchGates(t *testing.T) *Gates {
	t.Helper()
	m := router.Mapping{Name: "customers", Topics: []string{"crm"}, Format: "json", CustomTable: "customers", Key: "businessKey", Routes: []router.Route{{Lane: "batch"}}}
	m.Imports.Columns = []router.Column{{Name: "businessKey"}}
	m.Imports.Roll.Rows, m.Imports.SlotsPerDay = 1, 1
	m.Imports.Upsert = &router.Import{ETL: "1", Mode: "CREATE_OR_UPDATE"}
	r, problems := router.Compile([]router.Mapping{m})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	log := slog.New(slog.DiscardHandler)
	source, err := kafka.New(kafka.Config{Connection: cluster.Connection{Brokers: []string{"127.0.0.1:1"}}, Group: "g", Subscription: kafka.Subscription{Topics: m.Topics}, SessionTimeout: time.Minute, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(source.Close)
	cfg := config.DLQ{Topic: "dead"}
	cfg.Flood.Records, cfg.Flood.Share = 100, 0.95
	return New(Lane{Which: schemas.Batch, Source: source, Log: log}, NewLimits(cfg), r.Mappings())
}

func TestReleasedMappingCountsAnew(t *testing.T) {
	f := batchGates(t)
	m := f.gates[0].mapping
	if f.Ended("customers", 100, 100) == "" || !f.Halted(m) {
		t.Fatal("got not halted, want halted")
	}
	if f.Ended("customers", 100, 0) == "" {
		t.Error("a good file of a halted mapping: got no reason, want that it is halted still")
	}
	if !f.Release("customers") || f.Release("customers") || f.Halted(m) {
		t.Error("release: want it to work, once")
	}
	if f.Ended("customers", 50, 50) != "" || f.Ended("customers", 44, 44) != "" {
		t.Error("after the release: got halted by 94 rows, want what was before forgotten")
	}
	if f.Ended("customers", 1, 1) == "" {
		t.Error("after the release: got not halted by 95 rows of 95")
	}
}
