package plan

import (
	"maps"
	"slices"
	"time"

	"github.com/feedsink/feedsink/router"
)

// Of each partition the same number of records is read: of a busy one those of an hour, of a
// quiet one those of a year. What a day brings is told by each partition's own time.

// covered is what is read of a partition.
type covered struct {
	cut     bool // it has older records, which are left out for their number
	records int64
	first   time.Time
}

// part is what is a mapping's of a partition.
type part struct {
	calls, writes int64 // writes by file
	seconds       int64 // in which they came
}

// Cut tells that of a partition only the last records are read, however young they are. Its
// records are then no sign of a time before the first of them.
func (p *Plan) Cut(topic string, partition int32) {
	p.covers(source{topic, partition}).cut = true
}

func (p *Plan) covers(from source) *covered {
	c := p.covered[from]
	if c == nil {
		c = &covered{}
		p.covered[from] = c
	}
	return c
}

// saw notes a record of a partition.
func (p *Plan) saw(r *router.Record) {
	c := p.covers(source{r.Topic, r.Partition})
	c.records++
	if c.first.IsZero() || r.Timestamp.Before(c.first) {
		c.first = r.Timestamp
	}
}

// part is the mapping's of the record's partition.
func (m *mapping) part(r *router.Record) *part {
	from := source{r.Topic, r.Partition}
	if m.parts[from] == nil {
		m.parts[from] = &part{}
	}
	return m.parts[from]
}

// sumSpans tells in which time the mapping's records of each partition came, and since when
// all of its partitions were read. What came at one moment is no sign of how much comes in a
// time: it counts as all that came while the others were read.
func (p *Plan) sumSpans(m *mapping) {
	m.Seconds, m.since = int64(m.last.Sub(m.first)/time.Second), m.first
	for from, of := range m.parts {
		of.seconds = m.Seconds
		c := p.covers(from)
		own := int64(m.last.Sub(c.first) / time.Second)
		if !c.cut || c.records < 2 || own < 1 {
			continue
		}
		of.seconds = max(own, leastSpan)
		if c.first.After(m.since) {
			m.since = c.first
		}
	}
}

// aDay is what the counts of partitions come to in a day, 0 where the sample is too short.
func (m *mapping) aDay(count func(*part) int64) (n float64) {
	if m.Seconds < leastSpan {
		return 0
	}
	bySeconds := map[int64]int64{} // so that the sum is the same each time
	for _, of := range m.parts {
		bySeconds[of.seconds] += count(of)
	}
	for _, seconds := range slices.Sorted(maps.Keys(bySeconds)) {
		n += float64(bySeconds[seconds]) * day.Seconds() / float64(seconds)
	}
	return n
}

func (of *part) ofCalls() int64  { return of.calls }
func (of *part) ofWrites() int64 { return of.writes }

// leastSeconds is the shortest time of which any of the mapping's partitions was read.
func (m *mapping) leastSeconds() int64 {
	least := m.Seconds
	for _, of := range m.parts {
		least = min(least, of.seconds)
	}
	return least
}
