package ack_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/ack"
)

// table is a version of the routes of one mapping: whose a record is.
type table struct {
	fingerprint      uint64
	batch            func(offset int64) bool
	immediate, files bool                    // lanes that it uses
	skips            func(offset int64) bool // nil: none
}

var versions = []table{
	{1, func(o int64) bool { return o%2 == 0 }, true, true, nil},
	{2, func(o int64) bool { return o%2 == 1 }, true, true, nil},
	{3, func(o int64) bool { return o%3 == 0 }, true, true, nil},
	{4, func(int64) bool { return false }, true, false, nil},
	{5, func(int64) bool { return true }, false, true, nil},
	{6, func(o int64) bool { return o%2 == 0 }, true, true, func(o int64) bool { return o%3 == 0 }},
	{7, func(int64) bool { return false }, true, false, func(o int64) bool { return o%3 == 1 }},
	{8, func(int64) bool { return true }, false, true, func(o int64) bool { return o%2 == 1 }},
}

// side is one lane of the model: what its group has committed, and the process
// that runs it, if one does.
type side struct {
	batch     bool
	committed bool
	at        int64
	metadata  string

	alive    bool
	routes   table
	lane     ack.LaneRoutes
	tracker  *ack.Tracker
	own      ack.Routes
	position int64
	onRecord bool // own is committed
	seen     bool // the other side was seen since
	view     ack.View
	pending  map[int64]*ack.Entry
	takes    []int64 // delivered by this process, not known to be on record
	skipped  []int64 // by this process
}

// agreement is a partition, both lanes and what they have delivered.
type agreement struct {
	t         *testing.T
	rnd       *rand.Rand
	end       int64
	now       int64
	sides     [2]*side
	delivered map[int64]bool
	skipped   map[int64]bool // by a lane of which it is on record
	steps     []string
}

func (m *agreement) log(format string, args ...any) {
	m.steps = append(m.steps, fmt.Sprintf(format, args...))
}

func (s *side) String() string {
	if s.batch {
		return "batch"
	}
	return "immediate"
}

func (m *agreement) other(s *side) *side {
	if s.batch {
		return m.sides[0]
	}
	return m.sides[1]
}

// view is what is on record of a side.
func (s *side) recorded(t *testing.T) (v ack.View, l ack.Ledger) {
	if !s.committed {
		return v, l
	}
	l, err := ack.Decode(s.metadata, s.at)
	if err != nil {
		t.Fatal(err)
	}
	return ack.View{Committed: true, Offset: s.at, Done: l.Done, Routes: l.Routes}, l
}

func (m *agreement) start(s *side, v table) {
	if s.batch && !v.files || !s.batch && !v.immediate {
		s.alive = false // no mapping uses the lane
		m.log("%v ends: routes %d do not use it", s, v.fingerprint)
		return
	}
	m.now++
	s.routes = v
	s.lane = ack.LaneRoutes{Fingerprints: []uint64{v.fingerprint}, Batch: s.batch, Shared: v.files && v.immediate}
	if !s.lane.Shared {
		s.lane.Alone = s.lane.Fingerprints
	}
	s.view, _ = m.other(s).recorded(m.t)
	_, ledger := s.recorded(m.t)
	var r ack.Resumption
	if s.committed {
		r = s.lane.Resume(s.at, &ledger, &s.view, m.now)
	} else {
		r = s.lane.Begin(0, &s.view, m.now)
	}
	s.alive, s.tracker, s.own, s.position = true, ack.New(r.At, r.Done), r.Routes, r.At
	s.onRecord, s.seen, s.pending, s.takes, s.skipped = false, false, map[int64]*ack.Entry{}, nil, nil
	m.log("%v starts with routes %d at %d, done %v, %+v", s, v.fingerprint, r.At, r.Done, r.Routes)
}

func (m *agreement) commit(s *side) {
	s.own.Notice(&s.lane, &s.view)
	l := ack.Ledger{Done: s.tracker.Confirmed(), Routes: s.own}
	s.at, s.committed = s.tracker.Watermark(), true
	s.metadata, _, _ = l.Encode(s.at, ack.MetadataLimit)
	s.onRecord = true
	for _, o := range s.skipped {
		m.skipped[o] = true
	}
	m.log("%v commits %d, done %v", s, s.at, l.Done)
}

