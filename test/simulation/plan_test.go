//go:build simulation

package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // whatever the machine has

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// loads are a table's imports by op.
var loads = []struct {
	op   string
	mode sandbox.Mode
}{
	{"upsert", sandbox.CreateOrUpdate},
	{"patch", sandbox.UpdateOnly},
	{"create", sandbox.CreateOnly},
	{"delete", sandbox.DeleteRows},
	{"merge", sandbox.CreateOrUpdate},
}

// partial holds for ops whose events name only some columns.
func partial(op string) bool { return op == "patch" || op == "merge" }

// etl is the id of a table's load.
func etl(t *table, load int) string {
	if t.bundled {
		return fmt.Sprint(301 + load)
	}
	if t.custom() {
		return fmt.Sprint(201 + load)
	}
	return fmt.Sprint(101 + load)
}

// plan is what a seed decides before anything runs.
type plan struct {
	tables     []*table
	partitions int32
	members    int
	apart      bool   // each lane in a member of its own
	routes     int    // version
	after      bool   // orders come after customers
	shared     *table // both lanes write it, and much of what goes wrong meets that; nil: none

	begin time.Time // of the life, on any day and at any time
	zone  *time.Location
	life  time.Duration // of load and faults
	pace
	quiet      time.Duration // that comes before the life, in which little happens; 0: none
	quietCurve string
	keys       int // with which the first table begins

	latency    time.Duration // of a message at most
	callTime   time.Duration // that the service takes
	processing time.Duration // of an execution
	rate       int           // calls a minute; 0: none
	slots      int
	reserve    int
	rollRows   int
	rollAge    time.Duration // 0: never
	cuts       bool          // the brokers lose the ends of logs
	rollAt     []time.Time   // whose times of day on the zone's clock are meant
	maxFile    int           // rows; 0: any number
	calls      int           // in flight at most
	debug      bool          // the members log everything
}

// pace is how much happens, and how often members look for it.
type pace struct {
	every      time.Duration // between two bunches of events
	curve      string        // of how many come
	bunch      int           // events at most
	burst      int           // events, now and then
	faultEvery time.Duration // mean

	session     time.Duration // of the members in their groups
	commitEvery time.Duration
	lookEvery   time.Duration // of the members at what sends no notice, at most
}

const day = 24 * time.Hour

// The curves of how many events come.
const (
	steady   = "steady"
	office   = "office hours"
	nightly  = "nightly dumps"
	snapshot = "a snapshot first"
)

var zones = []*time.Location{time.UTC, zone("Europe/Brussels"), zone("America/New_York"), zone("Asia/Kathmandu")}

func zone(name string) *time.Location {
	z, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	return z
}

func pick[T any](rnd *rand.Rand, of ...T) T { return of[rnd.IntN(len(of))] }

