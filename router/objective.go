package router

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// usualShare is an objective's share where the configuration says none.
const usualShare = 0.99

// Objective is how fresh the records of a route are to be when they are confirmed.
type Objective struct {
	Mapping string
	Route   string        // its name, or its number from 1
	Lane    schemas.Lane  // the route's
	Within  time.Duration // from the record's Kafka timestamp; above 0
	Share   float64       // of the records that are to be within it: above 0, below 1
}

// objective is that of the mapping's i-th route, nil where it has none.
func (r *Route) objective(mapping string, i int, lane schemas.Lane) *Objective {
	if r.Within <= 0 || lane == schemas.Skip {
		return nil
	}
	o := &Objective{Mapping: mapping, Route: cmp.Or(r.Name, strconv.Itoa(i+1)), Lane: lane, Within: r.Within, Share: usualShare}
	if r.Objective != nil {
		o.Share = *r.Objective
	}
	return o
}

// Objective is that of a route, as Routed.Route numbers it; nil: it has none, or no route
// was asked.
func (c *Compiled) Objective(route int) *Objective {
	if route < 0 {
		return nil
	}
	return c.routes[route].objective
}

// Objectives are those of the mapping's routes that lead to one of the lanes.
func (c *Compiled) Objectives(lanes []schemas.Lane) (all []*Objective) {
	for _, r := range c.routes {
		if r.objective != nil && slices.Contains(lanes, r.lane) {
			all = append(all, r.objective)
		}
	}
	return all
}
