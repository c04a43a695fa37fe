package plan

import (
	"math"
	"time"
)

// leastSpan is how many seconds a sample must span to say something about a day.
const leastSpan = 60

const day = 24 * time.Hour

// aDay is what n in the sample come to in a day, 0 where the sample is too short.
func (m *mapping) aDay(n int64) float64 {
	if m.Seconds < leastSpan {
		return 0
	}
	return float64(n) * day.Seconds() / float64(m.Seconds)
}

func (m *mapping) sumCalls(limits Limits) {
	c := m.Calls
	c.PerDay = int64(math.Ceil(m.aDay(c.Calls)))
	for _, n := range m.perMinute {
		c.PeakMinute = max(c.PeakMinute, n)
	}
	for _, n := range m.perSpan {
		c.PeakRate = max(c.PeakRate, n)
	}
	c.RateTooLow = limits.RateCalls > 0 && c.PeakRate > c.RateLimit
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
			together = append(together, p.byName[c.Name])
		}
	}
	rows, bytes, slots, ops := 0.0, 0.0, math.MaxInt, map[string]bool{}
	for _, one := range together {
		im := one.config.Config.Imports
		slots = min(slots, max(im.SlotsPerDay-im.Reserve, 0))
		if one.Files == nil {
			continue
		}
		rows += one.aDay(one.Files.Rows)
		bytes += one.aDay(one.Files.Bytes)
		for op := range one.Files.ByOp {
			ops[op] = true
		}
	}
	if len(together) > 1 {
		m.Files.distinct = len(ops)
	}
	if rows > 0 {
		m.Files.Day = m.imports(rows, bytes, slots)
	}
}

// imports are a day's files and imports. A file is complete at the first of its
// limits; each op in it is an import of its own.
func (m *mapping) imports(rows, bytes float64, slots int) *Day {
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
	} {
		if limit.files > files {
			files, d.Limit = limit.files, limit.name
		}
	}
	d.Files = max(int64(math.Ceil(files)), 1)
	d.Imports = d.Files * int64(m.Files.distinct)
	d.Every = (day / time.Duration(d.Files)).Round(time.Minute)
	if d.TooMany = d.Imports > int64(d.Slots); d.TooMany {
		files := max(int64(d.Slots)/int64(m.Files.distinct), 1)
		d.Every = (day / time.Duration(files)).Round(time.Minute)
	}
	return d
}

// ratio is 0 where there is no such limit.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