func newPlan(rnd *rand.Rand) plan {
	p := plan{
		partitions: 1 + rnd.Int32N(4),
		members:    pick(rnd, 1, 2, 2, 3),
		apart:      rnd.IntN(4) == 0,
		life:       pick(rnd, 30*time.Minute, 30*time.Minute, 30*time.Minute, time.Hour, 2*time.Hour),
		pace: pace{
			every:      pick(rnd, 20*time.Second, time.Minute),
			bunch:      pick(rnd, 1, 5, 10),
			burst:      pick(rnd, 0, 30, 100),
			faultEvery: pick(rnd, time.Minute, 2*time.Minute, 5*time.Minute),
		},
		latency:    pick(rnd, time.Millisecond, 10*time.Millisecond, 100*time.Millisecond),
		callTime:   pick(rnd, time.Millisecond, 50*time.Millisecond, time.Second),
		processing: pick(rnd, time.Second, 30*time.Second, 10*time.Minute),
		rate:       pick(rnd, 0, 0, 10, 100, 600),
		slots:      pick(rnd, 4, 24, 48, 200, 200, 200, 200),
		rollRows:   pick(rnd, 5, 100, 100000),
		rollAge:    pick(rnd, time.Minute, 5*time.Minute, 20*time.Minute),
		calls:      pick(rnd, 1, 4, 64),
	}
	p.session = pick(rnd, 6*time.Second, 30*time.Second, 30*time.Second)
	if rnd.IntN(25) == 0 {
		p.life, p.slots, p.rollAge = day, 12, time.Hour
	}
	p.commitEvery = pick(rnd, time.Second, 5*time.Second)
	p.zone = pick(rnd, zones...)
	date := pick(rnd, "2026-01-01", "2026-03-08", "2026-03-29", "2026-06-15", "2026-10-25", "2026-11-01") // the clock is set on some
	p.begin, _ = time.ParseInLocation(time.DateOnly, date, p.zone)
	p.begin = p.begin.Add(time.Duration(rnd.IntN(48)-24) * 30 * time.Minute)
	switch p.slots {
	case 200:
		p.maxFile = pick(rnd, 0, 0, 3, 50)
	case 24, 48:
		p.maxFile = pick(rnd, 0, 0, 50)
	}
	if p.maxFile == 3 && p.processing > time.Minute { // hours of waiting for one import after the other
		p.maxFile = 50
	}
	p.timesOfDay(rnd)
	p.debug = rnd.IntN(3) == 0
	p.reserve = rnd.IntN(min(3, p.slots))
	for _, name := range []string{"customers", "orders"} {
		p.tables = append(p.tables, &table{
			name: name, topic: map[string]string{"customers": "crm", "orders": "shop"}[name],
			lanes: pick(rnd, "immediate", "batch", "both", "both", "auto", "auto"), keys: map[string]*key{}, routes: newRoutes(rnd),
		})
	}
	if p.rate > 0 && p.rate < 100 { // what the calls of a minute can carry
		p.every, p.bunch = time.Minute, min(p.bunch, 5)
	}
	if p.apart {
		p.members = 2
	}
	for _, t := range p.tables {
		if t.again, t.skips = pick(rnd, 0, 0, 60), t.byCall() && rnd.IntN(3) > 0; t.skips { // what is skipped has been said before
			t.again = 60
		}
		t.format = pick(rnd, canonical, canonical, mapped, inAvro, debezium)
		t.mayClear()
	}
	if p.after = rnd.IntN(3) == 0; p.after {
		p.tables[1].skips = false // a profile that is deleted may take its records with it
	}
	if customers, orders := p.tables[0], p.tables[1]; customers.byFile() && orders.byFile() && rnd.IntN(2) == 0 {
		customers.bundled, orders.bundled = true, true
	}
	return p
}

// mayClear decides whether patches of the table clear its note.
func (t *table) mayClear() {
	if t.clears = t.custom() && t.lanes == "both" && t.format == canonical; t.clears {
		t.routes.alone = "" // calls are needed beside a lane that is alone
	}
}

// lengthen has some lives go on for days. What goes wrong and what comes is rarer in them,
// and members look less often at what sends no notice, so that their hours cost little:
// the others find what is a matter of seconds.
func (p *plan) lengthen(rnd *rand.Rand) {
	if p.curve = steady; p.life < day && rnd.IntN(10) > 0 {
		return
	}
	p.life = pick(rnd, day, day, day, 2*day, 2*day, 3*day, 7*day)
	if rnd.IntN(50) == 0 {
		p.life = 30 * day
	}
	if p.maxFile == 3 {
		p.maxFile = 50
	}
	p.faultEvery = pick(rnd, 30*time.Minute, time.Hour, 2*time.Hour)
	p.every = pick(rnd, 10*time.Minute, 20*time.Minute, 40*time.Minute)
	p.session, p.lookEvery, p.commitEvery = 5*time.Minute, 2*time.Minute, pick(rnd, 5*time.Second, 30*time.Second)
	p.curve = pick(rnd, steady, office, nightly, snapshot)
}

// precede has a quiet day come before lives of hours, which then meet what a day leaves.
func (p *plan) precede(rnd *rand.Rand) {
	if p.life < day {
		p.quiet, p.quietCurve = day, pick(rnd, steady, office, nightly)
		p.begin = p.begin.Add(-day)
	}
}

// scale has some lives with more members, and some with the least of slots.
func (p *plan) scale(rnd *rand.Rand) {
	if !p.apart && rnd.IntN(20) == 0 {
		p.members = pick(rnd, 4, 5)
	}
	if p.slots == 4 && rnd.IntN(6) == 0 {
		p.slots, p.reserve, p.rollAt = 1, 0, nil
		p.rollAge = max(p.rollAge, time.Minute)
	}
}

// inQuiet is the pace of a quiet day. Few slots are left for the time behind it.
func (p *plan) inQuiet() pace {
	quiet := pace{curve: p.quietCurve, every: 3 * time.Hour, bunch: min(p.bunch, 3), faultEvery: 6 * time.Hour, session: 5 * time.Minute, lookEvery: 2 * time.Minute, commitEvery: 30 * time.Second}
	if p.slots < 24 {
		quiet.every = 12 * time.Hour
	}
	return quiet
}

