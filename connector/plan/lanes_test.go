package plan

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// midnight is the minute in which the samples of the tests begin.
var midnight = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC).Unix() / 60

// steady are n rows in each minute of some hours.
func steady(hours, n int64) (came []rows) {
	for i := range hours * 60 {
		r := rows{minute: midnight + i, callable: n}
		r.ops[schemas.Upsert] = true
		came = append(came, r)
	}
	return came
}

// snapshot has n further rows in the first minute.
func snapshot(came []rows, n int64) []rows {
	came[0].callable += n
	return came
}

func imports() router.Imports {
	return router.Imports{Roll: router.Roll{Age: 2 * time.Hour, Rows: 500_000}, SlotsPerDay: 12, Reserve: 2, Timezone: "UTC"}
}

func compared(came []rows, keys int64, rate int, im router.Imports) *Lanes {
	p := &Plan{limits: Limits{RateCalls: rate, RatePer: time.Minute}}
	m := &mapping{config: &router.Compiled{Config: router.Mapping{Imports: im}}}
	p.mappings = []*mapping{m}
	l := &Lanes{}
	for _, lane := range []string{immediate, batch, auto} {
		s := p.simulation(m, lane)
		s.keys = keys
		l.Choices = append(l.Choices, s.choice(s.run(came)))
	}
	l.recommend()
	return l
}

func TestTheLaneThatKeepsTheTableFreshIsRecommended(t *testing.T) {
	const most = 1 << 40
	daily := imports()
	daily.Roll.Age = 24 * time.Hour
	for name, c := range map[string]struct {
		came []rows
		keys int64
		rate int
		im   router.Imports
		want string
	}{
		"a snapshot and changes": {
			snapshot(steady(72, 10), 5_000_000), most, 100, imports(),
			"auto: calls carry all but 4999910 rows of 2026-11-20, by 1 import; immediate would need 34 days of calls; batch would leave rows up to 2 h 26 min old",
		},
		"changes alone": {
			steady(24, 10), most, 100, imports(),
			"auto: calls carry every row within a minute, and no file goes; immediate would be as fresh, but has no file for a snapshot; batch would leave rows up to 2 h 13 min old",
		},
		"more calls than can be counted": {
			steady(24, 10), most, math.MaxInt, imports(),
			"auto: calls carry every row within a minute, and no file goes; immediate would be as fresh, but has no file for a snapshot; batch would leave rows up to 2 h 13 min old",
		},
		"more than calls will ever bring": {
			steady(48, 10_000), most, 10, imports(),
			"batch: files bring every row within 2 h 25 min, by 21 imports; immediate would need more than a year of calls; auto would hardly be fresher, with 28810 calls",
		},
		"a file a day is slower than calls": {
			snapshot(steady(2, 1), 20_000), most, 100, daily,
			"immediate: calls bring every row within 3 h 20 min; batch would leave rows up to 24 h old; auto would leave rows up to 24 h old",
		},
		"few keys, over and over": {
			steady(24, 1000), 500, 100, imports(),
			"auto: calls carry every row within 4 min, and no file goes; immediate would be as fresh, but has no file for a snapshot; batch would leave rows up to 2 h 13 min old",
		},
	} {
		l := compared(c.came, c.keys, c.rate, c.im)
		if got := l.Recommended + ": " + l.Reason; got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s\n%+v", name, got, c.want, l.Choices)
		}
	}
}

// TestASnapshotGoesByFileAndTheChangesByCalls: five million keys at once, then 50 changes a minute
// of a service that takes 100 calls a minute and 12 imports a day.
func TestASnapshotGoesByFileAndTheChangesByCalls(t *testing.T) {
	l := compared(snapshot(steady(72, 50), 5_000_000), 1<<40, 100, imports())
	for _, c := range l.Choices {
		t.Logf("measured: 5,000,000 keys at once, then 50 changes a minute for three days, lane %s | %d calls, %d imports, %d slots on a day, %.0f row-hours, oldest %v, %d left | ",
			c.Lane, c.Calls, c.Imports, c.SlotsDay, c.RowHours, c.Oldest, c.Left)
	}
	a, i, b := l.choice(auto), l.choice(immediate), l.choice(batch)
	if a.Imports != 1 || a.SlotsDay != 1 || a.ByFile < 4_900_000 || a.Oldest > imports().Roll.Age+10*time.Minute {
		t.Errorf("auto: got %+v, want the snapshot by one import, within the file's age and ten minutes, and the rest by calls", *a)
	}
	if a.RowHours >= b.RowHours || a.RowHours >= i.RowHours {
		t.Errorf("row-hours: got %.0f, want fewer than %.0f of calls and %.0f of files alone", a.RowHours, i.RowHours, b.RowHours)
	}
}

