package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// Limits are what the sample is measured against.
type Limits struct {
	RateCalls int // service.rate; 0: none
	RatePer   time.Duration
	Show      int // requests and lines of CSV for each mapping and op
}

// Plan gathers what records would come to. It is used by one goroutine; its memory
// follows the number of keys in the sample.
type Plan struct {
	limits      Limits
	mappings    []*mapping
	byName      map[string]*mapping
	deadLetters map[deadLetterKind]*Group
}

// mapping is one mapping's account.
type mapping struct {
	Mapping
	config      *router.Compiled
	first, last time.Time
	lastCall    map[string]time.Time // by key
	perMinute   map[int64]int64      // calls, by minute
	perSpan     map[int64]int64      // by span of the rate limit
	shown       []schemas.Write
	shownOps    map[schemas.Op]int
	preview     *spool.Preview // nil: no files
}

type deadLetterKind struct{ mapping, code, message string }

// New prepares for the records of these mappings; preview opens a mapping's files.
func New(limits Limits, mappings []*router.Compiled, preview func(*router.Compiled) (*spool.Preview, error)) (*Plan, error) {
	p := &Plan{limits: limits, byName: map[string]*mapping{}, deadLetters: map[deadLetterKind]*Group{}}
	for _, c := range mappings {
		m := &mapping{
			Mapping: Mapping{Name: c.Name, Table: c.Label, Bundle: c.Config.Bundle}, config: c,
			lastCall: map[string]time.Time{}, perMinute: map[int64]int64{}, perSpan: map[int64]int64{}, shownOps: map[schemas.Op]int{},
		}
		if _, batch := c.Lanes(); batch {
			var err error
			if m.preview, err = preview(c); err != nil {
				return nil, fmt.Errorf("mapping %s: %w", c.Name, err)
			}
		}
		p.mappings = append(p.mappings, m)
		p.byName[c.Name] = m
	}
	return p, nil
}

// Undecodable takes a record that says nothing.
func (p *Plan) Undecodable(r *router.Record, err error) { p.deadLetter(nil, r, "decode", err) }

// Add takes what the router made of a record.
func (p *Plan) Add(r *router.Record, routed []router.Routed) {
	for i := range routed {
		one := &routed[i]
		m := p.byName[one.Mapping.Name]
		m.saw(r.Timestamp)
		switch {
		case one.Err != nil:
			code := router.CodeValue
			if reject, ok := errors.AsType[*router.Reject](one.Err); ok {
				code = reject.Code
			}
			p.deadLetter(m, r, code, one.Err)
		case one.Lane == schemas.Batch:
			if err := m.file(&one.Write); err != nil {
				p.deadLetter(m, r, router.CodeValue, err)
			}
		default:
			m.call(&one.Write, r.Timestamp, p.limits)
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

func (m *mapping) call(w *schemas.Write, at time.Time, limits Limits) {
	if m.Calls == nil {
		m.Calls = &Calls{ByOp: map[string]int64{}, RateLimit: int64(limits.RateCalls)}
	}
	m.Calls.Writes++
	before, again := m.lastCall[w.Key]
	m.lastCall[w.Key] = at
	if again && at.Sub(before).Abs() < together {
		return
	}
	m.Calls.Calls++
	m.Calls.ByOp[w.Op.String()]++
	m.perMinute[at.Unix()/60]++
	if limits.RateCalls > 0 {
		m.perSpan[at.UnixNano()/int64(limits.RatePer)]++
	}
	if m.shownOps[w.Op] < limits.Show {
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
	for _, m := range p.mappings {
		m.Seconds = int64(m.last.Sub(m.first) / time.Second)
		if m.Calls != nil {
			m.sumCalls(p.limits)
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