// million has one life of a thousand begin with a million keys, which go by file.
func (p *plan) million(seed uint64) {
	if seed%1000 != 500 {
		return
	}
	t := p.tables[0]
	p.quietCurve = steady
	p.keys, p.life, p.pace = 1_000_000, day, p.inQuiet()
	p.faultEvery = 20 * time.Minute
	p.after, p.rollRows, p.rollAge, p.rollAt, p.slots, p.latency = false, 100_000, 20*time.Minute, nil, 24, time.Millisecond
	p.maxFile = pick(rand.New(rand.NewPCG(seed, 6)), 0, 300_000)
	t.lanes, t.bundled, p.tables[1].bundled, t.skips = "batch", false, false, false
}

// The events of a snapshot, and of a dump each night.
const (
	snapshotOf = 2000
	dumpOf     = 300
)

// comes is how many events come now, and how long it takes until others do. last is when
// some came last.
func (p *plan) comes(rnd *rand.Rand, last, now time.Time) (n int, next time.Duration) {
	if n = rnd.IntN(p.bunch + 1); p.burst > 0 && rnd.IntN(40) == 0 {
		n = p.burst
	}
	next = p.every/2 + time.Duration(rnd.Int64N(int64(p.every)))
	hour := now.In(p.zone).Hour()
	switch {
	case p.curve == snapshot && last.IsZero():
		n = snapshotOf
	case p.curve == nightly && hour == 2 && now.Sub(last) < 3*time.Hour && last.In(p.zone).Hour() != 2:
		n = dumpOf
	case p.curve == office && hour >= 8 && hour < 18:
		n, next = 3*n, next/3
	case p.curve == office:
		next *= 3
	}
	return n, next
}

// timesOfDay has files be due at times of the day, and at some at these alone. One of them
// is behind the life, for what is left then.
func (p *plan) timesOfDay(rnd *rand.Rand) {
	if rnd.IntN(4) > 0 {
		return
	}
	p.rollAt = []time.Time{p.begin.Add(p.life + time.Duration(5+rnd.IntN(60))*time.Minute)}
	if p.slots >= 24 && rnd.IntN(2) == 0 {
		p.rollAt = append(p.rollAt, p.begin.Add(time.Duration(5+rnd.IntN(20))*time.Minute))
		if at := strings.Split(p.clocks(), ", "); at[0] == at[1] { // the same, on another day
			p.rollAt = p.rollAt[:1]
		}
	}
	if rnd.IntN(2) == 0 {
		p.rollAge = 0
	}
}

// nextTimeOfDay is how long it takes from then to the next of the times of day, and an hour more.
func (p *plan) nextTimeOfDay(from time.Time) time.Duration {
	y, m, d := from.In(p.zone).Date()
	least := day
	for _, at := range p.rollAt {
		at = at.In(p.zone)
		for days := range 2 {
			if next := time.Date(y, m, d+days, at.Hour(), at.Minute(), 0, 0, p.zone).Sub(from); next > 0 {
				least = min(least, next)
			}
		}
	}
	return least + time.Hour
}

// bound is how long everything may take to be confirmed once all is well: what waits
// for calls, files that wait for their times, and imports that wait for the days' slots.
// waiting is how many records are not confirmed, used how many imports there were.
func (p *plan) bound(events, waiting, used int, from time.Time) time.Duration {
	bound := 2*time.Hour + 2*p.rollAge + 4*p.processing
	if p.after {
		bound *= 2
	}
	if p.rollAge == 0 { // what a halted file has held up is in the file of the time behind it
		next := p.nextTimeOfDay(from.Add(10 * time.Minute))
		bound += next + p.nextTimeOfDay(from.Add(next))
	}
	imports := 2 * len(loads)
	if p.maxFile > 0 { // one file after the other, each with an import for each op that its rows have
		imports += waiting * min(p.maxFile, len(loads)) / p.maxFile
		bound += time.Duration(imports) * p.processing
	}
	perDay := p.slots - p.reserve - len(p.rollAt)
	if p.maxFile > 0 { // the slots may be spread over the day
		bound += time.Duration(imports) * day / time.Duration(perDay)
	}
	switch {
	case perDay < 24:
		bound += 6*day + day*time.Duration(imports/perDay)
	case used+imports > perDay: // today's may be used up: rows of several ops take as many at once
		bound += day * time.Duration(1+imports/perDay)
	}
	if p.rate > 0 {
		bound += 2 * time.Duration(events/p.rate) * time.Minute
	}
	if p.rate > 0 && slices.ContainsFunc(p.tables, (*table).autoRows) {
		// Calls of the immediate lane have their part by weight, also where another member, which has the
		// tables' files, leaves the part of its rows' calls.
		bound += time.Duration(2 * float64(waiting) / (float64(p.rate) * p.leastPart()) * float64(time.Minute))
	}
	return bound
}