func TestNoDayTakesMoreSlotsThanItHas(t *testing.T) {
	im := imports()
	im.Roll.Age, im.MaxFile.Rows = time.Minute, 100
	came := steady(48, 10)
	for i := range came {
		came[i].ops[schemas.Delete] = i%2 == 0
	}
	b := compared(came, 1<<40, 0, im).choice(batch)
	if b.SlotsDay > 12 || b.SlotsDay < 10 || b.Calls != 0 || b.ByFile != 48*600 {
		t.Errorf("got %+v, want all rows by up to 12 imports a day, of which 2 are a file's second", *b)
	}
	if i := compared(came, 1<<40, 0, im).choice(immediate); i.Oldest != 0 || i.Calls != 48*600 || i.CallsDay != 24*600 {
		t.Errorf("without a rate: got %+v, want every call at once", *i)
	}
}

func TestLanesThatCannotWorkAreLeftOut(t *testing.T) {
	block := func(change func(*router.Mapping)) router.Mapping {
		im := imports()
		im.Upsert, im.Columns = &router.Import{ETL: "1", Mode: "CREATE_OR_UPDATE"}, []router.Column{{Name: "id"}}
		m := router.Mapping{Name: "people", Topics: []string{"people"}, ProfileTable: "people", Key: "id", Fields: []router.Field{{From: "id", To: "id"}}, Routes: []router.Route{{Lane: batch}}, Imports: im}
		change(&m)
		return m
	}
	parent := router.Mapping{Name: "shops", Topics: []string{"shops"}, CustomTable: "shops", Key: "businessKey", Routes: []router.Route{{Lane: immediate}}}
	for name, c := range map[string]struct {
		change func(*router.Mapping)
		want   string
	}{
		"all can":   {func(*router.Mapping) {}, ""},
		"no import": {func(m *router.Mapping) { m.Imports = router.Imports{}; m.Routes[0].Lane = immediate }, "batch: no import loads the op upsert: imports.upsert is not configured; auto: no import loads"},
		"merges":    {func(m *router.Mapping) { m.Op = "merge"; m.Imports.Merge = m.Imports.Upsert }, "immediate: the op merge, of 2 of 2 writes, has no call for a profile; auto: the op merge"},
		"patches":   {func(m *router.Mapping) { m.Op = "patch"; m.Imports.Patch = m.Imports.Upsert }, "immediate: the op patch, of 2 of 2 writes, has no call without the profile's id; auto: the op patch"},
		"creates": {func(m *router.Mapping) {
			m.Op, m.Imports.Create, m.CustomTable, m.ProfileTable = "create", m.Imports.Upsert, "people", ""
			m.Key, m.Fields[0].To, m.Imports.Columns[0].Name = "businessKey", "businessKey", "businessKey"
		}, "auto: creates and merges go by file"},
		"a bundle":      {func(m *router.Mapping) { m.Bundle = "crm" }, "immediate: the mapping's files go together with those of the bundle crm; batch: the mapping's files"},
		"behind a call": {func(m *router.Mapping) { m.After = []string{"shops"} }, "auto: a mapping that it comes after makes calls"},
		"some merges":   {func(m *router.Mapping) { m.Op = `id == "1" ? "merge" : "upsert"`; m.Imports.Merge = m.Imports.Upsert }, "immediate: the op merge, of 1 of 2 writes"},
		"a wide column": {func(m *router.Mapping) {
			m.Imports.Columns = append(m.Imports.Columns, router.Column{Name: "x", Absent: immediate})
		}, "batch: 2 of 2 writes of the op upsert leave out"},
		"a short sample": {func(m *router.Mapping) { m.When = `id == "1"` }, "none"},
	} {
		r, problems := router.Compile([]router.Mapping{parent, block(c.change)})
		if len(problems) > 0 {
			t.Fatal(name, problems)
		}
		p := &Plan{}
		for _, compiled := range r.Mappings() {
			p.mappings = append(p.mappings, &mapping{Mapping: Mapping{Bundle: compiled.Config.Bundle}, config: compiled, arrived: newArrivals()})
		}
		m := p.mappings[1]
		for i := range 2 {
			value, err := schemas.NewJSON().Decode(fmt.Appendf(nil, `{"id":"%d"}`, i+1))
			if err != nil {
				t.Fatal(err)
			}
			at := time.Unix(midnight*60, 0).Add(time.Duration(i) * time.Hour)
			for _, one := range r.Route(nil, &router.Record{Topic: "people", Value: value, Timestamp: at}) {
				if one.Err != nil {
					t.Fatal(name, one.Err)
				}
				if one.Mapping != nil {
					m.saw(at)
					m.arrived.add(one.Mapping, &one.Write, at)
				}
			}
		}
		p.sumSpans(m)
		p.sumLanes(m)
		if m.Lanes == nil {
			if c.want != "none" {
				t.Errorf("%s: got nothing compared, want %s", name, c.want)
			}
			continue
		}
		var out []string
		for _, left := range m.Lanes.LeftOut {
			out = append(out, left.Lane+": "+left.Reason)
		}
		if got := strings.Join(out, "; "); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" || len(out)+len(m.Lanes.Choices) != 3 {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// The mapping has its part of the rate alone, and within has a file go before roll.age.
func TestRateIsDividedAndWithinIsKept(t *testing.T) {
	weight := 3.0
	block := func(name string, route router.Route) router.Mapping {
		im := imports()
		im.Upsert, im.Columns = &router.Import{ETL: "1", Mode: "CREATE_OR_UPDATE"}, []router.Column{{Name: "businessKey"}}
		return router.Mapping{Name: name, Topics: []string{name}, CustomTable: name, Key: "businessKey", Routes: []router.Route{route}, Imports: im}
	}
	r, problems := router.Compile([]router.Mapping{
		block("orders", router.Route{Lane: auto, Within: time.Hour}), block("visits", router.Route{Lane: immediate, Weight: &weight}), block("shops", router.Route{Lane: batch}),
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	p := &Plan{limits: Limits{RateCalls: 400, RatePer: time.Minute}}
	for _, c := range r.Mappings() {
		p.mappings = append(p.mappings, &mapping{config: c, arrived: newArrivals()})
	}
	for i, want := range []float64{100, 300, 80} {
		if got := p.simulation(p.mappings[i], auto).callsAMinute; got != want {
			t.Errorf("%s: got %v calls a minute, want %v", p.mappings[i].config.Name, got, want)
		}
	}
	s := p.simulation(p.mappings[0], auto)
	s.keys = 1 << 40
	if c := s.choice(s.run(snapshot(steady(1, 1), 50_000))); c.Oldest != time.Hour || c.Imports != 1 {
		t.Errorf("within an hour: got %+v, want one import that has landed then", c)
	}
}

// TestImportsArePlannedByWhatTheDaysOfTheSampleBring has all rows of ten days come within an
// hour of the night, which is known of the first and the last day alone as a part.
func TestImportsArePlannedByWhatTheDaysOfTheSampleBring(t *testing.T) {
	var came []rows
	for day := range int64(10) {
		for i := range int64(60) {
			r := rows{minute: midnight + day*24*60 + 3*60 + i, callable: 100}
			r.ops[schemas.Upsert] = true
			came = append(came, r)
		}
	}
	im := imports()
	im.Roll.Age = time.Minute
	hours := func(came []rows) float64 { return compared(came, 1<<40, 1, im).Choices[1].RowHours }
	one := hours(came[:60]) // of a day that nothing is known of
	if got := hours(came); got > 10*one/2 {
		t.Errorf("ten days: got %.0f row-hours, want less than half of what ten single days have, %.0f each", got, one)
	}
}
