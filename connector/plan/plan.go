// Package plan foretells what a sink would do with the records of a sample: calls,
// rows, files and imports, whether the day's slots and the calls' rate suffice, and
// what would be dead letters.
//
// It knows writes, files and limits. It knows nothing about Kafka or HTTP: the
// caller reads the sample and hands it the routed records.
package plan

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/words"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/check"
	"github.com/feedsink/feedsink/schemas"
)

// Limits are what the sample is measured against.
type Limits struct {
	RateCalls int // service.rate; 0: none
	RatePer   time.Duration
	Unchanged int64 // memory.unchanged, in bytes
	Show      int   // requests and lines of CSV for each mapping and op
}

// Plan gathers what records would come to. It is used by one goroutine; its memory
// follows the number of keys in the sample.
type Plan struct {
	limits      Limits
	mappings    []*mapping // as they are in the configuration
	deadLetters map[deadLetterKind]*Group
	skipped     map[string]int64 // records that no mapping takes, by topic
	places      places
	covered     map[source]*covered
	perSpan     map[int64]int64 // calls of all mappings, by span of the rate limit, which is one for all
}

// mapping is one mapping's account.
type mapping struct {
	Mapping
	config      *router.Compiled
	first, last time.Time
	since       time.Time // of all of its partitions all records from then on were read
	parts       map[source]*part
	mayRepeat   bool               // unchanged: skip is configured, or could be
	called      map[string]*called // by key
	perMinute   map[int64]int64    // calls, by minute
	perSpan     map[int64]int64    // by span of the rate limit
	shown       []schemas.Write
	shownOps    map[schemas.Op]int
	preview     *spool.Preview // nil: no files
	noEffect    Effects
	arrived     arrivals
}

type deadLetterKind struct{ mapping, code, message string }

// New prepares for the records of all mappings, in the order of the configuration; preview opens a mapping's files.
func New(limits Limits, mappings []*router.Compiled, preview func(*router.Compiled) (*spool.Preview, error)) (*Plan, error) {
	p := &Plan{limits: limits, deadLetters: map[deadLetterKind]*Group{}, skipped: map[string]int64{}, places: newPlaces(), covered: map[source]*covered{}, perSpan: map[int64]int64{}}
	for _, c := range mappings {
		m := &mapping{
			Mapping: Mapping{Name: c.Name, Table: c.Label, Bundle: c.Config.Bundle}, config: c,
			mayRepeat: c.Unchanged() > 0 || check.CouldSkipUnchanged(mappings, c), called: map[string]*called{}, perMinute: map[int64]int64{}, perSpan: map[int64]int64{}, shownOps: map[schemas.Op]int{}, arrived: newArrivals(),
			parts: map[source]*part{},
		}
		if c.Uses(schemas.Batch) {
			var err error
			if m.preview, err = preview(c); err != nil {
				return nil, fmt.Errorf("mapping %s: %w", c.Name, err)
			}
		}
		p.mappings = append(p.mappings, m)
	}
	return p, nil
}

// Undecodable takes a record that says nothing.
func (p *Plan) Undecodable(r *router.Record, err error) {
	p.places.forget(r)
	p.deadLetter(nil, r, "decode", err)
}

// Add takes what the router made of a record.
func (p *Plan) Add(r *router.Record, routed []router.Routed) {
	p.saw(r)
	for i := range routed {
		one := &routed[i]
		if one.Mapping == nil {
			p.skipped[r.Topic]++
			continue
		}
		m := p.mappings[one.Mapping.Index]
		m.saw(r.Timestamp)
		of := m.part(r)
		m.noEffect.Add(one)
		switch {
		case one.Err != nil:
			code, key := router.CodeValue, ""
			if reject, ok := errors.AsType[*router.Reject](one.Err); ok {
				code, key = reject.Code, reject.Key()
			}
			p.deadLetter(m, r, code, one.Err)
			p.forget(m, r, key)
		case one.Lane == schemas.Skip:
			m.Skipped++
		case one.Lane == schemas.Batch:
			if err := m.file(&one.Write); err != nil {
				p.deadLetter(m, r, router.CodeValue, err)
				continue
			}
			of.writes++
			m.arrived.add(m.config, &one.Write, r.Timestamp)
		default:
			if why, unsent := writes.Unsent(&one.Write); unsent {
				p.deadLetter(m, r, why.Code, errors.New(why.Message))
				p.forget(m, r, one.Write.Key)
				continue
			}
			m.arrived.add(m.config, &one.Write, r.Timestamp)
			p.call(m, &one.Write, r)
		}
	}
}

