package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

func TestADayFollowsTheFirstLimitThatIsReached(t *testing.T) {
	hour := router.Roll{Age: time.Hour}
	for name, c := range map[string]struct {
		roll           router.Roll
		maxRows        int64
		rows, bytes    float64
		ops            int
		files, imports int64
		limit          string
		tooMany        bool
		behind         bool
		every          time.Duration
	}{
		"by age":              {roll: hour, rows: 1e6, ops: 1, files: 24, imports: 24, limit: "roll.age", tooMany: true, every: 144 * time.Minute},
		"by rows":             {roll: router.Roll{Age: 12 * time.Hour, Rows: 250_000}, rows: 1e6, ops: 1, files: 4, imports: 4, limit: "roll.rows", every: 6 * time.Hour},
		"by times of day":     {roll: router.Roll{At: []string{"06:30", "18:30"}}, rows: 1e6, ops: 1, files: 2, imports: 2, limit: "roll.at", every: 12 * time.Hour},
		"by the largest file": {roll: router.Roll{Age: 12 * time.Hour}, maxRows: 250_000, rows: 1e6, ops: 2, files: 4, imports: 8, limit: "maxFile.rows", every: 6 * time.Hour},
		"beyond all slots":    {roll: router.Roll{Age: 12 * time.Hour}, maxRows: 90_000, rows: 1e6, ops: 1, files: 12, imports: 12, limit: "maxFile.rows", tooMany: true, behind: true, every: 144 * time.Minute},
		"by bytes":            {roll: router.Roll{Age: 12 * time.Hour, Bytes: 100}, rows: 1e6, bytes: 450, ops: 2, files: 5, imports: 10, limit: "roll.bytes", every: 288 * time.Minute},
		"rare rows":           {roll: hour, rows: 3, ops: 1, files: 3, imports: 3, limit: "roll.age", every: 8 * time.Hour},
		"one in many days":    {roll: hour, rows: 0.2, ops: 1, files: 1, imports: 1, limit: "roll.age", every: 24 * time.Hour},
		"more ops than slots": {roll: hour, rows: 1e6, ops: 12, files: 24, imports: 288, limit: "roll.age", tooMany: true, every: 24 * time.Hour},
	} {
		m := &mapping{
			Mapping: Mapping{Files: &Files{distinct: c.ops}},
			config:  &router.Compiled{Config: router.Mapping{Imports: router.Imports{Roll: c.roll, MaxFile: router.MaxFile{Rows: c.maxRows}, SlotsPerDay: 12, Reserve: 2}}},
		}
		d := m.imports(c.rows, c.bytes, c.rows, 10)
		if d.Files != c.files || d.Imports != c.imports || d.Limit != c.limit || d.TooMany != c.tooMany || d.Behind != c.behind || d.Every != c.every || d.Slots != 10 {
			t.Errorf("%s: got %+v, want %d files by %s, %d imports, too many %v, behind %v, every %v of 10", name, *d, c.files, c.limit, c.imports, c.tooMany, c.behind, c.every)
		}
	}
}

// A bundle's day is that of its mappings together: an import goes to all of them.
func TestMappingsOfABundleShareTheirDay(t *testing.T) {
	block := func(name, table string, slots int) router.Mapping {
		return router.Mapping{
			Name: name, Topics: []string{name}, CustomTable: table, Key: "businessKey", Bundle: "crm", Routes: []router.Route{{Lane: "batch"}},
			Imports: router.Imports{
				Upsert: &router.Import{ETL: "1", Mode: "CREATE_OR_UPDATE"}, Columns: []router.Column{{Name: "businessKey"}},
				Roll: router.Roll{Age: 12 * time.Hour, Rows: 1000}, SlotsPerDay: slots, Timezone: "UTC",
			},
		}
	}
	r, problems := router.Compile([]router.Mapping{block("orders", "orders", 12), block("offers", "offers", 3)})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	p := &Plan{}
	for _, c := range r.Mappings() {
		p.mappings = append(p.mappings, &mapping{config: c})
	}
	orders, offers := p.mappings[0], p.mappings[1]
	orders.Seconds, orders.Files = 86400, &Files{Writes: 1500, Rows: 1400, ByOp: map[string]int64{"upsert": 1500}}
	offers.Seconds, offers.Files = 43200, &Files{Writes: 1250, Rows: 1200, ByOp: map[string]int64{"upsert": 1200, "delete": 50}}
	orders.parts, offers.parts = map[source]*part{{}: {writes: 1500, seconds: 86400}}, map[source]*part{{}: {writes: 1250, seconds: 43200}}
	for _, m := range []*mapping{orders, offers} {
		p.sumDay(m)
		if d := m.Files.Day; d.Rows != 4000 || d.Files != 4 || d.Limit != "roll.rows" || d.Imports != 8 || d.Slots != 3 || !d.TooMany {
			t.Errorf("%s: got %+v, want 4000 rows in 4 files of 2 imports for 3 slots", m.config.Name, *d)
		}
	}
}

