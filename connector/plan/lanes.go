package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/batcher/slots"
	"github.com/feedsink/feedsink/connector/words"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// The lanes that are compared.
const (
	immediate = "immediate"
	batch     = "batch"
	auto      = "auto"
)

// Lanes compare what it would cost if all of a mapping's records took one lane, and how
// fresh the table would be. What was read is played once, in the time in which its records
// came, and goes on until all rows have landed. Taken for granted is:
//   - Time goes by whole minutes. Nothing waits when the sample begins.
//   - Where partitions have more records than are read, what is played begins when all of
//     them were read: what only the quiet ones tell is left out.
//   - Writes of a key within a second are one row. Beyond that, no more rows wait than there
//     are keys; in truth more may merge.
//   - service.rate is divided among the mappings that make calls by their weights, and spread
//     evenly; none uses what another leaves. Without it no call waits.
//   - An import takes two minutes. All slots of the first day are free, none fails, and
//     roll.bytes and maxFile.bytes are never reached. Scarce slots are used as a sink does that
//     has seen the whole days of the sample before.
//   - A mapping's `unchanged: skip` is the immediate lane's alone, and calls that it saves are not made.
//   - Calls of auto do not wait for an import that has a row of their key. Its routes have the
//     shortest within of those that are configured, and call for all rows.
type Lanes struct {
	Since       time.Time `json:"since,omitzero"`        // what is played began then; zero: with the first record
	Choices     []Choice  `json:"choices"`               // that can work
	LeftOut     []LeftOut `json:"leftOut,omitempty"`     // the others
	Recommended string    `json:"recommended,omitempty"` // the lane of one of them; "": none can work
	Reason      string    `json:"reason,omitempty"`      // why
}

// Choice is one lane for all records of a mapping.
type Choice struct {
	Lane     string `json:"lane"`
	Calls    int64  `json:"calls"`    // for all that is played
	CallsDay int64  `json:"callsDay"` // most on a calendar day of imports.timezone
	Imports  int64  `json:"imports"`
	SlotsDay int64  `json:"slotsDay"` // most on a calendar day: each import takes one
	ByFile   int64  `json:"byFile"`   // rows that those imports bring
	// P99 is how old rows were, at most, when they had landed, but for the oldest 1 %;
	// Oldest counts these, too. Less than a minute is 0.
	P99    time.Duration `json:"p99"`
	Oldest time.Duration `json:"oldest"`
	// RowHours is the sum of these ages: for how many hours rows of the table were stale.
	RowHours float64 `json:"rowHours"`
	Left     int64   `json:"left,omitempty"` // rows that have not landed a year after the last came

	behind    float64 // minutes that the oldest waiting row was old, on the average of the sample's
	dayByFile string  // on which most rows came that went by file
	dayRows   int64
}

// LeftOut is a lane that cannot take all of a mapping's records.
type LeftOut struct {
	Lane   string `json:"lane"`
	Reason string `json:"reason"`
}

// arrivals are the writes of a mapping, for the comparison of lanes.
type arrivals struct {
	writes     map[schemas.Op]int64
	uncallable map[schemas.Op]int64
	fileOnly   int64 // that no auto route would call
	noRow      map[schemas.Op]int64
	last       map[string]time.Time // of the last row, by key
	minutes    map[int64]*rows
}

func newArrivals() arrivals {
	return arrivals{
		writes: map[schemas.Op]int64{}, uncallable: map[schemas.Op]int64{}, noRow: map[schemas.Op]int64{},
		last: map[string]time.Time{}, minutes: map[int64]*rows{},
	}
}

func (a *arrivals) add(c *router.Compiled, w *schemas.Write, at time.Time) {
	a.writes[w.Op]++
	callable := c.Callable(w)
	if !callable {
		a.uncallable[w.Op]++
	}
	if callable = callable && w.Op != schemas.Create && w.Op != schemas.Merge; !callable {
		a.fileOnly++
	}
	if !c.Fileable(w) {
		a.noRow[w.Op]++
	}
	minute := at.Unix() / 60
	r := a.minutes[minute]
	if r == nil {
		r = &rows{minute: minute}
		a.minutes[minute] = r
	}
	r.ops[w.Op] = true
	before, again := a.last[w.Key]
	if again && at.Sub(before).Abs() < together {
		return
	}
	a.last[w.Key] = at
	switch {
	case callable:
		r.callable++
	default:
		r.fileOnly++
	}
}