func (m *agreement) look(s *side) {
	s.view, _ = m.other(s).recorded(m.t)
	s.seen = s.onRecord
	waits := s.own.Hold && (!s.onRecord || s.lane.Awaits(&s.view, m.other(s).alive))
	if s.own.Outdated(&s.lane, &s.view) || !waits && s.own.Hold && s.lane.GoesBack(s.tracker.Watermark(), &s.own, &s.view) {
		m.commit(s)
		m.log("%v reads again", s)
		m.start(s, s.routes)
		return
	}
	if s.own.Hold && !waits {
		s.lane.GoOn(&s.own, &s.view)
		m.log("%v goes on", s)
	}
}

// read takes the next record.
func (m *agreement) read(s *side) {
	o := s.position
	if o >= m.end || s.own.Hold || len(s.pending) > 5 {
		return
	}
	if s.tracker.Done(o) {
		s.position++
		s.tracker.Advance(s.position)
		return
	}
	skips := s.routes.skips != nil && s.routes.skips(o)
	mine := !skips && s.routes.batch(o) == s.batch
	switch {
	case skips: // at once, whatever the other lane does
		s.skipped = append(s.skipped, o)
		m.log("%v skips %d", s, o)
	case !mine:
		if !s.seen {
			return
		}
		switch s.own.Decide(&s.view, s.routes.fingerprint, o) {
		case ack.Wait:
			return
		case ack.Leave:
			s.own.Passed = true
			m.log("%v leaves %d", s, o)
		case ack.Take:
			mine = true
		}
	}
	if mine {
		e := new(ack.Entry)
		s.tracker.Track(e, o)
		s.pending[o] = e
	}
	s.position++
	s.tracker.Advance(s.position)
}

// deliver brings a pending record to the table.
func (m *agreement) deliver(s *side) {
	for o, e := range s.pending {
		m.delivered[o] = true
		s.tracker.Confirm(e)
		delete(s.pending, o)
		m.log("%v delivers %d", s, o)
		return
	}
}

func (m *agreement) step() {
	s := m.sides[m.rnd.IntN(2)]
	switch n := m.rnd.IntN(100); {
	case n < 20:
		m.end++
	case n < 21 && m.rnd.IntN(4) == 0:
		s.alive, s.committed = false, false // it was away for so long that the broker has forgotten its offsets
		m.log("the offsets of %v are gone", s)
	case !s.alive || n < 26:
		if s.alive && m.rnd.IntN(2) == 0 {
			m.commit(s) // it ends in good order
		}
		m.start(s, versions[m.rnd.IntN(len(versions))])
	case n < 50:
		m.read(s)
	case n < 70:
		m.deliver(s)
	case n < 85:
		m.commit(s)
	default:
		m.look(s)
	}
}

// settle gives both lanes the same routes and lets them come to the end.
func (m *agreement) settle(v table) {
	for _, s := range m.sides {
		m.start(s, v)
	}
	for range 8 * (m.end + 5) {
		for _, s := range m.sides {
			if s.alive {
				m.commit(s)
				m.look(s)
				m.read(s)
				m.deliver(s)
			}
		}
	}
	for _, s := range m.sides {
		if s.alive && s.tracker.Watermark() != m.end {
			m.fail("%v: got the watermark %d, want the end %d", s, s.tracker.Watermark(), m.end)
		}
	}
	for o := range m.end {
		if !m.delivered[o] && !m.skipped[o] {
			m.fail("the record at %d was delivered by no lane, and skipped by none", o)
		}
	}
}

func (m *agreement) fail(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(m.steps, "\n"))
}

func TestNoRecordIsLeftByBothLanesHoweverRoutesChange(t *testing.T) {
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		m := &agreement{t: t, rnd: rnd, now: 10, delivered: map[int64]bool{}, skipped: map[int64]bool{}, sides: [2]*side{{}, {batch: true}}}
		m.log("seed %d", seed)
		for range 50 + rnd.IntN(400) {
			m.step()
		}
		m.settle(versions[rnd.IntN(len(versions))])
	}
}