func (m *mapping) saw(at time.Time) {
	m.Records++
	if m.first.IsZero() || at.Before(m.first) {
		m.first = at
	}
	if at.After(m.last) {
		m.last = at
	}
}

// maxWhere is how many records a group of dead letters names.
const maxWhere = 3

func (p *Plan) deadLetter(m *mapping, r *router.Record, code string, err error) {
	kind := deadLetterKind{code: code, message: err.Error()}
	if m != nil {
		m.DeadLetters++
		kind.mapping = m.Name
	}
	g := p.deadLetters[kind]
	if g == nil {
		g = &Group{Mapping: kind.mapping, Code: kind.code, Message: kind.message}
		p.deadLetters[kind] = g
	}
	g.Count++
	if len(g.Where) < maxWhere {
		g.Where = append(g.Where, fmt.Sprintf("%s[%d]@%d", r.Topic, r.Partition, r.Offset))
	}
}

// together is how close two writes of a key come to be merged while the first
// waits. How long it waits depends on the load: a careful guess.
const together = time.Second

func (p *Plan) call(m *mapping, w *schemas.Write, r *router.Record) {
	if m.Calls == nil {
		m.Calls = &Calls{ByOp: map[string]int64{}, RateLimit: int64(p.limits.RateCalls)}
	}
	m.Calls.Writes++
	key, known := m.called[w.Key]
	if !known {
		key = &called{}
		m.called[w.Key] = key
	}
	call := !known || r.Timestamp.Sub(key.at).Abs() >= together
	if call { // those that merge with it do not make it younger: it does not wait for them
		key.at = r.Timestamp
	}
	if m.mayRepeat {
		call = m.spared(call, key.skipping(w, r.Timestamp, p.places.of(r), m.config.Config.UnchangedFor), r.Timestamp)
	}
	if !call {
		return
	}
	m.Calls.Calls++
	m.part(r).calls++
	m.Calls.ByOp[w.Op.String()]++
	m.perMinute[r.Timestamp.Unix()/60]++
	if p.limits.RateCalls > 0 {
		span := r.Timestamp.UnixNano() / int64(p.limits.RatePer)
		m.perSpan[span]++
		p.perSpan[span]++
	}
	if m.shownOps[w.Op] < p.limits.Show {
		m.shownOps[w.Op]++
		m.shown = append(m.shown, *w)
	}
}

func (m *mapping) file(w *schemas.Write) error {
	if m.Files == nil {
		m.Files = &Files{ByOp: map[string]int64{}}
	}
	if err := m.preview.Add(w); err != nil {
		return err
	}
	m.Files.Writes++
	return nil
}

// Report sums up. The request of a write is what send says.
func (p *Plan) Report(topics []Topic, send func(*schemas.Write) (Request, error)) (Report, error) {
	r := Report{Topics: topics, Mappings: []Mapping{}, DeadLetters: []Group{}}
	for i := range topics {
		topics[i].Skipped = p.skipped[topics[i].Name]
	}
	for _, m := range p.mappings {
		p.sumSpans(m)
		m.NoEffect = m.noEffect.None()
		if m.Calls != nil {
			m.sumCalls(p.limits, p.perSpan)
			for i := range m.shown {
				request, err := send(&m.shown[i])
				if err != nil {
					return r, fmt.Errorf("mapping %s: %w", m.Name, err)
				}
				m.Calls.Requests = append(m.Calls.Requests, request)
			}
		}
		if m.Files != nil {
			m.sumFiles(p.limits.Show)
		}
	}
	for _, m := range p.mappings {
		if m.Files != nil {
			p.sumDay(m)
		}
		p.sumLanes(m)
		r.Mappings = append(r.Mappings, m.Mapping)
	}
	for _, g := range p.deadLetters {
		r.DeadLetters = append(r.DeadLetters, *g)
	}
	slices.SortFunc(r.DeadLetters, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Mapping, b.Mapping), cmp.Compare(a.Message, b.Message))
	})
	return r, nil
}