func TestAShortSampleSaysNothingOfADay(t *testing.T) {
	for seconds, want := range map[int64]float64{0: 0, 59: 0, 60: 1440, 86400: 1} {
		m := &mapping{Mapping: Mapping{Seconds: seconds}, parts: map[source]*part{{}: {calls: 1, seconds: seconds}}}
		if got := m.aDay((*part).ofCalls); got != want {
			t.Errorf("one in %d seconds: got %v a day, want %v", seconds, got, want)
		}
	}
}

// A file of auto rows is sealed in time for what their route says, so that the day has more of them.
func TestADayOfAutoRowsFollowsWithin(t *testing.T) {
	p, r := planOf(t, Limits{}, router.Mapping{Name: "orders", Routes: []router.Route{{Lane: auto, Within: 32 * time.Minute}}, Imports: router.Imports{
		Upsert: &router.Import{ETL: "1", Mode: "CREATE_OR_UPDATE"}, Columns: []router.Column{{Name: "businessKey"}, {Name: "status"}},
		Roll: router.Roll{Age: 2 * time.Hour}, SlotsPerDay: 12, Reserve: 2, Timezone: "UTC",
	}})
	for i := range int64(24*60 + 1) {
		order(t, p, r, "orders", 0, fmt.Sprint(i), i, time.Unix((midnight+i)*60, 0))
	}
	report := Report{Mappings: reported(t, p)}
	d := report.Mappings[0].Files.Day
	if d.Files != 48 || d.Limit != "within" || !d.TooMany || !d.AtMost {
		t.Errorf("got %+v, want at most 48 files by within, more than there are slots", *d)
	}
	const want = "in 48 files by within: 48 imports; fewer, if calls carry rows before\n"
	if text := report.Text(""); !strings.Contains(text, want) {
		t.Errorf("got\n%s\nwant %q", text, want)
	}
	m := p.mappings[0]
	m.arrived.fileOnly = m.arrived.writes[schemas.Upsert] // none can be called
	if d := m.imports(1e6, 0, 1e6, 10); d.Files != 48 || d.AtMost {
		t.Errorf("rows that no call carries: got %+v, want 48 files", *d)
	}
}

// Writes of a key are one row of a file, but one of each file in which it comes back.
func TestAKeyIsARowOfEachFileInWhichItComesBack(t *testing.T) {
	for name, c := range map[string]struct {
		roll    router.Roll
		max     int64
		rows    int64
		imports int64
	}{
		"by age":                     {roll: router.Roll{Age: 2 * time.Hour}, rows: 120, imports: 12},
		"and more rows than a file":  {roll: router.Roll{Age: 2 * time.Hour, Rows: 500}, rows: 120, imports: 12},
		"by rows":                    {roll: router.Roll{Age: 2 * time.Hour, Rows: 5}, rows: 2890, imports: 578},
		"files that are taken apart": {roll: router.Roll{Age: 2 * time.Hour}, max: 5, rows: 120, imports: 24},
	} {
		p, r := planOf(t, Limits{}, router.Mapping{Name: "orders", Routes: []router.Route{{Lane: batch}}, Imports: router.Imports{
			Upsert: &router.Import{ETL: "1", Mode: "CREATE_OR_UPDATE"}, Columns: []router.Column{{Name: "businessKey"}, {Name: "status"}},
			Roll: c.roll, MaxFile: router.MaxFile{Rows: c.max}, SlotsPerDay: 12, Reserve: 2, Timezone: "UTC",
		}})
		const minutes = 24*60 + 1
		for i := int64(0); i < minutes; i += 5 {
			for key := range 10 {
				order(t, p, r, "orders", 0, fmt.Sprint(key), i, time.Unix((midnight+i)*60, 0))
			}
		}
		d := reported(t, p)[0].Files.Day
		if d.Imports != c.imports || d.Slots != 10 || !d.TooMany || d.Behind || d.Rows < c.rows || d.Rows > c.rows+10 {
			t.Errorf("%s: got %+v, want %d imports of up to %d rows, more than the slots", name, *d, c.imports, c.rows)
		}
	}
}