// sumLanes compares the lanes of a mapping.
func (p *Plan) sumLanes(m *mapping) {
	if len(m.arrived.minutes) == 0 || m.last.Sub(m.since) < leastSpan*time.Second {
		return
	}
	l := &Lanes{Choices: []Choice{}}
	m.Lanes = l
	if m.since.After(m.first) {
		l.Since = m.since
	}
	var came []rows
	for _, minute := range slices.Sorted(maps.Keys(m.arrived.minutes)) {
		if minute >= m.since.Unix()/60 {
			came = append(came, *m.arrived.minutes[minute])
		}
	}
	skipping := slices.Clone(came)
	for i := range skipping {
		skipping[i].callable -= skipping[i].spared
	}
	for _, lane := range []string{immediate, batch, auto} {
		if reason := p.against(m, lane); reason != "" {
			l.LeftOut = append(l.LeftOut, LeftOut{lane, reason})
			continue
		}
		s := p.simulation(m, lane)
		rows := came
		if lane == immediate {
			rows = skipping
		}
		l.Choices = append(l.Choices, s.choice(s.run(rows)))
	}
	l.recommend()
}

func (p *Plan) simulation(m *mapping, lane string) *simulation {
	im := m.config.Config.Imports
	zone, err := time.LoadLocation(im.Timezone)
	if err != nil {
		zone = time.UTC // it is refused where the mapping has files
	}
	at := im.Roll.TimesOfDay()
	s := &simulation{
		lane: lane, keys: int64(len(m.arrived.last)), age: im.Roll.Age, at: at, most: im.Roll.Rows, mostFile: im.MaxFile.Rows,
		slots: slots.Plan{PerDay: im.SlotsPerDay, Reserve: im.Reserve, Zone: zone, At: at, Every: im.Roll.Age},
	}
	if lane == auto {
		s.within = m.config.Within()
	}
	if p.limits.RateCalls > 0 {
		s.callsAMinute = p.partOf(m) * float64(p.limits.RateCalls) * float64(time.Minute) / float64(p.limits.RatePer)
	}
	return s
}

// partOf is the mapping's part of the rate, if it made calls: by the weights of routes.
func (p *Plan) partOf(m *mapping) float64 {
	own, all := 0.0, 0.0
	for _, other := range p.mappings {
		weights := 0.0
		for i, r := range other.config.Config.Routes {
			if r.Lane == immediate || r.Lane == auto {
				weights += other.config.Weight(i)
			}
		}
		if other == m {
			if weights == 0 {
				weights = 1
			}
			own = weights
		}
		all += weights
	}
	return own / all
}

// against is why a lane cannot take all of the mapping's records; "": it can.
func (p *Plan) against(m *mapping, lane string) string {
	compiled := make([]*router.Compiled, len(p.mappings))
	for i, other := range p.mappings {
		compiled[i] = other.config
	}
	a := &m.arrived
	switch {
	case m.Bundle != "":
		return "the mapping's files go together with those of the bundle " + m.Bundle
	case lane == immediate:
		return a.noCall()
	}
	if reason := a.cannotBeRows(m.config); reason != "" || lane == batch {
		return reason
	}
	if a.fileOnly == words.Sum(a.writes) {
		return cmp.Or(a.noCall(), "creates and merges go by file, and there is no other write")
	}
	return m.config.AutoByFile(compiled)
}

func (a *arrivals) noCall() string {
	for _, op := range schemas.Ops {
		n := a.uncallable[op]
		switch {
		case n == 0:
		case op == schemas.Create, op == schemas.Merge:
			return fmt.Sprintf("the op %v, of %d of %d writes, has no call for a profile", op, n, words.Sum(a.writes))
		default:
			return fmt.Sprintf("the op %v, of %d of %d writes, has no call without the profile's id", op, n, words.Sum(a.writes))
		}
	}
	return ""
}

func (a *arrivals) cannotBeRows(c *router.Compiled) string {
	for _, op := range schemas.Ops {
		n := a.noRow[op]
		switch {
		case n == 0:
		case c.Import(op) == nil:
			return fmt.Sprintf("no import loads the op %v: imports.%v is not configured", op, op)
		default:
			return fmt.Sprintf("%d of %d writes of the op %v leave out, or make null, what a column cannot say", n, a.writes[op], op)
		}
	}
	if len(c.Columns) == 0 {
		return "imports.columns is missing"
	}
	return ""
}