// leastSpan is how many seconds a sample must span to say something about a day.
const leastSpan = 60

const day = 24 * time.Hour

// sumCalls sums up the mapping's calls; all are those of all mappings by span of the rate limit.
func (m *mapping) sumCalls(limits Limits, all map[int64]int64) {
	c := m.Calls
	c.PerDay = int64(math.Ceil(m.aDay((*part).ofCalls)))
	for _, n := range m.perMinute {
		c.PeakMinute = max(c.PeakMinute, n)
	}
	for span, n := range m.perSpan {
		c.PeakRate = max(c.PeakRate, n)
		c.PeakRateAll = max(c.PeakRateAll, all[span])
	}
	if c.Unchanged+c.CouldSkip > 0 {
		c.Forgotten = max(int64(len(m.called))-limits.Unchanged/bytesPerKey, 0)
	}
	c.RateTooLow = limits.RateCalls > 0 && c.PeakRateAll > c.RateLimit
}

func (m *mapping) sumFiles(show int) {
	f := m.Files
	for _, file := range m.preview.Files(show) {
		f.Rows += file.Rows
		f.Bytes += file.Bytes
		f.ByOp[file.Op.String()] += file.Rows
		f.distinct++
		if show > 0 {
			f.CSV = append(f.CSV, CSV{Op: file.Op.String(), Lines: file.Lines})
		}
	}
}

// sumDay tells of the mapping's day, or of its bundle's: that is complete by the
// sum of its mappings' rows, has an import for each op that any of them has, and
// goes out as the one with the fewest slots lets it.
func (p *Plan) sumDay(m *mapping) {
	together := []*mapping{m}
	if bundle := m.config.Bundle(); bundle != nil {
		together = nil
		for _, c := range bundle {
			together = append(together, p.mappings[c.Index])
		}
	}
	rows, bytes, least, slots, ops := 0.0, 0.0, 0.0, math.MaxInt, map[string]bool{}
	for _, one := range together {
		im := one.config.Config.Imports
		slots = min(slots, max(im.SlotsPerDay-im.Reserve, 0))
		if one.Files == nil {
			continue
		}
		of := one.rowsADay(len(together) == 1)
		rows += of
		bytes += of * ratio(float64(one.Files.Bytes), float64(one.Files.Rows))
		least += one.aDay((*part).ofWrites) * ratio(float64(one.Files.Rows), float64(one.Files.Writes))
		for op := range one.Files.ByOp {
			ops[op] = true
		}
	}
	if len(together) > 1 {
		m.Files.distinct = len(ops)
	}
	if rows > 0 {
		m.Files.Day = m.imports(rows, bytes, least, slots)
	}
}

// rowsADay are a day's rows, at most. Writes of a key are one row within a file, not beyond:
// each write may be a row. No more rows than the sample has are in a file of a shorter time,
// if files are complete by time alone.
func (m *mapping) rowsADay(alone bool) float64 {
	roll, f := m.config.Config.Imports.Roll, m.Files
	writes, files := m.aDay((*part).ofWrites), m.filesByTime()
	byTime := alone && (roll.Rows == 0 || roll.Rows > f.Rows) && (roll.Bytes == 0 || int64(roll.Bytes) > f.Bytes)
	if byTime && files*float64(m.leastSeconds()) >= day.Seconds() {
		return min(writes, math.Ceil(files)*float64(f.Rows))
	}
	return writes
}

