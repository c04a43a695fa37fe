//go:build simulation

package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// routes are what a table's routes say besides their lanes.
type routes struct {
	first   int // version
	weights [2]float64
	within  time.Duration // of auto routes; 0: no matter
	spare   bool          // they make calls with all the rate that is left
	rows    string        // batch or auto: the batch lane's route of a table with both lanes
	alone   string        // the one lane that such a table has under one of the versions; "": always both
}

// versions is how many versions of its routes a table has: behind the last one comes the first.
const versions = 4

func newRoutes(rnd *rand.Rand) routes {
	r := routes{
		first: rnd.IntN(4), weights: [2]float64{pick(rnd, .1, 1, 10), pick(rnd, .1, 1, 10)},
		within: pick(rnd, 0, 0, 5*time.Minute, 30*time.Minute, 2*time.Hour), spare: true,
		rows: pick(rnd, "batch", "auto"), alone: pick(rnd, "", "immediate", "batch"),
	}
	if r.within > 0 {
		r.spare = rnd.IntN(3) > 0
	}
	return r
}

// auto is one of the table's auto routes.
func (r *routes) auto(weight float64) string {
	text := fmt.Sprintf("lane: auto, weight: %v", weight)
	if r.within > 0 {
		text += fmt.Sprintf(", within: %v", r.within)
	}
	if !r.spare {
		text += ", spare: false"
	}
	return text
}

// routesOf are the table's routes: which header goes by call changes with their version.
func (p *plan) routesOf(t *table) string {
	r, version := &t.routes, (p.routes+t.routes.first)%versions
	when := []string{`headers.lane == "a"`, `headers.lane == "b"`, `headers.lane != "c"`, `headers.lane == "c"`}[version]
	call := fmt.Sprintf("lane: immediate, weight: %v", r.weights[0])
	switch {
	case t.lanes == "immediate" && r.weights[0] != r.weights[1]:
		return fmt.Sprintf("[{when: '%s', %s}, {lane: immediate, weight: %v}]", when, call, r.weights[1])
	case t.lanes == "immediate":
		return "[{" + call + "}]"
	case t.byFile() && !t.auto():
		return "[{lane: batch}]"
	case p.alone(t) != "":
		return "[{lane: " + p.alone(t) + "}]"
	case !t.auto():
		rows := "lane: batch"
		if r.rows == "auto" {
			rows = r.auto(r.weights[1])
		}
		return fmt.Sprintf("[{when: '%s', %s}, {%s}]", when, call, rows)
	case t.allCalled(p.routes):
		return "[{" + r.auto(r.weights[1]) + "}]"
	case version == 1:
		return fmt.Sprintf("[{when: '%s', lane: batch}, {%s}]", when, r.auto(r.weights[1]))
	case version == 2:
		return fmt.Sprintf("[{when: '%s', %s}, {lane: batch}]", when, r.auto(r.weights[0]))
	}
	return fmt.Sprintf("[{when: '%s', %s}, {%s}]", when, r.auto(r.weights[0]), r.auto(r.weights[1]))
}

// alone is the lane that a table with both has for itself under the routes as they are now; "": neither.
// A process of one lane would have nothing to do under the other one.
func (p *plan) alone(t *table) string {
	if t.lanes != "both" || p.apart || (p.routes+t.routes.first)%versions != 3 {
		return ""
	}
	return t.routes.alone
}

// autoRows reports whether the table may have auto routes.
func (t *table) autoRows() bool { return t.auto() || t.lanes == "both" && t.routes.rows == "auto" }

// leastPart is the smallest part of the rate that a route may have.
func (p *plan) leastPart() float64 {
	least, all := 1.0, 0.0
	for _, t := range p.tables {
		for _, weight := range t.routes.weights {
			least, all = min(least, weight), all+weight
		}
	}
	return least / all
}

// uses reports whether the table uses the lane under the routes as they are now.
func (p *plan) uses(t *table, lane schemas.Lane) bool {
	alone := p.alone(t)
	return t.uses(lane) && (alone == "" || alone == lane.String())
}

// lanes are those that any table uses under the routes as they are now.
func (p *plan) lanes() (used []schemas.Lane) {
	for _, lane := range schemas.Lanes {
		if slices.ContainsFunc(p.tables, func(t *table) bool { return p.uses(t, lane) }) {
			used = append(used, lane)
		}
	}
	return used
}

// allCalled reports whether under a version of its routes the table's rows go by the one
// auto route.
func (t *table) allCalled(version int) bool {
	return t.auto() && (version+t.routes.first)%versions == 0
}