func (l *Lanes) choice(lane string) *Choice {
	if i := slices.IndexFunc(l.Choices, func(c Choice) bool { return c.Lane == lane }); i >= 0 {
		return &l.Choices[i]
	}
	return nil
}

// asFresh reports whether a choice keeps the table about as fresh as another one: how old
// the oldest row was that had not landed yet, on the average, within a tenth or a minute.
// The rows of a snapshot do not outweigh all later changes that way.
func (c *Choice) asFresh(other *Choice) bool {
	return c.behind <= max(1.1*other.behind, other.behind+1)
}

// recommend chooses the lane that keeps the table freshest. Of equals it is auto rather
// than immediate, since auto has a file for the next snapshot, and batch rather than auto,
// since it makes no calls.
func (l *Lanes) recommend() {
	if len(l.Choices) == 0 {
		return
	}
	best := &l.Choices[0]
	for i := range l.Choices {
		if l.Choices[i].behind < best.behind {
			best = &l.Choices[i]
		}
	}
	if a := l.choice(auto); a != nil && a.asFresh(best) {
		best = a
	}
	if b := l.choice(batch); b != nil && b.asFresh(best) {
		best = b
	}
	l.Recommended = best.Lane
	var because []string
	switch best.Lane {
	case immediate:
		because = append(because, "calls bring "+every(best))
	case batch:
		because = append(because, fmt.Sprintf("files bring %s, by %s", every(best), words.Counted(best.Imports, "import")))
	case auto:
		because = append(because, carried(best))
	}
	for i := range l.Choices {
		if other := &l.Choices[i]; other != best {
			because = append(because, other.instead(best))
		}
	}
	if len(l.Choices) == 1 && len(l.LeftOut) > 0 {
		because = append(because, "no other lane can take all records")
	}
	l.Reason = strings.Join(because, "; ")
}

// every is how soon all rows land.
func every(c *Choice) string {
	if c.Left > 0 {
		return fmt.Sprintf("all but %s within a year", words.Counted(c.Left, "row"))
	}
	return "every row within " + Span(c.Oldest)
}

// carried is which rows of auto calls carry, and which files.
func carried(c *Choice) string {
	switch {
	case c.ByFile == 0:
		return fmt.Sprintf("calls carry every row within %s, and no file goes", Span(c.Oldest))
	case c.dayRows == c.ByFile:
		return fmt.Sprintf("calls carry all but %s of %s, by %s", words.Counted(c.ByFile, "row"), c.dayByFile, words.Counted(c.Imports, "import"))
	}
	return fmt.Sprintf("calls carry all but %s, most of them of %s, by %s", words.Counted(c.ByFile, "row"), c.dayByFile, words.Counted(c.Imports, "import"))
}

// instead is what a lane would do that is not recommended.
func (c *Choice) instead(best *Choice) string {
	switch {
	case c.Lane == immediate && c.Left > 0:
		return "immediate would need more than a year of calls"
	case c.Lane == immediate && c.Oldest > best.Oldest:
		return fmt.Sprintf("immediate would need %s of calls", Span(c.Oldest))
	case c.Lane == immediate && best.Lane == auto && c.asFresh(best):
		return "immediate would be as fresh, but has no file for a snapshot"
	case c.Lane == auto && c.asFresh(best):
		return fmt.Sprintf("auto would hardly be fresher, with %s", words.Counted(c.Calls, "call"))
	case c.Left > 0:
		return fmt.Sprintf("%s would not bring %s within a year", c.Lane, words.Counted(c.Left, "row"))
	}
	return fmt.Sprintf("%s would leave rows up to %s old", c.Lane, Span(c.Oldest))
}

// Span is a length of time of whole minutes, in its two largest units: 2 h 10 min.
func Span(d time.Duration) string {
	minutes := int64(d / time.Minute)
	days, hours := minutes/(24*60), minutes/60%24
	switch {
	case minutes == 0:
		return "a minute"
	case days >= 3:
		return words.Counted(days, "day")
	case days > 0 || minutes%60 == 0:
		return fmt.Sprintf("%d h", minutes/60)
	case hours > 0:
		return fmt.Sprintf("%d h %d min", hours, minutes%60)
	}
	return fmt.Sprintf("%d min", minutes)
}