// filesByTime are how many files of a day are complete by time; 0: none.
func (m *mapping) filesByTime() float64 {
	roll := m.config.Config.Imports.Roll
	return max(ratio(float64(day), float64(roll.Age)), float64(len(roll.At)), ratio(float64(day), float64(soon(m.config.Within()))))
}

// imports are a day's files and imports. A file is complete at the first of its
// limits; each op in it is an import of its own. Rows and bytes are at most so many; of rows
// there are as many as least even if all writes of a key in the sample are one.
func (m *mapping) imports(rows, bytes, least float64, slots int) *Day {
	im := m.config.Config.Imports
	d := &Day{Rows: int64(math.Ceil(rows)), Slots: slots}
	files := 0.0
	for _, limit := range []struct {
		name  string
		files float64
	}{
		// A file opens with its first row: rare rows have a file each.
		{"roll.age", min(ratio(float64(day), float64(im.Roll.Age)), rows)},
		{"roll.rows", ratio(rows, float64(im.Roll.Rows))},
		{"roll.bytes", ratio(bytes, float64(im.Roll.Bytes))},
		{"roll.at", min(float64(len(im.Roll.At)), rows)},
		{"within", min(ratio(float64(day), float64(soon(m.config.Within()))), rows)},
		{"maxFile.rows", ratio(rows, float64(im.MaxFile.Rows))},
	} {
		if limit.files > files {
			files, d.Limit = limit.files, limit.name
		}
	}
	d.AtMost = m.config.HasAuto() && m.arrived.fileOnly < words.Sum(m.arrived.writes)
	d.Files = max(int64(math.Ceil(files)), 1)
	d.Imports = d.Files * int64(m.Files.distinct)
	d.Every = (day / time.Duration(d.Files)).Round(time.Minute)
	atLeast := math.Ceil(ratio(least, float64(im.MaxFile.Rows))) * float64(m.Files.distinct)
	d.Behind = atLeast > float64(d.Slots)
	if d.TooMany = d.Imports > int64(d.Slots); d.TooMany {
		files := max(int64(d.Slots)/int64(m.Files.distinct), 1)
		d.Every = (day / time.Duration(files)).Round(time.Minute)
	}
	return d
}

// soon is how old a file becomes whose rows are to be there within a time, with the import; 0: as old as it may.
func soon(within time.Duration) time.Duration {
	return max(within-batcher.UsualImport, within/2)
}

// ratio is 0 where there is no such limit.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// Report is what the sample tells.
type Report struct {
	Topics      []Topic   `json:"topics"`
	Mappings    []Mapping `json:"mappings"`
	DeadLetters []Group   `json:"deadLetters"` // by count, most first
	// BeforeRun is what a sink would refuse to start with, though a plan does not need
	// it: ETLs that do not fit, or may erase what a row leaves empty.
	BeforeRun []config.Problem `json:"beforeRun,omitempty"`
}

// Topic is what was read of a topic.
type Topic struct {
	Name       string    `json:"name"`
	Partitions int       `json:"partitions"`
	Stored     int64     `json:"stored"`  // offsets in its log, gaps counted
	Sampled    int64     `json:"sampled"` // records
	Skipped    int64     `json:"skipped"` // of these, that no mapping takes
	First      time.Time `json:"first,omitzero"`
	Last       time.Time `json:"last,omitzero"`
}

// Mapping is what becomes of a mapping's records.
type Mapping struct {
	Name        string `json:"name"`
	Table       string `json:"table"`
	Bundle      string `json:"bundle,omitempty"` // whose files are one: Files.Day is all of its mappings' together
	Records     int64  `json:"records"`
	Skipped     int64  `json:"skipped"` // by its routes
	DeadLetters int64  `json:"deadLetters"`
	Seconds     int64  `json:"seconds"` // that the sample spans; a day is extrapolated from them, or from those of each partition
	Calls       *Calls `json:"calls,omitempty"`
	Files       *Files `json:"files,omitempty"`
	// NoEffect are routes to calls whose writes of an op go by file all the same.
	NoEffect []NoEffect `json:"noEffect,omitempty"`
	// NotFound are its source paths that no record has.
	NotFound []router.NotFound `json:"notFound,omitempty"`
	// OtherKeys says of how many records the Kafka key does not say the row's key.
	OtherKeys string `json:"otherKeys,omitempty"`
	// Lanes compare the lanes; nil: the sample is too short, or has no write.
	Lanes *Lanes `json:"lanes,omitempty"`
}

