package observe

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

const (
	pointEvery = 30 * time.Second
	pointsKept = 120 // an hour
)

// Hour keeps how fresh mappings were in the last hour, and how many records and calls
// there were a minute: a point every 30 s. It is lost with the process; it takes 1,440
// bytes for each lane of a mapping, 3 MB for 1,000 mappings with both lanes, and 1,920 bytes
// for each route with an objective.
type Hour struct {
	metrics *Metrics
	mu      sync.Mutex
	taken   int       // points, those included that are no longer kept
	last    time.Time // when the last of them was taken
	kept    map[deliveryKey]*points
	totals  map[deliveryKey]totals // as they were then
	judged  map[routeKey]*[pointsKept]judged
}

// points are rings: a point's place is its number modulo their length.
type points struct {
	freshness, confirmed, calls [pointsKept]float32
}

// judged is how many records of a route with an objective were in time, and how many were
// not, since the process began.
type judged struct{ kept, late float64 }

// totals are since the process began.
type totals struct{ confirmed, calls float64 }

// Hourly is what Hour keeps, at /history.
type Hourly struct {
	Every float64   `json:"every"`       // seconds from a point to the next
	To    time.Time `json:"to,omitzero"` // the time of the last point; zero: there is none yet
	// Lanes are all mappings together, by lane.
	Lanes map[string]Series `json:"lanes"`
	// Mappings are those that were asked for, by lane.
	Mappings map[string]map[string]Series `json:"mappings,omitempty"`
}

// Series are the points of one lane, the oldest first, one number of each kind a point.
type Series struct {
	// Freshness is the age in seconds of the oldest record that is not confirmed; 0: there is none.
	Freshness []float32 `json:"freshness"`
	Confirmed []float32 `json:"confirmed"`       // records a minute, dead letters not among them
	Calls     []float32 `json:"calls,omitempty"` // calls a minute, tries included: of the immediate lane
}

// NewHour is one without points.
func NewHour(metrics *Metrics) *Hour {
	return &Hour{metrics: metrics, last: time.Now(), totals: map[deliveryKey]totals{}}
}

// Keep says which mappings there are, and the lanes of this process. Those that there were
// before keep their points.
func (h *Hour) Keep(mappings []*router.Compiled, lanes []schemas.Lane) {
	h.mu.Lock()
	defer h.mu.Unlock()
	former, formerly := h.kept, h.judged
	h.kept, h.judged = map[deliveryKey]*points{}, map[routeKey]*[pointsKept]judged{}
	for _, m := range mappings {
		for _, lane := range lanes {
			if m.Uses(lane) {
				key := deliveryKey{m.Name, lane}
				h.kept[key] = cmp.Or(former[key], &points{})
			}
		}
		for _, o := range m.Objectives(lanes) {
			key := routeKey{o.Mapping, o.Route}
			h.judged[key] = cmp.Or(formerly[key], new([pointsKept]judged))
		}
	}
}

// Run takes a point every 30 s until ctx ends. ages are, by lane and mapping, those of the
// oldest record that is not confirmed.
func (h *Hour) Run(ctx context.Context, ages func() map[string]map[string]time.Duration) error {
	tick := time.NewTicker(pointEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			h.add(ages())
		}
	}
}

func (h *Hour) add(ages map[string]map[string]time.Duration) {
	now, sums := time.Now(), h.metrics.totals()
	h.mu.Lock()
	defer h.mu.Unlock()
	minutes, at := now.Sub(h.last).Minutes(), h.taken%pointsKept
	for key, p := range h.kept {
		p.freshness[at] = float32(ages[key.lane.String()][key.mapping].Seconds())
		p.confirmed[at] = float32((sums[key].confirmed - h.totals[key].confirmed) / minutes)
		p.calls[at] = float32((sums[key].calls - h.totals[key].calls) / minutes)
	}
	for key, points := range h.judged {
		points[at] = h.metrics.judged(key)
	}
	h.taken, h.last, h.totals = h.taken+1, now, sums
}

// Kept is how many records of an objective's route this process has confirmed in the last
// hour, and which share of them was in time; 0 and 0: none.
func (h *Hour) Kept(o *router.Objective) (share float64, records int64) {
	key := routeKey{o.Mapping, o.Route}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.metrics.judged(key)
	if points := h.judged[key]; points != nil {
		before := points[h.taken%pointsKept] // an hour ago; nothing before the process began
		now.kept, now.late = now.kept-before.kept, now.late-before.late
	}
	if all := now.kept + now.late; all > 0 {
		return now.kept / all, int64(all)
	}
	return 0, 0
}

// Last is what is kept of all mappings together, and of those of these names, each by
// itself. Its type is Hourly.
func (h *Hour) Last(mappings []string) any {
	h.mu.Lock()
	defer h.mu.Unlock()
	hourly := Hourly{Every: pointEvery.Seconds(), Lanes: map[string]Series{}, Mappings: map[string]map[string]Series{}}
	if h.taken > 0 {
		hourly.To = h.last
	}
	for key, p := range h.kept {
		lane := key.lane.String()
		sum, ok := hourly.Lanes[lane]
		if !ok {
			sum = h.series(key.lane, &points{})
		}
		of := h.series(key.lane, p)
		for i := range of.Freshness {
			sum.Freshness[i] = max(sum.Freshness[i], of.Freshness[i])
			sum.Confirmed[i] += of.Confirmed[i]
		}
		for i := range of.Calls {
			sum.Calls[i] += of.Calls[i]
		}
		hourly.Lanes[lane] = sum
	}
	for _, name := range mappings {
		for _, lane := range schemas.Lanes {
			p, ok := h.kept[deliveryKey{name, lane}]
			if !ok {
				continue
			}
			if hourly.Mappings[name] == nil {
				hourly.Mappings[name] = map[string]Series{}
			}
			hourly.Mappings[name][lane.String()] = h.series(lane, p)
		}
	}
	return hourly
}

// series are a lane's points in their order.
func (h *Hour) series(lane schemas.Lane, p *points) Series {
	ordered := func(ring *[pointsKept]float32) []float32 {
		list := make([]float32, 0, pointsKept)
		for n := max(h.taken-pointsKept, 0); n < h.taken; n++ {
			list = append(list, ring[n%pointsKept])
		}
		return list
	}
	s := Series{Freshness: ordered(&p.freshness), Confirmed: ordered(&p.confirmed)}
	if lane == schemas.Immediate {
		s.Calls = ordered(&p.calls)
	}
	return s
}

// totals are by mapping and lane.
func (m *Metrics) totals() map[deliveryKey]totals {
	sums := map[deliveryKey]totals{}
	for key, series := range m.cached.delivery.all() {
		t := sums[key]
		t.confirmed += float64(written(series).GetHistogram().GetSampleCount())
		sums[key] = t
	}
	for key, series := range m.cached.calls.all() {
		of := deliveryKey{key.mapping, schemas.Immediate}
		t := sums[of]
		t.calls += written(series).GetCounter().GetValue()
		sums[of] = t
	}
	return sums
}

// judged is that of one route.
func (m *Metrics) judged(of routeKey) judged {
	count := func(kept bool) float64 {
		return written(m.cached.objective.of(objectiveKey{of, kept})).GetCounter().GetValue()
	}
	return judged{kept: count(true), late: count(false)}
}

// written is what a series says now. Counters and histograms always can be written.
func written(series any) *dto.Metric {
	var now dto.Metric
	if m, ok := series.(prometheus.Metric); ok {
		_ = m.Write(&now)
	}
	return &now
}