func (p *plan) String() string {
	var lanes []string
	for _, t := range p.tables {
		lanes = append(lanes, fmt.Sprintf("%s: %s, bundled %v, %s, %d %% said again, skipped %v", t.name, t.format, t.bundled, p.routesOf(t), t.again, t.skips))
	}
	return fmt.Sprintf("%s, orders after customers %v, shared: %s, %d partitions, %d members, lanes apart %v, %v, up to %d events every %v, bursts of %d, a fault every %v, "+
		"%s, %d keys first, %v of quiet before (%s), latency %v, calls %v, imports %v, rate %d/min, %d slots, %d in reserve, roll %d rows or %v or at [%s], files of %d rows, %d calls in flight, sessions of %v, from %v",
		strings.Join(lanes, ", "), p.after, p.sharedName(), p.partitions, p.members, p.apart, p.life, p.bunch, p.every, p.burst, p.faultEvery,
		p.curve, p.keys, p.quiet, p.quietCurve, p.latency, p.callTime, p.processing, p.rate, p.slots, p.reserve, p.rollRows, p.rollAge, p.clocks(), p.maxFile, p.calls, p.session, p.begin)
}

// yaml is the members' configuration, with the routes as they are now.
func (p *plan) yaml() string {
	var text strings.Builder
	fmt.Fprintf(&text, `
kafka: {brokers: ["%s"], group: %s, sessionTimeout: %[9]v}
service:
  baseURL: http://%[3]s
  authURL: http://%[3]s
  entity: acme
  apiKey: %[4]s
  timeout: %[7]v
  concurrency: {start: %[5]d, max: %[5]d}
  rate: {calls: %[6]d, per: 1m}
dlq: {topic: dlq, flood: {records: 0}}
spool: {dir: "${SPOOL}"}
schemaRegistry: {url: "http://%[8]s"}
admin: {listen: "localhost:0"}
mappings:
`, brokerAt, group, serviceAt, apiKey, p.calls, p.rate, timeout, registryAt, p.session)
	for _, t := range p.tables {
		kind, key := "profileTable", "customerNumber"
		if t.custom() {
			kind, key = "customTable", "businessKey"
		}
		fmt.Fprintf(&text, "  - name: %s\n    topics: [%s]\n    %s: %s\n    key: %s\n    routes: %s\n", t.name, t.topic, kind, t.name, key, p.routesOf(t))
		text.WriteString(t.reading(key))
		if p.after && t.custom() {
			text.WriteString("    after: [customers]\n")
		}
		if t.bundled {
			text.WriteString("    bundle: both\n")
		}
		if t.skips {
			text.WriteString("    unchanged: skip\n")
		}
		if t.byCall() {
			continue
		}
		text.WriteString("    imports:\n")
		for i, load := range loads {
			if !t.loads(load.op) {
				continue
			}
			fmt.Fprintf(&text, "      %s: {etl: %q, mode: %s, ignoresEmpty: %v}\n", load.op, etl(t, i), load.mode, partial(load.op))
		}
		note := "note"
		if t.clears {
			note = "{name: note, null: immediate}"
		}
		fmt.Fprintf(&text, "      columns: [%s, seq, %s]\n      roll: {rows: %d, bytes: 1MiB, age: %v, at: [%s]}\n      maxFile: {rows: %d}\n      slotsPerDay: %d\n      reserve: %d\n      timezone: %s\n",
			key, note, p.rollRows, p.rollAge, p.clocks(), p.maxFile, p.slots, p.reserve, p.zone)
	}
	return text.String()
}

// loads reports whether the table has files of this op.
func (t *table) loads(op string) bool {
	if t.bundled {
		return op == "upsert" || op == "delete"
	}
	return op == "upsert" || t.byFile() || t.custom() && op != "create"
}

// clocks are the times of day as the configuration has them.
func (p *plan) clocks() string {
	var at []string
	for _, when := range p.rollAt {
		at = append(at, when.In(p.zone).Format(`"15:04"`))
	}
	return strings.Join(at, ", ")
}