// Calls are a mapping's writes by calls.
type Calls struct {
	Writes     int64            `json:"writes"`
	Calls      int64            `json:"calls"` // writes of a key within a second count as merged
	ByOp       map[string]int64 `json:"byOp"`
	Unchanged  int64            `json:"unchanged,omitempty"` // not in Calls: what unchanged: skip saves
	CouldSkip  int64            `json:"couldSkip,omitempty"` // of Calls: what it would save, where it is not configured but could be
	Forgotten  int64            `json:"forgotten,omitempty"` // keys for which memory.unchanged may have no room, so that less is saved
	PerDay     int64            `json:"perDay,omitempty"`    // 0: the sample is too short to tell
	PeakMinute int64            `json:"peakMinute"`          // calls in the busiest minute
	PeakRate   int64            `json:"peakRate,omitempty"`  // calls in the busiest service.rate.per
	// PeakRateAll is the calls of all mappings in the busiest of those spans in which this one has calls.
	PeakRateAll int64     `json:"peakRateAll,omitempty"`
	RateLimit   int64     `json:"rateLimit,omitempty"`  // service.rate.calls, one for all mappings; 0: none
	RateTooLow  bool      `json:"rateTooLow,omitempty"` // PeakRateAll is more: calls would wait
	Requests    []Request `json:"requests,omitempty"`
}

// Request is one call as it would be sent, without its token.
type Request struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Body   string `json:"body,omitempty"`
}

// Files are a mapping's writes by files.
type Files struct {
	Writes   int64            `json:"writes"`
	Rows     int64            `json:"rows"`  // of the sample as one file, the writes of a key merged
	Bytes    int64            `json:"bytes"` // of those, uncompressed
	ByOp     map[string]int64 `json:"byOp"`  // rows
	Day      *Day             `json:"day,omitempty"`
	CSV      []CSV            `json:"csv,omitempty"`
	distinct int
}

// Day is a day's imports, if all days were as the sample.
type Day struct {
	Rows    int64  `json:"rows"`    // at most: a key that comes back while its file is open merges into its row
	Files   int64  `json:"files"`   // rolled by the first limit that is reached
	Imports int64  `json:"imports"` // one for each op of a file
	Limit   string `json:"limit"`   // roll.age, roll.rows, roll.bytes, roll.at, within or maxFile.rows
	Slots   int    `json:"slots"`   // that files may use: slotsPerDay less reserve
	// AtMost says that there are fewer files where calls carry rows of auto routes before.
	AtMost bool `json:"atMost,omitempty"`
	// TooMany says that the day would want more imports than it has. The sink then
	// lets files grow: they go out about Every.
	TooMany bool `json:"tooMany"`
	// Behind says that the day's slots do not suffice for files as large as maxFile.rows
	// allows: the spool grows from day to day. What maxFile.bytes allows is not known
	// here, since nothing is compressed.
	Behind bool          `json:"behind,omitempty"`
	Every  time.Duration `json:"every"`
}

// CSV is the beginning of a file.
type CSV struct {
	Op    string   `json:"op"`
	Lines []string `json:"lines"`
}

// Group is dead letters of one reason.
type Group struct {
	Mapping string   `json:"mapping,omitempty"` // "": it cannot be decoded
	Code    string   `json:"code"`
	Message string   `json:"message"`
	Count   int64    `json:"count"`
	Where   []string `json:"where"` // the first ones: topic[partition]@offset
}
